//! text_positions, texts: the texts of documents in pairs, read again for their passages.

use std::borrow::Cow;

use arrow::datatypes::{DataType, Field};
use async_trait::async_trait;
use datafusion::prelude::col;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, position_columns};
use crate::schema::SourceTypes;

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

impl Writes for TextPositions {
    fn name(&self) -> Cow<'static, str> {
        "text_positions".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "find the texts of pairs".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::TEXT_POSITIONS)
    }
}

#[async_trait]
impl Stage for TextPositions {
    fn is_in(&self, job: &Job) -> bool {
        job.compares() && job.output.passages
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let needed = cx.table(WorkTable::MEMBERS)?.select(vec![col("doc").alias("needed")])?;
        cx.find_texts(self, needed).await
    }
}

impl Writes for Texts {
    fn name(&self) -> Cow<'static, str> {
        "texts".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "read them again".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::TEXTS)
    }
}

#[async_trait]
impl Stage for Texts {
    fn is_in(&self, job: &Job) -> bool {
        TextPositions.is_in(job)
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        match cx.is_done(self).await? {
            true => cx.take_over(self).await,
            false => cx.run(self, 0, cx.texts().await?).await,
        }
    }
}
