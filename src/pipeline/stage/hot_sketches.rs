//! hot_sketches: the sketches of documents in hot buckets, which are read several times.

use super::interface::{AnyTable, BoxFuture, OneTable, Result, Stage, StageContext, WorkTable};
use crate::pipeline::tables::sketch_columns;

/// Cuts the texts of hot buckets again.
pub(crate) struct HotSketches;

impl WorkTable {
    /// The sketches of documents in hot buckets.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", sketch_columns);
}

impl OneTable for HotSketches {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::HOT_SKETCHES);
    const WHAT: &'static str = "cut the shingles of those texts again";
}

impl Stage for HotSketches {
    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let sketches = cx.cut(cx.wanted_of_hot()?).await?;
            cx.run(self, 0, vec![sketches]).await
        })
    }
}
