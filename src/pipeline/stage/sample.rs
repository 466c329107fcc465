//! sample: every two documents of a sample, compared to estimate how many pairs there are.

use datafusion::prelude::DataFrame;

use super::interface::{Planned, Result, StageContext, WorkTable};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::sketches::SKETCH;
use crate::pipeline::tables::score_columns;
use crate::pipeline::verify::every_two;

/// Compares every two of the documents with the keys `needed` (needed).
pub(crate) async fn compare(cx: &StageContext<'_>, needed: DataFrame) -> Result<()> {
    let (at, known) = (WorkTable::SAMPLE_POSITIONS, cx.reference_documents()?);
    if AllSketches::of(cx.job) == AllSketches::Nowhere {
        cx.run_further(at, cx.find_uncut(needed.clone(), 0, known.clone())?).await?;
    }
    let pairs = match cx.is_done(WorkTable::SAMPLE).await? {
        true => Vec::new(),
        false => every_two(cx, cx.sketches(at, needed, known, &SKETCH).await?).await?,
    };
    cx.run_further(WorkTable::SAMPLE, Planned::new(0, pairs)).await
}

impl WorkTable {
    /// Pairs of a sample that reach the threshold.
    pub(crate) const SAMPLE: Self = Self::new("sample", score_columns);
}
