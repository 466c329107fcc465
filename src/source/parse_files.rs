//! The node that reads files of every format but Parquet.

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

use super::chunks::{Piece, spread};
use super::columns::{Values, column, missing, needed};
use super::listing::File;
use super::number_rows::{numbered_schema, value_name};
use super::reading::Reading;
use super::scan::project;
use super::selection::Selection;
use super::sgml::Story;
use super::to_parse::{CUT, FileToParse, Parser};
use crate::error::{Error, Result};
use crate::job;
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, only_input};

/// The documents of files, read in the order in which the input names them.
///
/// Input: one column of UInt32, indices into `files`. Output: the parser's values as `value_0`, `value_1`, ... (Utf8View), then
/// `source` and `name` (Utf8View), `position` (UInt64) and `defect` (Utf8), and `cut` (`List<UInt64>`) where long text files are
/// cut while they are read: see [`CutText`](crate::kernel::text::long_text::CutText). Partitions stay. The node is no leaf so that whoever distributes the plan knows how
/// to deal out what it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParseFiles {
    /// How the files are read.
    pub parser: Parser,
    /// What the input's indices point into.
    pub files: Arc<[FileToParse]>,
}

fn parsed_schema(parser: &Parser) -> SchemaRef {
    let numbered = numbered_schema(std::iter::repeat_n(&DataType::Utf8View, parser.values()));
    let mut fields: Vec<Arc<Field>> = numbered.fields().to_vec();
    fields.push(Arc::new(Field::new("defect", DataType::Utf8, true)));
    if matches!(parser, Parser::Text { cut: Some(_), .. }) {
        fields.push(Arc::new(Field::new(CUT, DataType::new_list(DataType::UInt64, true), true)));
    }
    Arc::new(Schema::new(fields))
}

impl fmt::Display for ParseFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parser={}, files={}", self.parser.name(), self.files.len())
    }
}

impl Description for ParseFiles {
    const NAME: &'static str = "ParseFilesExec";

    type Shared = ();

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
        let reading = Reading::new(&self.parser, Arc::clone(&self.files), task.schema, input, task.context);
        let batches = stream::try_unfold(reading, async |mut reading| {
            Ok(reading.next().await?.map(|batch| (batch, reading)))
        });
        Ok(batches.boxed())
    }
}

/// Documents of files of one format; columns as [`ParseFiles`] has them.
#[derive(Debug)]
pub(super) struct ParsedTable {
    parser: Parser,
    files: Vec<Arc<File>>,
    /// The documents that are read; none for all.
    wanted: Option<Selection>,
    schema: SchemaRef,
}

impl ParsedTable {
    /// The table of `files`.
    pub(crate) fn new(parser: Parser, files: Vec<Arc<File>>) -> Self {
        let schema = parsed_schema(&parser);
        Self { parser, files, wanted: None, schema }
    }

    /// Only the `wanted` documents, where it says which.
    pub(crate) fn only(mut self, wanted: Option<Selection>) -> Self {
        if let Some(wanted) = &wanted {
            self.files.retain(|file| wanted.of(&file.path).is_some());
        }
        Self { wanted, ..self }
    }

    /// What whoever reads `file` must know of it.
    fn to_parse(&self, file: &File) -> FileToParse {
        let wanted = self.wanted.as_ref().and_then(|wanted| wanted.of(&file.path)).cloned();
        FileToParse { wanted, ..file.to_parse() }
    }
}

/// The table of Reuters files, and the job's columns in it.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for a column that the format does not have.
pub(super) fn reuters(source: &job::Source, files: &[Arc<File>]) -> Result<(ParsedTable, Values)> {
    let value = |name: &str| {
        let place = Story::COLUMNS.iter().position(|column| *column == name);
        let place = place
            .ok_or_else(|| missing(name, "Reuters stories", Story::COLUMNS.iter().map(|c| c.to_string())))?;
        Ok((name.to_owned(), column(value_name(place))))
    };
    let values = needed(source).into_iter().map(value).collect::<Result<Values>>()?;
    let parser = Parser::Reuters { encoding: source.encoding, references: source.references };
    Ok((ParsedTable::new(parser, files.to_vec()), values))
}

/// The table of text files, and the job's column in it. Long files are cut while they are read where `cut` says how.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for an id that is a column, for there is none.
pub(super) fn texts(
    source: &job::Source,
    files: &[Arc<File>],
    cut: Option<&job::Shingle>,
) -> Result<(ParsedTable, Values)> {
    if let job::Id::Columns(names) = &source.id {
        return Err(Error::job(format!(
            "text files have no column `{}` to take ids from: set [source] id to \"path\"",
            names.join("`, `")
        )));
    }
    // Whatever the job calls it, a file has one text.
    let values = source.text.iter().take(1).map(|name| (name.clone(), column(value_name(0)))).collect();
    let parser = Parser::Text { encoding: source.encoding, cut: cut.cloned() };
    Ok((ParsedTable::new(parser, files.to_vec()), values))
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
        let pieces: Vec<Piece> = self.files.iter().map(Piece::whole).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::UInt32, false)]));
        let mut files = Vec::with_capacity(pieces.len());
        let mut partitions = Vec::new();
        for group in spread(&pieces, state.config().target_partitions()) {
            let first = files.len() as u32;
            files.extend(group.iter().map(|piece| self.to_parse(&piece.file)));
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
