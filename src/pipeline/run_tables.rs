//! The tables of a run: it reads those of finished stages, and writes further ones.

use datafusion::prelude::{DataFrame, SessionContext};

use super::runner::{Place, Planned, Runner, Work};
use super::tables::{AnyTable, target};
use super::writes::Writes;
use crate::engine::Engine;
use crate::error::Result;
use crate::job::Job;
use crate::output::manifest::File;
use crate::output::read;
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

    /// Whether this run has finished the stage.
    pub(super) fn is_taken(&self, stage: &dyn Writes) -> bool {
        self.runner.is_taken(&stage.name())
    }

    /// Whether an earlier attempt finished the stage, so that nothing has to be prepared for it.
    pub(super) async fn is_done(&self, stage: &dyn Writes) -> Result<bool> {
        self.runner.is_done(&stage.name()).await
    }

    /// Writes the rows of `frames`, which shuffle about `bytes`, into the tables of `stage`.
    pub(super) async fn run(&self, stage: &dyn Writes, bytes: u64, frames: Vec<DataFrame>) -> Result<()> {
        self.run_made(stage, bytes, |_| Ok(frames.clone())).await
    }

    /// Takes over a stage that an earlier attempt finished: see [`Self::is_done`].
    pub(super) async fn take_over(&self, stage: &dyn Writes) -> Result<()> {
        self.run(stage, 0, Vec::new()).await
    }

    /// Runs a stage that was not on the list of the job, because only the data show that it is needed.
    pub(super) async fn run_further(
        &self,
        stage: &dyn Writes,
        bytes: u64,
        frames: Vec<DataFrame>,
    ) -> Result<()> {
        self.runner.expect(1);
        self.run(stage, bytes, frames).await
    }

    /// As [`Self::run`], with frames that are made for a number of partitions. Their rows are the same for any number.
    pub(super) async fn run_made(
        &self,
        stage: &dyn Writes,
        bytes: u64,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>>,
    ) -> Result<()> {
        let name = stage.name();
        self.runner.run(Work { bytes, ..self.work(stage, &name) }, frames).await
    }

    /// Writes the rows of `planned` into the tables of `stage`.
    pub(super) async fn run_planned(&self, stage: &dyn Writes, planned: Planned) -> Result<()> {
        let Planned { frames, bytes, batch_rows, parts, place } = planned;
        let name = stage.name();
        let work = Work { bytes, batch_rows, parts, place, ..self.work(stage, &name) };
        self.runner.run(work, |_| Ok(frames.clone())).await
    }

    fn work<'w>(&self, stage: &dyn Writes, name: &'w str) -> Work<'w> {
        let tables = stage.tables(self.job).into_iter();
        let targets = tables.map(|(table, rows)| target(table, rows, self.job, &self.types)).collect();
        Work { name, targets, bytes: 0, batch_rows: None, parts: 0, sorted_by: &[], place: Place::Engine }
    }
}
