//! hot_positions: the positions of the texts of documents in hot buckets.

use super::interface::{AnyTable, BoxFuture, OneTable, Result, Stage, StageContext, WorkTable};
use crate::pipeline::tables::position_columns;

/// Finds the texts of documents of hot buckets.
pub(crate) struct HotPositions;

impl WorkTable {
    /// The positions of the texts of documents in hot buckets.
    pub(crate) const HOT_POSITIONS: Self = Self::new("hot_positions", position_columns);
}

impl OneTable for HotPositions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::HOT_POSITIONS);
    const WHAT: &'static str = "find the texts of hot buckets";
}

impl Stage for HotPositions {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wanted = cx.wanted_of_hot()?;
            cx.find(self, &wanted).await
        })
    }
}
