//! sample: every two documents of a sample, compared to estimate how many pairs there are.

use std::borrow::Cow;

use datafusion::prelude::DataFrame;

use super::interface::{Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::frames;
use crate::pipeline::sketches::TextsToCut;
use crate::pipeline::tables::{WorkTable, position_columns, score_columns};
use crate::pipeline::verify::every_two;

/// Finds the texts of a sample.
struct SamplePositions;

/// Compares every two documents of a sample.
pub(crate) struct Sample;

/// Compares every two of the documents with the keys `needed` (needed).
pub(crate) async fn compare(cx: &StageContext<'_>, needed: DataFrame) -> Result<()> {
    let documents = match cx.stored_sketches()? {
        Some(stored) => frames::sketches::among(stored, needed)?,
        None => {
            let wanted = TextsToCut { table: WorkTable::SAMPLE_POSITIONS, needed, bytes: 0 };
            cx.runner.expect(1);
            cx.find(&SamplePositions, &wanted).await?;
            cx.cut(wanted).await?
        }
    };
    let pairs = match cx.is_done(&Sample).await? {
        true => Vec::new(),
        false => every_two(cx, documents).await?,
    };
    cx.run_further(&Sample, 0, pairs).await
}

impl WorkTable {
    /// The positions of the texts of a sample.
    pub(crate) const SAMPLE_POSITIONS: Self = Self::new("sample_positions", position_columns);
    /// Pairs of a sample that reach the threshold.
    pub(crate) const SAMPLE: Self = Self::new("sample", score_columns);
}

impl Writes for SamplePositions {
    fn name(&self) -> Cow<'static, str> {
        "sample_positions".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "find the texts of a sample".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::SAMPLE_POSITIONS)
    }
}

impl Writes for Sample {
    fn name(&self) -> Cow<'static, str> {
        "sample".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "estimate how many pairs there are".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::SAMPLE)
    }
}
