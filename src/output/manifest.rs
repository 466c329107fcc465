//! Manifests: the files that a stage or a run wrote. Readers read the files of a manifest, never a listing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint32_array, as_uint64_array};
use serde::{Deserialize, Serialize};

use super::counts::Counts;
use crate::error::{Error, Result};
use crate::job::{FORMAT_VERSION, InputFile, Job, ReadRanges};
use crate::schema::SourceTypes;

/// One Parquet file of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct File {
    /// The table that the file is a part of.
    pub table: String,
    /// Its path inside the output.
    pub path: String,
    /// Its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of its bytes.
    pub crc32: u32,
}

static FILE_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("table", DataType::Utf8, false),
        Field::new("path", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("bytes", DataType::UInt64, false),
        Field::new("crc32", DataType::UInt32, false),
    ]))
});

impl File {
    /// The columns of [`File::write_rows`].
    pub fn schema() -> SchemaRef {
        Arc::clone(&FILE_SCHEMA)
    }

    /// One row for each file, as the writer node sends them to the driver.
    ///
    /// # Errors
    /// Never for a list of files.
    pub fn write_rows(files: &[File]) -> datafusion::error::Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(files.iter().map(|f| &f.table))),
            Arc::new(StringArray::from_iter_values(files.iter().map(|f| &f.path))),
            Arc::new(UInt64Array::from_iter_values(files.iter().map(|f| f.rows))),
            Arc::new(UInt64Array::from_iter_values(files.iter().map(|f| f.bytes))),
            Arc::new(UInt32Array::from_iter_values(files.iter().map(|f| f.crc32))),
        ];
        Ok(RecordBatch::try_new(Self::schema(), columns)?)
    }

    /// The files in rows of [`File::write_rows`].
    ///
    /// # Errors
    /// When the batch has other columns.
    pub fn read_rows(batch: &RecordBatch) -> Result<Vec<File>> {
        let (tables, paths) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let (rows, bytes) = (as_uint64_array(batch.column(2))?, as_uint64_array(batch.column(3))?);
        let crc32s = as_uint32_array(batch.column(4))?;
        let file = |i: usize| File {
            table: tables.value(i).to_owned(),
            path: paths.value(i).to_owned(),
            rows: rows.value(i),
            bytes: bytes.value(i),
            crc32: crc32s.value(i),
        };
        Ok((0..batch.num_rows()).map(file).collect())
    }
}

/// A stage that is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedStage {
    /// The name of the stage.
    #[serde(rename = "stage")]
    pub stage: String,
    /// The run that it belongs to: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// Wall-clock seconds that it took.
    pub seconds: f64,
    /// See [`StageTime::join`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// What it read of the source, with checksums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadRanges>,
    /// The files that it wrote.
    pub files: Vec<File>,
}

impl FinishedStage {
    /// Rows of one of its tables.
    pub fn rows(&self, table: &str) -> u64 {
        self.files.iter().filter(|f| f.table == table).map(|f| f.rows).sum()
    }
}

/// A finished run: `manifest.json`, as `schemas/manifest.toml` declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the tables' meaning: see [`crate::job::FORMAT_VERSION`].
    pub format_version: u64,
    /// The version of this program.
    pub resemblance: String,
    /// The job's name.
    pub name: String,
    /// Equal for runs whose tables are equal: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// When it was finished, in UTC, as RFC 3339 to the second.
    pub finished: String,
    /// The resolved job.
    pub job: serde_json::Value,
    /// The files that were read.
    pub inputs: Vec<InputFile>,
    /// The types of ids and carried columns.
    pub source: SourceTypes,
    /// The run that read the texts, if this one reused the sketches of a finished output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The runs that read the texts, if this output was merged from others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// The reference outputs of the run, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_outputs: Vec<ReferenceOutput>,
    /// The fingerprints of the outputs that this one is merged from. A merged output among them is replaced by those
    /// that it is merged from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// Counts of the run.
    pub counts: Counts,
    /// Rejected documents by reason.
    pub rejects: BTreeMap<String, u64>,
    /// The stages in order.
    #[serde(rename = "stages")]
    pub stages: Vec<StageTime>,
    /// The public tables.
    pub tables: BTreeMap<String, Table>,
    /// Sentences for the user.
    pub warnings: Vec<String>,
    /// For a local output, the boot of the machine that wrote it: see `process::boot`. Until a restart, no power cut
    /// can have damaged its files.
    pub boot: Option<String>,
    /// The attempts that wrote to this output, whose ids are in the names of their files: a file with one of these ids that is
    /// not in the tables can be removed. The last attempt wrote this manifest.
    pub attempts: Vec<String>,
}

impl Run {
    /// Documents of its sources that later runs replaced. Their rows are still there.
    pub(crate) fn replaced_in_sources(&self) -> u64 {
        let Counts { replaced_documents, replaced_in_sources, .. } = self.counts;
        let replaced = if self.merged.is_empty() { replaced_in_sources } else { replaced_documents };
        replaced.unwrap_or_default()
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.tables.values().flat_map(|table| &table.files)
    }

    /// Checks that this program can read the tables. Files of other formats can still be listed, compared and removed.
    ///
    /// [`Kind::Input`](crate::error::Kind::Input) if the output has another format; `shown` is its name in errors.
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

    /// The job that was run, every default filled in.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if another version of this program wrote it, or this program would
    /// refuse the job.
    pub fn job(&self) -> Result<Job> {
        read_job(&self.job, &self.resemblance)
    }

    /// The paths of its files, inside the output.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.files().map(|file| file.path.as_str()).collect()
    }
}

/// The job that `written` records in a manifest of the program's version `resemblance`.
///
/// # Errors
/// As [`Run::job`].
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
    /// Its resolved job.
    pub job: serde_json::Value,
    /// Its fingerprint, which shows whether its source has changed.
    pub fingerprint: String,
    /// The files of its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
    /// Its reference outputs, without those that they are merged from. They are part of its fingerprint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_outputs: Vec<ReferenceOutput>,
}

impl Origin {
    /// Reference outputs as inputs of the fingerprint.
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
    /// Its folder or URL.
    pub output: String,
    /// The fingerprint in its manifest.
    pub fingerprint: String,
    /// `merged` of its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// The result of `apply` over it that the job named; `None` if the job named the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<AppliedReference>,
    /// Whether the job of one of its runs has `[passages]`, so that a result of `apply` may lack texts that its documents have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passages: bool,
}

impl ReferenceOutput {
    /// The folder or URL by which the job named it.
    pub(crate) fn named(&self) -> &str {
        self.applied.as_ref().map_or(&self.output, |applied| &applied.url)
    }

    /// Tells reference outputs apart whose documents or texts may differ.
    pub(crate) fn version(&self) -> String {
        let Self { fingerprint, applied, .. } = self;
        applied
            .as_ref()
            .map_or(fingerprint.clone(), |applied| format!("{fingerprint} {}", applied.fingerprint))
    }
}

/// A result of `apply` over a reference output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedReference {
    /// Its folder or URL.
    pub url: String,
    /// The fingerprint in its manifest.
    pub fingerprint: String,
}

/// The time and rows of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Its name.
    pub name: String,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Rows that it wrote to public tables, or to tables between stages if it has no public one.
    pub rows: u64,
    /// Bytes of all files that it wrote; 0 in older manifests.
    pub bytes: u64,
    /// If it compares documents, how sketches were joined to pairs: `held`, `segments`, `blocks`, or `all` if every
    /// pair was compared. It was called `road` in older manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
}

/// A public table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its rows.
    pub rows: u64,
    /// Its files.
    pub files: Vec<File>,
}
