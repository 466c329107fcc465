//! scores: candidates, verified on the stored shingle sets; those that reach the threshold stay.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;
use crate::job::{Lsh, Score};
use crate::operator::score::{Probe, Scoring};
use crate::operator::{Operator, apply};

/// One of the shares that the work is cut into so that the sketches of a share fit in memory: pairs of a document
/// in key segment `left` and one in key segment `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// A key segment, at most `right`.
    pub left: u64,
    /// A key segment.
    pub right: u64,
    /// Key segments in all; the segment of a document is `doc % segments`.
    pub segments: u64,
}

impl Block {
    /// The blocks that together hold every pair, when keys are divided into `segments`.
    pub(crate) fn all(segments: u64) -> Vec<Block> {
        let segments = segments.max(1);
        (0..segments)
            .flat_map(|left| (left..segments).map(move |right| Block { left, right, segments }))
            .collect()
    }

    fn is_whole(self) -> bool {
        self.segments <= 1
    }

    /// Documents of either segment.
    fn of_documents(self, documents: DataFrame) -> Result<DataFrame> {
        if self.is_whole() {
            return Ok(documents);
        }
        let segment = col("doc") % lit(self.segments);
        Ok(documents.filter(segment.clone().eq(lit(self.left)).or(segment.eq(lit(self.right))))?)
    }
}

/// Homes of pairs for each partition that verifies them, so that partitions get about equally many.
const HOMES_PER_PARTITION: u64 = 8;

/// The documents that candidates ask for: (a, b) -> distinct (needed: UInt64).
///
/// # Errors
/// When the frame has other columns.
pub(crate) fn needed(candidates: DataFrame) -> Result<DataFrame> {
    let a = candidates.clone().select(vec![col("a").alias("needed")])?;
    let b = candidates.select(vec![col("b").alias("needed")])?;
    Ok(a.union(b)?.distinct()?)
}

/// (doc, shingles, signature, ..), (a, b) -> the columns of [`crate::operator::score::schema`] for the candidates that
/// reach the threshold.
///
/// Each pair has a home, and its lesser document decides which. A sketch travels once to each home that asks for it, and
/// meets the home's pairs there. There are some homes for each of the plan's `partitions`.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn scores(
    documents: DataFrame,
    candidates: DataFrame,
    partitions: usize,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let homes = HOMES_PER_PARTITION * partitions.max(1) as u64;
    let home = || (col("a") % lit(homes)).alias("home");
    let asked = |document: &str| candidates.clone().select(vec![home(), col(document).alias("asked")]);
    let requests = asked("a")?.union(asked("b")?)?.distinct()?;
    let documents = documents.select(vec![col("doc"), col("shingles"), col("signature")])?;
    let sketches = requests.join(documents, JoinType::Inner, &["asked"], &["doc"], None)?;
    let sketches = sketches.select(vec![col("home"), col("doc"), col("shingles"), col("signature")])?;
    let pairs = candidates.select(vec![home(), col("a"), col("b")])?;
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe: Probe::Candidates };
    apply(Operator::Score(scoring), vec![sketches, pairs])
}

/// Bytes that the sketches take in memory: (shingle_count, ..) -> one row (bytes: UInt64), null for no documents.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn held_bytes(documents: DataFrame, permutations: usize) -> Result<DataFrame> {
    let per_document = 8 + 48 + 4 * permutations as u64;
    let bytes = col("shingle_count") * lit(8_u64) + lit(per_document);
    Ok(documents.aggregate(vec![], vec![sum(bytes).alias("bytes")])?)
}

/// (doc, shingles, signature, ..) and a frame of slices (slice: UInt64, slices: UInt64) -> the columns of
/// [`crate::operator::score::schema`] for every pair of a block that reaches the threshold: the exact answer,
/// without candidates. Where a column `known: Boolean` says which documents are known from earlier runs, two of these are no
/// pair.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn scores_of_all(
    documents: DataFrame,
    slices: DataFrame,
    block: Block,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let mut columns = vec![col("doc"), col("shingles"), col("signature")];
    if documents.schema().as_arrow().column_with_name("known").is_some() {
        columns.insert(0, col("known"));
    }
    let sketches = block.of_documents(documents.select(columns)?)?;
    let Block { left, right, segments } = block;
    let probe = Probe::All { left, right, segments };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, slices])
}
