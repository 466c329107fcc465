//! shingle_sample: which shingles may be frequent, by a sample of the documents.

use arrow::array::RecordBatch;
use datafusion::prelude::col;

use super::duplicates::first_of_each_id;
use super::interface::{
    AnyTable, BoxFuture, Error, Job, OneTable, Result, Stage, StageContext, WorkTable, frames,
};
use super::supposed::is_sampled;
use crate::frames::supposed::SHARE;
use crate::operator::tally;

/// Counts shingles in a sample of the documents.
pub(crate) struct ShingleSample;

/// Of smaller files no sample is read, and all shingles are counted.
const FEWEST_BYTES: u64 = 128 << 10;

impl OneTable for ShingleSample {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::SHINGLE_SAMPLE);
    const WHAT: &'static str = "read a sample of the texts and count their shingles";
}

impl Stage for ShingleSample {
    fn is_in(&self, job: &Job) -> bool {
        is_sampled(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let none = || cx.session().read_batch(RecordBatch::new_empty(tally::supposed_schema()));
            let documents = cx.input.sample(cx.session(), cx.job, SHARE).await?;
            let documents = documents.ok_or_else(|| Error::bug("there is no source to read texts from"))?;
            let sets = frames::frequent::sets(first_of_each_id(cx, documents)?, &cx.job.shingle, None)?;
            let sets = match cx.bytes_of_files() < FEWEST_BYTES {
                true => sets.limit(0, Some(0))?,
                false => sets,
            };
            let sampled =
                frames::supposed::sampled(sets.select(vec![col("doc"), col("shingles")])?, none()?)?;
            cx.run(self, 0, vec![sampled]).await
        })
    }
}
