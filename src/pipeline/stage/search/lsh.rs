//! `candidates.method = "lsh"`: finds documents that share a bucket. Further stages pair the documents in hot buckets.

use super::dense::settle;
use super::pair_limit;
use super::prefix::{HOT_FREQUENCIES, by_prefixes, check_pairs, describe_dense};
use crate::error::counts::counted;
use crate::frames::candidates::{candidates, may_match_by_buckets};
use crate::frames::columns;
use crate::frames::sketches::bands;
use crate::pipeline::sketches::{self, SKETCH};
use crate::pipeline::stage::interface::{
    AllSketches, CandidateSearch, Error, Planned, Result, Stage, StageContext, WorkTable, boxed, needed,
    not_null, null,
};
use crate::pipeline::tables::WorkColumns::Numbers;
use crate::pipeline::tables::{PAIR_COLUMNS, POSITION_COLUMNS, SKETCH_COLUMNS};
use crate::pipeline::verify::{agree, remaining_candidates, signatures_first};

impl WorkTable {
    const HOT_POSITIONS: Self = Self::new("hot_positions", POSITION_COLUMNS);
    /// The sketches of documents in hot buckets. Stored because they are read several times.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", SKETCH_COLUMNS);
    /// Candidates, including candidates from hot buckets.
    pub(crate) const ALL_CANDIDATES: Self = Self::new("all_candidates", PAIR_COLUMNS);
    /// The documents in dense buckets, if the prefix join compares only the documents in hot buckets.
    pub(crate) const DENSE: Self = Self::new("dense", &[Numbers(&["a"])]);
    /// Candidates whose signatures agree in at least the threshold's share of their values.
    pub(crate) const AGREEING: Self = Self::new("agreeing", PAIR_COLUMNS);
}

pub(super) static LSH: CandidateSearch = CandidateSearch {
    describe: |job| {
        format!(
            "pair documents that share a bucket of {} (in a bucket of more than {}, those that share one of their rarest \
             shingles{})",
            job.lsh.bands_of_rows(),
            counted(job.lsh.hot_bucket, "document"),
            describe_dense(job)
        )
    },
    check: boxed!(|_| Ok(())),
    plan: boxed!(|cx| by_buckets(cx)),
    follow_ups: |cx| Box::pin(follow_ups(cx)),
    may_match: boxed!(|cx, documents| {
        let keys = cx.table(WorkTable::KEYS)?;
        may_match_by_buckets(documents, keys, cx.rows(WorkTable::KEYS), &cx.job.lsh)
    }),
};

async fn follow_ups(cx: &StageContext<'_>) -> Result<Vec<&'static Stage>> {
    if cx.rows(WorkTable::HOT) == 0 {
        // Every scored pair is a candidate, so the number of candidates bounds the number of pairs.
        pair_limit::check_pairs(cx, None, cx.rows(WorkTable::CANDIDATES)).await?;
        return Ok(Vec::new());
    }
    check_pairs(cx, Some(WorkTable::HOT)).await?;
    Ok(match AllSketches::new(cx.job) {
        AllSketches::Nowhere => vec![&HOT_SKETCHES, &HOT_FREQUENCIES, &ALL_CANDIDATES],
        _ => vec![&HOT_FREQUENCIES, &ALL_CANDIDATES],
    })
}

const BYTES_OF_ROW: u64 = 16;

fn by_buckets<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let lsh = &cx.job.lsh;
    let buckets = || columns(["doc", "buckets"]);
    let mut keys = cx.table(WorkTable::KEYS)?.select(buckets())?;
    if let Some(reference) = cx.reference_documents()? {
        keys = keys.union(bands(reference, lsh)?.select(buckets())?)?;
    }
    let (copies, reference) = (cx.table(WorkTable::COPIES)?, cx.reference_docs()?);
    let frame = candidates(keys, copies, lsh.hot_bucket, reference)?;
    let documents = cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE);
    Ok(Planned::new(documents * lsh.bands as u64 * BYTES_OF_ROW, vec![frame]))
}

/// Computes the shingles of the texts in hot buckets again.
static HOT_SKETCHES: Stage = Stage::work(
    WorkTable::HOT_SKETCHES,
    |_| "cut the texts of hot buckets again".into(),
    |_| true,
    boxed!(|cx| {
        let (at, known) = (WorkTable::HOT_POSITIONS, cx.reference_documents()?);
        let found = sketches::sketches(cx, at, needed(cx, WorkTable::HOT, "a")?, known, &SKETCH).await?;
        Ok(Planned::new(0, vec![found]))
    }),
);

static ALL_CANDIDATES: Stage = Stage::work(
    WorkTable::ALL_CANDIDATES,
    |_| "pair documents of hot buckets that share one of their rarest shingles".into(),
    |_| true,
    |cx| Box::pin(by_prefixes(cx, Some(WorkTable::CANDIDATES))),
)
.with_tables(|_| vec![not_null(WorkTable::ALL_CANDIDATES, "b"), null(WorkTable::DENSE, "b")])
.then(boxed!(|cx| {
    settle(cx).await?;
    drop_disagreeing(cx).await
}));

/// Returns the stage that drops candidates by their signatures, if this is cheaper than scoring all candidates.
pub(in crate::pipeline::stage) async fn drop_disagreeing(
    cx: &StageContext<'_>,
) -> Result<Vec<&'static Stage>> {
    Ok(if signatures_first(cx).await? { vec![&AGREEING] } else { Vec::new() })
}

static AGREEING: Stage = Stage::work(
    WorkTable::AGREEING,
    |job| format!("drop candidates whose signatures agree in less than {}", job.score.threshold),
    |_| true,
    boxed!(|cx| match sketches::signatures(cx)? {
        Some(signatures) => agree(cx, signatures, remaining_candidates(cx)?),
        None => Err(Error::bug("no signatures are kept")),
    }),
);
