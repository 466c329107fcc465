//! scores: candidates are verified on the stored shingle sets, and those that reach the threshold are kept.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit, when};
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::job::{Lsh, Minhash, Score, ScoreBy};
use crate::operator::score::{Probe, Scoring};
use crate::operator::{Operator, apply};

/// A block of the comparison of all pairs, whose sketches fit in memory: the pairs of a document in key segment `left`
/// and one in key segment `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairBlock {
    /// A key segment, at most `right`.
    pub left: u64,
    /// A key segment.
    pub right: u64,
    /// Key segments in all; the segment of a document is `doc % segments`.
    pub segments: u64,
}

impl PairBlock {
    /// The blocks that together hold every pair, when keys are divided into `segments`.
    pub(crate) fn all(segments: u64) -> Vec<PairBlock> {
        let segments = segments.max(1);
        (0..segments)
            .flat_map(|left| (left..segments).map(move |right| PairBlock { left, right, segments }))
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

/// How sketches are joined with the candidates that need them. The scores are the same with every join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SketchJoin {
    /// Each process holds all sketches: none is sent.
    Held,
    /// Each partition holds the sketches of a segment of the documents, and those of all documents are read past them: a
    /// sketch is written once and read by every partition. Only in one process, where a partition can be read again.
    Segments,
    /// The home of a candidate is the block of the segments of its two documents. A sketch is sent once to each home that needs
    /// it, and so at most once for each segment.
    Blocks,
}

/// Blocks for each partition, so that partitions get about equally many candidates.
const BLOCKS_PER_PARTITION: usize = 8;

/// The number of segments of the documents; the segment of a document is `doc % segments`.
pub(crate) fn segments(partitions: usize) -> u64 {
    // n segments make half of n times n blocks, and some more.
    (2.0 * (BLOCKS_PER_PARTITION * partitions.max(1)) as f64).sqrt().ceil() as u64
}

/// The documents of candidates: (a, b) -> distinct (needed: UInt64).
pub(crate) fn needed(candidates: DataFrame) -> Result<DataFrame> {
    let a = candidates.clone().select(vec![col("a").alias("needed")])?;
    let b = candidates.select(vec![col("b").alias("needed")])?;
    Ok(a.union(b)?.distinct()?)
}

/// (doc, shingles, signature, ..), (a, b) -> the columns of [`crate::operator::scorer::schema`] for the candidates that
/// reach the threshold, in a plan of `partitions`.
pub(crate) fn scores(
    documents: DataFrame,
    candidates: DataFrame,
    (join, partitions): (SketchJoin, usize),
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let (probe, [sketches, pairs]) = match join {
        SketchJoin::Held => (Probe::Held, in_place(documents, candidates)?),
        SketchJoin::Segments => (Probe::Segments, in_place(documents, candidates)?),
        SketchJoin::Blocks => {
            let home = block(lit(segments(partitions)))?;
            (Probe::Blocks, at_homes(documents, candidates, home)?)
        }
    };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, pairs])
}

/// Sketches and pairs, which the operator brings together.
fn in_place(documents: DataFrame, candidates: DataFrame) -> Result<[DataFrame; 2]> {
    let sketches = documents.select(vec![col("doc"), col("shingles"), col("signature")])?;
    Ok([sketches, candidates.select(vec![col("a"), col("b")])?])
}

/// The number of the block of two segments, for a pair (a, b).
fn block(segments: Expr) -> Result<Expr> {
    let (a, b) = (col("a") % segments.clone(), col("b") % segments.clone());
    let number = |low: Expr, high: Expr| low * segments.clone() + high;
    Ok(when(a.clone().lt_eq(b.clone()), number(a.clone(), b.clone())).otherwise(number(b, a))?)
}

/// Sketches and pairs, brought together at homes.
fn at_homes(documents: DataFrame, candidates: DataFrame, home: Expr) -> Result<[DataFrame; 2]> {
    let home = || home.clone().alias("home");
    let asked = |document: &str| candidates.clone().select(vec![home(), col(document).alias("asked")]);
    let requests = asked("a")?.union(asked("b")?)?.distinct()?;
    let documents = documents.select(vec![col("doc"), col("shingles"), col("signature")])?;
    let sketches = requests.join(documents, JoinType::Inner, &["asked"], &["doc"], None)?;
    let sketches = sketches.select(vec![col("home"), col("doc"), col("shingles"), col("signature")])?;
    Ok([sketches, candidates.select(vec![home(), col("a"), col("b")])?])
}

/// (doc, signature, ..), (a, b) -> (a, b) of the candidates whose signatures agree in `score.threshold` or more.
pub(crate) fn agreeing(
    documents: DataFrame,
    candidates: DataFrame,
    join: (SketchJoin, usize),
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let none = lit(ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::UInt64)));
    let documents = documents.select(vec![col("doc"), none.alias("shingles"), col("signature")])?;
    let score = Score { by: ScoreBy::Signature, ..*score };
    Ok(scores(documents, candidates, join, &score, lsh)?.select(vec![col("a"), col("b")])?)
}

/// Bytes that the sketches take in memory: (shingle_count, ..) -> one row (bytes: UInt64), null for no documents.
pub(crate) fn held_bytes(documents: DataFrame, minhash: &Minhash) -> Result<DataFrame> {
    let bytes = col("shingle_count") * lit(8_u64) + lit(held_bytes_without_shingles(minhash));
    Ok(documents.aggregate(vec![], vec![sum(bytes).alias("bytes")])?)
}

/// Bytes that a document's sketch takes in memory besides its shingles.
pub(crate) fn held_bytes_without_shingles(minhash: &Minhash) -> u64 {
    8 + 48 + minhash.signature_bytes()
}

/// (doc, shingles, signature, ..) and a frame of slices (slice: UInt64, slices: UInt64) -> the columns of
/// [`crate::operator::scorer::schema`] for every pair of a block that reaches the threshold: the exact answer, without
/// candidates. If a column `reference: Boolean` marks reference documents, two of these are never a pair.
pub(crate) fn scores_of_all(
    documents: DataFrame,
    slices: DataFrame,
    block: PairBlock,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let mut columns = vec![col("doc"), col("shingles"), col("signature")];
    if documents.schema().as_arrow().column_with_name("reference").is_some() {
        columns.insert(0, col("reference"));
    }
    let sketches = block.of_documents(documents.select(columns)?)?;
    let PairBlock { left, right, segments } = block;
    let probe = Probe::All { left, right, segments };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, slices])
}
