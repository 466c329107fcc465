//! The representative of each document of a component, and how well the two are connected.
//!
//! Components are independent: they are partitioned by their roots, and a task keeps one component at a time. One pass over
//! the edges of a component is enough, because the engine sorts them first.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, RecordBatch, UInt64Builder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::clusters::{Division, Edge, EdgeOrder, Representatives, Represented, representatives};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// The columns (root, rank, representative, jaccard, weakest_link): a node of a component, its representative, the similarity of
/// the two if they are a pair, and the least similarity on the best path between them.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("root", DataType::UInt64, false),
        Field::new("rank", DataType::UInt64, false),
        Field::new("representative", DataType::UInt64, false),
        Field::new("jaccard", DataType::Float64, true),
        Field::new("weakest_link", DataType::Float64, true),
    ]))
}

/// The pairs of components (root, high, low: UInt64, jaccard: Float64) -> the columns of [`schema`], by a cluster method. The
/// nodes of a component are numbered from 1 in the order of preference, and `low` is less than `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Represent(pub(crate) Division);

/// The name in the memory pool.
const CONSUMER: &str = "Represent";

impl Description for Represent {
    const NAME: &'static str = "RepresentExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Division::Whole(method) => write!(f, "{method:?}"),
            Division::Part(method) => write!(f, "{method:?} of parts"),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let sorted = |at, descending| (at, SortOptions { descending, nulls_first: false });
        let further = match representatives(self.0).order() {
            EdgeOrder::Strongest => vec![sorted(3, true)],
            EdgeOrder::ByNodes => vec![sorted(1, false), sorted(2, false)],
        };
        Shape::over(inputs, schema(), vec![Requirement::sorted(&columns, further)])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let reader = ComponentReader {
            input: task.rows_of(0)?,
            component: Component { root: None, nodes: representatives(self.0) },
            found: RepresentativeRows::default(),
            held: MemoryConsumer::new(CONSUMER).register(task.context.memory_pool()),
        };
        let batches = stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next_batch().await?.map(|batch| (batch, reader)))
        });
        Ok(batches.boxed())
    }
}

/// The component that is being read.
struct Component {
    /// `None` before the first edge.
    root: Option<u64>,
    nodes: Box<dyn Representatives>,
}

impl Component {
    /// Adds an edge of the component `root`. If the edge before it was of another component, that one ends first.
    fn add(
        &mut self,
        root: u64,
        edge: Edge,
        found: &mut RepresentativeRows,
        held: &MemoryReservation,
    ) -> Result<()> {
        if self.root != Some(root) {
            self.end(found);
            self.root = Some(root);
        }
        reserve(held, self.nodes.bytes_with(edge))?;
        self.nodes.add(edge, &mut |row| found.push(root, row));
        Ok(())
    }

    /// Ends the component.
    fn end(&mut self, found: &mut RepresentativeRows) {
        if let Some(root) = self.root.take() {
            self.nodes.end(&mut |row| found.push(root, row));
        }
    }
}

/// Changes the size of a reservation.
fn reserve(held: &MemoryReservation, bytes: usize) -> Result<()> {
    if held.size() == bytes { Ok(()) } else { held.try_resize(bytes) }
}

/// Rows with the columns of [`schema`].
#[derive(Default)]
struct RepresentativeRows {
    numbers: [UInt64Builder; 3],
    shares: [Float64Builder; 2],
}

impl RepresentativeRows {
    /// Adds the row of a node of the component `root`.
    fn push(&mut self, root: u64, row: Represented) {
        for (builder, number) in self.numbers.iter_mut().zip([root, row.node, row.representative]) {
            builder.append_value(number);
        }
        for (builder, share) in self.shares.iter_mut().zip([row.jaccard, row.weakest_link]) {
            builder.append_option(share);
        }
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let numbers = self.numbers.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef);
        let shares = self.shares.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef);
        Ok(RecordBatch::try_new(schema(), numbers.chain(shares).collect())?)
    }
}

struct ComponentReader {
    input: SendableRecordBatchStream,
    component: Component,
    found: RepresentativeRows,
    held: MemoryReservation,
}

impl ComponentReader {
    /// The rows that a batch of edges finds; `None` at the end.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.input.next().await.transpose()? else {
            if self.component.root.is_none() {
                return Ok(None);
            }
            self.component.end(&mut self.found);
            return self.found.finish().map(Some);
        };
        let number = |at: usize| as_uint64_array(batch.column(at));
        let (roots, highs, lows) = (number(0)?, number(1)?, number(2)?);
        let jaccard = as_float64_array(batch.column(3))?;
        for row in 0..batch.num_rows() {
            let (root, high, low) = (roots.value(row), highs.value(row), lows.value(row));
            let edge = Edge { high, low, jaccard: jaccard.value(row) };
            self.component.add(root, edge, &mut self.found, &self.held)?;
        }
        tokio::task::consume_budget().await;
        self.found.finish().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Float64Type, UInt64Type};
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::job::ClusterMethod;

    type Row = (u64, u64, u64, Option<f64>, Option<f64>);

    /// The rows that come out of (root, high, low, jaccard).
    fn found(division: Division, edges: &[(u64, u64, u64, f64)]) -> Vec<Row> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let held = MemoryConsumer::new(CONSUMER).register(&pool);
        let mut component = Component { root: None, nodes: representatives(division) };
        let mut found = RepresentativeRows::default();
        for &(root, high, low, jaccard) in edges {
            component.add(root, Edge { high, low, jaccard }, &mut found, &held).unwrap();
        }
        component.end(&mut found);
        let batch = found.finish().unwrap();
        let number = |at: usize| batch.column(at).as_primitive::<UInt64Type>();
        let share = |at: usize, row| batch.column(at).as_primitive::<Float64Type>().iter().nth(row).unwrap();
        let row = |row| {
            let [root, node, representative] = [0, 1, 2].map(|at| number(at).value(row));
            (root, node, representative, share(3, row), share(4, row))
        };
        (0..batch.num_rows()).map(row).collect()
    }

    #[test]
    fn each_component_is_taken_by_itself() {
        let edges = [(7, 2, 1, 0.9), (7, 3, 2, 0.8), (5, 2, 1, 0.7), (9, 3, 1, 0.6)];
        let expected = [
            (7, 1, 1, None, Some(0.9)),
            (7, 2, 1, Some(0.9), Some(0.9)),
            (7, 3, 1, None, Some(0.8)),
            (5, 1, 1, None, Some(0.7)),
            (5, 2, 1, Some(0.7), Some(0.7)),
            (9, 1, 1, None, Some(0.6)),
            (9, 3, 1, Some(0.6), Some(0.6)),
        ];
        assert_eq!(found(Division::Whole(ClusterMethod::Components), &edges), expected);
        let expected = [(7, 2, 1, Some(0.9), None), (5, 2, 1, Some(0.7), None), (9, 3, 1, Some(0.6), None)];
        assert_eq!(found(Division::Whole(ClusterMethod::Representative), &edges), expected);
    }
}
