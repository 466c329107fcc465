//! Some places of a passage.

use arrow::array::RecordBatch;

/// Places of a passage.
#[derive(Debug, Default)]
pub struct Places {
    /// The first of them, with the columns of [`Passage::columns`](super::passage::Passage::columns).
    pub first: Vec<RecordBatch>,
    /// The number of all.
    pub all: u64,
}
