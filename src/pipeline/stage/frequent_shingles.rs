//! frequent_positions, frequent_shingles: the shingles that do not count, each with its words.

use datafusion::prelude::col;

use super::frequent::counts_shingles;
use super::interface::{AnyTable, Error, Planned, Table, TableStage, WorkTable, frames};
use crate::pipeline::tables::position_columns;

impl WorkTable {
    /// The positions of the texts that show the frequent shingles.
    pub(crate) const FREQUENT_POSITIONS: Self = Self::new("frequent_positions", position_columns);
}

/// Bytes of a row of a frequent shingle in memory, with its words.
const BYTES_OF_SHINGLE: u64 = 256;

/// Finds the texts that show the frequent shingles.
pub(super) static FREQUENT_POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::FREQUENT_POSITIONS),
    what: "find a text with each frequent shingle",
    is_in: |job| counts_shingles(job),
    plan: |cx| {
        Box::pin(async move {
            let (documents, rejects) = (cx.table(Table::Documents)?, cx.table(Table::Rejects)?);
            let frequent = cx.table(WorkTable::FREQUENT)?;
            let positions = frames::frequent::positions(frequent, documents, rejects)?;
            Ok(Planned::new(cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE, vec![positions]))
        })
    },
};

/// Reads the words of the frequent shingles.
pub(super) static FREQUENT_SHINGLES: TableStage = TableStage {
    table: AnyTable::Public(Table::FrequentShingles),
    what: "write the frequent shingles with their words",
    is_in: |job| job.max_frequency.is_some(),
    plan: |cx| {
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
    },
};
