//! hot_sketches: the sketches of documents in hot buckets, which are read several times.

use std::borrow::Cow;

use async_trait::async_trait;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, sketch_columns};

/// Cuts the texts of hot buckets again.
pub(crate) struct HotSketches;

impl WorkTable {
    /// The sketches of documents in hot buckets.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", sketch_columns);
}

impl Writes for HotSketches {
    fn name(&self) -> Cow<'static, str> {
        "hot_sketches".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "cut the shingles of those texts again".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::HOT_SKETCHES)
    }
}

#[async_trait]
impl Stage for HotSketches {
    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let sketches = cx.cut(cx.wanted_of_hot()?).await?;
        cx.run(self, 0, vec![sketches]).await
    }
}
