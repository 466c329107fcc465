//! passages: the passages that repeat inside documents, with a sample of each.

use datafusion::prelude::col;

use super::interface::{Planned, Stage, StagePlan};
use crate::frames;
use crate::pipeline::by_group;
use crate::pipeline::tables::{AnyTable, WorkTable};
use crate::schema::Table;

/// Bytes of a row of spans in memory.
pub(super) const BYTES_OF_SPAN: u64 = 128;

/// Counts passages, and reads a sample of each.
pub(super) static PASSAGES: Stage = Stage::new(
    AnyTable::Public(Table::Passages),
    |_| "count the passages, and read the samples".into(),
    |job| job.passages.is_some(),
    StagePlan::Later(|cx| {
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
    }),
);
