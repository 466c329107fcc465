//! The node that parses files of every format except Parquet.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::Count;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::bytes::{Chunks, FileBytes, decoded, decompress, read_bytes, split_mark};
use super::documents::{CUT, DocumentBatch, DocumentSink, FileProgress};
use crate::error::counts::counted;
use crate::error::{Context, Error, Result};
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, only_input};
use crate::source::file::SourceFile;
use crate::source::format::{DocumentReader, ParsedFormat, Parser, Reading};
use crate::source::formats::format_of;
use crate::source::identity::Checksums;
use crate::source::rows::columns::{numbered_schema, project};
use crate::source::rows::selection::Selection;
use crate::source::rows::split::{Split, distribute};

/// Reads the documents of files in the order in which the input lists the files. Input: one column of UInt32, indices into `files`. Output:
/// the parser's values as `value_0`, `value_1`, ... (Utf8View), then `source` and `name` (Utf8View), `position` (UInt64), the partition
/// columns as `partition_0`, ... (Utf8View), `defect` (Utf8), and `cut` (`List<UInt64>`) if long texts are cut while they are read: see
/// [`CutText`](crate::kernel::text::long_text::CutText). The partitions do not change. The input names the files, so that a distributed
/// engine can assign files to tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParseFiles {
    pub parser: Parser,
    /// The files to which the indices of the input refer.
    pub files: Arc<[Split]>,
}

fn parsed_schema(parser: &Parser) -> SchemaRef {
    let values = std::iter::repeat_n(&DataType::Utf8View, parser.wanted.len());
    let numbered = numbered_schema(values, parser.partition_columns.len());
    let mut fields: Vec<Arc<Field>> = numbered.fields().to_vec();
    fields.push(Arc::new(Field::new("defect", DataType::Utf8, true)));
    if parser.cut.is_some() {
        fields.push(Arc::new(Field::new(CUT, DataType::new_list(DataType::UInt64, true), true)));
    }
    Arc::new(Schema::new(fields))
}

impl ParseFiles {
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|split| split.file.size()).sum()
    }
}

impl Description for ParseFiles {
    const NAME: &'static str = "ParseFilesExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parser={:?}, files={}", self.parser.source.format, self.files.len())
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        match input.schema().fields().as_ref() {
            [only] if only.data_type() == &DataType::UInt32 => {}
            _ => return Err(Error::bug("files to parse are named by one column of indices").into()),
        }
        // The files were already distributed by size.
        Ok(Shape::in_partitions_of(input, parsed_schema(&self.parser)))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> DfResult<Batches> {
        let Parser { source, wanted, partition_columns, .. } = &self.parser;
        let Reading::Parser(format) = format_of(source.format).reading else {
            return Err(Error::bug("a plan to parse files names a format without a parser").into());
        };
        let reader = PartitionReader {
            format,
            input: task.rows_of(0)?,
            read: read_bytes(task.metrics, task.partition),
            ahead: VecDeque::new(),
            open: None,
            batch: DocumentBatch::new(task.schema, wanted.len(), partition_columns),
            context: task.context,
            plan: self,
        };
        let batches = stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next().await?.map(|batch| (batch, reader)))
        });
        Ok(batches.boxed())
    }
}

/// The documents of files of one format, with the columns of [`ParseFiles`].
#[derive(Debug)]
pub(in crate::source) struct ParsedTable {
    parser: Parser,
    files: Vec<Split>,
    schema: SchemaRef,
}

impl ParsedTable {
    pub(in crate::source) fn new(
        parser: Parser,
        files: &[Arc<SourceFile>],
        wanted: Option<&Selection>,
    ) -> Self {
        let splits = files.iter().map(Split::whole);
        let files = match wanted {
            Some(wanted) => splits.filter_map(|split| split.select(wanted)).collect(),
            None => splits.collect(),
        };
        Self { schema: parsed_schema(&parser), parser, files }
    }
}

#[async_trait]
impl TableProvider for ParsedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        if self.files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(&wanted)?))));
        }
        let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::UInt32, false)]));
        let (mut files, mut partitions) = (Vec::with_capacity(self.files.len()), Vec::new());
        for group in distribute(&self.files, state.config().target_partitions()) {
            let first = files.len() as u32;
            files.extend(group);
            let indices = UInt32Array::from_iter_values(first..files.len() as u32);
            partitions.push(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(indices)])?]);
        }
        let input = DataSourceExec::from_data_source(MemorySourceConfig::try_new(&partitions, schema, None)?);
        let parse = ParseFiles { parser: self.parser.clone(), files: files.into() };
        project(OperatorExec::plan(parse, vec![input])?, &self.schema, &wanted, |i| i)
    }
}

struct PartitionReader {
    format: &'static dyn ParsedFormat,
    plan: Arc<ParseFiles>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    read: Count,
    /// The indices of the next files.
    ahead: VecDeque<u32>,
    open: Option<OpenFile>,
    batch: DocumentBatch,
}

struct OpenFile {
    progress: FileProgress,
    reader: Box<dyn DocumentReader>,
    chunks: Chunks,
    bytes: FileBytes,
    /// The bytes of the current chunk that the reader has not consumed.
    chunk: Bytes,
}

impl PartitionReader {
    /// Returns the next full batch, or the last batch, which may be smaller.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.batch.is_full() {
            if let Some(file) = &mut self.open {
                if !file.advance(&mut self.batch).await? {
                    self.open = None;
                }
            } else if let Some(index) = self.ahead.pop_front() {
                self.open = Some(self.open(index).await?);
            } else if let Some(batch) = self.input.try_next().await? {
                let indices = batch.column(0);
                let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
                    let why = format!("the indices of files are of type {}", indices.data_type());
                    return Err(Error::bug(why));
                };
                self.ahead.extend(indices.values());
            } else if self.batch.rows == 0 {
                return Ok(None);
            } else {
                break;
            }
        }
        self.batch.finish().map(Some)
    }

    async fn open(&mut self, index: u32) -> Result<OpenFile> {
        let ParseFiles { parser, files } = self.plan.as_ref();
        let Some(mut split) = files.get(index as usize).cloned() else {
            return Err(Error::bug(format!("there is no file {index} among {}", files.len())));
        };
        let runtime = self.context.runtime_env();
        if let Some(wanted) = &mut split.wanted {
            wanted.load(&runtime).await?;
        }
        let file = &split.file;
        let reader = self.format.reader(parser, file)?;
        let mut stored = file.stored(&runtime).await?;
        if let Some(checksums) = Checksums::find(self.context.session_config()) {
            stored = checksums.add_stream(stored, file);
        }
        let encoding = parser.source.encoding;
        let (chunks, chunk) = if self.format.may_be_compressed() {
            let mut chunks = decoded(decompress(stored, file.path(), &runtime.memory_pool), encoding);
            let first = split_mark(&mut chunks).await;
            let [_, first] = first.context(|| format!("the start of {} cannot be read", file.path()))?;
            (chunks, first)
        } else {
            (decoded(stored, encoding), Bytes::new())
        };
        let mut bytes = FileBytes::new(&self.read, file.size());
        bytes.add(chunk.len() as u64);
        let on_error = parser.source.on_error;
        let progress = FileProgress { split, encoding, on_error, count: 0, unreadable: 0 };
        Ok(OpenFile { progress, reader, chunks, bytes, chunk })
    }
}

impl OpenFile {
    /// Reads until the batch is full or one chunk is consumed. Returns false after the end of the file.
    async fn advance(&mut self, batch: &mut DocumentBatch) -> Result<bool> {
        let mut sink = DocumentSink { file: &mut self.progress, batch };
        self.reader.read(&mut self.chunk, &mut sink)?;
        if sink.is_full() {
            return Ok(true);
        }
        let failed = || format!("reading {} failed after {}", sink.path(), counted(sink.count(), "row"));
        match self.chunks.try_next().await.context(failed)? {
            Some(chunk) => {
                self.bytes.add(chunk.len() as u64);
                self.chunk = chunk;
                Ok(true)
            }
            None => {
                self.reader.end(&mut sink)?;
                self.progress.end()?;
                Ok(false)
            }
        }
    }
}
