//! spans: the passages that repeat, and the occurrence of each that stays.

use futures::future::BoxFuture;

use super::interface::{OneTable, Stage};
use super::units::{BYTES_OF_UNIT, in_order};
use super::word_runs;
use crate::error::Result;
use crate::job::{Job, Passages};
use crate::pipeline::context::StageContext;
use crate::pipeline::frames;
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
            if cx.is_done(self).await? {
                return cx.take_over(self).await;
            }
            let spans = match cx.job.passages {
                Some(Passages::Words { length, gap }) => word_runs::spans(cx, length, gap).await?,
                Some(Passages::Units { .. }) | None => {
                    let (units, order) = (cx.table(WorkTable::UNITS)?, cx.job.clusters.order());
                    frames::spans::spans(units, in_order(cx)?, &order)?
                }
            };
            let rows = cx.rows(WorkTable::UNITS) + cx.rows(WorkTable::REPEATED_WINDOWS);
            cx.run(self, rows * BYTES_OF_UNIT, vec![spans]).await
        })
    }
}
