//! What is lost when the duplicates of clusters are removed, counted on their shingles.
//!
//! Clusters are partitioned by the roots of their components, and a task holds the representative of one cluster at a time, with
//! the shingles that it lacks.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, RecordBatch, UInt64Builder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_list_array, as_uint64_array};
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::clusters::ClusterLosses;
use crate::kernel::jaccard::as_set;
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// The roles of a document in its cluster, in the order in which the operator needs them.
pub(crate) const REPRESENTATIVE: u64 = 0;
/// Paired with the representative.
pub(crate) const PAIRED: u64 = 1;
/// Connected with the representative by others.
pub(crate) const CHAINED: u64 = 2;
/// Not removed, whatever its representative has.
pub(crate) const STAYS: u64 = 3;

/// The columns (set, documents: UInt64, paired: Boolean, shared, shingles, of_shingles, gone: UInt64): a shingle set of a
/// cluster, the documents that have it and may be removed, whether it is paired with the representative, how many shingles it
/// shares with that, has itself, and that has; and in the row of the representative, how many shingles are gone with the removed
/// documents.
pub(crate) fn schema() -> SchemaRef {
    let number = |name: &str, nullable| Field::new(name, DataType::UInt64, nullable);
    Arc::new(Schema::new(vec![
        number("set", false),
        number("documents", false),
        Field::new("paired", DataType::Boolean, false),
        number("shared", true),
        number("shingles", true),
        number("of_shingles", true),
        number("gone", false),
    ]))
}

/// The sets of clusters (root, place, role, set, documents: UInt64, shingles: `List<UInt64>`) -> the columns of [`schema`].
/// `root` and `place` name the cluster, and `role` is one of those above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountLosses {
    /// The least share of its shingles that the representative of a removed document has; `None` if any is enough.
    pub(crate) contained: Option<f64>,
}

/// The name in the memory pool.
const CONSUMER: &str = "CountLosses";

impl Description for CountLosses {
    const NAME: &'static str = "CountLossesExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.contained {
            Some(contained) => write!(f, "contained={contained}"),
            None => Ok(()),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let options = SortOptions { descending: false, nulls_first: false };
        let requirement = Requirement::sorted(&columns, [(1, options), (2, options)]);
        Shape::over(inputs, schema(), vec![requirement])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let reader = ClusterReader {
            input: task.rows_of(0)?,
            contained: self.contained,
            representative: None,
            losses: ClusterLosses::default(),
            counted: LossRows::default(),
            held: MemoryConsumer::new(CONSUMER).register(task.context.memory_pool()),
        };
        let batches = stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next_batch().await?.map(|batch| (batch, reader)))
        });
        Ok(batches.boxed())
    }
}

/// Rows with the columns of [`schema`].
#[derive(Default)]
struct LossRows {
    numbers: [UInt64Builder; 6],
    paired: BooleanBuilder,
}

impl LossRows {
    /// Adds (set, documents, shared, shingles, of_shingles, gone).
    fn push(&mut self, numbers: [u64; 6], paired: bool) {
        for (builder, number) in self.numbers.iter_mut().zip(numbers) {
            builder.append_value(number);
        }
        self.paired.append_value(paired);
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.numbers.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.insert(2, Arc::new(self.paired.finish()));
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}

struct ClusterReader {
    input: SendableRecordBatchStream,
    contained: Option<f64>,
    /// The shingle set of the representative of the cluster that is being read.
    representative: Option<u64>,
    losses: ClusterLosses,
    counted: LossRows,
    held: MemoryReservation,
}

impl ClusterReader {
    /// The rows that a batch of sets makes; `None` at the end.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.input.next().await.transpose()? else {
            if self.representative.is_none() {
                return Ok(None);
            }
            self.end();
            return self.counted.finish().map(Some);
        };
        let number = |at: usize| as_uint64_array(batch.column(at));
        let (roles, sets, documents) = (number(2)?, number(3)?, number(4)?);
        let lists = as_list_array(batch.column(5))?;
        let values = as_uint64_array(lists.values())?.values();
        for row in 0..batch.num_rows() {
            let offsets = lists.value_offsets();
            let shingles = as_set(&values[offsets[row] as usize..offsets[row + 1] as usize]);
            self.add(roles.value(row), (sets.value(row), documents.value(row)), &shingles)?;
        }
        tokio::task::consume_budget().await;
        self.counted.finish().map(Some)
    }

    fn add(&mut self, role: u64, (set, documents): (u64, u64), shingles: &[u64]) -> Result<()> {
        if role == REPRESENTATIVE {
            self.end();
        }
        let bytes = self.losses.bytes_with(shingles.len());
        if self.held.size() != bytes {
            self.held.try_resize(bytes)?;
        }
        if role == REPRESENTATIVE {
            self.representative = Some(set);
            self.losses.begin(shingles.to_vec());
            return Ok(());
        }
        if role == STAYS {
            self.losses.stays(shingles);
            return Ok(());
        }
        let paired = role == PAIRED;
        let Some((shared, of_shingles)) = self.losses.add(shingles, paired, self.contained) else {
            return internal_err!("a cluster has no representative");
        };
        self.counted.push([set, documents, shared, shingles.len() as u64, of_shingles, 0], paired);
        Ok(())
    }

    /// Ends the cluster, if there is one.
    fn end(&mut self) {
        if let (Some(set), Some((shingles, gone))) = (self.representative.take(), self.losses.end()) {
            self.counted.push([set, 0, shingles, shingles, shingles, gone], true);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, ListArray, UInt64Array};
    use arrow::datatypes::UInt64Type;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::operator::fixtures::stream_of;

    type Row = (u64, u64, u64, u64, u64, &'static [u64]);

    /// Sets (root, place, role, set, documents, shingles).
    fn batch(rows: &[Row]) -> RecordBatch {
        let column = |of: fn(&Row) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
        };
        let lists = rows.iter().map(|row| Some(row.5.iter().copied().map(Some).collect::<Vec<_>>()));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(lists));
        RecordBatch::try_from_iter([
            ("root", column(|row| row.0)),
            ("place", column(|row| row.1)),
            ("role", column(|row| row.2)),
            ("set", column(|row| row.3)),
            ("documents", column(|row| row.4)),
            ("shingles", lists),
        ])
        .unwrap()
    }

    async fn counted(batches: Vec<RecordBatch>, contained: Option<f64>) -> Result<Vec<[u64; 7]>> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let mut reader = ClusterReader {
            input: stream_of(batches),
            contained,
            representative: None,
            losses: ClusterLosses::default(),
            counted: LossRows::default(),
            held: MemoryConsumer::new(CONSUMER).register(&pool),
        };
        let mut rows = Vec::new();
        while let Some(batch) = reader.next_batch().await? {
            for row in 0..batch.num_rows() {
                rows.push([0, 1, 2, 3, 4, 5, 6].map(|at| match batch.column(at).data_type() {
                    DataType::Boolean => u64::from(batch.column(at).as_boolean().value(row)),
                    _ => batch.column(at).as_primitive::<UInt64Type>().value(row),
                }));
            }
        }
        Ok(rows)
    }

    #[tokio::test]
    async fn each_cluster_is_counted_by_itself_wherever_batches_end() {
        let rows: [Row; 5] = [
            (7, 1, REPRESENTATIVE, 70, 0, &[1, 2, 3, 4]),
            (7, 1, PAIRED, 71, 2, &[9, 1, 2, 3]),
            (7, 1, CHAINED, 72, 1, &[4, 8]),
            (7, 3, REPRESENTATIVE, 73, 0, &[5]),
            (7, 3, PAIRED, 74, 1, &[5, 6]),
        ];
        for cut in 1..rows.len() {
            let batches = || vec![batch(&rows[..cut]), batch(&rows[cut..])];
            let expected = |gone| {
                [
                    [71, 2, 1, 3, 4, 4, 0],
                    [72, 1, 0, 1, 2, 4, 0],
                    [70, 0, 1, 4, 4, 4, gone],
                    [74, 1, 1, 1, 2, 1, 0],
                    [73, 0, 1, 1, 1, 1, 1],
                ]
            };
            assert_eq!(counted(batches(), None).await.unwrap(), expected(2));
            // The chained one stays.
            assert_eq!(counted(batches(), Some(0.5)).await.unwrap(), expected(1));
        }
    }

    #[tokio::test]
    async fn a_cluster_without_a_representative_is_refused() {
        let error = counted(vec![batch(&[(7, 1, PAIRED, 71, 2, &[9])])], None).await.unwrap_err();
        assert!(error.to_string().contains("no representative"), "{error}");
    }
}
