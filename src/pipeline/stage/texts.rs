//! text_positions, texts: the texts of documents in pairs, read again for their passages.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::col;

use super::interface::{AnyTable, Planned, SourceTypes, TableStage, WorkTable};
use crate::pipeline::tables::position_columns;

impl WorkTable {
    /// The positions of the texts of documents in pairs.
    pub(crate) const TEXT_POSITIONS: Self = Self::new("text_positions", position_columns);
    /// Those texts.
    pub(crate) const TEXTS: Self = Self::new("texts", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    vec![
        Field::new("doc", DataType::UInt64, false),
        Field::new("text", DataType::LargeUtf8, false),
        Field::new("bytes", DataType::UInt64, false),
    ]
}

/// Finds the texts of documents in pairs.
pub(super) static TEXT_POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::TEXT_POSITIONS),
    what: "find the texts of pairs",
    is_in: |job| job.output.pair_passages,
    plan: |cx| {
        Box::pin(async move {
            let needed = cx.table(WorkTable::MEMBERS)?.select(vec![col("doc").alias("needed")])?;
            cx.find_texts(needed)
        })
    },
};

/// Reads them.
pub(super) static TEXTS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::TEXTS),
    what: "read them again",
    is_in: |job| (TEXT_POSITIONS.is_in)(job),
    plan: |cx| Box::pin(async move { Ok(Planned::new(0, cx.texts().await?)) }),
};
