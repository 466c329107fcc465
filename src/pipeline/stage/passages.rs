//! passage_positions, passages: the passages that repeat inside documents, with a sample of each.

use datafusion::prelude::col;

use super::interface::{Planned, TableStage};
use super::spans::SPANS;
use crate::frames;
use crate::pipeline::by_group;
use crate::pipeline::tables::{AnyTable, WorkTable, position_columns};
use crate::schema::Table;

impl WorkTable {
    /// The positions of the texts that have a sample of a passage.
    pub(crate) const PASSAGE_POSITIONS: Self = Self::new("passage_positions", position_columns);
}

/// Bytes of a row of spans in memory.
const BYTES_OF_SPAN: u64 = 128;

/// Finds the texts that have the samples.
pub(super) static PASSAGE_POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::PASSAGE_POSITIONS),
    what: "find the texts with a sample of each passage",
    is_in: |job| (SPANS.is_in)(job),
    plan: |cx| {
        Box::pin(async move {
            let samples = frames::spans::samples(cx.table(Table::Spans)?)?;
            let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN;
            Ok(Planned::new(bytes, vec![frames::spans::positions(samples)?]))
        })
    },
};

/// Counts passages, and reads a sample of each.
pub(super) static PASSAGES: TableStage = TableStage {
    table: AnyTable::Public(Table::Passages),
    what: "count the passages, and read the samples",
    is_in: |job| (SPANS.is_in)(job),
    plan: |cx| {
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
            Ok(Planned::new(bytes, vec![passages]))
        })
    },
};
