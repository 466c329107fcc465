//! text_positions, texts: the texts of documents in pairs, read again for their passages.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::col;

use super::interface::{
    AnyTable, BoxFuture, Job, OneTable, Result, SourceTypes, Stage, StageContext, WorkTable,
};
use crate::pipeline::tables::position_columns;

/// Finds the texts of documents in pairs.
pub(crate) struct TextPositions;

/// Reads them.
pub(crate) struct Texts;

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

impl OneTable for TextPositions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::TEXT_POSITIONS);
    const WHAT: &'static str = "find the texts of pairs";
}

impl Stage for TextPositions {
    fn is_in(&self, job: &Job) -> bool {
        job.output.pair_passages
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let needed = cx.table(WorkTable::MEMBERS)?.select(vec![col("doc").alias("needed")])?;
            cx.find_texts(self, needed).await
        })
    }
}

impl OneTable for Texts {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::TEXTS);
    const WHAT: &'static str = "read them again";
}

impl Stage for Texts {
    fn is_in(&self, job: &Job) -> bool {
        TextPositions.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { cx.run(self, 0, cx.texts().await?).await })
    }
}
