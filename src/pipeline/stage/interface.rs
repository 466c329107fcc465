//! The interface of a stage, and constants for the memory of rows.

use std::borrow::Cow;

use datafusion::prelude::DataFrame;
pub(super) use futures::future::BoxFuture;

pub(super) use crate::error::{Error, Result};
use crate::frames::renamed;
pub(super) use crate::job::Job;
use crate::output::write::TableRows;
pub(super) use crate::pipeline::context::StageContext;
pub(super) use crate::pipeline::runner::Planned;
pub(super) use crate::pipeline::sketches::BoundedRows;
pub(super) use crate::pipeline::tables::{AllSketches, AnyTable, StageTables, WorkColumns, WorkTable};
pub(super) use crate::schema::Table;

/// A step of a run. The tables of a stage are published together. A resumed run does not repeat a published stage.
pub(crate) struct Stage {
    /// The first table that the stage writes. Its name is also the name of the stage.
    table: AnyTable,
    description: fn(&Job) -> String,
    pub(super) is_in: fn(&Job) -> bool,
    plan: StagePlan,
    /// The tables that the stage writes, and the rows for each table. `None` if all rows go to `table`.
    tables: Option<fn(&Job) -> StageTables>,
    /// Checks the tables, including tables that an earlier attempt wrote. Returns the stages that the rows of these tables make
    /// necessary.
    then: Option<Then>,
}

/// Makes a function of an async closure. The future is boxed, so that the compiler does not have to prove for every stage that its future is
/// `Send`.
macro_rules! boxed {
    (|$($argument:tt),*| $body:expr) => { |$($argument),*| Box::pin(async move { $body }) };
}
pub(super) use boxed;

/// Plans the rows of a stage: see [`boxed!`].
pub(super) type StagePlan = for<'a, 'b> fn(&'a StageContext<'b>) -> BoxFuture<'a, Result<Planned<'a>>>;

pub(super) type Then = for<'a, 'b> fn(&'a StageContext<'b>) -> BoxFuture<'a, Result<Vec<&'static Stage>>>;

/// The stages of a candidate method.
pub(super) struct CandidateSearch {
    /// The description of the stage that `plan` plans.
    pub(super) describe: fn(&Job) -> String,
    /// Ends a run that would find too many pairs, before the search.
    pub(super) check: for<'a, 'b> fn(&'a StageContext<'b>) -> BoxFuture<'a, Result<()>>,
    /// Plans the tables of the stage `candidates`, or of the stage `scores` if the method has no candidates.
    ///
    /// Candidates are distinct rows (a, b), a < b. Only the representative of each group of copies is paired. Two reference documents must
    /// not be a pair, which no later stage checks. A row (a, null) marks a document that `follow_ups` pairs.
    ///
    /// The stage `candidates` drops pairs by `candidates.compare`, and the stage `scores` drops pairs by `against.pairs`. A plan of scores
    /// must omit these pairs itself, as in `verify::every_two`.
    pub(super) plan: StagePlan,
    /// Returns the stages that run after `candidates`, before candidates are dropped by their signatures.
    pub(super) follow_ups: Then,
    /// Adds the column `may_match` to reference documents: whether the document may match new documents.
    pub(super) may_match: for<'a, 'b> fn(&'a StageContext<'b>, DataFrame) -> BoxFuture<'a, Result<DataFrame>>,
}

impl Stage {
    pub(super) const fn work(
        table: WorkTable,
        description: fn(&Job) -> String,
        is_in: fn(&Job) -> bool,
        plan: StagePlan,
    ) -> Self {
        Self { table: AnyTable::Work(table), description, is_in, plan, tables: None, then: None }
    }

    pub(super) const fn public(
        table: Table,
        description: fn(&Job) -> String,
        is_in: fn(&Job) -> bool,
        plan: StagePlan,
    ) -> Self {
        Self { table: AnyTable::Public(table), description, is_in, plan, tables: None, then: None }
    }

    /// Sets the tables of a stage that writes several tables.
    pub(super) const fn with_tables(self, tables: fn(&Job) -> StageTables) -> Self {
        Self { tables: Some(tables), ..self }
    }

    /// Sets the check that runs after the tables are written: see the field `then`.
    pub(super) const fn then(self, then: Then) -> Self {
        Self { then: Some(then), ..self }
    }

    /// The name in logs, records and file names.
    pub(crate) fn name(&self) -> Cow<'static, str> {
        self.table.name()
    }

    pub(crate) fn describe(&self, job: &Job) -> String {
        (self.description)(job)
    }

    pub(crate) fn tables(&self, job: &Job) -> StageTables {
        self.tables.map_or_else(|| vec![(self.table, TableRows::All)], |tables| tables(job))
    }

    /// Writes the tables, or takes over the tables that an earlier attempt wrote. Returns the stages that run next.
    pub(in crate::pipeline) async fn run(&self, cx: &StageContext<'_>) -> Result<Vec<&'static Stage>> {
        let planned =
            if cx.is_done(self.table).await? { Planned::new(0, Vec::new()) } else { (self.plan)(cx).await? };
        cx.write(&self.name(), self.tables(cx.job), planned).await?;
        match self.then {
            Some(then) => then(cx).await,
            None => Ok(Vec::new()),
        }
    }
}

/// The number of bytes in a row (document, representative, rank).
pub(super) const BYTES_OF_KEY: u64 = 24;

/// The number of bytes in a row (root, two ranks, similarity).
pub(super) const BYTES_OF_EDGE: u64 = 32;

/// The number of bytes in a row with a document's id. Ids are assumed to be short.
pub(super) const BYTES_OF_MEMBER: u64 = 64;

/// Writes the rows with a null in `column` to `table`.
pub(super) fn null(table: impl Into<AnyTable>, column: &str) -> (AnyTable, TableRows) {
    (table.into(), TableRows::Null(column.into()))
}

/// Writes the rows without a null in `column` to `table`.
pub(super) fn not_null(table: impl Into<AnyTable>, column: &str) -> (AnyTable, TableRows) {
    (table.into(), TableRows::NotNull(column.into()))
}

/// Returns (needed): the documents in the column `name` of a table.
pub(super) fn needed(cx: &StageContext<'_>, table: WorkTable, name: &str) -> Result<BoundedRows> {
    let BoundedRows { frame, count } = BoundedRows::read(cx, table)?;
    Ok(BoundedRows { frame: frame.select(renamed([(name, "needed")]))?, count })
}
