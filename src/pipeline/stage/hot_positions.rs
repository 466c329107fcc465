//! hot_positions: the positions of the texts of documents in hot buckets.

use std::borrow::Cow;

use async_trait::async_trait;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, position_columns};

/// Finds the texts of documents of hot buckets.
pub(crate) struct HotPositions;

impl WorkTable {
    /// The positions of the texts of documents in hot buckets.
    pub(crate) const HOT_POSITIONS: Self = Self::new("hot_positions", position_columns);
}

impl Writes for HotPositions {
    fn name(&self) -> Cow<'static, str> {
        "hot_positions".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "find the texts of hot buckets".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::HOT_POSITIONS)
    }
}

#[async_trait]
impl Stage for HotPositions {
    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let wanted = cx.wanted_of_hot()?;
        cx.find(self, &wanted).await
    }
}
