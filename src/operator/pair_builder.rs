//! A batch of pairs while it is built.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, true),
    ]))
});

/// The columns (a, b): two documents of a bucket, a < b. A pair comes once for each common bucket. In a row without b,
/// the document a is in a hot or dense bucket: see [`super::bucket_pairs`].
pub(crate) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// Builds a batch of pairs.
pub(super) struct PairBuilder {
    a: UInt64Builder,
    b: UInt64Builder,
    room: usize,
}

impl PairBuilder {
    pub(super) fn new(room: usize) -> Self {
        Self { a: UInt64Builder::with_capacity(room), b: UInt64Builder::with_capacity(room), room }
    }

    pub(super) fn is_full(&self) -> bool {
        self.a.values_slice().len() >= self.room
    }

    pub(super) fn push(&mut self, x: u64, y: u64) {
        if x != y {
            self.a.append_value(x.min(y));
            self.b.append_value(x.max(y));
        }
    }

    /// Adds a document without a second one.
    pub(super) fn push_alone(&mut self, doc: u64) {
        self.a.append_value(doc);
        self.b.append_null();
    }

    pub(super) fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.a.values_slice().is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(self.a.finish()), Arc::new(self.b.finish())];
        Ok(Some(RecordBatch::try_new(schema(), columns)?))
    }
}
