//! Scores, which are the similarities of candidates, from their sketches. Only scores that reach the threshold are kept.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::{columns, has_column, renamed};
use crate::error::Result;
use crate::job::{Lsh, Minhash, Score, ScoreBy};
use crate::operator::score::{Probe, Scoring};
use crate::operator::{Operator, apply};

/// A block in the comparison of all pairs: the pairs between documents in the key segments `left` and `right`, whose sketches fit in
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairBlock {
    /// The first segment, at most `right`.
    pub left: u64,
    pub right: u64,
    /// The number of segments. The segment of a document is `doc % segments`.
    pub segments: u64,
}

impl PairBlock {
    /// The blocks that together contain every pair, for `segments` key segments.
    pub(crate) fn all(segments: u64) -> Vec<PairBlock> {
        let segments = segments.max(1);
        let block = |left| (left..segments).map(move |right| PairBlock { left, right, segments });
        (0..segments).flat_map(block).collect()
    }

    fn documents(self, documents: DataFrame) -> Result<DataFrame> {
        if self.segments <= 1 {
            return Ok(documents);
        }
        let segment = col("doc") % lit(self.segments);
        Ok(documents.filter(segment.clone().eq(lit(self.left)).or(segment.eq(lit(self.right))))?)
    }
}

/// The join of sketches and candidates. Every join gives the same scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SketchJoin {
    /// Each process keeps all sketches in memory, and no sketches are sent.
    Held,
    /// Each partition keeps the sketches of one segment in memory, and streams the sketches of all documents. Each sketch is written once
    /// and read by every partition, so this join needs a single process.
    Segments,
    /// Each pair of segments is a block. A candidate belongs to the block of its documents' segments. A sketch is sent once to each block
    /// that needs it: with n segments, to at most n blocks.
    Blocks,
}

/// The number of blocks per partition. Several blocks even out the number of candidates per partition.
const BLOCKS_PER_PARTITION: usize = 8;

pub(crate) fn segments(partitions: usize) -> u64 {
    // n segments make a little more than n * n / 2 blocks.
    (2.0 * (BLOCKS_PER_PARTITION * partitions.max(1)) as f64).sqrt().ceil() as u64
}

/// (doc, shingles, signature, ..), (a, b) -> the columns of [`crate::operator::sketches::score_schema`], for the candidates that reach
/// the threshold. The plan has `partitions` partitions.
pub(crate) fn scores(
    documents: DataFrame,
    candidates: DataFrame,
    (join, partitions): (SketchJoin, usize),
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let sketch = || columns(["doc", "shingles", "signature"]);
    let documents = documents.select(sketch())?;
    let pair = || columns(["a", "b"]);
    let (probe, sketches, pairs) = match join {
        SketchJoin::Held => (Probe::Held, documents, candidates.select(pair())?),
        SketchJoin::Segments => (Probe::Segments, documents, candidates.select(pair())?),
        SketchJoin::Blocks => {
            let home = block(lit(segments(partitions)))?.alias("home");
            let with_home =
                |others: Vec<Expr>| candidates.clone().select([vec![home.clone()], others].concat());
            let asked = |document| with_home(renamed([(document, "asked")]));
            let requests = asked("a")?.union(asked("b")?)?.distinct()?;
            let sketches = requests.join(documents, JoinType::Inner, &["asked"], &["doc"], None)?;
            let sketches = sketches.select([vec![col("home")], sketch()].concat())?;
            (Probe::Blocks, sketches, with_home(pair())?)
        }
    };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, pairs])
}

fn block(segments: Expr) -> Result<Expr> {
    let (a, b) = (col("a") % segments.clone(), col("b") % segments.clone());
    let number = |low: Expr, high: Expr| low * segments.clone() + high;
    Ok(when(a.clone().lt_eq(b.clone()), number(a.clone(), b.clone())).otherwise(number(b, a))?)
}

/// (doc, signature, ..), (a, b) -> (a, b), the candidates whose signatures agree in at least the share `score.threshold` of their values.
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
    Ok(scores(documents, candidates, join, &score, lsh)?.select(columns(["a", "b"]))?)
}

/// (shingle_count, ..) -> one row (bytes: UInt64), the bytes of all sketches in memory, or null if there are no documents.
pub(crate) fn sketch_bytes(documents: DataFrame, minhash: &Minhash) -> Result<DataFrame> {
    let bytes = col("shingle_count") * lit(8_u64) + lit(sketch_bytes_without_shingles(minhash));
    Ok(documents.aggregate(vec![], vec![sum(bytes).alias("bytes")])?)
}

/// The bytes of a sketch in memory, without its shingles.
pub(crate) fn sketch_bytes_without_shingles(minhash: &Minhash) -> u64 {
    8 + 48 + minhash.signature_bytes()
}

/// (doc, shingles, signature, ..), slices (slice: UInt64, slices: UInt64) -> the columns of [`crate::operator::sketches::score_schema`].
/// Compares all pairs in a block, without candidates, and returns those that reach the threshold. If a column `reference: Boolean` marks
/// reference documents, two of them are never a pair.
pub(crate) fn scores_of_all(
    documents: DataFrame,
    slices: DataFrame,
    block: PairBlock,
    score: &Score,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let mut sketch = columns(["doc", "shingles", "signature"]);
    if has_column(&documents, "reference") {
        sketch.insert(0, col("reference"));
    }
    let sketches = block.documents(documents.select(sketch)?)?;
    let PairBlock { left, right, segments } = block;
    let probe = Probe::All { left, right, segments };
    let scoring = Scoring { score: *score, bands: lsh.bands, rows: lsh.rows, probe };
    apply(Operator::Score(scoring), vec![sketches, slices])
}
