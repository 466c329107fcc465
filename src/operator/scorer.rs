//! The score of a pair.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, Float64Builder, RecordBatch, UInt16Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;

use super::sketches::SketchedDocument;
use crate::job::{self, ScoreBy};
use crate::kernel::jaccard::shared;
use crate::kernel::minhash_similarity::minhash_similarity;
use crate::kernel::signature::Signature;

/// The columns (a, b, shared, shingles_a, shingles_b, estimate, shared_bands) of scored pairs, a < b.
///
/// `shared`, `shingles_a` and `shingles_b` count distinct shingles, `shared_bands` the bands in which the two
/// signatures agree in every row; `estimate` is that of the two signatures.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, false),
        Field::new("shared", DataType::UInt64, false),
        Field::new("shingles_a", DataType::UInt64, false),
        Field::new("shingles_b", DataType::UInt64, false),
        Field::new("estimate", DataType::Float64, false),
        Field::new("shared_bands", DataType::UInt16, false),
    ]))
}

/// The criteria for pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scorer {
    /// The threshold and the measure.
    pub(super) score: job::Score,
    /// Bands of the signature.
    pub(super) bands: usize,
    /// Rows of a band.
    pub(super) rows: usize,
}

impl Scorer {
    /// Scores two documents and keeps them if they reach the threshold.
    pub(super) fn score(
        &self,
        one: SketchedDocument<'_>,
        other: SketchedDocument<'_>,
        kept: &mut ScoreBuilder,
    ) {
        let (a, b) = if one.doc < other.doc { (one, other) } else { (other, one) };
        let (set_a, set_b) = (a.shingles, b.shingles);
        let (signature_a, signature_b) = (a.signature, b.signature);
        let job::Score { threshold, measure, by, prefilter, min_shared: _ } = self.score;
        let by_estimate = prefilter || by == ScoreBy::Signature;
        if by_estimate && estimate(signature_a, signature_b) < threshold {
            return;
        }
        let shared = match by {
            ScoreBy::Shingles => measure.shared_at_least(set_a, set_b, threshold),
            ScoreBy::Signature => Some(shared(set_a, set_b)),
        };
        let Some(shared) = shared else { return };
        if !self.score.has_min_shared(shared, [set_a.len() as u64, set_b.len() as u64]) {
            return;
        }
        kept.a.append_value(a.doc);
        kept.b.append_value(b.doc);
        kept.shared.append_value(shared);
        kept.shingles_a.append_value(set_a.len() as u64);
        kept.shingles_b.append_value(set_b.len() as u64);
        kept.estimate.append_value(estimate(signature_a, signature_b));
        kept.shared_bands.append_value(self.shared_bands(signature_a, signature_b));
    }

    fn shared_bands(&self, a: Signature<'_>, b: Signature<'_>) -> u16 {
        a.shared_bands(b, self.bands, self.rows).try_into().unwrap_or(u16::MAX)
    }
}

/// The estimate. All signatures of a run have one type and length.
fn estimate(a: Signature<'_>, b: Signature<'_>) -> f64 {
    minhash_similarity(a, b).unwrap_or(0.0)
}

/// Builds a batch of scored pairs.
#[derive(Default)]
pub(super) struct ScoreBuilder {
    a: UInt64Builder,
    b: UInt64Builder,
    shared: UInt64Builder,
    shingles_a: UInt64Builder,
    shingles_b: UInt64Builder,
    estimate: Float64Builder,
    shared_bands: UInt16Builder,
}

impl ScoreBuilder {
    /// The batch; `None` if it is empty.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.a.is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.a.finish()),
            Arc::new(self.b.finish()),
            Arc::new(self.shared.finish()),
            Arc::new(self.shingles_a.finish()),
            Arc::new(self.shingles_b.finish()),
            Arc::new(self.estimate.finish()),
            Arc::new(self.shared_bands.finish()),
        ];
        Ok(Some(RecordBatch::try_new(schema(), columns)?))
    }

    /// Whether it has at least `rows` rows.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        self.a.len() >= rows
    }
}
