//! Sketches in memory: the shingles and the signature of each document, found by its key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::common::cast::{as_boolean_array, as_list_array, as_uint32_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;

use crate::kernel::signature::Signature;

/// Document keys are hashes already: hashing them again would only cost time.
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

/// Sketches in the buffers of their batches: nothing is copied.
#[derive(Debug)]
pub(crate) struct Sketches {
    /// The batches, whose buffers the sketches share.
    rows: Vec<RecordBatch>,
    sketches: Vec<SketchBatch>,
    by_doc: HashMap<u64, SketchRef, BuildHasherDefault<KeyHasher>>,
    held: MemoryReservation,
}

/// The place of a document's sketch.
#[derive(Debug, Clone, Copy)]
pub(super) struct SketchRef {
    batch: u32,
    row: u32,
}

/// A document and its sketch.
#[derive(Debug, Clone, Copy)]
pub(super) struct SketchedDocument<'a> {
    pub(super) doc: u64,
    /// In ascending order.
    pub(super) shingles: &'a [u64],
    pub(super) signature: Signature<'a>,
}

/// The sketches of a batch.
#[derive(Debug)]
struct SketchBatch {
    shingles: OffsetBuffer<i32>,
    shingle_values: ScalarBuffer<u64>,
    signatures: SignatureColumn,
    /// Which documents are reference documents; `None` without that column.
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

    fn shingles(&self, row: u32) -> &[u64] {
        slice(&self.shingles, &self.shingle_values, row)
    }

    fn signature(&self, row: u32) -> Signature<'_> {
        match &self.signatures {
            SignatureColumn::Of32(offsets, values) => Signature::Of32(slice(offsets, values, row)),
            SignatureColumn::Of16(values) => Signature::Of16(values.value(row as usize).as_chunks().0),
        }
    }
}

/// The signatures of a batch.
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

/// Calls `each` with every document of a batch of sketches.
///
/// # Errors
/// When the batch has other columns, or those of `each`.
pub(super) fn each_document(
    batch: &RecordBatch,
    mut each: impl FnMut(SketchedDocument<'_>) -> Result<()>,
) -> Result<()> {
    let sketch = SketchBatch::try_new(batch)?;
    (0u32..).zip(docs(batch)?).try_for_each(|(row, &doc)| {
        each(SketchedDocument { doc, shingles: sketch.shingles(row), signature: sketch.signature(row) })
    })
}

/// The keys of sketches: the last columns are (doc, shingles, signature).
pub(super) fn docs(batch: &RecordBatch) -> Result<&[u64]> {
    let [.., docs, _, _] = batch.columns() else {
        return internal_err!("a sketch has a document");
    };
    Ok(as_uint64_array(docs)?.values())
}

impl Sketches {
    /// No sketches yet. `held` accounts for them.
    pub(super) fn new(held: MemoryReservation) -> Self {
        Self { rows: Vec::new(), sketches: Vec::new(), by_doc: HashMap::default(), held }
    }

    /// Adds rows (.., doc: UInt64, shingles: `List<UInt64>`, signature). A document may come again with the same
    /// sketch.
    ///
    /// # Errors
    /// [`DataFusionError::ResourcesExhausted`] if the pool has no memory left. Then nothing was added.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        // An entry takes 16 bytes; the table that holds them is at most doubled while it grows.
        // The columns of a batch that comes from disk share one buffer.
        self.held.try_grow(get_record_batch_memory_size(batch) + 48 * batch.num_rows())?;
        let number = u32::try_from(self.sketches.len()).map_err(|e| DataFusionError::External(e.into()))?;
        for (row, &doc) in (0u32..).zip(docs(batch)?) {
            self.by_doc.insert(doc, SketchRef { batch: number, row });
        }
        self.sketches.push(SketchBatch::try_new(batch)?);
        self.rows.push(batch.clone());
        Ok(())
    }

    /// Adds all batches of a stream.
    ///
    /// # Errors
    /// As [`Self::add`], and those of the stream.
    pub(super) async fn add_all(&mut self, mut rows: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = rows.next().await.transpose()? {
            self.add(&batch)?;
        }
        Ok(())
    }

    /// The batches and their reservation.
    pub(super) fn into_rows(self) -> (Vec<RecordBatch>, MemoryReservation) {
        (self.rows, self.held)
    }

    /// The document of a key and a sketch.
    pub(super) fn document(&self, doc: u64, of: SketchRef) -> SketchedDocument<'_> {
        let sketch = &self.sketches[of.batch as usize];
        SketchedDocument { doc, shingles: sketch.shingles(of.row), signature: sketch.signature(of.row) }
    }

    /// A document, found by its key.
    ///
    /// # Errors
    /// If it has no sketch, which is a bug.
    pub(super) fn get(&self, doc: u64) -> Result<SketchedDocument<'_>> {
        match self.by_doc.get(&doc) {
            Some(&sketch) => Ok(self.document(doc, sketch)),
            None => internal_err!("document {doc} is a candidate and has no sketch"),
        }
    }

    /// Whether there are no sketches.
    pub(super) fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    /// Bytes that are reserved for them.
    pub(super) fn bytes(&self) -> usize {
        self.held.size()
    }

    /// Whether the document is a reference document.
    pub(super) fn is_reference(&self, of: SketchRef) -> bool {
        let sketch = &self.sketches[of.batch as usize];
        sketch.is_reference.as_ref().is_some_and(|is_reference| is_reference.value(of.row as usize))
    }

    /// The documents in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, SketchRef)> {
        self.by_doc.iter().map(|(&doc, &sketch)| (doc, sketch))
    }
}

fn slice<'a, T>(offsets: &OffsetBuffer<i32>, values: &'a [T], row: u32) -> &'a [T] {
    let row = row as usize;
    // The offsets of Arrow lists are ascending and not negative.
    &values[offsets[row] as usize..offsets[row + 1] as usize]
}
