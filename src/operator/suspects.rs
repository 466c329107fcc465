//! The shingles that may be in more than a number of documents, by counters that are never too small.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Builder, UInt64Builder};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::shingle_counts::{FixedCounters, sets};
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// Counters, and documents (group_key: UInt64, .., shingles: `List<UInt64>`) -> (group_key, .., shingle: UInt64): for each document
/// whose set is not empty a row without a shingle, and one for each of its shingles with a counter over `over`.
///
/// The counters are one partition and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspects {
    /// The counters are `2^bits`.
    pub bits: u32,
    /// The number of documents that a shingle may have and is no suspect.
    pub over: u64,
}

/// The columns that come out of documents with these columns.
pub(crate) fn schema(documents: &Schema) -> SchemaRef {
    let mut fields = SchemaBuilder::new();
    let others = documents.fields().len().saturating_sub(1);
    documents.fields().iter().take(others).for_each(|field| fields.push(Arc::clone(field)));
    fields.push(Field::new("shingle", DataType::UInt64, true));
    Arc::new(fields.finish())
}

impl Suspects {
    fn of(self, batch: &RecordBatch, counters: &FixedCounters) -> Result<RecordBatch> {
        let groups = as_uint64_array(batch.column(0))?.values();
        let (mut rows, mut shingles) = (UInt32Builder::new(), UInt64Builder::new());
        for (row, set) in sets(batch)? {
            // A batch has fewer than 2^32 rows.
            rows.append_value(row as u32);
            shingles.append_null();
            for &shingle in set.iter().filter(|s| u64::from(counters.of(groups[row], **s)) > self.over) {
                rows.append_value(row as u32);
                shingles.append_value(shingle);
            }
        }
        let rows = rows.finish();
        let others = &batch.columns()[..batch.num_columns() - 1];
        let mut columns =
            others.iter().map(|of| Ok(take(of, &rows, None)?)).collect::<Result<Vec<ArrayRef>>>()?;
        columns.push(Arc::new(shingles.finish()));
        Ok(RecordBatch::try_new(schema(&batch.schema()), columns)?)
    }
}

impl fmt::Display for Suspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in more than {} documents, 2^{} counters", self.over, self.bits)
    }
}

impl Description for Suspects {
    const NAME: &'static str = "SuspectsExec";

    type Shared = SharedValue<FixedCounters>;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [_, documents] = inputs else {
            return internal_err!("suspects are found by counters in documents");
        };
        let columns = schema(&documents.schema());
        Shape::over(inputs, columns, vec![Requirement::single_partition(), Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let [counters, _] = task.inputs else {
            return internal_err!("suspects are found by counters in documents");
        };
        let (counters, documents) = (Arc::clone(counters), task.rows_of(1)?);
        let shared = Arc::clone(task.shared);
        let batches = futures::stream::once(async move {
            let counters =
                shared.get(FixedCounters::read("Suspects", self.bits, counters, task.context)).await?;
            Ok::<_, DataFusionError>(documents.map(move |batch| self.of(&batch?, &counters)))
        });
        Ok(batches.try_flatten().boxed())
    }
}
