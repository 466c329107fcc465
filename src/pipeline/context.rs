use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::prelude::{DataFrame, SessionContext};
use tokio::sync::OnceCell;

use super::input::RunInput;
use super::parts;
use super::reference::ReferenceDocuments;
use super::reference::chain::Chain;
use super::reference::outputs::ReferenceOutputs;
use super::runner::{Planned, Runner, StageWork};
use super::tables::{AnyTable, StageTables, WorkTable};
use crate::engine::Engine;
use crate::error::Result;
use crate::frames::clusters::Founders;
use crate::frames::columns;
use crate::frames::prefix::Join;
use crate::job::Job;
use crate::output::manifest::File;
use crate::output::read;
use crate::output::write::TableRows;
use crate::schema::{SourceTypes, Table};

pub(crate) struct StageContext<'a> {
    pub(super) runner: Runner<'a>,
    pub(super) job: &'a Job,
    /// The types that the source's columns have in tables.
    pub(super) types: SourceTypes,
    /// A sentence about files of the source with other columns than its first file.
    pub(super) warning: Option<String>,
    pub(super) input: &'a RunInput,
    pub(super) reference: Option<&'a ReferenceDocuments>,
    /// The documents of the source, including documents that repeat an earlier document's id.
    pub(super) documents: DataFrame,
    /// The prefix join of the documents, computed once.
    pub(super) join: OnceCell<Join>,
    /// The average number of bytes in a sketch, computed once.
    pub(super) bytes_of_sketch: OnceCell<u64>,
}

impl<'a> StageContext<'a> {
    pub(super) fn session(&self) -> &'a SessionContext {
        self.runner.engine.session()
    }

    pub(super) fn engine(&self) -> &'a dyn Engine {
        self.runner.engine
    }

    pub(super) fn table(&self, table: impl Into<AnyTable>) -> Result<DataFrame> {
        let table = table.into();
        let frame = self.stored(table, table.schema(self.job, &self.types))?;
        match table {
            AnyTable::Public(public) => read::unsigned(frame, public),
            AnyTable::Work(_) => Ok(frame),
        }
    }

    /// Reads strings as views, which need no copies. Views must not be exchanged: each part of a batch would hold the strings of all parts.
    pub(super) fn with_views(&self, table: Table) -> Result<DataFrame> {
        let view = |field: &FieldRef| match field.data_type() {
            DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
            _ => Arc::clone(field),
        };
        let fields =
            AnyTable::from(table).schema(self.job, &self.types).fields().iter().map(view).collect::<Vec<_>>();
        self.stored(table.into(), Arc::new(Schema::new(fields)))
    }

    fn stored(&self, table: AnyTable, schema: SchemaRef) -> Result<DataFrame> {
        read::frame(self.session(), self.runner.output, &self.files(table), schema)
    }

    pub(super) fn files(&self, table: impl Into<AnyTable>) -> Vec<File> {
        self.runner.files(&table.into().name())
    }

    pub(super) fn rows(&self, table: impl Into<AnyTable>) -> u64 {
        self.runner.rows(&table.into().name())
    }

    /// The number of bytes in a table's files.
    pub(super) fn bytes(&self, table: impl Into<AnyTable>) -> u64 {
        self.files(table).iter().map(|file| file.bytes).sum()
    }

    pub(super) fn is_taken(&self, table: WorkTable) -> bool {
        self.runner.is_taken(&table.name())
    }

    /// Whether an earlier attempt finished the stage of the table. Then the stage needs no preparation.
    pub(super) async fn is_done(&self, table: impl Into<AnyTable>) -> Result<bool> {
        Ok(self.runner.find(&table.into().name()).await?.is_some())
    }

    /// Runs a stage that writes `table`. The lists in [`super::stage`] lack this stage, because the data decides whether it is needed.
    pub(super) async fn run_further(&self, table: WorkTable, rows: Planned<'_>) -> Result<()> {
        self.runner.expect(1);
        self.write(&table.name(), vec![(table.into(), TableRows::All)], rows).await
    }

    /// Writes rows into the `tables` of the stage `name`, or takes over the tables that an earlier attempt wrote.
    pub(super) async fn write(&self, name: &str, tables: StageTables, rows: Planned<'_>) -> Result<()> {
        let tables = tables.into_iter();
        let targets = tables.map(|(table, rows)| table.target(rows, self.job, &self.types)).collect();
        self.runner.run(StageWork { name, targets, sorted_by: &[], rows }).await
    }

    pub(super) fn source_parts(&self) -> usize {
        parts::count(&self.input.files())
    }

    /// The number of bytes in the files from which texts are read.
    pub(super) fn source_bytes(&self) -> u64 {
        self.input.files().iter().map(|file| file.bytes).sum()
    }

    pub(super) fn reference_outputs(&self) -> Option<&'a ReferenceOutputs> {
        self.reference.and_then(ReferenceDocuments::outputs)
    }

    /// The reference documents that may match new documents, if the job has reference documents.
    pub(super) fn reference_documents(&self) -> Result<Option<DataFrame>> {
        self.reference.map(|_| self.table(WorkTable::REFERENCE)).transpose()
    }

    /// The keys (doc) of [`Self::reference_documents`].
    pub(super) fn reference_docs(&self) -> Result<Option<DataFrame>> {
        Ok(self.reference_documents()?.map(|known| known.select(columns(["doc"]))).transpose()?)
    }

    /// The founders of the clusters in reference outputs or in merged outputs. `None` if there is no such output.
    pub(super) async fn founders(&self) -> Result<Option<Founders>> {
        match self.reference_outputs() {
            Some(outputs) => outputs.founders(self).await.map(Some),
            None => self.input.merged().map(Chain::founders_of_merged).transpose(),
        }
    }

    /// The frequent shingles (shingle, ..), which comparisons ignore. `None` if all shingles are compared.
    pub(super) fn frequent(&self) -> Result<Option<DataFrame>> {
        if self.job.max_frequency.is_none() {
            return Ok(None);
        }
        let known = match self.reference_outputs() {
            Some(outputs) => outputs.chain.frequent_shingles()?,
            None => self.input.frequent_shingles()?,
        };
        known.map_or_else(|| self.table(WorkTable::FREQUENT), Ok).map(Some)
    }
}
