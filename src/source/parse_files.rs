//! The node that parses files of every format but Parquet.

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
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::Count;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::bytes::{Chunks, FileBytes, decompress, read_bytes, start, stored};
use super::checksums::Checksums;
use super::columns::{numbered_schema, project};
use super::decode::decoded;
use super::documents::{DocumentBatch, DocumentSink, FileInReading};
use super::file::SourceFile;
use super::format::{DocumentReader, ParsedFormat, Reading};
use super::formats;
use super::parser::{CUT, FileToParse, Parser};
use super::selection::Selection;
use super::split::{Split, spread};
use crate::error::{Context, Error, Result};
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, only_input};

/// The documents of files, read in the order in which the input names them.
///
/// Input: one column of UInt32, indices into `files`. Output: the parser's values as `value_0`, `value_1`, ... (Utf8View), then
/// `source` and `name` (Utf8View), `position` (UInt64), the partition columns as `partition_0`, ... (Utf8View), `defect` (Utf8),
/// and `cut` (`List<UInt64>`) where long texts are cut while they are read: see
/// [`CutText`](crate::kernel::text::long_text::CutText). Partitions stay. The files come from an input, so that a distributed
/// engine can deal them out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParseFiles {
    /// How the files are parsed.
    pub parser: Parser,
    /// The files that the input's indices name.
    pub files: Arc<[FileToParse]>,
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
    /// The bytes of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.pin.size).sum()
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
        // The files are dealt out by size already.
        Ok(Shape::in_partitions_of(input, parsed_schema(&self.parser)))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> DfResult<Batches> {
        let input = task.rows_of(0)?;
        let Reading::Parser(format) = formats::of(self.parser.source.format).reading else {
            return Err(Error::bug("a plan to parse files names a format without a parser").into());
        };
        let files = Arc::clone(&self.files);
        let read = read_bytes(task.metrics, task.partition);
        let reader =
            PartitionReader::new(format, &self.parser, files, task.schema, input, task.context, read);
        let batches = stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next().await?.map(|batch| (batch, reader)))
        });
        Ok(batches.boxed())
    }
}

/// The documents of files of one format; columns as [`ParseFiles`] has them.
#[derive(Debug)]
pub(super) struct ParsedTable {
    parser: Parser,
    files: Vec<Arc<SourceFile>>,
    /// The documents that are read; `None` for all.
    wanted: Option<Selection>,
    schema: SchemaRef,
}

impl ParsedTable {
    /// The table of `files`, or of their `wanted` documents.
    pub(super) fn new(parser: Parser, mut files: Vec<Arc<SourceFile>>, wanted: Option<Selection>) -> Self {
        if let Some(wanted) = &wanted {
            files.retain(|file| wanted.of(&file.path).is_some());
        }
        let schema = parsed_schema(&parser);
        Self { parser, files, wanted, schema }
    }

    fn to_parse(&self, file: &SourceFile) -> FileToParse {
        let wanted = self.wanted.as_ref().and_then(|wanted| wanted.of(&file.path)).cloned();
        let partitions = file.partition_values(&self.parser.partition_columns);
        FileToParse { wanted, partitions, ..file.to_parse() }
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
        if self.files.is_empty() {
            let schema = match projection {
                Some(wanted) => Arc::new(self.schema.project(wanted)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let splits: Vec<Split> = self.files.iter().map(Split::whole).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::UInt32, false)]));
        let mut files = Vec::with_capacity(splits.len());
        let mut partitions = Vec::new();
        for group in spread(&splits, state.config().target_partitions()) {
            let first = files.len() as u32;
            files.extend(group.iter().map(|split| self.to_parse(&split.file)));
            let indices = UInt32Array::from_iter_values(first..files.len() as u32);
            partitions.push(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(indices)])?]);
        }
        let input = MemorySourceConfig::try_new(&partitions, schema, None)?;
        let input = DataSourceExec::from_data_source(input);
        let parse = ParseFiles { parser: self.parser.clone(), files: files.into() };
        let plan = OperatorExec::plan(parse, vec![input])?;
        match projection {
            Some(wanted) => project(plan, &self.schema, wanted, |i| i),
            None => Ok(plan),
        }
    }
}

/// The reading of one partition's files.
pub(super) struct PartitionReader {
    format: &'static dyn ParsedFormat,
    parser: Parser,
    files: Arc<[FileToParse]>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    /// Counts the bytes of files that were read.
    read: Count,
    /// Indices of the files that the input has named.
    ahead: VecDeque<u32>,
    open: Option<OpenFile>,
    batch: DocumentBatch,
}

/// The file that is being read.
struct OpenFile {
    state: FileInReading,
    reader: Box<dyn DocumentReader>,
    chunks: Chunks,
    bytes: FileBytes,
    /// Bytes that the reader has not taken yet.
    chunk: Bytes,
}

impl PartitionReader {
    /// The reading of those of `files` that `input` names, into batches of `schema`.
    pub(super) fn new(
        format: &'static dyn ParsedFormat,
        parser: &Parser,
        files: Arc<[FileToParse]>,
        schema: SchemaRef,
        input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
        read: Count,
    ) -> Self {
        let batch = DocumentBatch::new(schema, parser.wanted.len(), parser.partition_columns.len());
        Self {
            format,
            parser: parser.clone(),
            files,
            input,
            context,
            read,
            ahead: VecDeque::new(),
            open: None,
            batch,
        }
    }

    /// The next full batch, or the last one.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.batch.is_full() {
            if let Some(file) = &mut self.open {
                if !file.advance(&mut self.batch).await? {
                    self.open = None;
                }
                continue;
            }
            match self.next_file().await? {
                Some(index) => self.open = Some(self.open(index).await?),
                None if self.batch.rows == 0 => return Ok(None),
                None => break,
            }
        }
        self.batch.finish().map(Some)
    }

    /// The index of the next file.
    async fn next_file(&mut self) -> Result<Option<u32>> {
        loop {
            if let Some(index) = self.ahead.pop_front() {
                return Ok(Some(index));
            }
            let Some(batch) = self.input.try_next().await? else { return Ok(None) };
            let indices = batch.column(0);
            let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
                return Err(Error::bug(format!("the indices of files are of type {}", indices.data_type())));
            };
            self.ahead.extend(indices.values());
        }
    }

    async fn open(&mut self, index: u32) -> Result<OpenFile> {
        let Some(mut file) = self.files.get(index as usize).cloned() else {
            return Err(Error::bug(format!("there is no file {index} among {}", self.files.len())));
        };
        if let Some(wanted) = &mut file.wanted {
            wanted.load(self.context.runtime_env().as_ref()).await?;
        }
        let reader = self.format.reader(&self.parser, &file)?;
        let store = self.context.runtime_env().object_store(ObjectStoreUrl::parse(&file.store)?)?;
        let encoding = self.parser.source.encoding;
        let raw = stored(store.as_ref(), &file).await?;
        let raw = match Checksums::of(self.context.session_config()) {
            Some(checksums) => checksums.of_stream(raw, &file),
            None => raw,
        };
        let (chunks, chunk) = if self.format.may_be_compressed() {
            let pool = self.context.memory_pool();
            let mut chunks = decoded(decompress(raw, &file.source, pool), encoding);
            let first = start(&mut chunks).await;
            (chunks, first.context(|| format!("the start of {} cannot be read", file.source))?)
        } else {
            (decoded(raw, encoding), Bytes::new())
        };
        let mut bytes = FileBytes::new(&self.read, file.pin.size);
        bytes.add(chunk.len() as u64);
        Ok(OpenFile { state: FileInReading::new(file, &self.parser.source), reader, chunks, bytes, chunk })
    }
}

impl OpenFile {
    /// Reads until the batch is full or a chunk has been read. Returns false after the end of the file.
    async fn advance(&mut self, batch: &mut DocumentBatch) -> Result<bool> {
        self.reader.read(&mut self.chunk, &mut DocumentSink::new(&mut self.state, batch))?;
        if batch.is_full() {
            return Ok(true);
        }
        let (source, count) = (&self.state.file.source, self.state.count());
        let failed = || format!("reading {source} failed after {count} rows");
        match self.chunks.try_next().await.context(failed)? {
            Some(chunk) => {
                self.bytes.add(chunk.len() as u64);
                self.chunk = chunk;
                Ok(true)
            }
            None => {
                self.reader.end(&mut DocumentSink::new(&mut self.state, batch))?;
                self.state.end()?;
                Ok(false)
            }
        }
    }
}
