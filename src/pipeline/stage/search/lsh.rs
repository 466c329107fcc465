//! `candidates.method = "lsh"`: documents that share a bucket, and the stages that pair the documents of hot buckets.

use datafusion::prelude::{DataFrame, col};

use super::prefix::{by_prefixes, check_pairs, dense};
use crate::frames::copies::without_copies;
use crate::frames::mark::mark;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::{Operator, apply};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::stage::frequencies::OF_HOT;
use crate::pipeline::stage::interface::{
    AnyTable, CandidateSearch, Planned, Result, Stage, StageContext, StagePlan, WorkTable, frames, not_null,
    null,
};
use crate::pipeline::stage::texts::{HOT_POSITIONS, HOT_SKETCHES};
use crate::pipeline::stage::{agreeing, dense_candidates, pair_limit};
use crate::pipeline::tables::{pair_columns, single_columns};

/// Finds documents that share a bucket.
pub(super) static LSH: CandidateSearch = CandidateSearch {
    describe_candidates: |job| {
        format!(
            "pair documents that share one of {} buckets of {} rows (in a bucket of more than {} documents, those \
             that share one of their rarest shingles{})",
            job.lsh.bands,
            job.lsh.rows,
            job.lsh.hot_bucket,
            dense(job)
        )
    },
    check: |_| Box::pin(async { Ok(()) }),
    candidates: StagePlan::Now(by_buckets),
    follow_ups: |cx| Box::pin(follow_ups(cx)),
    scores: None,
    may_match: |cx, documents| {
        Box::pin(async move {
            let keys = cx.table(WorkTable::KEYS)?;
            frames::may_match::by_buckets(documents, keys, cx.rows(WorkTable::KEYS), &cx.job.lsh)
        })
    },
};

/// The stages that find the pairs of hot buckets.
async fn follow_ups(cx: &StageContext<'_>) -> Result<Vec<&'static Stage>> {
    if cx.rows(WorkTable::HOT) == 0 {
        // Every pair is a candidate.
        pair_limit::check_pairs(cx, None, cx.rows(WorkTable::CANDIDATES)).await?;
        return Ok(Vec::new());
    }
    check_pairs(cx, Some(WorkTable::HOT)).await?;
    Ok(match AllSketches::of(cx.job) {
        AllSketches::Nowhere => vec![&HOT_POSITIONS, &HOT_SKETCHES, &OF_HOT, &ALL_CANDIDATES],
        _ => vec![&OF_HOT, &ALL_CANDIDATES],
    })
}

/// (doc, buckets: `List<UInt64>`), (rep, doc, size) -> distinct (a: UInt64, b: UInt64), a < b, and for each document of
/// a bucket of more than `hot` documents one row (doc, null).
///
/// Only one document of each group of copies is paired, its representative. Only keys of 8 bytes are sorted and joined,
/// and a bucket of one document is dropped before any pair is made. The pairs of hot buckets, whose number is
/// quadratic, are not made: the similar ones are found by [`crate::frames::prefix`].
///
/// Two of the reference documents `reference` (doc, ..) are never a pair.
///
/// # Errors
/// When a frame lacks its columns.
pub fn candidates(
    keys: DataFrame,
    copies: DataFrame,
    hot: u64,
    reference: Option<DataFrame>,
) -> Result<DataFrame> {
    let mut rows = without_copies(keys.select(vec![col("doc"), col("buckets")])?, copies)?;
    let mut columns = vec![col("buckets").alias("bucket"), col("doc")];
    if let Some(reference) = reference {
        rows = mark(rows, reference)?;
        columns.push(col("reference"));
    }
    let rows = rows.unnest_columns(&["buckets"])?.select(columns)?;
    Ok(apply(Operator::BucketPairs(PairRule::All { hot }), vec![rows])?.distinct()?)
}

/// Bytes of a row (bucket, document), and of one (document, document).
const BYTES_OF_ROW: u64 = 16;

/// Pairs documents by their buckets.
fn by_buckets<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let lsh = &cx.job.lsh;
    let buckets = vec![col("doc"), col("buckets")];
    let mut keys = cx.table(WorkTable::KEYS)?.select(buckets.clone())?;
    if let Some(reference) = cx.reference_documents()? {
        keys = keys.union(frames::bands::bands(reference, lsh)?.select(buckets)?)?;
    }
    let (copies, reference) = (cx.table(WorkTable::COPIES)?, cx.reference_docs()?);
    let frame = by_group::compared(cx, candidates(keys, copies, lsh.hot_bucket, reference)?)?;
    let documents = cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE);
    Ok(Planned::new(documents * lsh.bands as u64 * BYTES_OF_ROW, vec![frame]))
}

impl WorkTable {
    /// Candidates, and those of hot buckets.
    pub(crate) const ALL_CANDIDATES: Self = Self::new("all_candidates", pair_columns);
    /// Documents of dense buckets, where hot documents are joined.
    pub(crate) const DENSE: Self = Self::new("dense", single_columns);
}

/// Pairs documents of hot buckets by their rarest shingles.
static ALL_CANDIDATES: Stage = Stage::new(
    AnyTable::Work(WorkTable::ALL_CANDIDATES),
    |_| "pair documents of hot buckets that share one of their rarest shingles".into(),
    |_| true,
    StagePlan::Later(|cx| Box::pin(by_prefixes(cx, Some(WorkTable::CANDIDATES)))),
)
.with_tables(|_| vec![not_null(WorkTable::ALL_CANDIDATES, "b"), null(WorkTable::DENSE, "b")])
.then(|cx| {
    Box::pin(async move {
        dense_candidates::settle(cx).await?;
        agreeing::follow_ups(cx).await
    })
});
