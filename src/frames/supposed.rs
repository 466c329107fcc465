//! supposed: shingles that are supposed to be frequent by a sample of the documents, sketches of the documents by that, and
//! whether it was right.
//!
//! A supposition decides only what has to be read twice: the shingles that are found to be frequent are those of
//! [`frequent`](super::frequent), exactly.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{min, sum};
use datafusion::prelude::{DataFrame, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::frequent::{MIN_DOCUMENTS, is_frequent};
use super::of_documents;
use super::shingles::{cut_and_judged, length, sizes};
use crate::error::Result;
use crate::job::Shingle;
use crate::operator::tally::Tally;
use crate::operator::{Operator, apply};

/// The share of the documents that the sample has.
pub(crate) const SHARE: f64 = 1.0 / 16.0;

/// The fewest documents of a sample with a shingle that is just frequent: by fewer, too many shingles are in doubt.
const FEWEST: f64 = 24.0;

/// The deviations of a count in a sample within which a shingle is in doubt.
const DEVIATIONS: f64 = 4.0;

/// What is supposed by a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Supposition {
    /// A shingle in fewer documents of the sample is supposed not to be frequent,
    pub(crate) fewest: u64,
    /// one in this many or more to be frequent, and one between these is in doubt.
    pub(crate) frequent: u64,
    /// What a shingle that is not counted may reach in all documents.
    pub(crate) missed: u64,
}

impl Supposition {
    /// By a sample of `documents`, in which a shingle without a row has `missed` documents at most; `None` if it is too small.
    pub(crate) fn by(max_frequency: f64, documents: u64, missed: u64) -> Option<Self> {
        let limit = max_frequency * documents as f64;
        let off = DEVIATIONS * limit.sqrt();
        let (fewest, frequent) = ((limit - off).max(1.0) as u64, (limit + off).ceil() as u64);
        // Half of the limit in all documents.
        let all = Self { fewest, frequent, missed: (limit / SHARE / 2.0) as u64 };
        (limit >= FEWEST && missed < fewest).then_some(all)
    }
}

/// (doc, shingles) of a sample, no supposed shingle (shingle, frequent) -> (shingle, documents, least, missed: UInt64): see
/// [`Tally`].
pub(crate) fn sampled(sets: DataFrame, none: DataFrame) -> Result<DataFrame> {
    let rows = apply(Operator::Tally(Tally::Sample), vec![none, sets])?;
    let columns = ["shingle", "documents", "least", "missed"].map(col).to_vec();
    Ok(rows.filter(col("documents").is_not_null())?.select(columns)?)
}

/// [`sampled`] -> (shingle: UInt64, frequent: Boolean), the supposed shingles.
pub(crate) fn supposed(sampled: DataFrame, by: Supposition) -> Result<DataFrame> {
    let frequent = col("least").gt_eq(lit(by.frequent)).alias("frequent");
    Ok(sampled
        .filter(col("shingle").is_not_null().and(col("documents").gt_eq(lit(by.fewest))))?
        .select(vec![col("shingle"), frequent])?)
}

/// (source, position, id, text, doc, reason), [`supposed`] -> the columns of [`super::shingles::measured`] without the shingles
/// that are supposed to be frequent; and those of [`Tally`], with which other rows follow. `compared` is true for documents that
/// can be compared and are not in doubt, and null in all other rows.
pub(crate) fn measured(
    documents: DataFrame,
    shingle: &Shingle,
    supposed: DataFrame,
    by: Supposition,
) -> Result<DataFrame> {
    let cut = cut_and_judged(documents, shingle)?;
    // The operator takes keys from the first column, and sets from the last.
    let columns = of_documents(&cut, [col("reason")]);
    let columns = [vec![col("doc")], columns, vec![col("shingles")]].concat();
    let rows =
        apply(Operator::Tally(Tally::Documents { missed: by.missed }), vec![supposed, cut.select(columns)?])?;
    let is_judged = col("doubtful").is_null().and(col("documents").is_null());
    let wrong_length = when(is_judged.clone(), length(shingle, "only_template")?).end()?;
    let further = ["doubtful", "shingle", "documents", "least", "missed", "first_doc"].map(col);
    let columns = of_documents(&rows, sizes(wrong_length).into_iter().chain(further));
    let rows = rows.select(columns)?;
    let compared = when(is_judged.and(col("reason").is_null()), lit(true)).end()?;
    Ok(rows.with_column("compared", compared)?.with_column("origin", lit(ScalarValue::UInt64(None)))?)
}

/// What the documents showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The documents that have a shingle.
    pub(crate) documents: u64,
    /// The documents at most of a shingle that no partition counted.
    pub(crate) missed: u64,
}

/// [`Tally`]'s rows -> (documents, missed: UInt64), one row: see [`Shown`].
pub(crate) fn shown(tallies: DataFrame) -> Result<DataFrame> {
    let of_all = tallies.filter(col("shingle").is_null())?;
    let sums = vec![sum(col("documents")).alias("documents"), sum(col("missed")).alias("missed")];
    Ok(of_all.aggregate(vec![], sums)?)
}

/// [`Tally`]'s rows, [`supposed`] -> (shingle, documents, missed, doc: UInt64, frequent: Boolean), one row for each shingle that
/// was counted. `missed` and `doc` are null for one that is not supposed, and so is `frequent` if it is not.
fn counted(tallies: DataFrame, supposed: DataFrame) -> Result<DataFrame> {
    let counted = tallies.filter(col("shingle").is_not_null())?.aggregate(
        vec![col("shingle")],
        vec![
            sum(col("documents")).alias("documents"),
            sum(col("missed")).alias("missed"),
            min(col("first_doc")).alias("doc"),
        ],
    )?;
    let supposed = supposed.select(vec![col("shingle").alias("supposed"), col("frequent")])?;
    Ok(supposed.join(counted, JoinType::Right, &["supposed"], &["shingle"], None)?)
}

/// The same -> the shingles that are frequent, or may be, and were not supposed to be, and those that were and are not.
pub(crate) fn wrong(
    tallies: DataFrame,
    supposed: DataFrame,
    max_frequency: f64,
    shown: Shown,
) -> Result<DataFrame> {
    let of = |documents| is_frequent(documents, lit(shown.documents), max_frequency);
    // A partition that did not count it missed as many as of every other.
    let most = col("documents") + lit(shown.missed) - col("missed");
    let is_wrong = when(col("supposed").is_null(), of(most))
        .when(col("frequent"), !of(col("documents")))
        .otherwise(lit(false))?;
    Ok(counted(tallies, supposed)?.filter(is_wrong)?.select(vec![col("shingle")])?)
}

/// Whether a shingle that no partition counted may be frequent.
pub(crate) fn misses_frequent(max_frequency: f64, shown: Shown) -> bool {
    shown.missed > MIN_DOCUMENTS && shown.missed as f64 > max_frequency * shown.documents as f64
}

/// The same, where nothing is wrong -> the columns of [`super::frequent::frequent`].
pub(crate) fn frequent(
    tallies: DataFrame,
    supposed: DataFrame,
    max_frequency: f64,
    shown: Shown,
) -> Result<DataFrame> {
    let is_frequent = is_frequent(col("documents"), lit(shown.documents), max_frequency);
    let is_supposed = col("supposed").is_not_null();
    Ok(counted(tallies, supposed)?.filter(is_supposed.and(is_frequent))?.select(vec![
        col("shingle"),
        col("documents"),
        lit(shown.documents).alias("of_documents"),
        lit(ScalarValue::Utf8(None)).alias("group"),
        col("doc"),
    ])?)
}
