//! The operator that rewrites files. Each partition rewrites its parts of the source one after the other.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use bytes::BytesMut;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::Result as DfResult;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Count;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::decisions::{Annotation, Decision, Decisions, other_text};
use super::work::{
    DocumentCounts, FinishedPart, Rejects, RewriteSettings, RowDestination, SourceRecord, WrittenFile,
    finished_part, put_part, rejected_path, written,
};
use super::{as_parquet, parquet, rows};
use crate::error::counts::{count, counted};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::kernel::text::common_passages::SpanCutter;
use crate::output::manifest::File;
use crate::output::{APPLIED, Layout};
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, only_input};
use crate::schema::IdType;
use crate::source::{
    BYTE_ORDER_MARK, FileBytes, FilePiece, ParquetFile, Rewriting, START_BYTES, SourceFile, TextPlace,
    format_of, is_stored_text, read_bytes,
};

/// Source files to rewrite, with the settings. The input has one column of UInt32, with indices into `parts`. The output has the columns of
/// [`File`] and no rows, in the same partitions. Finished parts are recorded in the folder of the result, and a resumed application skips
/// them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rewrite {
    pub parts: Arc<[PartToWrite]>,
    pub target: String,
    pub rejects: Rejects,
    /// The fingerprint in the records of parts.
    pub fingerprint: String,
    /// The files of the table of decisions. Paths are inside the folder of records.
    pub decisions: Vec<File>,
    pub annotations: Vec<Annotation>,
    pub cuts: bool,
    pub id: IdType,
}

/// Consecutive files of a source in the order of paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartToWrite {
    /// The number of the part, which is in the name of its record.
    pub number: usize,
    pub origin: u64,
    pub source: job::Source,
    pub text: TextPlace,
    pub files: Vec<FileToWrite>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileToWrite {
    pub file: SourceFile,
    /// The path of the rewritten file inside the result.
    pub path: String,
    /// The number of documents in the file, as counted in the output.
    pub expected: DocumentCounts,
}

impl Rewrite {
    /// Returns a plan that rewrites the parts in at most `partitions` partitions.
    pub(crate) fn plan(self, partitions: usize) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt32, false)]));
        let count = u32::try_from(self.parts.len()).map_err(|_| Error::bug("there are too many parts"))?;
        let partitions = partitions.clamp(1, self.parts.len().max(1)) as u32;
        let deal = |partition: u32| {
            let parts = UInt32Array::from_iter_values((partition..count).step_by(partitions as usize));
            Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(parts)])?])
        };
        let dealt = (0..partitions).map(deal).collect::<DfResult<Vec<_>>>()?;
        let input = DataSourceExec::from_data_source(MemorySourceConfig::try_new(&dealt, schema, None)?);
        OperatorExec::plan(self, vec![input])
    }

    /// Rewrites the part with this index unless the part has a record.
    async fn write(&self, index: u32, context: &TaskContext, read: &Count) -> Result<()> {
        let Some(part) = self.parts.get(index as usize) else {
            return Err(Error::bug(format!("there is no part {index}")));
        };
        let config = context.session_config().clone();
        let session = SessionContext::new_with_config_rt(config, context.runtime_env());
        let target = Layout::open(&session, &self.target)?.written_by(&self.fingerprint);
        let records = target.within(APPLIED);
        if finished_part(&target, part.number, &self.fingerprint).await?.is_some() {
            part.files.iter().for_each(|file| drop(FileBytes::new(read, file.file.size())));
            return Ok(());
        }
        let (Some(first), Some(last)) = (part.files.first(), part.files.last()) else {
            return Err(Error::bug(format!("part {} has no files", part.number)));
        };
        let sources = (first.file.path(), last.file.path());
        let annotations: Arc<[Annotation]> = self.annotations.clone().into();
        let decisions =
            || Decisions::open(&session, &records, &self.decisions, sources, (&annotations, self.id));
        let work = RewriteSettings {
            decisions: decisions()?,
            decisions_of_texts: decisions()?,
            decisions_of_columns: decisions()?,
            source: part.source.clone(),
            text: part.text.clone(),
            target,
            rejects: self.rejects,
            cuts: self.cuts,
            id: self.id,
            read: read.clone(),
            annotations,
            session,
        };
        let mut files = Vec::with_capacity(part.files.len());
        for FileToWrite { file, path, expected } in &part.files {
            let (counts, written) = rewrite_file(&work, file, path, *expected).await?;
            files.push(SourceRecord { origin: part.origin, source: file.path().to_owned(), counts, written });
        }
        let (fingerprint, count) = (self.fingerprint.clone(), files.len());
        put_part(&work.target, part.number, &FinishedPart { fingerprint, files }).await?;
        tracing::debug!(part = part.number, files = count, "files written");
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().flat_map(|part| &part.files).map(|file| file.file.size()).sum()
    }
}

impl Description for Rewrite {
    const NAME: &'static str = "RewriteExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts", self.parts.len())
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        match input.schema().fields().as_ref() {
            [only] if only.data_type() == &DataType::UInt32 => {}
            _ => return Err(Error::bug("parts to write are named by one column of indices").into()),
        }
        Ok(Shape::in_partitions_of(input, File::schema()))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> DfResult<Batches> {
        let read = read_bytes(task.metrics, task.partition);
        let (mut input, context) = (task.rows_of(0)?, task.context);
        let write = async move {
            while let Some(batch) = input.try_next().await? {
                let Some(indices) = batch.column(0).as_primitive_opt::<UInt32Type>() else {
                    return Err(Error::bug("the indices of parts are of another type").into());
                };
                for &index in indices.values() {
                    self.write(index, &context, &read).await?;
                }
            }
            File::write_rows(&[])
        };
        Ok(stream::once(write).boxed())
    }
}

/// Rewrites a file of the source to `path`. Returns the counts and the written files. `expected` are the counts in the output.
async fn rewrite_file(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let bytes = FileBytes::new(&work.read, file.size());
    let (counts, written) = match format_of(work.source.format).rewriting {
        Rewriting::AsParquet => as_parquet::write(work, file, path, expected).await?,
        Rewriting::WholeFile => whole_file(work, file, path).await?,
        // Some frameworks write empty files. They are left out of the result, because readers of the format refuse them.
        _ if file.size() == 0 => (DocumentCounts::default(), Vec::new()),
        Rewriting::ParquetValues => parquet::write(work, file, path, expected, bytes).await?,
        Rewriting::Rows(format) => rows::write(work, format, file, path, expected, bytes).await?,
    };
    // The rewritten file also contains rows that the run skipped because of `source.where` or `source.limit`. So it can contain more rows
    // than the run read.
    let has_more = work.source.leaves_rows_out() && counts.read > expected.read;
    if (!has_more && counts.read != expected.read) || counts.rejected != expected.rejected {
        return Err(Error::input(format!(
            "{} has {}, but the output knows {} of them: run the job again with --overwrite",
            file.path(),
            counted(counts.read, "document"),
            count(expected.read)
        )));
    }
    Ok((counts, written))
}

/// Copies a file that contains one document, unless the document is removed.
async fn whole_file(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let Decision { action, cuts, .. } = work.decisions.at(file.path(), 0).await?;
    let copied = match work.rejects.destination(action) {
        RowDestination::Kept => Some(without_spans(work, file, path, cuts).await?),
        RowDestination::Rejected => Some(without_spans(work, file, &rejected_path(path), Vec::new()).await?),
        RowDestination::Nowhere => None,
    };
    let mut counts = DocumentCounts::default();
    counts.count(action);
    Ok((counts, copied.into_iter().collect()))
}

/// Copies a file, but omits the byte ranges `spans` of its text. If the file has a byte order mark, the text starts after it.
async fn without_spans(
    work: &RewriteSettings,
    file: &SourceFile,
    inside: &str,
    spans: Vec<Range<usize>>,
) -> Result<WrittenFile> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session.runtime_env()).await?;
    let reading = || format!("reading {} failed", file.path());
    let mut start = BytesMut::new();
    while start.len() < START_BYTES
        && let Some(bytes) = bytes.try_next().await.context(reading)?
    {
        start.extend_from_slice(&bytes);
    }
    let mut chunk = start.freeze();
    if !spans.is_empty() && !is_stored_text(&work.source, file.path(), &chunk) {
        return Err(Error::job(format!(
            "no passage can be cut out of {}, because it is HTML or compressed: set source.html to \"source\" or decompress it, and run \
             the job again, or apply without --passages",
            file.path()
        )));
    }
    if chunk.starts_with(BYTE_ORDER_MARK) {
        upload.put(chunk.split_to(BYTE_ORDER_MARK.len())).await?;
    }
    let (mut cutter, mut next) = (SpanCutter::new(spans), Some(chunk));
    while let Some(bytes_of_text) = next {
        for kept in cutter.next(&bytes_of_text) {
            upload.put(bytes_of_text.slice(kept)).await?;
        }
        next = bytes.try_next().await.context(reading)?;
    }
    if cutter.end() { written(upload, 1).await } else { Err(other_text(file.path(), 0)) }
}

/// Returns the number of rows in a file of `source`, including rows that are not documents. Reads only the footer of a Parquet file.
pub(crate) async fn rows_of_file(
    session: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<u64> {
    match format_of(source.format).rewriting {
        Rewriting::AsParquet => Ok(as_parquet::documents(session, source, file).await?.count().await? as u64),
        Rewriting::WholeFile => Ok(1),
        // Some frameworks write empty files, which are invalid in their format.
        _ if file.size() == 0 => Ok(0),
        Rewriting::ParquetValues => Ok(ParquetFile::open(session, file).await?.rows()),
        Rewriting::Rows(format) => {
            let mut rows = 0;
            rows::pieces(session, source, format, file, |piece| {
                rows += u64::from(matches!(piece, FilePiece::Row(_)));
                true
            })
            .await?;
            Ok(rows)
        }
    }
}
