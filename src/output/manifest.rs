//! Manifests: what a step or a run wrote, file by file. Readers read what a manifest names, never a listing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint32_array, as_uint64_array};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{ClusterMethod, Columns, FORMAT_VERSION, InputFile, Keep};
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

    /// One row for each file, as the writer node hands them to the driver.
    ///
    /// # Errors
    /// None that a list of files can cause.
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

    /// The files that [`File::write_rows`] made rows of.
    ///
    /// # Errors
    /// When the columns are others.
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

/// A step that is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedStep {
    /// Its name.
    #[serde(rename = "stage")]
    pub step: String,
    /// The run that it belongs to: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// Wall-clock seconds that it took.
    pub seconds: f64,
    /// See [`StepTime::road`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub road: Option<String>,
    /// The files that it wrote.
    pub files: Vec<File>,
}

impl FinishedStep {
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
    /// Tells runs apart whose tables may differ: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// The resolved job.
    pub job: serde_json::Value,
    /// The files that were read.
    pub inputs: Vec<Input>,
    /// What the tables' columns take from the source; text ids and no columns in older outputs.
    #[serde(default)]
    pub source: SourceTypes,
    /// The run that cut the texts, where this one took the sketches of a finished output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Where this output was merged from others: the runs that cut the texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// The outputs whose documents were known to the run, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownOutput>,
    /// The fingerprints of the outputs that this one is merged from; in place of one that is itself merged, of those that it is merged
    /// from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// Counts of the run by name, such as `documents`, `candidates`, `pairs`.
    pub counts: BTreeMap<String, u64>,
    /// Rejected documents by reason.
    pub rejects: BTreeMap<String, u64>,
    /// The steps in order.
    #[serde(rename = "stages")]
    pub steps: Vec<StepTime>,
    /// The public tables.
    pub tables: BTreeMap<String, Table>,
    /// What a reader should know, as sentences.
    pub warnings: Vec<String>,
    /// On a disk, the machine that wrote the output, since its start: see `process::boot`. Until it is restarted, what
    /// it wrote is there as it wrote it.
    #[serde(default)]
    pub boot: Option<String>,
    /// The attempts that wrote to this output, whose ids stand in the names of their files: what still bears one of them and
    /// is not among the tables' files can be removed. The last one wrote this manifest.
    #[serde(default)]
    pub attempts: Vec<String>,
}

impl Run {
    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.tables.values().flat_map(|table| &table.files)
    }

    /// Whether this program reads the rows of the tables. Their files can be named, compared and removed all the same.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the output, which the user calls `shown`, has another format.
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

    /// What the table documents keeps of the sketches.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the job in the manifest does not say it.
    pub fn keep(&self) -> Result<Keep> {
        let keep = self.job.pointer("/output/keep").cloned().unwrap_or_default();
        serde_json::from_value(keep).map_err(|e| {
            Error::input(
                "the job in the manifest does not say what documents keeps (output.keep): run the job again with --overwrite",
            )
            .because(e)
        })
    }

    /// The columns that its tables have.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) fn columns(&self) -> Result<Columns> {
        let passages = self.job.pointer("/output/passages").and_then(serde_json::Value::as_bool);
        let has_group = |source: &str| self.job.pointer(source).is_some_and(|group| group.is_string());
        Ok(Columns {
            keep: self.keep()?,
            passages: passages.unwrap_or(false),
            groups: has_group("/source/group") || has_group("/against/source/group"),
            represented: self.represented()?,
        })
    }

    /// What made the clusters, where they say how well documents are connected with their representative.
    fn represented(&self) -> Result<Option<ClusterMethod>> {
        if self.job.get("against").is_some() {
            return Ok(None);
        }
        let method = self.job.pointer("/clusters/method").cloned();
        let method: Option<ClusterMethod> = method.map(serde_json::from_value).transpose().map_err(|e| {
            Error::input(
                "the job in the manifest has a clusters.method that this version does not know: run the job again with --overwrite",
            )
            .because(e)
        })?;
        Ok(Some(method.unwrap_or_default()))
    }

    /// The paths of its files, inside the output.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.files().map(|file| file.path.as_str()).collect()
    }
}

/// The run that cut the texts of an output which was made of another one's sketches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Its resolved job.
    pub job: serde_json::Value,
    /// Its fingerprint, which tells whether its source has changed.
    pub fingerprint: String,
    /// The outputs whose documents were known to it, without what they are merged from: its fingerprint tells of these too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownOutput>,
}

impl Origin {
    /// The known outputs, as the inputs that its fingerprint was made of.
    pub(crate) fn known_inputs(known: &[KnownOutput]) -> Vec<InputFile> {
        let input = |(at, known): (usize, &KnownOutput)| InputFile {
            path: format!("against {at}"),
            bytes: 0,
            modified: UNIX_EPOCH,
            e_tag: Some(known.fingerprint.clone()),
        };
        known.iter().enumerate().map(input).collect()
    }
}

/// An output whose documents were known to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownOutput {
    /// Where it was.
    pub output: String,
    /// The fingerprint in its manifest.
    pub fingerprint: String,
    /// What its manifest has under the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its path or URL.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What a step took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Its name.
    pub name: String,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Rows that it wrote: of its public tables, or of those between the steps where it has none.
    pub rows: u64,
    /// Where it compares documents, how their sketches came to the pairs: `held`, `segments`, `homes`, `blocks`, or `all` where
    /// every two were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub road: Option<String>,
}

/// A public table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its rows.
    pub rows: u64,
    /// Its files.
    pub files: Vec<File>,
}
