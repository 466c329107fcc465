//! The stage sample, which enforces the limit on the number of pairs. A run that would write more pairs ends before the search.

use datafusion::prelude::{col, lit};

use crate::frames::copies::{Paired, Rules, without_copies};
use crate::frames::pairs::{count_of_copies, count_of_scores};
use crate::frames::{columns, renamed};
use crate::operator::sketches::score_schema;
use crate::pipeline::numbers::one_number;
use crate::pipeline::sketches::{self, BoundedRows, SKETCH, sketches};
use crate::pipeline::stage::interface::{Error, Job, Planned, Result, StageContext, Table, WorkTable};
use crate::pipeline::tables::POSITION_COLUMNS;
use crate::pipeline::tables::WorkColumns::Operator;
use crate::pipeline::verify::every_two;

impl WorkTable {
    const SAMPLE_POSITIONS: Self = Self::new("sample_positions", POSITION_COLUMNS);
    /// The pairs in a sample that reach the threshold.
    const SAMPLE: Self = Self::new("sample", &[Operator(score_schema)]);
}

/// The approximate number of documents in the sample, of which every two are compared.
const SAMPLE: u64 = 2_000;

/// The minimum number of similar pairs in the sample. Fewer pairs give no usable estimate.
const TOO_FEW: u64 = 64;

/// An estimate of the number of similar pairs among some documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) struct PairEstimate {
    pub(in crate::pipeline) pairs: u64,
    /// Whether the number is exact because every two documents were compared.
    pub(in crate::pipeline) exact: bool,
}

/// The keys (needed) of all documents. A group of copies counts as one document.
async fn all_documents(cx: &StageContext<'_>) -> Result<BoundedRows> {
    let groups = cx.table(WorkTable::COPIES)?;
    let copies = groups.clone().filter(col("doc").not_eq(col("rep")))?.count().await? as u64;
    let documents = sketches::documents(cx, columns(["doc"]))?;
    let count = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
    let frame = without_copies(documents, groups)?.select(renamed([("doc", "needed")]))?;
    Ok(BoundedRows { frame, count: count.saturating_sub(copies) })
}

pub(super) fn every_two_of(count: u64) -> u64 {
    let pairs = u128::from(count) * u128::from(count.saturating_sub(1)) / 2;
    u64::try_from(pairs).unwrap_or(u64::MAX)
}

/// Draws about `sample` documents from `all` (needed), and compares every two of them in a stage. Returns the estimate for `all`.
///
/// Keys are hashes, so the keys that are divisible by `n` are a random sample, and the same sample in every run. A document is in the
/// sample with a probability of one in `n`, and a pair with a probability of one in `n * n`.
pub(super) async fn estimate(cx: &StageContext<'_>, all: BoundedRows, sample: u64) -> Result<PairEstimate> {
    let pairs = if cx.is_done(WorkTable::SAMPLE).await? {
        Vec::new()
    } else {
        let frame = match one_in(all.count, sample) {
            1 => all.frame,
            one_in => all.frame.filter((col("needed") % lit(one_in)).eq(lit(0_u64)))?,
        };
        let (at, known) = (WorkTable::SAMPLE_POSITIONS, cx.reference_documents()?);
        let needed = BoundedRows { frame, count: sample };
        every_two(cx, sketches(cx, at, needed, known, &SKETCH).await?).await?
    };
    cx.run_further(WorkTable::SAMPLE, Planned::new(0, pairs)).await?;
    Ok(estimated(cx, all.count, sample))
}

/// Returns `n` such that drawing one in `n` of `count` documents gives about `sample` documents.
fn one_in(count: u64, sample: u64) -> u64 {
    count.div_ceil(sample).max(1)
}

/// Returns the estimate for `count` documents from a compared sample of about `sample` documents.
pub(super) fn estimated(cx: &StageContext<'_>, count: u64, sample: u64) -> PairEstimate {
    let one_in = one_in(count, sample);
    let pairs = cx.rows(WorkTable::SAMPLE).saturating_mul(one_in).saturating_mul(one_in);
    PairEstimate { pairs, exact: one_in == 1 }
}

pub(in crate::pipeline::stage) async fn check_copies(cx: &StageContext<'_>) -> Result<()> {
    refuse_more(cx, 0, |pairs| format!("{pairs} pairs of identical documents")).await
}

/// Ends a run that would find too many pairs among `documents`, or among all documents if it is `None`. `at_most` is an upper bound on
/// the number of pairs. If the bound is within the limit, no sample is compared.
pub(super) async fn check_pairs(
    cx: &StageContext<'_>,
    documents: Option<BoundedRows>,
    at_most: u64,
) -> Result<()> {
    if with_copies(cx, at_most).await?.is_none() {
        return Ok(());
    }
    let documents = match documents {
        Some(documents) => documents,
        None => all_documents(cx).await?,
    };
    let PairEstimate { pairs, exact } = estimate(cx, documents, SAMPLE).await?;
    if !exact && cx.rows(WorkTable::SAMPLE) < TOO_FEW {
        return Ok(());
    }
    let about = if exact { "" } else { "about " };
    refuse_more(cx, pairs.min(at_most), |pairs| format!("{about}{pairs} pairs")).await
}

/// Ends a run if comparing new documents with each other and with reference documents would find too many pairs.
pub(super) async fn check_every_two(cx: &StageContext<'_>) -> Result<()> {
    let (new, known) = (cx.rows(Table::Documents), cx.rows(WorkTable::REFERENCE));
    check_pairs(cx, None, every_two_of(new).saturating_add(new.saturating_mul(known))).await
}

/// Ends a run if its scores would give too many pairs after they are expanded to copies.
pub(in crate::pipeline::stage) async fn check_scores(cx: &StageContext<'_>) -> Result<()> {
    refuse_more(cx, pairs_of_scores(cx).await?, |pairs| format!("at least {pairs} pairs")).await
}

/// Ends a run if `pairs` and the pairs of copies exceed the limit. `shown` describes their sum in the message.
async fn refuse_more(cx: &StageContext<'_>, pairs: u64, shown: impl Fn(u64) -> String) -> Result<()> {
    let exceeding = with_copies(cx, pairs).await?;
    exceeding.map_or(Ok(()), |pairs| Err(too_many(cx.job, &shown(pairs))))
}

/// Returns a lower bound on the number of pairs after scores are expanded to copies. If copies are pairs, the bound is the number of
/// scores, since [`with_copies`] adds most pairs of a large group.
async fn pairs_of_scores(cx: &StageContext<'_>) -> Result<u64> {
    let (scores, copies) = (cx.rows(WorkTable::SCORES), cx.rows(WorkTable::COPIES));
    let rules = Rules::new(cx.job);
    let most = u128::from(scores) * u128::from(copies) * u128::from(copies);
    if rules.paired() == Paired::All || most <= u128::from(cx.job.output.max_pairs) {
        return Ok(scores);
    }
    let (groups, scores) = (cx.table(WorkTable::COPIES)?, cx.table(WorkTable::SCORES)?);
    one_number(count_of_scores(groups, scores, rules)?).await
}

/// Returns the sum of `pairs` and the number of pairs of copies, if the sum exceeds the limit.
async fn with_copies(cx: &StageContext<'_>, pairs: u64) -> Result<Option<u64>> {
    let (most, table, rules) = (cx.job.output.max_pairs, WorkTable::COPIES, Rules::new(cx.job));
    let copies = if rules.paired() == Paired::None {
        0
    } else if every_two_of(cx.rows(table)).saturating_add(pairs) <= most {
        return Ok(None);
    } else {
        one_number(count_of_copies(cx.table(table)?, rules)?).await?
    };
    Ok(Some(copies.saturating_add(pairs)).filter(|&pairs| pairs > most))
}

fn too_many(job: &Job, pairs: &str) -> Error {
    let (noun, threshold, output) = (job.score.measure.noun(), job.score.threshold, &job.output);
    let first = match (output.most_expanded(), job.candidates.method.compares_every_two()) {
        _ if job.score.measure.takes_any_size() => {
            "set shingle.min_words, so that short documents, which very many others contain, are rejected".into()
        }
        (None, _) => {
            "set output.max_expand to about 1000, which pairs each document of a large group only with a leader".into()
        }
        (Some(_), true) => {
            "set candidates.method to \"lsh\" or \"prefix\", which pair each document of a large group only with a \
             leader"
                .into()
        }
        (Some(limit), _) => format!("lower output.max_expand, which is {limit}"),
    };
    Error::engine(format!(
        "this run would write {pairs} of {noun} {threshold} or more, but output.max_pairs allows {}: {first}, or \
         raise score.threshold, or raise output.max_pairs if the pairs are wanted",
        output.max_pairs
    ))
}
