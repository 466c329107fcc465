//! group_sizes, frequent: the shingles that too many documents have.

use arrow::datatypes::Field;
use datafusion::prelude::DataFrame;

use super::duplicates::first_of_each_id;
use super::interface::{
    AnyTable, Error, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, WorkTable, frames,
};
use crate::frames::frequent::{SAMPLE, sampled, with_group};
use crate::job::{Limit, LimitSize, Reference};
use crate::pipeline::tables::numbers;
use crate::schema::carried;

impl WorkTable {
    /// The number of documents of each group.
    pub(crate) const GROUP_SIZES: Self = Self::new("group_sizes", |_| numbers(["group_key", "documents"]));
    /// The frequent shingles.
    pub(crate) const FREQUENT: Self = Self::new("frequent", frequent);
}

fn frequent(_source: &SourceTypes) -> Vec<Field> {
    numbers(["shingle", "documents", "of_documents", "doc"])
}

/// Whether the shingles of the job's documents are counted. With reference outputs, the frequent ones are known.
pub(super) fn counts_shingles(job: &Job) -> bool {
    job.max_frequency.is_some()
        && job.reads_texts()
        && !matches!(job.reference(), Some(Reference::Outputs { .. }))
}

/// The limit by which the reader draws the sample; `None` if groups have samples of their own, or the source is a share of its rows.
fn limit(job: &Job) -> Option<Limit> {
    match (&job.source.group, job.source.limit) {
        (Some(_), _) | (None, Some(Limit { size: LimitSize::Percent(_), .. })) => None,
        (None, None) => Some(Limit { size: LimitSize::Documents(SAMPLE), seed: 0 }),
        // The sample of fewer documents by the same seed is a part of the sample of more.
        (None, Some(Limit { size: LimitSize::Documents(most), seed })) => {
            Some(Limit { size: LimitSize::Documents(most.min(SAMPLE)), seed })
        }
    }
}

/// The documents with their groups.
fn grouped(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    with_group(first_of_each_id(cx, documents)?, cx.group_column().as_deref())
}

/// Counts the documents of each group, to draw a sample of them.
pub(super) static GROUP_SIZES: Stage = Stage::new(
    AnyTable::Work(WorkTable::GROUP_SIZES),
    |_| "count the documents of each group".into(),
    |job| counts_shingles(job) && limit(job).is_none(),
    StagePlan::Now(|cx| {
        let sizes = frames::frequent::group_sizes(grouped(cx, cx.documents.clone())?)?;
        Ok(Planned::new(0, vec![sizes]))
    }),
);

/// Counts shingles in a sample of the documents.
pub(super) static FREQUENT: Stage = Stage::new(
    AnyTable::Work(WorkTable::FREQUENT),
    |_| "find the shingles that too many documents of a sample have".into(),
    counts_shingles,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let job = cx.job;
            let share = job.max_frequency.ok_or_else(|| Error::bug("all shingles of the job count"))?;
            let sample = match limit(job) {
                Some(limit) => grouped(cx, cx.input.sample(cx.session(), job, limit).await?)?,
                None => sampled(grouped(cx, cx.documents.clone())?, cx.table(WorkTable::GROUP_SIZES)?)?,
            };
            let frequent = frames::frequent::frequent(sample, &job.shingle, share)?;
            Ok(Planned::new(cx.bytes_of_files(), vec![frequent]))
        })
    }),
);

impl StageContext<'_> {
    /// The carried column with the groups of documents, if they have any.
    pub(super) fn group_column(&self) -> Option<String> {
        let group = self.job.source.group.as_ref()?;
        self.types.columns.iter().position(|column| column.name == *group).map(carried)
    }
}
