//! The tables of a run: the public ones with their contracts, and those between stages with the stages that write them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::Result;
use crate::job::{Bits, Job};
use crate::output::Layout;
use crate::output::write::{TableRows, TableTarget};
use crate::schema::{self, SourceTypes, Table};

/// A table between stages, which is removed when the run is finished. Its name and columns are in the file of the stage
/// that writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkTable {
    name: &'static str,
    round: Option<u32>,
    columns: fn(&SourceTypes) -> Vec<Field>,
}

impl WorkTable {
    /// The table `name`; `columns` may depend on the types of the source.
    pub(super) const fn new(name: &'static str, columns: fn(&SourceTypes) -> Vec<Field>) -> Self {
        Self { name, round: None, columns }
    }

    /// The table of a round.
    pub(super) const fn of_round(self, round: u32) -> Self {
        Self { round: Some(round), ..self }
    }

    /// Its name, which is also the name of its folder.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self.round {
            Some(round) => format!("{}_{round}", self.name).into(),
            None => self.name.into(),
        }
    }

    /// Its columns over a source of these types, with the signatures of the job.
    pub(crate) fn schema(self, job: &Job, source: &SourceTypes) -> SchemaRef {
        let with_type = |field: Field| match field.name().as_str() {
            SIGNATURE => field.with_data_type(signature_type(job)),
            _ => field,
        };
        Arc::new(Schema::new((self.columns)(source).into_iter().map(with_type).collect::<Vec<_>>()))
    }
}

/// Columns of unsigned numbers, without nulls.
pub(super) fn numbers<const N: usize>(names: [&str; N]) -> Vec<Field> {
    names.into_iter().map(|name| Field::new(name, DataType::UInt64, false)).collect()
}

/// The columns of an operator's output.
pub(super) fn columns_of(schema: &SchemaRef) -> Vec<Field> {
    schema.fields().iter().map(|field| field.as_ref().clone()).collect()
}

/// The column `id` of a source of these types.
pub(super) fn id_column(source: &SourceTypes, nullable: bool) -> Field {
    Field::new("id", source.id.arrow(), nullable)
}

/// A column of lists.
pub(super) fn list_column(name: &str, item: DataType, nullable: bool) -> Field {
    Field::new_list(name, Field::new_list_field(item, true), nullable)
}

const SIGNATURE: &str = "signature";

/// A column of signatures; [`WorkTable::schema`] replaces its type by that of the job's.
pub(super) fn signature_column() -> Field {
    Field::new(SIGNATURE, DataType::Null, false)
}

/// The type of signatures between stages.
pub(super) fn signature_type(job: &Job) -> DataType {
    match job.minhash.bits {
        Bits::Of16 => DataType::Binary,
        Bits::Of32 => DataType::new_list(DataType::UInt32, true),
    }
}

/// The columns of a document's sketch.
pub(super) fn sketch_columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["doc", "shingle_count"]);
    columns.push(list_column("shingles", DataType::UInt64, false));
    columns.push(signature_column());
    columns
}

/// Two documents.
pub(super) fn pair_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["a", "b"])
}

/// One document.
pub(super) fn single_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["a"])
}

/// The tables of a stage, and which of its rows go into each.
pub(crate) type StageTables = Vec<(AnyTable, TableRows)>;

/// A table that a stage writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyTable {
    Public(Table),
    Work(WorkTable),
}

impl From<Table> for AnyTable {
    fn from(table: Table) -> Self {
        AnyTable::Public(table)
    }
}

impl From<WorkTable> for AnyTable {
    fn from(table: WorkTable) -> Self {
        AnyTable::Work(table)
    }
}

impl AnyTable {
    /// Its name, which is also the name of its folder.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            AnyTable::Public(table) => table.name().into(),
            AnyTable::Work(table) => table.name(),
        }
    }

    /// Its columns for a job over a source of these types.
    pub(super) fn schema(self, job: &Job, source: &SourceTypes) -> SchemaRef {
        match self {
            AnyTable::Public(table) => schema::contract(table).over(source, job.columns()).arrow_schema(),
            AnyTable::Work(table) => table.schema(job, source),
        }
    }
}

impl fmt::Display for AnyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// The target of a table for the writer node.
pub(super) fn target(table: AnyTable, rows: TableRows, job: &Job, source: &SourceTypes) -> TableTarget {
    let carried = if matches!(table, AnyTable::Public(Table::Documents)) { source.columns.len() } else { 0 };
    let (name, schema) = (table.name(), table.schema(job, source));
    TableTarget { folder: Layout::table(&name), table: name.into_owned(), rows, schema, carried }
}

/// Slices of the comparison of all pairs, for each thread: enough that none waits long at the end.
const SLICES_PER_THREAD: usize = 16;

/// (slice, slices), a row and a batch for each slice, spread over as many partitions as there are threads.
pub(crate) fn slices(session: &SessionContext) -> Result<DataFrame> {
    let threads = session.state().config().target_partitions();
    let slices = (threads * SLICES_PER_THREAD) as u64;
    let column = |name| Field::new(name, DataType::UInt64, false);
    let schema = Arc::new(Schema::new(vec![column("slice"), column("slices")]));
    let mut partitions = vec![Vec::new(); threads];
    for slice in 0..slices {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(vec![slice])), Arc::new(UInt64Array::from(vec![slices]))];
        partitions[slice as usize % threads].push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?)
}

/// The columns of scored pairs.
pub(super) fn score_columns(_source: &SourceTypes) -> Vec<Field> {
    columns_of(&crate::operator::scorer::schema())
}
