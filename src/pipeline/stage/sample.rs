//! sample: every two documents of a sample, compared to estimate how many pairs there are.

use datafusion::prelude::DataFrame;

use super::interface::{Result, StageContext, WorkTable, frames};
use crate::pipeline::sketches::TextsToCut;
use crate::pipeline::tables::{position_columns, score_columns};
use crate::pipeline::verify::every_two;

/// Compares every two of the documents with the keys `needed` (needed).
pub(crate) async fn compare(cx: &StageContext<'_>, needed: DataFrame) -> Result<()> {
    let documents = match cx.stored_sketches()? {
        Some(stored) => frames::sketches::among(stored, needed)?,
        None => {
            let wanted = TextsToCut { table: WorkTable::SAMPLE_POSITIONS, needed, bytes: 0 };
            cx.runner.expect(1);
            cx.run_planned(&WorkTable::SAMPLE_POSITIONS, cx.find(&wanted)?).await?;
            cx.cut(wanted).await?
        }
    };
    let pairs = match cx.is_done(&WorkTable::SAMPLE).await? {
        true => Vec::new(),
        false => every_two(cx, documents).await?,
    };
    cx.run_further(&WorkTable::SAMPLE, 0, pairs).await
}

impl WorkTable {
    /// The positions of the texts of a sample.
    pub(crate) const SAMPLE_POSITIONS: Self = Self::new("sample_positions", position_columns);
    /// Pairs of a sample that reach the threshold.
    pub(crate) const SAMPLE: Self = Self::new("sample", score_columns);
}
