//! candidates: every two documents that share a bucket.

use std::borrow::Cow;

use datafusion::prelude::{DataFrame, col};

use super::agreeing::Agreeing;
use super::all_candidates::AllCandidates;
use super::frequencies::OF_HOT;
use super::hot_positions::HOT_POSITIONS;
use super::hot_sketches::HOT_SKETCHES;
use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Tables, WorkTable, Writes, frames, not_null, null,
};
use super::pair_limit;
use super::prefix_join;
use crate::frames::copies::without_copies;
use crate::frames::mark::mark;
use crate::job::Method;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::{Operator, apply};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::tables::{pair_columns, single_columns};
use crate::pipeline::verify::signatures_first;

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

/// Finds documents that may be similar.
pub(crate) struct Candidates;

impl WorkTable {
    /// Every two documents that may be similar.
    pub(crate) const CANDIDATES: Self = Self::new("candidates", pair_columns);
    /// Documents of hot buckets; in a prefix join of all documents, those of dense ones.
    pub(crate) const HOT: Self = Self::new("hot", single_columns);
}

/// Pairs documents by their buckets.
async fn by_buckets(cx: &StageContext<'_>) -> Result<()> {
    let lsh = &cx.job.lsh;
    let buckets = vec![col("doc"), col("buckets")];
    let mut keys = cx.table(WorkTable::KEYS)?.select(buckets.clone())?;
    if let Some(reference) = cx.reference_documents()? {
        keys = keys.union(frames::bands::bands(reference, lsh)?.select(buckets)?)?;
    }
    let (copies, reference) = (cx.table(WorkTable::COPIES)?, cx.reference_docs()?);
    let frame = by_group::compared(cx, candidates(keys, copies, lsh.hot_bucket, reference)?)?;
    let documents = cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE);
    cx.run(&Candidates, documents * lsh.bands as u64 * BYTES_OF_ROW, vec![frame]).await?;
    if cx.rows(WorkTable::HOT) > 0 {
        return Ok(());
    }
    // Every pair is a candidate.
    pair_limit::check_pairs(cx, None, cx.rows(WorkTable::CANDIDATES)).await
}

/// The treatment of documents that share a shingle with very many others.
fn dense(job: &Job) -> String {
    match job.output.most_expanded() {
        Some(limit) => format!("; where more than {limit} share one, each is paired with a leader"),
        None => String::new(),
    }
}

impl Writes for Candidates {
    fn name(&self) -> Cow<'static, str> {
        "candidates".into()
    }

    fn describe(&self, job: &Job) -> String {
        if job.score.measure.takes_any_size() {
            return "pair documents if one of them has one of the other's rarest shingles".into();
        }
        if job.candidates.method == Method::Prefix {
            return format!("pair documents that share one of their rarest shingles{}", dense(job));
        }
        format!(
            "pair documents that share one of {} buckets of {} rows (in a bucket of more than {} documents, those \
             that share one of their rarest shingles{})",
            job.lsh.bands,
            job.lsh.rows,
            job.lsh.hot_bucket,
            dense(job)
        )
    }

    fn tables(&self, _job: &Job) -> Tables {
        // A document of a hot or dense bucket comes without a second one, and so does a leader.
        vec![not_null(WorkTable::CANDIDATES, "b"), null(WorkTable::HOT, "b")]
    }
}

impl Stage for Candidates {
    fn is_in(&self, job: &Job) -> bool {
        job.compares() && job.candidates.method != Method::All
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match cx.job.candidates.method {
                Method::Prefix => prefix_join::by_prefixes(self, cx, None).await,
                Method::Lsh | Method::All | Method::None => by_buckets(cx).await,
            }
        })
    }

    fn follow_ups<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move {
            if cx.job.candidates.method == Method::Lsh && cx.rows(WorkTable::HOT) > 0 {
                let mut further: Vec<&'static dyn Stage> = match AllSketches::of(cx.job) {
                    AllSketches::Nowhere => vec![&HOT_POSITIONS, &HOT_SKETCHES],
                    _ => Vec::new(),
                };
                further.extend([&OF_HOT as &dyn Stage, &AllCandidates]);
                return Ok(further);
            }
            Ok(if signatures_first(cx).await? { vec![&Agreeing] } else { Vec::new() })
        })
    }
}
