//! scores: candidates, verified on the stored shingle sets; those that reach the threshold stay.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;
use crate::job::{Lsh, Score};
use crate::operator::score::{Probe, Scoring};
use crate::operator::{Operator, apply};

/// One of the shares that the work is cut into so that the sketches of a share fit in memory: pairs of a document
/// in key segment `left` and one in key segment `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// A key segment, at most `right`.
    pub left: u64,
    /// A key segment.
    pub right: u64,
    /// Key segments in all; the segment of a document is `doc % segments`.
    pub segments: u64,
}

impl Block {
    /// The blocks that together hold every pair, when keys are divided into `segments`.
    pub fn all(segments: u64) -> Vec<Block> {
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

    /// Candidates with a document in each segment.
    fn of_candidates(self, candidates: DataFrame) -> Result<DataFrame> {
        if self.is_whole() {
            return Ok(candidates);
        }
        let (a, b) = (col("a") % lit(self.segments), col("b") % lit(self.segments));
        let one_way = a.clone().eq(lit(self.left)).and(b.clone().eq(lit(self.right)));
        let other_way = a.eq(lit(self.right)).and(b.eq(lit(self.left)));
        Ok(candidates.filter(one_way.or(other_way))?)
    }
}

/// The documents that candidates ask for: (a, b) -> distinct (needed: UInt64).
///
/// # Errors
/// When the frame has other columns.
pub fn needed(candidates: DataFrame) -> Result<DataFrame> {
    let a = candidates.clone().select(vec![col("a").alias("needed")])?;
    let b = candidates.select(vec![col("b").alias("needed")])?;
    Ok(a.union(b)?.distinct()?)
}

/// (doc, shingles, signature, ..), (a, b) -> (doc, shingles, signature) of the documents that candidates ask for.
///
/// # Errors
/// When a frame lacks its columns.
pub fn sketches(documents: DataFrame, candidates: DataFrame) -> Result<DataFrame> {
    let documents = documents.select(vec![col("doc"), col("shingles"), col("signature")])?;
    Ok(needed(candidates)?.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?)
}

/// (doc, shingles, signature, ..), (a, b) -> the columns of [`crate::operator::score::schema`] for the candidates
/// of a block that reach the threshold.
///
/// # Errors
/// When a frame lacks its columns.
pub fn scores(
    documents: DataFrame,
    candidates: DataFrame,
    block: Block,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let candidates = block.of_candidates(candidates)?;
    let sketches = sketches(block.of_documents(documents)?, candidates.clone())?;
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe: Probe::Candidates };
    apply(Operator::Score(scoring), vec![sketches, candidates])
}

/// (doc, shingles, signature, ..) and a frame of slices (slice: UInt64, slices: UInt64) -> the columns of
/// [`crate::operator::score::schema`] for every pair of a block that reaches the threshold: the exact answer,
/// without candidates.
///
/// # Errors
/// When a frame lacks its columns.
pub fn scores_of_all(
    documents: DataFrame,
    slices: DataFrame,
    block: Block,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let documents = documents.select(vec![col("doc"), col("shingles"), col("signature")])?;
    let sketches = block.of_documents(documents)?;
    let Block { left, right, segments } = block;
    let probe = Probe::All { left, right, segments };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, slices])
}
