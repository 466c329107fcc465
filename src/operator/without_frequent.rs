//! Sets without the shingles that too many documents have.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use arrow::array::{Array, ListArray, RecordBatch, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::common::cast::{as_list_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::sketches::KeyHasher;
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// Frequent shingles (shingle: UInt64), and documents (.., shingles: `List<UInt64>`) -> the same documents, whose sets have no
/// frequent shingle. A set of nothing else is empty then.
///
/// The frequent shingles are one partition and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WithoutFrequent;

/// The frequent shingles, in memory.
#[derive(Debug)]
pub(crate) struct Frequent {
    shingles: HashSet<u64, BuildHasherDefault<KeyHasher>>,
    held: MemoryReservation,
}

/// Bytes of an entry: the table that holds them is at most doubled while it grows.
const BYTES_OF_ENTRY: usize = 36;

impl Frequent {
    async fn read(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Self> {
        let held = MemoryConsumer::new("WithoutFrequent").register(context.memory_pool());
        let mut frequent = Self { shingles: HashSet::default(), held };
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await.transpose()? {
            frequent.held.try_grow(BYTES_OF_ENTRY * batch.num_rows())?;
            let shingles = as_uint64_array(batch.column(0))?.values();
            frequent.shingles.extend(shingles.iter().map(|&shingle| key(shingle)));
        }
        Ok(frequent)
    }

    /// The documents of a batch without these shingles.
    fn left_out_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (Some(lists), mut columns) = (batch.columns().last(), batch.columns().to_vec()) else {
            return internal_err!("documents have shingles");
        };
        let lists = as_list_array(lists)?;
        let (offsets, values) = (lists.value_offsets(), as_uint64_array(lists.values())?.values());
        let (mut ends, mut rest) = (vec![0_i32], Vec::<u64>::with_capacity(values.len()));
        for row in 0..lists.len() {
            if lists.is_valid(row) {
                // The offsets of Arrow lists are ascending and not negative.
                let set = &values[offsets[row] as usize..offsets[row + 1] as usize];
                rest.extend(set.iter().filter(|shingle| !self.shingles.contains(&key(**shingle))));
            }
            // There are no more than before, and so fewer than 2^31.
            ends.push(rest.len() as i32);
        }
        let schema = batch.schema();
        let (_, fields) = (columns.pop(), schema.fields());
        let item = match fields.last().map(|field| field.data_type()) {
            Some(arrow::datatypes::DataType::List(item)) => Arc::clone(item),
            _ => return internal_err!("shingles are a list"),
        };
        let (ends, rest) = (OffsetBuffer::new(ScalarBuffer::from(ends)), UInt64Array::from(rest));
        columns.push(Arc::new(ListArray::try_new(item, ends, Arc::new(rest), lists.nulls().cloned())?));
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

/// The key of a shingle: the product spreads the numbers of short hashes over all bits.
fn key(shingle: u64) -> u64 {
    shingle.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Description for WithoutFrequent {
    const NAME: &'static str = "WithoutFrequentExec";

    type Shared = SharedValue<Frequent>;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [_, documents] = inputs else {
            return internal_err!("frequent shingles are taken out of documents");
        };
        let (columns, frequent) = (documents.schema(), Requirement::single_partition());
        Ok(Shape::over(inputs, columns, vec![frequent, Requirement::none()])?.row_by_row())
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let [frequent, _] = task.inputs else {
            return internal_err!("frequent shingles are taken out of documents");
        };
        let (frequent, documents) = (Arc::clone(frequent), task.rows_of(1)?);
        let shared = Arc::clone(task.shared);
        let batches = futures::stream::once(async move {
            let frequent = shared.get(Frequent::read(frequent, task.context)).await?;
            Ok::<_, DataFusionError>(documents.map(move |batch| frequent.left_out_of(&batch?)))
        });
        Ok(batches.try_flatten().boxed())
    }
}
