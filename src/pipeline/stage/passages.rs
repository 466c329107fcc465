//! passage_positions, passages: the passages that repeat inside documents, with a sample of each.

use datafusion::prelude::col;
use futures::future::BoxFuture;

use super::interface::{OneTable, Stage};
use super::spans::Spans;
use crate::error::Result;
use crate::frames;
use crate::job::Job;
use crate::pipeline::by_group;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{AnyTable, WorkTable, position_columns};
use crate::schema::Table;

/// Finds the texts that have the samples.
pub(crate) struct PassagePositions;

/// Counts passages, and reads a sample of each.
pub(crate) struct Passages;

impl WorkTable {
    /// The positions of the texts that have a sample of a passage.
    pub(crate) const PASSAGE_POSITIONS: Self = Self::new("passage_positions", position_columns);
}

/// Bytes of a row of spans in memory.
const BYTES_OF_SPAN: u64 = 128;

impl OneTable for PassagePositions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::PASSAGE_POSITIONS);
    const WHAT: &'static str = "find the texts with a sample of each passage";
}

impl Stage for PassagePositions {
    fn is_in(&self, job: &Job) -> bool {
        Spans.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let samples = frames::spans::samples(cx.table(Table::Spans)?)?;
            let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN;
            cx.run(self, bytes, vec![frames::spans::positions(samples)?]).await
        })
    }
}

impl OneTable for Passages {
    const TABLE: AnyTable = AnyTable::Public(Table::Passages);
    const WHAT: &'static str = "count the passages, and read the samples";
}

impl Stage for Passages {
    fn is_in(&self, job: &Job) -> bool {
        Spans.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let groups = match cx.job.has_groups() {
                true => Some(by_group::own(cx)?.select(vec![col("id"), col("group")])?),
                false => None,
            };
            let groups = match (groups, cx.own_uncompared().await?) {
                (Some(groups), Some(others)) => {
                    Some(groups.union(others.select(vec![col("id"), col("group")])?)?)
                }
                (groups, _) => groups,
            };
            let texts = cx.own_texts_at(WorkTable::PASSAGE_POSITIONS).await?;
            let passages = frames::spans::passages(cx.table(Table::Spans)?, texts, groups)?;
            let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN + cx.bytes_of_files();
            cx.run(self, bytes, vec![passages]).await
        })
    }
}
