//! The interface of a stage, and the names that most stages are written with.

use std::borrow::Cow;

use datafusion::prelude::DataFrame;
pub(super) use futures::future::BoxFuture;

pub(super) use crate::error::{Error, Result};
pub(super) use crate::frames;
pub(super) use crate::job::Job;
use crate::output::write::Rows;
pub(super) use crate::pipeline::context::StageContext;
pub(super) use crate::pipeline::runner::{Place, Planned};
pub(super) use crate::pipeline::tables::{AnyTable, WorkTable};
pub(super) use crate::pipeline::writes::{Tables, Writes};
pub(super) use crate::schema::{SourceTypes, Table};

/// A part of a run. The tables that it writes are published together, and a run that resumes does not repeat it.
///
/// Its functions return a boxed future and are not `async_trait`s: among the bounds which that adds, the compiler proves
/// again for every stage that a plan can be sent, and needs two seconds for it.
pub(crate) trait Stage: Writes {
    /// Whether the list of `job` has it.
    fn is_in(&self, _job: &Job) -> bool {
        true
    }

    /// Whether a run that resumes calls [`Self::run`] although an earlier attempt wrote the tables: for what it checks or runs
    /// besides.
    fn runs_again(&self) -> bool {
        false
    }

    /// Writes its tables. A run that resumes takes over those of an earlier attempt instead.
    ///
    /// # Errors
    /// By kind: the data do not fit the job, storage fails, or the run was stopped.
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>>;

    /// The stages that its rows make necessary: they run next.
    ///
    /// # Errors
    /// As [`Self::run`].
    fn follow_ups<'a>(&'a self, _cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move { Ok(Vec::new()) })
    }
}

/// The stages of a candidate method.
pub(super) struct CandidateSearch {
    /// The description of the stage `candidates`, which methods without candidates lack.
    pub(super) describe_candidates: fn(&Job) -> String,
    /// Writes the tables of the stage `candidates`.
    pub(super) candidates: for<'a, 'b> fn(&'a StageContext<'b>, &'a dyn Writes) -> BoxFuture<'a, Result<()>>,
    /// The stages between `candidates` and the removal of candidates by their signatures.
    pub(super) follow_ups: fn(&StageContext<'_>) -> Vec<&'static dyn Stage>,
    /// The stage `scores` of a method without candidates.
    pub(super) scores: Option<ScoresWithoutCandidates>,
    /// Adds the column `may_match` to reference documents: whether they may match new ones.
    pub(super) may_match: for<'a, 'b> fn(&'a StageContext<'b>, DataFrame) -> BoxFuture<'a, Result<DataFrame>>,
}

/// The stage `scores` of a method without candidates: its description, and how it writes its tables.
pub(super) struct ScoresWithoutCandidates {
    pub(super) describe: fn(&Job) -> String,
    pub(super) run: for<'a, 'b> fn(&'a StageContext<'b>, &'a dyn Writes) -> BoxFuture<'a, Result<()>>,
}

impl CandidateSearch {
    /// A method without candidates that writes scores as `scores` does. All reference documents `may_match`, or none.
    pub(super) const fn without_candidates(
        scores: ScoresWithoutCandidates,
        may_match: for<'a, 'b> fn(&'a StageContext<'b>, DataFrame) -> BoxFuture<'a, Result<DataFrame>>,
    ) -> Self {
        Self {
            describe_candidates: |_| String::new(),
            candidates: |_, _| Box::pin(async { Ok(()) }),
            follow_ups: |_| Vec::new(),
            scores: Some(scores),
            may_match,
        }
    }
}

/// A stage that writes all of its rows into one table, whose name it has.
pub(crate) struct TableStage {
    pub(super) table: AnyTable,
    /// The description of the stage, in one line.
    pub(super) what: &'static str,
    pub(super) is_in: fn(&Job) -> bool,
    pub(super) plan: for<'a, 'b> fn(&'a StageContext<'b>) -> BoxFuture<'a, Result<Planned>>,
}

impl Writes for TableStage {
    fn name(&self) -> Cow<'static, str> {
        self.table.name()
    }

    fn describe(&self, _job: &Job) -> String {
        self.what.into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(self.table)
    }
}

impl Stage for TableStage {
    fn is_in(&self, job: &Job) -> bool {
        (self.is_in)(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { cx.run_planned(self, (self.plan)(cx).await?).await })
    }
}

/// Bytes of a row (document, representative, rank).
pub(super) const BYTES_OF_KEY: u64 = 24;

/// Bytes of a row (root, two ranks, similarity).
pub(super) const BYTES_OF_EDGE: u64 = 32;

/// Bytes of a row that has a document's id too, which is short.
pub(super) const BYTES_OF_MEMBER: u64 = 64;

/// All rows go into one table.
pub(super) fn all(table: impl Into<AnyTable>) -> Tables {
    vec![(table.into(), Rows::All)]
}

/// The rows in which `column` is null.
pub(super) fn null(table: impl Into<AnyTable>, column: &str) -> (AnyTable, Rows) {
    (table.into(), Rows::Null(column.into()))
}

/// The rows in which `column` is not null.
pub(super) fn not_null(table: impl Into<AnyTable>, column: &str) -> (AnyTable, Rows) {
    (table.into(), Rows::NotNull(column.into()))
}
