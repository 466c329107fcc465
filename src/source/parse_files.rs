//! The node that parses files of every format but Parquet.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use super::columns::numbered_schema;
use super::file::SourceFile;
use super::file_bytes::read_bytes;
use super::format::Reading;
use super::formats;
use super::parser::{CUT, FileToParse, Parser};
use super::project::project;
use super::reading::PartitionReader;
use super::selection::Selection;
use super::split::{Split, spread};
use crate::error::Error;
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
