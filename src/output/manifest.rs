//! Manifests of stages and runs, with the counts of a run. Readers find the files of a table in the manifest, never by a listing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_string_array;
use serde::{Deserialize, Serialize};

use crate::error::counts::either;
use crate::error::{Error, Result};
use crate::job::{FORMAT_VERSION, InputFile, Job, ReadRanges};
use crate::schema::SourceTypes;

/// One Parquet file of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct File {
    /// The table to which the file belongs.
    pub table: String,
    /// The path inside the output.
    pub path: String,
    /// The number of rows.
    pub rows: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

impl File {
    /// Returns the schema of [`File::write_rows`]. Its only column contains files as JSON.
    pub fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("file", DataType::Utf8, false)]))
    }

    /// Returns one row per file, as the writer node sends them to the driver.
    pub fn write_rows(files: &[File]) -> datafusion::error::Result<RecordBatch> {
        let files = files.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let files = files.map_err(|e| Error::bug("a file cannot be written as JSON").because(e))?;
        Ok(RecordBatch::try_new(Self::schema(), vec![Arc::new(StringArray::from(files))])?)
    }

    /// Returns the files in rows of [`File::write_rows`]. Fails if the batch has other columns.
    pub fn read_rows(batch: &RecordBatch) -> Result<Vec<File>> {
        let files = as_string_array(batch.column(0))?.iter().flatten().map(serde_json::from_str);
        files.collect::<Result<_, _>>().map_err(|e| Error::bug("a row is not a file").because(e))
    }
}

/// A finished stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedStage {
    /// The name of the stage.
    #[serde(rename = "stage")]
    pub stage: String,
    /// The fingerprint of the run: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// The wall-clock time of the stage in seconds.
    pub seconds: f64,
    /// See [`StageTime::join`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// The byte ranges of the source that the stage read, with checksums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadRanges>,
    /// The files that the stage wrote.
    pub files: Vec<File>,
}

impl FinishedStage {
    /// Returns the number of rows in one of the stage's tables.
    pub fn rows(&self, table: &str) -> u64 {
        self.files.iter().filter(|f| f.table == table).map(|f| f.rows).sum()
    }
}

/// A finished run: the content of `manifest.json`, as declared in `schemas/manifest.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The version of the meaning of the tables: see [`crate::job::FORMAT_VERSION`].
    pub format_version: u64,
    /// The version of this program.
    pub resemblance: String,
    /// The job's name.
    pub name: String,
    /// The fingerprint of the run: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// The time at which the run ended, in UTC and RFC 3339 to the second.
    pub finished: String,
    /// The resolved job.
    pub job: serde_json::Value,
    /// The files that the run read.
    pub inputs: Vec<InputFile>,
    /// The types of ids and carried columns.
    pub source: SourceTypes,
    /// The run that read the texts, if this run reused the sketches of a finished output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The runs that read the texts, if this output was merged from other outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// The reference outputs of the run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_outputs: Vec<ReferenceOutput>,
    /// The fingerprints of the merged outputs. A merged output among them is replaced by the fingerprints of its own parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// The file of decisions that the job names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<DecisionsFile>,
    /// The counts of the run.
    pub counts: Counts,
    /// The number of rejected documents by reason.
    pub rejects: BTreeMap<String, u64>,
    /// The stages in the order of execution.
    #[serde(rename = "stages")]
    pub stages: Vec<StageTime>,
    /// The public tables.
    pub tables: BTreeMap<String, Table>,
    /// Warnings for the user, as sentences.
    pub warnings: Vec<String>,
    /// The boot id of the machine that wrote a local output. Until this machine restarts, no power cut can have damaged the files.
    pub boot: Option<String>,
    /// The ids of the attempts that wrote to this output. The last attempt wrote this manifest. The names of their files contain these ids,
    /// and a file that no table lists can be removed.
    pub attempts: Vec<String>,
}

impl Run {
    /// The number of replaced documents that still have rows in the sources.
    pub(crate) fn replaced_in_sources(&self) -> u64 {
        let Counts { replaced_documents, replaced_in_sources, .. } = self.counts;
        let replaced = if self.merged.is_empty() { replaced_in_sources } else { replaced_documents };
        replaced.unwrap_or_default()
    }

    /// Returns the files of the public tables.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.tables.values().flat_map(|table| &table.files)
    }

    /// Checks that this version can read the tables. Files in another format can still be listed, compared and removed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the output has another format. `shown` is the name of the output in the message.
    pub fn check_format(&self, shown: &str) -> Result<()> {
        let Self { format_version, resemblance, .. } = self;
        if *format_version == u64::from(FORMAT_VERSION) {
            return Ok(());
        }
        Err(Error::input(format!(
            "{shown} holds tables of format {format_version}, which resemblance {resemblance} wrote, but resemblance \
             {} reads and writes format {FORMAT_VERSION}: run the job again with --overwrite, or with another \
             output.url, or use the version that wrote it",
            env!("CARGO_PKG_VERSION")
        )))
    }

    /// Returns the job of the run, with every default filled in.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if another version wrote the job, or this version would refuse it.
    pub fn job(&self) -> Result<Job> {
        read_job(&self.job, &self.resemblance)
    }

    /// Returns the paths of the files inside the output.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.files().map(|file| file.path.as_str()).collect()
    }
}

/// Parses the job in a manifest. `resemblance` is the version of the program that wrote the manifest.
pub(crate) fn read_job(written: &serde_json::Value, resemblance: &str) -> Result<Job> {
    let job: Job = serde_json::from_value(written.clone()).map_err(|e| {
        Error::input(format!(
            "the job in the manifest cannot be read: resemblance {resemblance} wrote it, and this is {}; run the job again with \
             --overwrite",
            env!("CARGO_PKG_VERSION")
        ))
        .because(e)
    })?;
    job.check().map_err(|e| {
        Error::input(
            "the job in the manifest is not valid, so the manifest was changed: run the job again with --overwrite",
        )
        .because(e)
    })?;
    Ok(job)
}

/// The run that read the texts of an output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The resolved job of this run.
    pub job: serde_json::Value,
    /// The fingerprint of this run. It shows whether the source has changed.
    pub fingerprint: String,
    /// The files of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
    /// The reference outputs, without their own lists of merged outputs. They are part of the fingerprint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_outputs: Vec<ReferenceOutput>,
    /// The file of decisions, which is part of the fingerprint too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<DecisionsFile>,
}

impl Origin {
    /// Returns reference outputs as inputs of the fingerprint.
    pub(crate) fn reference_inputs(outputs: &[ReferenceOutput]) -> Vec<InputFile> {
        let input = |(at, output): (usize, &ReferenceOutput)| {
            InputFile::new(format!("against {at}"), 0, None, Some(output.version()))
        };
        outputs.iter().enumerate().map(input).collect()
    }
}

/// A reference output of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceOutput {
    /// The folder or URL of the output.
    pub output: String,
    /// The fingerprint in the output's manifest.
    pub fingerprint: String,
    /// The list `merged` in the output's manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// The result of `apply` that the job named instead of the output itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<AppliedReference>,
    /// Whether a run of the output had `[passages]`. A result of `apply` may then lack parts of some texts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passages: bool,
}

impl ReferenceOutput {
    /// Returns the folder or URL that the job names.
    pub(crate) fn named(&self) -> &str {
        self.applied.as_ref().map_or(&self.output, |applied| &applied.url)
    }

    /// Returns an identifier that changes if the documents or texts in the reference output change.
    pub(crate) fn version(&self) -> String {
        let Self { fingerprint, applied, .. } = self;
        applied
            .as_ref()
            .map_or(fingerprint.clone(), |applied| format!("{fingerprint} {}", applied.fingerprint))
    }
}

/// A result of `apply` for a reference output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedReference {
    /// The folder or URL of the result.
    pub url: String,
    /// The fingerprint in the result's manifest.
    pub fingerprint: String,
}

/// A file of decisions: see `clusters.decisions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionsFile {
    /// The path or URL of the file.
    pub file: String,
    /// The number of pairs with a verdict in the file.
    pub decisions: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

impl DecisionsFile {
    /// Returns the file as an input of the fingerprint.
    pub(crate) fn input(&self) -> InputFile {
        let e_tag = Some(format!("{:08x}", self.crc32));
        InputFile::new("clusters.decisions".into(), self.bytes, None, e_tag)
    }
}

/// The time and the rows of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The name of the stage.
    pub name: String,
    /// The wall-clock time in seconds.
    pub seconds: f64,
    /// The number of rows in the stage's public tables, or in its other tables if it writes no public table.
    pub rows: u64,
    /// The size of all files of the stage, in bytes.
    pub bytes: u64,
    /// The join of sketches and candidates in a stage that compares documents: `held`, `segments` or `blocks`. `all` if the stage compared
    /// every pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
}

/// A public table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The number of rows.
    pub rows: u64,
    /// The files of the table.
    pub files: Vec<File>,
}

/// Whether a count does not apply to the job.
fn is_absent<T: Copy + Into<Option<u64>>>(count: &T) -> bool {
    (*count).into().is_none()
}

macro_rules! counts {
    ($($(#[doc = $help:literal])+ $name:ident: $number:ty,)+) => {
        /// The counts of a run. The manifest omits counts that do not apply to the job.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counts {
            $($(#[doc = $help])+ #[serde(skip_serializing_if = "is_absent")] pub $name: $number,)+
        }

        impl Counts {
            /// Returns the name of each count, its description, and the count if it applies.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, Option<u64>)> {
                vec![$((stringify!($name), concat!($($help),+).trim_ascii(), self.$name.into())),+]
            }
        }
    };
}

counts! {
    /// Pairs of shingle sets that were candidates; `None` if every two documents were compared.
    candidates: Option<u64>,
    /// Documents that clusters.method = "components" would remove in addition.
    chained_documents: Option<u64>,
    /// Documents that are in a cluster.
    clustered_documents: u64,
    /// Clusters of similar documents.
    clusters: u64,
    /// Decisions about pairs of documents, from clusters.decisions and from reference outputs.
    decisions: Option<u64>,
    /// Documents in dense groups. They are paired with leaders instead of each other.
    dense_documents: Option<u64>,
    /// The number of unwritten pairs of different shingle sets in dense groups, estimated from a sample.
    dense_pairs_left_out: Option<u64>,
    /// Entries in the dictionary of shingles.
    dictionary: Option<u64>,
    /// Documents that were compared.
    documents: u64,
    /// Documents that `forget` left out. Their rows may still be in the sources.
    forgotten_documents: Option<u64>,
    /// Pairs of groups between which there are pairs of documents.
    group_pairs: Option<u64>,
    /// Documents in buckets larger than lsh.hot_bucket.
    hot_documents: Option<u64>,
    /// Files that were not read because the values in their paths do not meet source.where.
    files_left_out: Option<u64>,
    /// Rows in the read files that do not meet source.where.
    rows_left_out_by_where: Option<u64>,
    /// Rows that meet source.where but are not in the sample that source.limit draws.
    rows_left_out_by_limit: Option<u64>,
    /// Files of the second source that were not read.
    reference_files_left_out: Option<u64>,
    /// Rows of the second source that its `where` and `limit` exclude.
    reference_rows_left_out: Option<u64>,
    /// Documents in the reference outputs or in the second source.
    reference_documents: Option<u64>,
    /// Documents of the second source that were rejected.
    reference_rejects: Option<u64>,
    /// Clusters of earlier runs whose id changed.
    cluster_id_changes: Option<u64>,
    /// Documents whose removal loses more than 2 % of their shingles, because their representative lacks them.
    lossy_removals: Option<u64>,
    /// Shingles of removed documents that no kept document in their cluster contains.
    lost_shingles: Option<u64>,
    /// Pairs of similar documents.
    pairs: u64,
    /// Pairs within large groups of identical documents that were not written.
    pairs_left_out: u64,
    /// Documents that were read and rejected.
    rejects: u64,
    /// Documents that `apply` removes.
    removed_documents: u64,
    /// Reference documents that new documents replaced, in all runs of a merged output.
    replaced_documents: Option<u64>,
    /// Rows in the sources that belong to replaced documents. Only counted for an output that reuses a merged output.
    replaced_in_sources: Option<u64>,
    /// Candidates whose similarity reached the threshold.
    scores: u64,
    /// Documents that are no longer than one shingle and are compared as a whole.
    single_shingle_documents: Option<u64>,
    /// Different shingle sets among the compared documents.
    shingle_sets: u64,
    /// Documents that are kept in addition to the representative of their cluster.
    spared: Option<u64>,
    /// Passages that occur more than once in the compared documents.
    passages: Option<u64>,
    /// Places of the repeated passages.
    spans: Option<u64>,
    /// Shingles that do not count because they occur in too many documents.
    frequent_shingles: Option<u64>,
    /// Documents that reference outputs kept and that another document now represents.
    superseded_reference_documents: Option<u64>,
    /// Reference documents that may match new documents.
    compared_reference_documents: Option<u64>,
    /// Ids in decisions that no document has.
    unknown_decision_ids: Option<u64>,
}

impl Counts {
    /// Returns a warning if the source has no document that meets its condition, or if most documents were rejected.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self { documents, rejects, files_left_out, rows_left_out_by_where, .. } = *self;
        let (all, files) = (documents + rejects, files_left_out.unwrap_or_default());
        let rows = rows_left_out_by_where.unwrap_or_default();
        if all == 0 && rows + files > 0 {
            return Some(format!(
                "source.where leaves no document (rows left out: {rows}, files left out: {files}): correct the condition"
            ));
        }
        (rejects > documents).then(|| {
            format!(
                "{rejects} of {all} {} rejected, so most of them are not compared: look at their reasons in the table rejects, \
                 and correct the settings of the source",
                either(all, "document was", "documents were")
            )
        })
    }

    /// The number of rows in the read files that `where` and `limit` excluded.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out_by_where.unwrap_or_default() + self.rows_left_out_by_limit.unwrap_or_default()
    }
}
