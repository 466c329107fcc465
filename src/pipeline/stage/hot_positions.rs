//! hot_positions: the positions of the texts of documents in hot buckets.

use super::interface::{AnyTable, TableStage, WorkTable};
use crate::pipeline::tables::position_columns;

impl WorkTable {
    /// The positions of the texts of documents in hot buckets.
    pub(crate) const HOT_POSITIONS: Self = Self::new("hot_positions", position_columns);
}

/// Finds the texts of documents of hot buckets.
pub(super) static HOT_POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::HOT_POSITIONS),
    what: "find the texts of hot buckets",
    is_in: |_| true,
    plan: |cx| {
        Box::pin(async move {
            let wanted = cx.wanted_of_hot()?;
            cx.find(&wanted)
        })
    },
};
