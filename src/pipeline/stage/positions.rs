//! positions: the positions of the texts of documents in candidates.

use super::interface::{AnyTable, TableStage, WorkTable};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::tables::position_columns;

impl WorkTable {
    /// The positions of the texts of documents in candidates.
    pub(crate) const POSITIONS: Self = Self::new("positions", position_columns);
}

/// Finds the texts of candidates.
pub(super) static POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::POSITIONS),
    what: "find the texts of candidates",
    is_in: |job| job.compares() && AllSketches::of(job) == AllSketches::Nowhere,
    plan: |cx| {
        Box::pin(async move {
            let wanted = cx.wanted_of_candidates()?;
            cx.find(&wanted)
        })
    },
};
