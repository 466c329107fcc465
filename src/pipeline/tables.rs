//! The tables of a run. Public tables have contracts, and work tables pass rows between stages.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::job::{Bits, Input, Job, ShingleHash};
use crate::output::Layout;
use crate::output::write::{TableRows, TableTarget};
use crate::schema::{self, SourceTypes, Table};

/// A table between stages. The run removes it at its end. The file of the stage that writes a work table defines its name and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkTable {
    name: &'static str,
    round: Option<u32>,
    columns: &'static [WorkColumns],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum WorkColumns {
    /// UInt64.
    Numbers(&'static [&'static str]),
    /// Float64.
    Floats(&'static [&'static str]),
    /// Boolean.
    Flag(&'static str),
    /// Utf8.
    Text(&'static str),
    /// LargeUtf8.
    LongText(&'static str),
    /// Lists of UInt64.
    NumberList(&'static str),
    /// Lists of LargeUtf8.
    TextList(&'static str),
    /// The column `id`, with the type of ids in the source.
    Id,
    /// The column `signature`: see [`signature_type`].
    Signature,
    /// The carried columns of the source.
    Carried,
    Operator(fn() -> SchemaRef),
    /// Columns with nulls.
    Nullable(&'static WorkColumns),
}

impl WorkColumns {
    fn fields(&self, job: &Job, source: &SourceTypes) -> Vec<Field> {
        let typed = |names: &[&'static str], kind: DataType| {
            names.iter().map(|name| Field::new(*name, kind.clone(), false)).collect()
        };
        match *self {
            Self::Numbers(names) => typed(names, DataType::UInt64),
            Self::Floats(names) => typed(names, DataType::Float64),
            Self::Flag(name) => typed(&[name], DataType::Boolean),
            Self::Text(name) => typed(&[name], DataType::Utf8),
            Self::LongText(name) => typed(&[name], DataType::LargeUtf8),
            Self::NumberList(name) => typed(&[name], DataType::new_list(DataType::UInt64, true)),
            Self::TextList(name) => typed(&[name], DataType::new_list(DataType::LargeUtf8, true)),
            Self::Id => typed(&["id"], source.id.arrow()),
            Self::Signature => typed(&["signature"], signature_type(job)),
            Self::Carried => {
                let columns = source.columns.iter().enumerate();
                columns.map(|(at, of)| Field::new(schema::carried(at), of.data_type.clone(), true)).collect()
            }
            Self::Operator(schema) => schema().fields().iter().map(|field| field.as_ref().clone()).collect(),
            Self::Nullable(columns) => {
                columns.fields(job, source).into_iter().map(|field| field.with_nullable(true)).collect()
            }
        }
    }
}

impl WorkTable {
    pub(super) const fn new(name: &'static str, columns: &'static [WorkColumns]) -> Self {
        Self { name, round: None, columns }
    }

    pub(super) const fn round(self, round: u32) -> Self {
        Self { round: Some(round), ..self }
    }

    pub(super) fn name(self) -> Cow<'static, str> {
        match self.round {
            Some(round) => format!("{}_{round}", self.name).into(),
            None => self.name.into(),
        }
    }

    /// The schema for `job` and a source with these types.
    pub(crate) fn schema(self, job: &Job, source: &SourceTypes) -> SchemaRef {
        let fields = self.columns.iter().flat_map(|columns| columns.fields(job, source));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

pub(super) const SKETCH_COLUMNS: &[WorkColumns] = &[
    WorkColumns::Numbers(&["doc", "shingle_count"]),
    WorkColumns::NumberList("shingles"),
    WorkColumns::Signature,
];

/// The positions of texts. `origin` is the number of a reference document's source, or null for a new document.
pub(super) const POSITION_COLUMNS: &[WorkColumns] = &[
    WorkColumns::Text("source"),
    WorkColumns::Numbers(&["position"]),
    WorkColumns::Nullable(&WorkColumns::Numbers(&["origin"])),
];

pub(super) const PAIR_COLUMNS: &[WorkColumns] = &[WorkColumns::Numbers(&["a", "b"])];

pub(super) fn signature_type(job: &Job) -> DataType {
    match job.minhash.bits {
        Bits::Of16 => DataType::Binary,
        Bits::Of32 => DataType::new_list(DataType::UInt32, true),
    }
}

/// The place where the stages of a job find the sketches of all documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllSketches {
    InDocuments,
    InSketches,
    InOutput,
    /// Nowhere. The needed texts are read again.
    Nowhere,
}

impl AllSketches {
    pub(super) fn new(job: &Job) -> Self {
        let all_are_needed =
            !job.candidates.method.uses_buckets() || job.shingle.hash == ShingleHash::Dictionary;
        if job.output.keep.shingles() {
            AllSketches::InDocuments
        } else if matches!(&job.input, Input::Reuse(reuse) if reuse.keeps_shingles) {
            AllSketches::InOutput
        } else if all_are_needed && job.compares() {
            AllSketches::InSketches
        } else {
            AllSketches::Nowhere
        }
    }
}

pub(crate) type StageTables = Vec<(AnyTable, TableRows)>;

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
    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            AnyTable::Public(table) => table.name().into(),
            AnyTable::Work(table) => table.name(),
        }
    }

    pub(super) fn schema(self, job: &Job, source: &SourceTypes) -> SchemaRef {
        match self {
            AnyTable::Public(table) => schema::contract(table).over(source, job.columns()).arrow_schema(),
            AnyTable::Work(table) => table.schema(job, source),
        }
    }

    /// The rows of this table that the writer node writes.
    pub(super) fn target(self, rows: TableRows, job: &Job, source: &SourceTypes) -> TableTarget {
        let carried =
            if matches!(self, AnyTable::Public(Table::Documents)) { source.columns.len() } else { 0 };
        let (name, schema) = (self.name(), self.schema(job, source));
        TableTarget { folder: Layout::table(&name), table: name.into_owned(), rows, schema, carried }
    }
}
