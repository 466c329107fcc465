//! positions: the positions of the texts of documents in candidates.

use std::borrow::Cow;

use async_trait::async_trait;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{WorkTable, position_columns};

/// Finds the texts of candidates.
pub(crate) struct Positions;

impl WorkTable {
    /// The positions of the texts of documents in candidates.
    pub(crate) const POSITIONS: Self = Self::new("positions", position_columns);
}

impl Writes for Positions {
    fn name(&self) -> Cow<'static, str> {
        "positions".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "find the texts of candidates".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::POSITIONS)
    }
}

#[async_trait]
impl Stage for Positions {
    fn is_in(&self, job: &Job) -> bool {
        job.compares() && AllSketches::of(job) == AllSketches::Nowhere
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let wanted = cx.wanted_of_candidates()?;
        cx.find(self, &wanted).await
    }
}
