//! shingle_counts, suspects, frequent: the shingles that too many documents have.

use arrow::datatypes::{DataType, Field};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, col};

use super::duplicates::first_of_each_id;
use super::interface::{
    AnyTable, BoxFuture, Job, OneTable, Result, SourceTypes, Stage, StageContext, WorkTable, frames,
};
use super::supposed::{self, counts_shingles, is_sampled, is_supposed, share};
use crate::operator::shingle_counts;
use crate::pipeline::numbers::one_number;
use crate::pipeline::tables::{columns_of, numbers};
use crate::schema::carried;

/// Counts shingles, never too few.
pub(crate) struct ShingleCounts;

/// Counts those exactly that may be frequent.
pub(crate) struct Suspects;

/// Finds those that are.
pub(crate) struct Frequent;

impl WorkTable {
    /// How often shingles occur, at most.
    pub(crate) const SHINGLE_COUNTS: Self =
        Self::new("shingle_counts", |_| columns_of(&shingle_counts::schema()));
    /// How many documents have the shingles that may be frequent.
    pub(crate) const SUSPECTS: Self = Self::new("suspects", suspects);
    /// The frequent shingles.
    pub(crate) const FREQUENT: Self = Self::new("frequent", frequent);
}

/// Bytes of a row of suspects in memory.
const BYTES_OF_SUSPECT: u64 = 64;

fn group_column() -> Field {
    Field::new("group", DataType::Utf8, true)
}

fn suspects(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["group_key"]);
    columns.extend([group_column(), Field::new("shingle", DataType::UInt64, true)]);
    columns.extend(numbers(["documents", "doc"]));
    columns
}

fn frequent(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["shingle", "documents", "of_documents"]);
    columns.extend([group_column(), Field::new("doc", DataType::UInt64, false)]);
    columns
}

/// The sets of the documents, with all of their shingles.
fn sets(cx: &StageContext<'_>) -> Result<DataFrame> {
    let documents = first_of_each_id(cx, cx.documents.clone())?;
    let group = cx.job.source.group.as_ref();
    let at = group.and_then(|group| cx.types.columns.iter().position(|column| column.name == *group));
    frames::frequent::sets(documents, &cx.job.shingle, at.map(carried).as_deref())
}

impl OneTable for ShingleCounts {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::SHINGLE_COUNTS);
    const WHAT: &'static str = "read the texts and count their shingles, with counters that many share";
}

impl Stage for ShingleCounts {
    fn is_in(&self, job: &Job) -> bool {
        counts_shingles(job) && !is_sampled(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let counts = frames::frequent::counts(sets(cx)?, frames::frequent::bits(share(cx.job)?))?;
            cx.run(self, 0, vec![counts]).await
        })
    }
}

impl OneTable for Suspects {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::SUSPECTS);
    const WHAT: &'static str = "read the texts again and count the shingles that may be frequent";
}

impl Stage for Suspects {
    fn is_in(&self, job: &Job) -> bool {
        ShingleCounts.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (counts, share) = (cx.table(WorkTable::SHINGLE_COUNTS)?, share(cx.job)?);
            let documents =
                counts.clone().aggregate(vec![], vec![sum(col("documents")).alias("documents")])?;
            let over = match &cx.job.source.group {
                None => frames::frequent::limit(share, one_number(documents).await?),
                // A group may have few documents.
                Some(_) => frames::frequent::MIN_DOCUMENTS,
            };
            let bits = frames::frequent::bits(share);
            let suspects = frames::frequent::suspects(sets(cx)?, counts, bits, over)?;
            cx.run(self, cx.bytes_of_files(), vec![suspects]).await
        })
    }
}

impl OneTable for Frequent {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::FREQUENT);
    const WHAT: &'static str = "find the shingles that too many documents have";
}

impl Stage for Frequent {
    fn is_in(&self, job: &Job) -> bool {
        counts_shingles(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (frequent, rows) = match is_supposed(cx) {
                true => (supposed::frequent(cx).await?, cx.rows(WorkTable::TALLIES)),
                false => {
                    let suspects = cx.table(WorkTable::SUSPECTS)?;
                    (frames::frequent::frequent(suspects, share(cx.job)?)?, cx.rows(WorkTable::SUSPECTS))
                }
            };
            cx.run(self, rows * BYTES_OF_SUSPECT, vec![frequent]).await
        })
    }
}
