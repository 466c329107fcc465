//! What a sample shows about frequent shingles, and whether the documents showed the same.

use arrow::datatypes::{DataType, Field};
use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::DataFrame;

use crate::error::{Error, Result};
use crate::frames;
use crate::frames::supposed::{Shown, Supposition};
use crate::job::{Job, Reference};
use crate::pipeline::context::StageContext;
use crate::pipeline::numbers::rows_of;
use crate::pipeline::tables::{WorkTable, position_columns};
use crate::schema::SourceTypes;

impl WorkTable {
    /// The shingles of the sample that are not rare.
    pub(crate) const SHINGLE_SAMPLE: Self = Self::new("shingle_sample", sampled);
    /// How often shingles occur in all documents: see [`crate::operator::tally`].
    pub(crate) const TALLIES: Self = Self::new("tallies", tallies);
    /// The positions of documents with a shingle that is in doubt.
    pub(crate) const DOUBTFUL: Self = Self::new("doubtful", position_columns);
}

fn sampled(_source: &SourceTypes) -> Vec<Field> {
    let number = |name, nullable| Field::new(name, DataType::UInt64, nullable);
    vec![number("shingle", true), number("documents", false), number("least", true), number("missed", true)]
}

fn tallies(source: &SourceTypes) -> Vec<Field> {
    let mut columns = sampled(source);
    columns.push(Field::new("first_doc", DataType::UInt64, true));
    columns
}

/// Whether the shingles of the job's documents are counted. With reference outputs, those that are frequent are known.
pub(super) fn counts_shingles(job: &Job) -> bool {
    job.max_frequency.is_some()
        && job.reads_texts()
        && !matches!(job.reference(), Some(Reference::Outputs { .. }))
}

/// Whether a sample is read first. In a group few documents may make a shingle frequent.
pub(super) fn is_sampled(job: &Job) -> bool {
    counts_shingles(job) && job.source.group.is_none() && job.source.limit.is_none()
}

pub(super) fn share(job: &Job) -> Result<f64> {
    job.max_frequency.ok_or_else(|| Error::bug("all shingles of the job count"))
}

/// What is supposed by the sample; `None` if it is too small for that.
pub(super) async fn supposition(cx: &StageContext<'_>) -> Result<Option<Supposition>> {
    let sample = shown_by(cx.table(WorkTable::SHINGLE_SAMPLE)?).await?;
    Ok(Supposition::by(share(cx.job)?, sample.documents, sample.missed))
}

/// The supposed shingles (shingle, frequent).
pub(super) fn supposed(cx: &StageContext<'_>, by: Supposition) -> Result<DataFrame> {
    frames::supposed::supposed(cx.table(WorkTable::SHINGLE_SAMPLE)?, by)
}

/// Those by which documents were sketched.
async fn were_supposed(cx: &StageContext<'_>) -> Result<DataFrame> {
    let by = supposition(cx).await?.ok_or_else(|| Error::bug("nothing is supposed"))?;
    supposed(cx, by)
}

/// Whether the tables of documents were written by what was supposed.
pub(super) fn is_supposed(cx: &StageContext<'_>) -> bool {
    cx.rows(WorkTable::TALLIES) > 0
}

/// What documents showed.
async fn shown_by(tallies: DataFrame) -> Result<Shown> {
    let mut sums = [0, 0];
    for batch in frames::supposed::shown(tallies)?.collect().await? {
        for (at, of) in sums.iter_mut().enumerate() {
            *of += as_uint64_array(batch.column(at))?.iter().flatten().sum::<u64>();
        }
    }
    let [documents, missed] = sums;
    Ok(Shown { documents, missed })
}

/// Whether what was supposed may be wrong.
pub(super) async fn is_wrong(cx: &StageContext<'_>) -> Result<bool> {
    let (tallies, share) = (cx.table(WorkTable::TALLIES)?, share(cx.job)?);
    let shown = shown_by(tallies.clone()).await?;
    if frames::supposed::misses_frequent(share, shown) {
        return Ok(true);
    }
    let supposed = were_supposed(cx).await?;
    Ok(rows_of(frames::supposed::wrong(tallies, supposed, share, shown)?).await? > 0)
}

/// The frequent shingles, as [`frames::frequent::frequent`] returns them, if what was supposed is right.
pub(super) async fn frequent(cx: &StageContext<'_>) -> Result<DataFrame> {
    let tallies = cx.table(WorkTable::TALLIES)?;
    let (shown, supposed) = (shown_by(tallies.clone()).await?, were_supposed(cx).await?);
    frames::supposed::frequent(tallies, supposed, share(cx.job)?, shown)
}
