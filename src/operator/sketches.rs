//! Sketches in memory, and the score of two sketches. A sketch contains the shingles and the signature of a document. Sketches are looked
//! up by the document's key. A score takes two look-ups and one merge of two sorted sets, without copies.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Builder, RecordBatch, UInt16Builder,
    UInt64Builder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_boolean_array, as_list_array, as_uint32_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;

use crate::job::{self, ScoreBy};
use crate::kernel::measure::shared;
use crate::kernel::signature::{Signature, minhash_similarity};

/// The hasher for document keys, which are already hashes.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Sketches in the buffers of their batches, without copies.
#[derive(Debug)]
pub(crate) struct Sketches {
    /// The batches, whose buffers the sketches share.
    rows: Vec<RecordBatch>,
    sketches: Vec<SketchBatch>,
    by_doc: HashMap<u64, SketchRef, BuildHasherDefault<KeyHasher>>,
    held: MemoryReservation,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SketchRef {
    batch: u32,
    row: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SketchedDocument<'a> {
    pub(super) doc: u64,
    /// The shingles, in ascending order.
    pub(super) shingles: &'a [u64],
    signature: Signature<'a>,
}

#[derive(Debug)]
struct SketchBatch {
    shingles: OffsetBuffer<i32>,
    shingle_values: ScalarBuffer<u64>,
    signatures: SignatureColumn,
    /// Whether each document is a reference document; `None` if the batch has no such column.
    is_reference: Option<BooleanArray>,
}

impl SketchBatch {
    fn try_new(batch: &RecordBatch) -> Result<Self> {
        let [.., shingles, signatures] = batch.columns() else {
            return internal_err!("a sketch has shingles and a signature");
        };
        let shingles = as_list_array(shingles)?;
        Ok(Self {
            shingles: shingles.offsets().clone(),
            shingle_values: as_uint64_array(shingles.values())?.values().clone(),
            signatures: SignatureColumn::try_new(signatures)?,
            is_reference: match batch.column_by_name("reference") {
                Some(is_reference) => Some(as_boolean_array(is_reference)?.clone()),
                None => None,
            },
        })
    }

    fn document(&self, doc: u64, row: u32) -> SketchedDocument<'_> {
        let signature = match &self.signatures {
            SignatureColumn::Of32(offsets, values) => Signature::Of32(slice(offsets, values, row)),
            SignatureColumn::Of16(values) => Signature::Of16(values.value(row as usize).as_chunks().0),
        };
        SketchedDocument { doc, shingles: slice(&self.shingles, &self.shingle_values, row), signature }
    }
}

#[derive(Debug)]
enum SignatureColumn {
    Of32(OffsetBuffer<i32>, ScalarBuffer<u32>),
    Of16(BinaryArray),
}

impl SignatureColumn {
    fn try_new(array: &ArrayRef) -> Result<Self> {
        if let Some(values) = array.as_binary_opt() {
            return Ok(Self::Of16(values.clone()));
        }
        let lists = as_list_array(array)?;
        Ok(Self::Of32(lists.offsets().clone(), as_uint32_array(lists.values())?.values().clone()))
    }
}

pub(super) fn each_document(
    batch: &RecordBatch,
    mut each: impl FnMut(SketchedDocument<'_>) -> Result<()>,
) -> Result<()> {
    let sketches = SketchBatch::try_new(batch)?;
    (0u32..).zip(sketch_keys(batch)?).try_for_each(|(row, &doc)| each(sketches.document(doc, row)))
}

/// Returns the document keys of sketches, whose last columns are (doc, shingles, signature).
pub(super) fn sketch_keys(batch: &RecordBatch) -> Result<&[u64]> {
    let [.., docs, _, _] = batch.columns() else {
        return internal_err!("a sketch has a document");
    };
    Ok(as_uint64_array(docs)?.values())
}

impl Sketches {
    /// Returns an empty set of sketches. `held` accounts for their memory.
    pub(super) fn new(held: MemoryReservation) -> Self {
        Self { rows: Vec::new(), sketches: Vec::new(), by_doc: HashMap::default(), held }
    }

    /// Adds rows (.., doc: UInt64, shingles: `List<UInt64>`, signature). A document can be added several times with equal sketches.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        // An entry takes 16 bytes, and the hash table at most doubles while it grows. The columns of a batch from disk share one buffer.
        self.held.try_grow(get_record_batch_memory_size(batch) + 48 * batch.num_rows())?;
        let number = u32::try_from(self.sketches.len()).map_err(|e| DataFusionError::External(e.into()))?;
        for (row, &doc) in (0u32..).zip(sketch_keys(batch)?) {
            self.by_doc.insert(doc, SketchRef { batch: number, row });
        }
        self.sketches.push(SketchBatch::try_new(batch)?);
        self.rows.push(batch.clone());
        Ok(())
    }

    pub(super) async fn add_all(&mut self, mut rows: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = rows.next().await.transpose()? {
            self.add(&batch)?;
        }
        Ok(())
    }

    pub(super) fn into_rows(self) -> (Vec<RecordBatch>, MemoryReservation) {
        (self.rows, self.held)
    }

    pub(super) fn document(&self, doc: u64, sketch: SketchRef) -> SketchedDocument<'_> {
        self.sketches[sketch.batch as usize].document(doc, sketch.row)
    }

    pub(super) fn get(&self, doc: u64) -> Result<SketchedDocument<'_>> {
        match self.by_doc.get(&doc) {
            Some(&sketch) => Ok(self.document(doc, sketch)),
            None => internal_err!("document {doc} is a candidate and has no sketch"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.held.size()
    }

    pub(super) fn is_reference(&self, sketch: SketchRef) -> bool {
        let is_reference = &self.sketches[sketch.batch as usize].is_reference;
        is_reference.as_ref().is_some_and(|is_reference| is_reference.value(sketch.row as usize))
    }

    /// Iterates over the documents in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, SketchRef)> {
        self.by_doc.iter().map(|(&doc, &sketch)| (doc, sketch))
    }
}

fn slice<'a, T>(offsets: &OffsetBuffer<i32>, values: &'a [T], row: u32) -> &'a [T] {
    let row = row as usize;
    // The offsets of Arrow lists are ascending and not negative.
    &values[offsets[row] as usize..offsets[row + 1] as usize]
}

/// The columns (a, b, shared, shingles_a, shingles_b, estimate, shared_bands) of scored pairs, a < b. `shared`, `shingles_a` and
/// `shingles_b` count distinct shingles. `estimate` is the estimate from the two signatures. `shared_bands` is the number of bands in which
/// the signatures agree in every row.
pub(crate) fn score_schema() -> SchemaRef {
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

#[derive(Debug, Clone, Copy)]
pub(super) struct Scorer {
    pub(super) score: job::Score,
    pub(super) bands: usize,
    pub(super) rows: usize,
}

impl Scorer {
    /// Scores two documents, and adds them to `kept` if they reach the threshold.
    pub(super) fn score(
        &self,
        one: SketchedDocument<'_>,
        other: SketchedDocument<'_>,
        kept: &mut ScoreBuilder,
    ) {
        let (a, b) = if one.doc < other.doc { (one, other) } else { (other, one) };
        let job::Score { threshold, measure, by, prefilter, min_shared: _ } = self.score;
        // All signatures in a run have the same type and length.
        let estimate = || minhash_similarity(a.signature, b.signature).unwrap_or(0.0);
        let by_estimate = prefilter || by == ScoreBy::Signature;
        if by_estimate && estimate() < threshold {
            return;
        }
        let shared = match by {
            ScoreBy::Shingles => measure.shared_at_least(a.shingles, b.shingles, threshold),
            ScoreBy::Signature => Some(shared(a.shingles, b.shingles)),
        };
        let Some(shared) = shared else { return };
        let sizes = [a.shingles.len() as u64, b.shingles.len() as u64];
        if !self.score.has_min_shared(shared, sizes) {
            return;
        }
        let shared_bands = a.signature.shared_bands(b.signature, self.bands, self.rows);
        for (builder, number) in kept.numbers.iter_mut().zip([a.doc, b.doc, shared, sizes[0], sizes[1]]) {
            builder.append_value(number);
        }
        kept.estimate.append_value(estimate());
        kept.shared_bands.append_value(shared_bands.try_into().unwrap_or(u16::MAX));
    }
}

#[derive(Default)]
pub(super) struct ScoreBuilder {
    /// The first five columns.
    numbers: [UInt64Builder; 5],
    estimate: Float64Builder,
    shared_bands: UInt16Builder,
}

impl ScoreBuilder {
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.estimate.is_empty() {
            return Ok(None);
        }
        let numbers = self.numbers.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef);
        let last: [ArrayRef; 2] = [Arc::new(self.estimate.finish()), Arc::new(self.shared_bands.finish())];
        Ok(Some(RecordBatch::try_new(score_schema(), numbers.chain(last).collect())?))
    }

    pub(super) fn is_full(&self, rows: usize) -> bool {
        self.estimate.len() >= rows
    }
}
