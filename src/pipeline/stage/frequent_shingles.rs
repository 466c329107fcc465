//! frequent_positions, frequent_shingles: the shingles that do not count, each with its words.

use datafusion::prelude::col;

use super::frequent::counts_shingles;
use super::interface::{
    AnyTable, BoxFuture, Error, Job, OneTable, Result, Stage, StageContext, Table, WorkTable, frames,
};
use crate::pipeline::tables::position_columns;

/// Finds the texts that show the frequent shingles.
pub(crate) struct FrequentPositions;

/// Reads the words of the frequent shingles.
pub(crate) struct FrequentShingles;

impl WorkTable {
    /// The positions of the texts that show the frequent shingles.
    pub(crate) const FREQUENT_POSITIONS: Self = Self::new("frequent_positions", position_columns);
}

/// Bytes of a row of a frequent shingle in memory, with its words.
const BYTES_OF_SHINGLE: u64 = 256;

impl OneTable for FrequentPositions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::FREQUENT_POSITIONS);
    const WHAT: &'static str = "find a text with each frequent shingle";
}

impl Stage for FrequentPositions {
    fn is_in(&self, job: &Job) -> bool {
        counts_shingles(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (documents, rejects) = (cx.table(Table::Documents)?, cx.table(Table::Rejects)?);
            let frequent = cx.table(WorkTable::FREQUENT)?;
            let positions = frames::frequent::positions(frequent, documents, rejects)?;
            cx.run(self, cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE, vec![positions]).await
        })
    }
}

impl OneTable for FrequentShingles {
    const TABLE: AnyTable = AnyTable::Public(Table::FrequentShingles);
    const WHAT: &'static str = "write the frequent shingles with their words";
}

impl Stage for FrequentShingles {
    fn is_in(&self, job: &Job) -> bool {
        job.max_frequency.is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if !counts_shingles(cx.job) {
                let kept = cx.frequent()?.ok_or_else(|| Error::bug("the output has no frequent shingles"))?;
                return cx.run(self, 0, vec![kept]).await;
            }
            let texts = cx.own_texts_at(WorkTable::FREQUENT_POSITIONS).await?;
            let group = frames::by_group::group(cx.group_column().as_deref());
            let texts = texts.select(vec![col("doc"), col("text"), group])?;
            let frame =
                frames::frequent::with_samples(cx.table(WorkTable::FREQUENT)?, texts, &cx.job.shingle)?;
            cx.run(self, cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE, vec![frame]).await
        })
    }
}
