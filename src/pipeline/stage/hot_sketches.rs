//! hot_sketches: the sketches of documents in hot buckets, which are read several times.

use super::interface::{AnyTable, Planned, TableStage, WorkTable};
use crate::pipeline::tables::sketch_columns;

impl WorkTable {
    /// The sketches of documents in hot buckets.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", sketch_columns);
}

/// Cuts the texts of hot buckets again.
pub(super) static HOT_SKETCHES: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::HOT_SKETCHES),
    what: "cut the shingles of those texts again",
    is_in: |_| true,
    plan: |cx| {
        Box::pin(async move {
            let sketches = cx.cut(cx.wanted_of_hot()?).await?;
            Ok(Planned::new(0, vec![sketches]))
        })
    },
};
