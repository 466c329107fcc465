//! `candidates.method = "lsh"`: documents that share a bucket, and the stages that pair the documents of hot buckets.

use std::borrow::Cow;

use datafusion::prelude::{DataFrame, col};

use super::prefix::{by_prefixes, dense};
use crate::frames::copies::without_copies;
use crate::frames::mark::mark;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::{Operator, apply};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::stage::agreeing::Agreeing;
use crate::pipeline::stage::frequencies::OF_HOT;
use crate::pipeline::stage::interface::{
    AnyTable, BoxFuture, CandidateSearch, Job, Planned, Result, Stage, StageContext, TableStage, Tables,
    WorkTable, Writes, frames, not_null, null,
};
use crate::pipeline::stage::pair_limit;
use crate::pipeline::tables::{pair_columns, position_columns, single_columns, sketch_columns};
use crate::pipeline::verify::signatures_first;

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
    candidates: |cx, stage| Box::pin(by_buckets(cx, stage)),
    follow_ups: |cx| match (cx.rows(WorkTable::HOT), AllSketches::of(cx.job)) {
        (0, _) => Vec::new(),
        (_, AllSketches::Nowhere) => vec![&HOT_POSITIONS, &HOT_SKETCHES, &OF_HOT, &AllCandidates],
        _ => vec![&OF_HOT, &AllCandidates],
    },
    scores: None,
    may_match: |cx, documents| {
        Box::pin(async move {
            let keys = cx.table(WorkTable::KEYS)?;
            frames::may_match::by_buckets(documents, keys, cx.rows(WorkTable::KEYS), &cx.job.lsh)
        })
    },
};

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
async fn by_buckets(cx: &StageContext<'_>, stage: &dyn Writes) -> Result<()> {
    let lsh = &cx.job.lsh;
    let buckets = vec![col("doc"), col("buckets")];
    let mut keys = cx.table(WorkTable::KEYS)?.select(buckets.clone())?;
    if let Some(reference) = cx.reference_documents()? {
        keys = keys.union(frames::bands::bands(reference, lsh)?.select(buckets)?)?;
    }
    let (copies, reference) = (cx.table(WorkTable::COPIES)?, cx.reference_docs()?);
    let frame = by_group::compared(cx, candidates(keys, copies, lsh.hot_bucket, reference)?)?;
    let documents = cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE);
    cx.run(stage, documents * lsh.bands as u64 * BYTES_OF_ROW, vec![frame]).await?;
    if cx.rows(WorkTable::HOT) > 0 {
        return Ok(());
    }
    // Every pair is a candidate.
    pair_limit::check_pairs(cx, None, cx.rows(WorkTable::CANDIDATES)).await
}

/// Pairs documents of hot buckets by their rarest shingles.
struct AllCandidates;

/// Finds the texts of documents of hot buckets.
static HOT_POSITIONS: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::HOT_POSITIONS),
    what: "find the texts of hot buckets",
    is_in: |_| true,
    plan: |cx| {
        Box::pin(async move {
            let wanted = cx.wanted_of_hot()?;
            cx.find(&wanted)
        })
    },
};

/// Cuts the texts of hot buckets again: their sketches are read several times.
static HOT_SKETCHES: TableStage = TableStage {
    table: AnyTable::Work(WorkTable::HOT_SKETCHES),
    what: "cut the shingles of those texts again",
    is_in: |_| true,
    plan: |cx| {
        Box::pin(async move {
            let sketches = cx.cut(cx.wanted_of_hot()?).await?;
            Ok(Planned::new(0, vec![sketches]))
        })
    },
};

impl WorkTable {
    /// The positions of the texts of documents in hot buckets.
    pub(crate) const HOT_POSITIONS: Self = Self::new("hot_positions", position_columns);
    /// The sketches of documents in hot buckets.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", sketch_columns);
    /// Candidates, and those of hot buckets.
    pub(crate) const ALL_CANDIDATES: Self = Self::new("all_candidates", pair_columns);
    /// Documents of dense buckets, where hot documents are joined.
    pub(crate) const DENSE: Self = Self::new("dense", single_columns);
}

impl Writes for AllCandidates {
    fn name(&self) -> Cow<'static, str> {
        "all_candidates".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "pair documents of hot buckets that share one of their rarest shingles".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        vec![not_null(WorkTable::ALL_CANDIDATES, "b"), null(WorkTable::DENSE, "b")]
    }
}

impl Stage for AllCandidates {
    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { by_prefixes(self, cx, Some(WorkTable::CANDIDATES)).await })
    }

    fn follow_ups<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move {
            Ok(signatures_first(cx).await?.then_some(&Agreeing as &dyn Stage).into_iter().collect())
        })
    }
}
