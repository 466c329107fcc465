//! frequent_shingles: the shingles that do not count, each with its words.

use datafusion::prelude::col;

use super::frequent::counts_shingles;
use super::interface::{AnyTable, Error, Planned, Stage, StagePlan, Table, WorkTable, frames};
use super::texts::BYTES_OF_SHINGLE;

/// Reads the words of the frequent shingles.
pub(super) static FREQUENT_SHINGLES: Stage = Stage::new(
    AnyTable::Public(Table::FrequentShingles),
    |_| "write the frequent shingles with their words".into(),
    |job| job.max_frequency.is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            if !counts_shingles(cx.job) {
                let kept = cx.frequent()?.ok_or_else(|| Error::bug("the output has no frequent shingles"))?;
                return Ok(Planned::new(0, vec![kept]));
            }
            let texts = cx.own_texts_at(WorkTable::FREQUENT_POSITIONS).await?;
            let group = frames::by_group::group(cx.group_column().as_deref());
            let texts = texts.select(vec![col("doc"), col("text"), group])?;
            let frame =
                frames::frequent::with_samples(cx.table(WorkTable::FREQUENT)?, texts, &cx.job.shingle)?;
            Ok(Planned::new(cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE, vec![frame]))
        })
    }),
);
