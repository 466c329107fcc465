//! spans: the passages that repeat, and the occurrence of each that stays.

use futures::future::BoxFuture;

use super::interface::{OneTable, Stage};
use super::units::BYTES_OF_UNIT;
use super::word_runs;
use crate::error::Result;
use crate::frames;
use crate::job::{Job, Passages};
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{AnyTable, WorkTable};
use crate::schema::Table;

/// Finds the passages that repeat, and keeps one of each.
pub(crate) struct Spans;

impl OneTable for Spans {
    const TABLE: AnyTable = AnyTable::Public(Table::Spans);
    const WHAT: &'static str = "find the passages that repeat";
}

impl Stage for Spans {
    fn is_in(&self, job: &Job) -> bool {
        job.passages.is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let spans = match cx.job.passages {
                Some(Passages::Words { length, gap }) => word_runs::spans(cx, length, gap).await?,
                Some(Passages::Units { .. }) | None => {
                    let rows = cx.searched(cx.table(WorkTable::UNITS)?, WorkTable::REFERENCE_UNITS)?;
                    frames::spans::spans(rows, cx.in_turn().await?, &cx.job.clusters.order())?
                }
            };
            let tables = [WorkTable::UNITS, WorkTable::REFERENCE_UNITS, WorkTable::REPEATED_WINDOWS];
            let rows: u64 = tables.into_iter().map(|table| cx.rows(table)).sum();
            cx.run(self, rows * BYTES_OF_UNIT, vec![spans]).await
        })
    }
}
