//! The tables of a run: it reads those of finished stages, and writes further ones.

use datafusion::prelude::{DataFrame, SessionContext};

use super::runner::{Planned, Runner, StageWork};
use super::tables::{AnyTable, StageTables, WorkTable, target};
use crate::engine::Engine;
use crate::error::Result;
use crate::job::Job;
use crate::output::manifest::File;
use crate::output::read;
use crate::output::write::TableRows;
use crate::schema::SourceTypes;

/// The tables of a run.
pub(crate) struct RunTables<'a> {
    pub(super) runner: Runner<'a>,
    pub(super) job: &'a Job,
    /// The types that the source gives to the tables' columns.
    pub(super) types: SourceTypes,
}

impl<'a> RunTables<'a> {
    /// The session that plans the stages.
    pub(super) fn session(&self) -> &'a SessionContext {
        self.runner.engine.session()
    }

    pub(super) fn engine(&self) -> &'a dyn Engine {
        self.runner.engine
    }

    /// Bytes that the operators of a task may reserve together.
    pub(super) fn task_bytes(&self) -> usize {
        self.runner.engine.task_bytes()
    }

    /// The table as a frame, with unsigned numbers.
    pub(super) fn table(&self, table: impl Into<AnyTable>) -> Result<DataFrame> {
        let table = table.into();
        let frame = self.stored(table)?;
        match table {
            AnyTable::Public(public) => read::unsigned(frame, public),
            AnyTable::Work(_) => Ok(frame),
        }
    }

    /// The table as a frame, with its numbers signed as in the files.
    pub(super) fn stored(&self, table: impl Into<AnyTable>) -> Result<DataFrame> {
        let table = table.into();
        let schema = table.schema(self.job, &self.types);
        read::frame(self.session(), self.runner.output, &self.files(table), schema)
    }

    /// The files of a table.
    pub(super) fn files(&self, table: impl Into<AnyTable>) -> Vec<File> {
        self.runner.files(&table.into().name())
    }

    /// The rows of a table.
    pub(super) fn rows(&self, table: impl Into<AnyTable>) -> u64 {
        self.runner.rows(&table.into().name())
    }

    /// The bytes of a table's files.
    pub(super) fn bytes(&self, table: impl Into<AnyTable>) -> u64 {
        self.files(table).iter().map(|file| file.bytes).sum()
    }

    /// Whether this run has finished the stage of the table.
    pub(super) fn is_taken(&self, table: WorkTable) -> bool {
        self.runner.is_taken(&table.name())
    }

    /// Whether an earlier attempt finished the stage of the table, so that nothing has to be prepared for it.
    pub(super) async fn is_done(&self, table: impl Into<AnyTable>) -> Result<bool> {
        self.runner.is_done(&table.into().name()).await
    }

    /// Runs the stage of a table that was not on the list of the job, because only the data show that it is needed.
    pub(super) async fn run_further(&self, table: WorkTable, rows: Planned<'_>) -> Result<()> {
        self.runner.expect(1);
        self.write(&table.name(), vec![(table.into(), TableRows::All)], rows).await
    }

    /// Writes rows into the `tables` of the stage `name`, or takes over those that an earlier attempt wrote.
    pub(super) async fn write(&self, name: &str, tables: StageTables, rows: Planned<'_>) -> Result<()> {
        let tables = tables.into_iter();
        let targets = tables.map(|(table, rows)| target(table, rows, self.job, &self.types)).collect();
        self.runner.run(StageWork { name, targets, sorted_by: &[], rows }).await
    }
}
