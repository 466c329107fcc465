//! The file that lists the documents that a run did not compare: `--rejects`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use datafusion::prelude::{cast, col, lit};
use datafusion::scalar::ScalarValue;
use parquet::arrow::ArrowWriter;

use super::{JobRuntime, files};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Format, Job, ParsedArgument};
use crate::lookup::rows::{self, CsvStyle};
use crate::lookup::{self, Finished};
use crate::schema::Table;

const COLUMNS: [&str; 4] = ["source", "position", "id", "reason"];

/// The reason for files that were skipped because they have another format or are hidden.
pub(crate) const LEFT_OUT: &str = "left_out";
/// The reason for files that contain no text. A job that reads them gives the same reason.
pub(crate) const NOT_TEXT: &str = "not_text";

/// A new file for documents that were not compared. The ending of its name determines the format.
#[derive(Debug, Clone)]
pub(crate) struct RejectsFile {
    path: PathBuf,
    format: Format,
}

impl RejectsFile {
    pub(crate) fn parse(text: &str) -> ParsedArgument<Self> {
        let ending = Path::new(text).extension().unwrap_or_default().to_ascii_lowercase();
        let format = match ending.to_str() {
            Some("csv") => Format::Csv,
            Some("jsonl" | "ndjson") => Format::Jsonl,
            Some("parquet") => Format::Parquet,
            _ => return Err("expected a file that ends in .csv, .jsonl or .parquet".to_owned()),
        };
        Ok(Self { path: PathBuf::from(text), format })
    }

    /// Checks before a run that the file can be created. Fails with `Kind::Job` if the file exists, or if its folder does not exist.
    pub(crate) fn check(&self) -> Result<()> {
        let fault = match self.path.symlink_metadata() {
            Ok(_) => "exists: name another file, or remove it",
            Err(_) if files::folder(&self.path).is_dir() => return Ok(()),
            Err(_) => "is in a folder that does not exist: create the folder first",
        };
        Err(Error::job(format!("--rejects: {} {fault}", self.path.display())))
    }

    /// Writes the rejects of the finished `job`, and the `skipped` files with their reasons, sorted by file and position. Skipped files
    /// have neither position nor id.
    pub(crate) fn write(&self, job: &Job, skipped: &[(String, &str)]) -> Result<()> {
        let rejects = JobRuntime::start(&job.engine)?.run(rejects(job, skipped))?;
        let content = match self.format {
            Format::Csv => rows::csv(&COLUMNS, &[rejects], CsvStyle::Exact)?.into_bytes(),
            Format::Parquet => {
                let mut writer = ArrowWriter::try_new(Vec::new(), rejects.schema(), None)?;
                writer.write(&rejects)?;
                writer.into_inner()?
            }
            _ => rows::json_lines(&[rejects])?.into_bytes(),
        };
        files::write(&self.path, &content, false)
    }
}

async fn rejects(job: &Job, skipped: &[(String, &str)]) -> Result<RecordBatch> {
    let session = lookup::session(&job.engine)?;
    let finished = Finished::open(&session, &job.output.url).await?;
    let columns = vec![utf8("source"), col("position"), col("id"), utf8("reason")];
    let rejects = finished.table(Table::Rejects)?.select(columns)?;
    let null = |name: &str| -> Result<_> {
        let kind = rejects.schema().field_with_unqualified_name(name)?.data_type().clone();
        Ok(cast(lit(ScalarValue::Null), kind).alias(name))
    };
    let sources: ArrayRef = Arc::new(StringArray::from_iter_values(skipped.iter().map(|(path, _)| path)));
    let reasons: ArrayRef = Arc::new(StringArray::from_iter_values(skipped.iter().map(|(_, reason)| reason)));
    let skipped = RecordBatch::try_from_iter([("source", sources), ("reason", reasons)])?;
    let skipped = session.read_batch(skipped)?;
    let columns = vec![col("source"), null("position")?, null("id")?, col("reason")];
    let all = rejects.clone().union(skipped.select(columns)?)?;
    let all = all.sort(vec![col("source").sort(true, false), col("position").sort(true, false)])?;
    let schema = Arc::new(all.schema().as_arrow().clone());
    let batches = all.collect().await?;
    Ok(concat_batches(&batches.first().map_or(schema, RecordBatch::schema), &batches)?)
}
