//! The node that reads files of the formats that the engine does not know.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, StringBuilder, StringViewBuilder, UInt32Array, UInt64Builder,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::{self, BoxStream, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::chunks::{Piece, spread};
use super::columns::{Values, column, missing, needed};
use super::listing::File;
use super::number_rows::{numbered_schema, only_child};
use super::pin::Pin;
use super::scan::project;
use super::sgml::{Stories, Story};
use super::text;
use crate::error::{Context, Error, Result};
use crate::job;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1024;
/// Bytes of text after which a batch is full. One text may be longer; then it is alone with those before it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes from which a text's buffer becomes part of the batch as it is, without a copy.
const OWN_BUFFER_BYTES: usize = 64 * 1024;

/// The formats that [`ParseFilesExec`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parser {
    /// Stories of Reuters-21578; values `oldid`, `newid`, `date`, `topics`, `places`, `title`, `body`.
    Reuters,
    /// A document a file; one value, the file's text.
    Text,
}

/// Where a file is, for whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileToParse {
    /// The file's path, as the user would write it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The URL of its object store, such as `file:///` or `s3://bucket/`.
    pub store: String,
    /// Where it is in that store, and what it was when it was listed.
    pub pin: Pin,
}

/// The documents of files, read in the order in which the input names them.
///
/// Input: one column of UInt32, indices into `files`. Output: the parser's values as `value_0`, `value_1`, ... (Utf8View), then
/// `source` and `name` (Utf8View), `position` (UInt64) and `defect` (Utf8). Partitions stay. The node is no leaf so that
/// whoever distributes the plan knows how to deal out what it reads.
#[derive(Debug, Clone)]
pub struct ParseFilesExec {
    input: Arc<dyn ExecutionPlan>,
    parser: Parser,
    files: Arc<[FileToParse]>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl ParseFilesExec {
    /// The node above `input`, whose only column are indices into `files`.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        parser: Parser,
        files: Arc<[FileToParse]>,
    ) -> DfResult<Self> {
        match input.schema().fields().as_ref() {
            [only] if only.data_type() == &DataType::UInt32 => {}
            _ => return Err(Error::bug("files to parse are named by one column of indices").into()),
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parsed_schema(parser)),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_scheduling_type(input.properties().scheduling_type);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, parser, files, metrics, properties: Arc::new(properties) })
    }

    /// How the files are read.
    pub fn parser(&self) -> Parser {
        self.parser
    }

    /// What the input's indices point into.
    pub fn files(&self) -> &Arc<[FileToParse]> {
        &self.files
    }
}

fn values_of(parser: Parser) -> usize {
    match parser {
        Parser::Reuters => Story::COLUMNS.len(),
        Parser::Text => 1,
    }
}

fn parsed_schema(parser: Parser) -> SchemaRef {
    let numbered = numbered_schema(std::iter::repeat_n(&DataType::Utf8View, values_of(parser)));
    let mut fields: Vec<Arc<Field>> = numbered.fields().to_vec();
    fields.push(Arc::new(Field::new("defect", DataType::Utf8, true)));
    Arc::new(Schema::new(fields))
}

impl DisplayAs for ParseFilesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ParseFilesExec: parser={:?}, files={}", self.parser, self.files.len())
    }
}

impl ExecutionPlan for ParseFilesExec {
    fn name(&self) -> &'static str {
        "ParseFilesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // The files are dealt out by size already.
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(only_child(children)?, self.parser, Arc::clone(&self.files))?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let reading = Reading {
            parser: self.parser,
            files: Arc::clone(&self.files),
            input: self.input.execute(partition, Arc::clone(&context))?,
            context,
            ahead: VecDeque::new(),
            open: None,
            batch: Batch::new(self.schema(), values_of(self.parser)),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::try_unfold((reading, metrics), |(mut reading, metrics)| async move {
            let batch = reading.next().await?;
            Ok(batch.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (reading, metrics))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition's reading.
struct Reading {
    parser: Parser,
    files: Arc<[FileToParse]>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    /// Indices of files that the input has named.
    ahead: VecDeque<u32>,
    /// The SGML file that is being read.
    open: Option<OpenFile>,
    batch: Batch,
}

struct OpenFile {
    index: u32,
    bytes: BoxStream<'static, object_store::Result<Bytes>>,
    stories: Stories,
    /// Stories that have come.
    count: u64,
}

impl Reading {
    /// The next full batch, or the last one.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.batch.is_full() {
            if self.open.is_some() {
                self.story().await?;
                continue;
            }
            match self.file().await? {
                Some(index) => self.start(index).await?,
                None if self.batch.rows == 0 => return Ok(None),
                None => break,
            }
        }
        self.batch.finish().map(Some)
    }

    /// The index of the next file.
    async fn file(&mut self) -> Result<Option<u32>> {
        loop {
            if let Some(index) = self.ahead.pop_front() {
                return Ok(Some(index));
            }
            let Some(batch) = self.input.try_next().await? else { return Ok(None) };
            let indices = batch.column(0);
            let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
                return Err(Error::bug(format!("indices of files came as {}", indices.data_type())));
            };
            self.ahead.extend(indices.values());
        }
    }

    fn to_parse(&self, index: u32) -> Result<&FileToParse> {
        self.files
            .get(index as usize)
            .ok_or_else(|| Error::bug(format!("file {index} of {} was asked for", self.files.len())))
    }

    async fn start(&mut self, index: u32) -> Result<()> {
        let file = self.to_parse(index)?;
        let failed = || format!("reading {} failed", file.source);
        let store = self.context.runtime_env().object_store(ObjectStoreUrl::parse(&file.store)?)?;
        match self.parser {
            Parser::Reuters => {
                let bytes = file.pin.stream(store.as_ref()).await.context(failed)?;
                self.open = Some(OpenFile { index, bytes, stories: Stories::default(), count: 0 });
            }
            Parser::Text => {
                let bytes = file.pin.bytes(store.as_ref()).await.context(failed)?;
                let file = Arc::clone(&self.files)[index as usize].clone();
                match text::document(bytes) {
                    Ok(text) => self.batch.push_text(&file, text)?,
                    Err(defect) => self.batch.push(&file, 0, &[None], Some(defect))?,
                }
            }
        }
        Ok(())
    }

    /// The open file's next stories.
    async fn story(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(file) = self.files.get(open.index as usize) else {
            return Err(Error::bug(format!("file {} is open and not there", open.index)));
        };
        if let Some(story) = open.stories.next() {
            self.batch.push_story(file, open.count, &story)?;
            open.count += 1;
            return Ok(());
        }
        let failed = || format!("reading {} failed after {} stories", file.source, open.count);
        if let Some(bytes) = open.bytes.try_next().await.context(failed)? {
            open.stories.feed(&bytes);
            return Ok(());
        }
        if let Some(story) = open.stories.end() {
            self.batch.push_story(file, open.count, &story)?;
            open.count += 1;
        }
        if open.count == 0 {
            return Err(Error::input(format!(
                "{} holds no <REUTERS> story: take it out of [source] url, or correct [source] format",
                file.source
            )));
        }
        self.open = None;
        Ok(())
    }
}

/// A batch that is being filled.
struct Batch {
    schema: SchemaRef,
    values: Vec<StringViewBuilder>,
    sources: StringViewBuilder,
    names: StringViewBuilder,
    positions: UInt64Builder,
    defects: StringBuilder,
    rows: usize,
    bytes: usize,
}

impl Batch {
    fn new(schema: SchemaRef, values: usize) -> Self {
        // A batch has few files and many rows: each path is held once.
        let paths = || StringViewBuilder::new().with_deduplicate_strings();
        Self {
            schema,
            values: (0..values).map(|_| StringViewBuilder::new()).collect(),
            sources: paths(),
            names: paths(),
            positions: UInt64Builder::new(),
            defects: StringBuilder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn push_story(&mut self, file: &FileToParse, position: u64, story: &Story) -> Result<()> {
        let defect = story.truncated.then_some("truncated");
        self.push(file, position, &story.parts(), defect)
    }

    fn push(
        &mut self,
        file: &FileToParse,
        position: u64,
        values: &[Option<&str>],
        defect: Option<&str>,
    ) -> Result<()> {
        for (builder, value) in self.values.iter_mut().zip(values) {
            match value {
                Some(value) => {
                    self.bytes += value.len();
                    builder.try_append_value(value)?;
                }
                None => builder.append_null(),
            }
        }
        self.origin(file, position, defect)
    }

    /// The document that is the whole file.
    fn push_text(&mut self, file: &FileToParse, text: Bytes) -> Result<()> {
        let Ok(length) = u32::try_from(text.len()) else {
            return Err(Error::input(format!(
                "{} has {} bytes, and a text may have {}: split it",
                file.source,
                text.len(),
                u32::MAX
            )));
        };
        let [builder] = self.values.as_mut_slice() else {
            return Err(Error::bug("a text file has one value"));
        };
        self.bytes += text.len();
        if text.len() < OWN_BUFFER_BYTES || length == u32::MAX {
            let text =
                std::str::from_utf8(&text).map_err(|e| Error::bug("text was not looked at").because(e))?;
            builder.try_append_value(text)?;
        } else {
            let block = builder.append_block(Buffer::from(text));
            builder.try_append_view(block, 0, length)?;
        }
        self.origin(file, 0, None)
    }

    fn origin(&mut self, file: &FileToParse, position: u64, defect: Option<&str>) -> Result<()> {
        self.sources.try_append_value(&*file.source)?;
        self.names.try_append_value(&*file.name)?;
        self.positions.append_value(position);
        self.defects.append_option(defect);
        self.rows += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.values.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.push(Arc::new(self.sources.finish()));
        columns.push(Arc::new(self.names.finish()));
        columns.push(Arc::new(self.positions.finish()));
        columns.push(Arc::new(self.defects.finish()));
        self.rows = 0;
        self.bytes = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Documents of files of one format; columns as [`ParseFilesExec`] has them.
#[derive(Debug)]
pub(super) struct ParsedTable {
    parser: Parser,
    files: Vec<Arc<File>>,
    schema: SchemaRef,
}

/// The table of `files`, and the job's columns in it.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for a column that the format does not have.
pub(super) fn table(
    source: &job::Source,
    parser: Parser,
    files: &[Arc<File>],
) -> Result<(ParsedTable, Values)> {
    let table = ParsedTable { parser, files: files.to_vec(), schema: parsed_schema(parser) };
    let values = match parser {
        Parser::Reuters => needed(source)
            .into_iter()
            .map(|name| {
                let place = Story::COLUMNS.iter().position(|column| *column == name);
                let place = place.ok_or_else(|| {
                    missing(name, "Reuters stories", Story::COLUMNS.iter().map(|c| c.to_string()))
                })?;
                Ok((name.to_owned(), column(table.schema.field(place).name())))
            })
            .collect::<Result<Values>>()?,
        Parser::Text => {
            if let job::Id::Columns(names) = &source.id {
                return Err(Error::job(format!(
                    "text files have no column `{}` to take ids from: set [source] id to \"path\"",
                    names.join("`, `")
                )));
            }
            // Whatever the job calls it, a file has one text.
            source
                .text
                .iter()
                .take(1)
                .map(|name| (name.clone(), column(table.schema.field(0).name())))
                .collect()
        }
    };
    Ok((table, values))
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
        let pieces: Vec<Piece> = self.files.iter().map(Piece::whole).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::UInt32, false)]));
        let mut files = Vec::with_capacity(pieces.len());
        let mut partitions = Vec::new();
        for group in spread(&pieces, state.config().target_partitions()) {
            let first = files.len() as u32;
            files.extend(group.iter().map(|piece| FileToParse {
                source: piece.file.path.as_str().into(),
                name: piece.file.name.as_str().into(),
                store: piece.file.store.as_str().to_owned(),
                pin: piece.file.pin(),
            }));
            let indices = UInt32Array::from_iter_values(first..files.len() as u32);
            partitions.push(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(indices)])?]);
        }
        let input = MemorySourceConfig::try_new(&partitions, schema, None)?;
        let input = DataSourceExec::from_data_source(input);
        let plan: Arc<dyn ExecutionPlan> =
            Arc::new(ParseFilesExec::try_new(input, self.parser, files.into())?);
        match projection {
            Some(wanted) => project(plan, &self.schema, wanted, |i| i),
            None => Ok(plan),
        }
    }
}
