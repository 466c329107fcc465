//! Which document represents each one of a component, and how well the two are connected.
//!
//! Components do not touch each other, so each is taken by itself: tasks share them out by their roots, and each keeps one
//! component at a time. What one pass over its edges finds depends on their order, which the engine sorts them by.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Float64Array, Float64Builder, RecordBatch, UInt64Array, UInt64Builder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::clusters::{Greedy, StrongestPaths};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("root", DataType::UInt64, false),
        Field::new("rank", DataType::UInt64, false),
        Field::new("representative", DataType::UInt64, false),
        Field::new("jaccard", DataType::Float64, true),
        Field::new("weakest", DataType::Float64, true),
    ]))
});

/// The columns (root, rank, representative, jaccard, weakest): a node of a component, the one that represents it, the similarity
/// of the two if they are a pair, and the least similarity on the best path between them.
pub(crate) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// The pairs of components (root, high, low: UInt64, jaccard: Float64) -> the columns of [`schema`]. The nodes of a component have
/// numbers from 1, in the order in which they are wanted, and `low` is less than `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Represent {
    /// Node 1 represents its component. Every node has a row where the component has no number over [`MOST_NODES`]; in a larger one
    /// only those that are paired with node 1 have, without `weakest`. In the row of node 1, `weakest` is its greatest similarity: that is
    /// how well a document is connected with a copy that it is no pair with.
    Components,
    /// Nodes represent those that they are paired with: see [`Greedy`]. Every node that does not represent itself has a row, without
    /// `weakest`.
    Greedy,
}

/// The greatest number that a node has in a component whose paths are looked for: they take 20 to 40 bytes for each.
pub(crate) const MOST_NODES: u32 = 1_000_000;

/// What the memory pool knows it by.
const CONSUMER: &str = "Represent";

impl fmt::Display for Represent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Represent::Components => "components, strongest paths",
            Represent::Greedy => "greedy",
        })
    }
}

impl Description for Represent {
    const NAME: &'static str = "RepresentExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let types: Vec<_> = columns.fields().iter().map(|field| field.data_type().clone()).collect();
        if types != [DataType::UInt64, DataType::UInt64, DataType::UInt64, DataType::Float64] {
            return plan_err!(
                "representatives are found by (root, high, low, jaccard), not by columns of {types:?}"
            );
        }
        let column =
            |at: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(columns.field(at).name(), at)) };
        let sorted = |at: usize, descending: bool| {
            PhysicalSortRequirement::new(column(at), Some(SortOptions { descending, nulls_first: false }))
        };
        let further = match self {
            Represent::Components => vec![sorted(3, true)],
            Represent::Greedy => vec![sorted(1, false), sorted(2, false)],
        };
        Shape::over(inputs, schema(), vec![Requirement::sorted_further(column(0), further)])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let pass = match *self {
            Represent::Components => Pass::Components { paths: StrongestPaths::default(), too_large: false },
            Represent::Greedy => Pass::Greedy(Greedy::default()),
        };
        let reader = Reader {
            input: task.rows_of(0)?,
            pass,
            root: None,
            found: Found::default(),
            held: MemoryConsumer::new(CONSUMER).register(task.context.memory_pool()),
        };
        let batches = stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next_batch().await?.map(|batch| (batch, reader)))
        });
        Ok(batches.boxed())
    }
}

/// What is known of the component that is being read.
enum Pass {
    Components {
        paths: StrongestPaths,
        /// Whether it has a number over [`MOST_NODES`].
        too_large: bool,
    },
    Greedy(Greedy),
}

impl Pass {
    /// Takes an edge of the component `root`.
    fn take(
        &mut self,
        root: u64,
        high: u64,
        low: u64,
        jaccard: f64,
        found: &mut Found,
        held: &MemoryReservation,
    ) -> Result<()> {
        match self {
            Pass::Greedy(greedy) => {
                if greedy.represents(high, low) {
                    found.push(root, high, low, Some(jaccard), None);
                    reserve(held, greedy.bytes())?;
                }
            }
            Pass::Components { paths, too_large } => {
                let small = u32::try_from(high).ok().filter(|&high| high <= MOST_NODES && !*too_large);
                match small {
                    Some(high) => {
                        reserve(held, paths.bytes_with(high))?;
                        // Below a number of 32 bits.
                        paths.join(high, low as u32, jaccard);
                    }
                    None => {
                        if !*too_large {
                            *too_large = true;
                            for path in paths.paths().filter(|path| path.direct.is_some()) {
                                found.push(root, u64::from(path.node), FIRST, path.direct, None);
                            }
                        }
                        if low == FIRST {
                            found.push(root, high, FIRST, Some(jaccard), None);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the component `root`: the next edge is another's.
    fn end(&mut self, root: u64, found: &mut Found) {
        match self {
            Pass::Greedy(greedy) => greedy.clear(),
            Pass::Components { paths, too_large } => {
                if !*too_large {
                    found.push(root, FIRST, FIRST, None, paths.strongest_of_first());
                    for path in paths.paths() {
                        found.push(root, u64::from(path.node), FIRST, path.direct, Some(path.weakest));
                    }
                }
                paths.clear();
                *too_large = false;
            }
        }
    }
}

/// Reserves so many bytes, if they are not just those that are reserved.
fn reserve(held: &MemoryReservation, bytes: usize) -> Result<()> {
    if held.size() == bytes { Ok(()) } else { held.try_resize(bytes) }
}

/// The number of the node that represents a whole component.
const FIRST: u64 = 1;

/// Rows that are found.
#[derive(Default)]
struct Found {
    roots: UInt64Builder,
    ranks: UInt64Builder,
    representatives: UInt64Builder,
    jaccard: Float64Builder,
    weakest: Float64Builder,
}

impl Found {
    fn push(
        &mut self,
        root: u64,
        rank: u64,
        representative: u64,
        jaccard: Option<f64>,
        weakest: Option<f64>,
    ) {
        self.roots.append_value(root);
        self.ranks.append_value(rank);
        self.representatives.append_value(representative);
        self.jaccard.append_option(jaccard);
        self.weakest.append_option(weakest);
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.roots.finish()),
            Arc::new(self.ranks.finish()),
            Arc::new(self.representatives.finish()),
            Arc::new(self.jaccard.finish()),
            Arc::new(self.weakest.finish()),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}

struct Reader {
    input: SendableRecordBatchStream,
    pass: Pass,
    /// The component that is being read.
    root: Option<u64>,
    found: Found,
    held: MemoryReservation,
}

impl Reader {
    /// What a batch of edges finds; none at the end.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.input.next().await.transpose()? else {
            let Some(last) = self.root.take() else { return Ok(None) };
            self.pass.end(last, &mut self.found);
            return self.found.finish().map(Some);
        };
        self.read(
            as_uint64_array(batch.column(0))?,
            as_uint64_array(batch.column(1))?,
            as_uint64_array(batch.column(2))?,
            as_float64_array(batch.column(3))?,
        )?;
        tokio::task::consume_budget().await;
        self.found.finish().map(Some)
    }

    fn read(
        &mut self,
        roots: &UInt64Array,
        highs: &UInt64Array,
        lows: &UInt64Array,
        jaccard: &Float64Array,
    ) -> Result<()> {
        for row in 0..roots.len() {
            let root = roots.value(row);
            match self.root {
                Some(last) if last != root => self.pass.end(last, &mut self.found),
                _ => {}
            }
            self.root = Some(root);
            let (high, low, jaccard) = (highs.value(row), lows.value(row), jaccard.value(row));
            self.pass.take(root, high, low, jaccard, &mut self.found, &self.held)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;

    type Row = (u64, u64, u64, Option<f64>, Option<f64>);

    /// What comes out of (root, high, low, jaccard).
    fn found(mut pass: Pass, edges: &[(u64, u64, u64, f64)]) -> Vec<Row> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let held = MemoryConsumer::new(CONSUMER).register(&pool);
        let mut found = Found::default();
        let mut last = None;
        for &(root, high, low, jaccard) in edges {
            if last.is_some_and(|last| last != root) {
                pass.end(last.unwrap(), &mut found);
            }
            last = Some(root);
            pass.take(root, high, low, jaccard, &mut found, &held).unwrap();
        }
        pass.end(last.unwrap(), &mut found);
        let batch = found.finish().unwrap();
        let number =
            |at: usize| batch.column(at).as_primitive::<arrow::datatypes::UInt64Type>().values().to_vec();
        let share = |at: usize| {
            batch.column(at).as_primitive::<arrow::datatypes::Float64Type>().iter().collect::<Vec<_>>()
        };
        let numbers = number(0).into_iter().zip(number(1)).zip(number(2));
        let shares = share(3).into_iter().zip(share(4));
        numbers.zip(shares).map(|(((a, b), c), (d, e))| (a, b, c, d, e)).collect()
    }

    fn components() -> Pass {
        Pass::Components { paths: StrongestPaths::default(), too_large: false }
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
        assert_eq!(found(components(), &edges), expected);
        let expected = [(7, 2, 1, Some(0.9), None), (5, 2, 1, Some(0.7), None), (9, 3, 1, Some(0.6), None)];
        assert_eq!(found(Pass::Greedy(Greedy::default()), &edges), expected);
    }

    /// Whenever the number shows that says how large it is.
    #[test]
    fn in_a_component_that_is_too_large_only_pairs_are_told() {
        let large = u64::from(MOST_NODES) + 1;
        let next = (8, 2, 1, 0.5);
        for at in 0..3 {
            let mut edges = vec![(7, 2, 1, 0.9), (7, 4, 1, 0.3)];
            edges.insert(at, (7, large, 2, 0.9 - at as f64 / 10.0));
            edges.push(next);
            let rows = found(components(), &edges);
            let expected = [
                (7, 2, 1, Some(0.9), None),
                (7, 4, 1, Some(0.3), None),
                (8, 1, 1, None, Some(0.5)),
                (8, 2, 1, Some(0.5), Some(0.5)),
            ];
            assert_eq!(rows, expected, "{at}");
        }
        let just = [(7, large - 1, 1, 0.9)];
        let expected = [(7, 1, 1, None, Some(0.9)), (7, large - 1, 1, Some(0.9), Some(0.9))];
        assert_eq!(found(components(), &just), expected);
    }
}
