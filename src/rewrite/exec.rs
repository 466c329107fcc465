//! The operator that rewrites files: each partition rewrites some parts of the source, one after the other.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Count;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::annotations::Annotation;
use super::decisions::Decisions;
use super::one_file;
use super::record::{DocumentCounts, FinishedPart, SourceRecord, finished_part, put_part};
use super::work::{Rejects, RewriteSettings};
use crate::error::Error;
use crate::job;
use crate::output::manifest::File;
use crate::output::{APPLIED, Layout};
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, only_input};
use crate::schema::IdType;
use crate::source::{FileBytes, SourceFile, TextPlace, read_bytes};

/// Files of one source or more, and how they are rewritten.
///
/// Input: one column of UInt32, indices into `parts`. Output: no rows, with the columns of [`File`]. Finished parts are recorded in
/// the folder of the result, and are skipped. Partitions stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rewrite {
    /// The parts that the input's indices name.
    pub parts: Arc<[PartToWrite]>,
    /// The URL of the folder of the result.
    pub target: String,
    pub rejects: Rejects,
    /// The fingerprint in the records of parts.
    pub fingerprint: String,
    /// The files of the table of decisions, in its folder of records.
    pub decisions: Vec<File>,
    /// The columns that kept documents get.
    pub annotations: Vec<Annotation>,
    /// Whether spans are cut out of texts.
    pub cuts: bool,
    /// The type of ids.
    pub id: IdType,
}

/// Neighbouring files of a source in the order of paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartToWrite {
    /// Its number, which is in the name of its record.
    pub number: usize,
    /// The number of the source of its files.
    pub origin: u64,
    /// That source.
    pub source: job::Source,
    /// Where the texts are in them.
    pub text: TextPlace,
    pub files: Vec<FileToWrite>,
}

/// A file of the source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileToWrite {
    pub file: SourceFile,
    /// Its path below the folders of the result.
    pub path: String,
    /// The counts of its documents in the output.
    pub expected: DocumentCounts,
}

impl Rewrite {
    /// A plan that rewrites the parts in at most `partitions` partitions.
    ///
    /// # Errors
    /// If there are too many parts.
    pub(crate) fn plan(self, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt32, false)]));
        let count = u32::try_from(self.parts.len()).map_err(|_| Error::bug("there are too many parts"))?;
        let partitions = partitions.clamp(1, self.parts.len().max(1)) as u32;
        let deal = |partition: u32| {
            let parts = UInt32Array::from_iter_values((partition..count).step_by(partitions as usize));
            Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(parts)])?])
        };
        let dealt = (0..partitions).map(deal).collect::<Result<Vec<_>>>()?;
        let input = DataSourceExec::from_data_source(MemorySourceConfig::try_new(&dealt, schema, None)?);
        OperatorExec::plan(self, vec![input])
    }

    /// Rewrites the part of this index, unless its record exists.
    async fn write(&self, index: u32, context: &TaskContext, read: &Count) -> crate::error::Result<()> {
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
            let (counts, written) = one_file::write(&work, file, path, *expected).await?;
            files.push(SourceRecord { origin: part.origin, source: file.path().to_owned(), counts, written });
        }
        let (fingerprint, count) = (self.fingerprint.clone(), files.len());
        put_part(&work.target, part.number, &FinishedPart { fingerprint, files }).await?;
        tracing::debug!(part = part.number, files = count, "files written");
        Ok(())
    }
}

impl Rewrite {
    /// The bytes of the files that are rewritten.
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

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        match input.schema().fields().as_ref() {
            [only] if only.data_type() == &DataType::UInt32 => {}
            _ => return Err(Error::bug("parts to write are named by one column of indices").into()),
        }
        Ok(Shape::in_partitions_of(input, File::schema()))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
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
