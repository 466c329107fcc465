//! The file that lists the documents that a run did not compare: `--rejects`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::prelude::{case, col, lit};
use parquet::arrow::ArrowWriter;
use serde::Serialize;

use super::{JobRuntime, files};
use crate::address;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Format, Job, ParsedArgument};
use crate::lookup::rows;
use crate::lookup::spreadsheets::{self, CsvStyle};
use crate::lookup::{self, Finished};
use crate::schema::{Table, contract};

/// The columns of the file.
const COLUMNS: [&str; 5] = ["source", "position", "id", "reason", "remedy"];

/// The reason for files that were skipped because they have another format or are hidden.
const LEFT_OUT: &str = "left_out";
/// The reason for files that contain no text. A job that reads them gives the same reason.
pub(crate) const NOT_TEXT: &str = "not_text";

/// A file that is skipped, as a row of the file.
#[derive(Serialize)]
pub(crate) struct SkippedFile {
    source: String,
    /// [`LEFT_OUT`] or [`NOT_TEXT`].
    pub(crate) reason: &'static str,
    remedy: String,
}

impl SkippedFile {
    /// The file at `path` with the reason [`LEFT_OUT`].
    pub(crate) fn left_out(path: &str) -> Self {
        let remedy = "name it itself to compare it, together with other files of its format";
        Self::new(path, LEFT_OUT, remedy.to_owned())
    }

    /// The file at `path` with the reason [`NOT_TEXT`].
    pub(crate) fn not_text(path: &str, remedy: String) -> Self {
        Self::new(path, NOT_TEXT, remedy)
    }

    fn new(path: &str, reason: &'static str, remedy: String) -> Self {
        let source = address::absolute_address(path).unwrap_or_else(|_| path.to_owned());
        Self { source, reason, remedy }
    }
}

/// A new file for documents that were not compared. The ending of its name determines its format.
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

    /// Writes the rejects of the finished `job`, and the `skipped` files with their reasons and remedies, sorted by file and position.
    /// Position and id are null for skipped files.
    ///
    /// # Errors
    /// If the tables cannot be read, or if the file exists or cannot be written.
    pub(crate) fn write(&self, job: &Job, skipped: &[SkippedFile]) -> Result<()> {
        let rejects = JobRuntime::start(&job.engine)?.run(rejects(job, skipped))?;
        let content = match self.format {
            Format::Csv => spreadsheets::csv(&COLUMNS, &[rejects], CsvStyle::Exact)?.into_bytes(),
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

/// Returns the rows of the file.
async fn rejects(job: &Job, skipped: &[SkippedFile]) -> Result<RecordBatch> {
    let session = lookup::session(&job.engine)?;
    let finished = Finished::open(&session, &job.output.url).await?;
    let mut remedies = case(col("reason"));
    for reason in &contract(Table::Rejects).reasons {
        remedies = remedies.when(lit(reason.name.as_str()), lit(reason.remedy.as_str()));
    }
    let remedy = remedies.end()?.alias("remedy");
    let columns = vec![utf8("source"), col("position"), col("id"), utf8("reason"), remedy];
    let rejects = finished.table(Table::Rejects)?.select(columns)?;
    let fields = rejects.schema().fields().iter();
    let columns: Vec<_> = fields.map(|field| (field.name().as_str(), field.data_type().clone())).collect();
    let skipped = session.read_batch(rows::batch(skipped, &columns)?)?;
    let all = rejects.clone().union(skipped)?;
    let all = all.sort(vec![col("source").sort(true, false), col("position").sort(true, false)])?;
    let schema = Arc::new(all.schema().as_arrow().clone());
    let batches = all.collect().await?;
    Ok(concat_batches(&batches.first().map_or(schema, RecordBatch::schema), &batches)?)
}
