//! Passes over clusters. One pass finds the representative of each document, and another pass counts the shingles that are lost if
//! duplicates are removed. Rows are partitioned and sorted by the root of their component, and a task holds one component or cluster at a
//! time.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Float64Builder, RecordBatch, UInt64Builder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_float64_array, as_list_array, as_uint64_array};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use crate::clusters::{
    ClusterLosses, Division, Edge, EdgeOrder, Representatives, Represented, representatives,
};
use crate::kernel::measure::as_set;
use crate::plan::{Batches, Description, Requirement, Shape, Task, map_to_end, only_input};

fn reserve(held: &MemoryReservation, bytes: usize) -> Result<()> {
    if held.size() == bytes { Ok(()) } else { held.try_resize(bytes) }
}

/// The columns (root, rank, representative, jaccard, weakest_link): a node of a component and its representative. `jaccard` is their
/// similarity if they are a pair. `weakest_link` is the minimum similarity on the best path between them.
pub(super) fn represented_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("root", DataType::UInt64, false),
        Field::new("rank", DataType::UInt64, false),
        Field::new("representative", DataType::UInt64, false),
        Field::new("jaccard", DataType::Float64, true),
        Field::new("weakest_link", DataType::Float64, true),
    ]))
}

/// Chooses representatives by a cluster method: (root, high, low: UInt64, jaccard: Float64) -> the columns of [`represented_schema`]. Each
/// input row is a pair in a component. The nodes of a component are numbered from 1 in the order of preference, and `low` is less than
/// `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Represent(pub(crate) Division);

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
        Shape::over(inputs, represented_schema(), vec![Requirement::sorted(&columns, further)])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut component = Component::new(self.0, &task.context);
        Ok(map_to_end(task.rows_of(0)?, move |edges| component.next(edges)))
    }
}

/// The current component, and the rows of its nodes.
struct Component {
    /// `None` before the first edge.
    root: Option<u64>,
    nodes: Box<dyn Representatives>,
    rows: RepresentativeRows,
    held: MemoryReservation,
}

impl Component {
    fn new(division: Division, context: &TaskContext) -> Self {
        let held = MemoryConsumer::new("Represent").register(context.memory_pool());
        Self { root: None, nodes: representatives(division), rows: RepresentativeRows::default(), held }
    }

    /// Returns the rows of components that are complete after a batch of edges. Pass `None` at the end of the edges.
    fn next(&mut self, edges: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        match edges {
            Some(edges) => {
                let number = |at: usize| as_uint64_array(edges.column(at));
                let (roots, highs, lows) = (number(0)?, number(1)?, number(2)?);
                let jaccard = as_float64_array(edges.column(3))?;
                for row in 0..edges.num_rows() {
                    let (high, low) = (highs.value(row), lows.value(row));
                    self.add(roots.value(row), Edge { high, low, jaccard: jaccard.value(row) })?;
                }
            }
            None => self.end(),
        }
        let rows = self.rows.finish()?;
        Ok((rows.num_rows() > 0).then_some(rows))
    }

    /// Adds an edge of the component `root`. Ends the previous component if `root` is new.
    fn add(&mut self, root: u64, edge: Edge) -> Result<()> {
        if self.root != Some(root) {
            self.end();
            self.root = Some(root);
        }
        reserve(&self.held, self.nodes.bytes_with(edge))?;
        self.nodes.add(edge, &mut |row| self.rows.push(root, row));
        Ok(())
    }

    fn end(&mut self) {
        if let Some(root) = self.root.take() {
            self.nodes.end(&mut |row| self.rows.push(root, row));
        }
    }
}

#[derive(Default)]
struct RepresentativeRows {
    numbers: [UInt64Builder; 3],
    shares: [Float64Builder; 2],
}

impl RepresentativeRows {
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
        Ok(RecordBatch::try_new(represented_schema(), numbers.chain(shares).collect())?)
    }
}

/// The role of the representative in its cluster. The operator requires that the documents of a cluster are sorted by role.
pub(crate) const REPRESENTATIVE: u64 = 0;
/// The role of a document that is paired with the representative.
pub(crate) const PAIRED: u64 = 1;
/// The role of a document that is connected with the representative through other documents.
pub(crate) const CHAINED: u64 = 2;
/// The role of a document that is never removed.
pub(crate) const STAYS: u64 = 3;

/// The columns (set, documents: UInt64, paired: Boolean, shared, shingles, of_shingles, gone: UInt64) of a shingle set in a cluster.
/// `documents` counts the documents with this set that the cluster method may remove. `paired` tells whether the set is paired with the
/// representative. `shingles` is the size of the set, `of_shingles` is the size of the representative's set, and `shared` is the number of
/// common shingles. In the row of the representative, `gone` is the number of shingles that only removed documents contain.
pub(crate) fn losses_schema() -> SchemaRef {
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

/// Counts the shingles that are lost if the duplicates in clusters are removed: (root, place, role, set, documents: UInt64, shingles:
/// `List<UInt64>`) -> the columns of [`losses_schema`]. Each input row is a shingle set in a cluster. `root` and `place` identify the
/// cluster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountLosses {
    /// The minimum share of a document's shingles that the representative must contain for a removal; `None` for any share.
    pub(crate) contained: Option<f64>,
}

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
        Shape::over(inputs, losses_schema(), vec![requirement])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut cluster = LossCounter::new(self.contained, &task.context);
        Ok(map_to_end(task.rows_of(0)?, move |sets| cluster.next(sets)))
    }
}

/// The losses of the current cluster, and the rows of its sets.
struct LossCounter {
    contained: Option<f64>,
    /// The `set` column of the representative's row.
    representative: Option<u64>,
    losses: ClusterLosses,
    numbers: [UInt64Builder; 6],
    paired: BooleanBuilder,
    held: MemoryReservation,
}

impl LossCounter {
    fn new(contained: Option<f64>, context: &TaskContext) -> Self {
        let held = MemoryConsumer::new("CountLosses").register(context.memory_pool());
        let (numbers, paired) = (Default::default(), BooleanBuilder::new());
        Self { contained, representative: None, losses: ClusterLosses::default(), numbers, paired, held }
    }

    /// Returns the rows for a batch of sets. Pass `None` at the end of the sets.
    fn next(&mut self, sets: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        match sets {
            Some(batch) => {
                let number = |at: usize| as_uint64_array(batch.column(at));
                let (roles, sets, documents) = (number(2)?, number(3)?, number(4)?);
                let lists = as_list_array(batch.column(5))?;
                let values = as_uint64_array(lists.values())?.values();
                let offsets = lists.value_offsets();
                for row in 0..batch.num_rows() {
                    let shingles = as_set(&values[offsets[row] as usize..offsets[row + 1] as usize]);
                    self.add(roles.value(row), (sets.value(row), documents.value(row)), &shingles)?;
                }
            }
            None => self.end(),
        }
        let mut columns: Vec<ArrayRef> =
            self.numbers.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.insert(2, Arc::new(self.paired.finish()));
        let rows = RecordBatch::try_new(losses_schema(), columns)?;
        Ok((rows.num_rows() > 0).then_some(rows))
    }

    fn add(&mut self, role: u64, (set, documents): (u64, u64), shingles: &[u64]) -> Result<()> {
        if role == REPRESENTATIVE {
            self.end();
        }
        reserve(&self.held, self.losses.bytes_with(shingles.len()))?;
        if role == REPRESENTATIVE {
            self.representative = Some(set);
            self.losses.begin(shingles.to_vec());
        } else if role == STAYS {
            self.losses.stays(shingles);
        } else {
            let paired = role == PAIRED;
            let Some((shared, of_shingles)) = self.losses.add(shingles, paired, self.contained) else {
                return internal_err!("a cluster has no representative");
            };
            self.push([set, documents, shared, shingles.len() as u64, of_shingles, 0], paired);
        }
        Ok(())
    }

    fn end(&mut self) {
        if let (Some(set), Some((shingles, gone))) = (self.representative.take(), self.losses.end()) {
            self.push([set, 0, shingles, shingles, shingles, gone], true);
        }
    }

    /// Adds a row (set, documents, shared, shingles, of_shingles, gone).
    fn push(&mut self, numbers: [u64; 6], paired: bool) {
        for (builder, number) in self.numbers.iter_mut().zip(numbers) {
            builder.append_value(number);
        }
        self.paired.append_value(paired);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, ListArray, UInt64Array};
    use arrow::datatypes::{Float64Type, UInt64Type};

    use super::*;
    use crate::job::ClusterMethod;

    type RepresentedRow = (u64, u64, u64, Option<f64>, Option<f64>);

    /// Returns the output rows for edges (root, high, low, jaccard).
    fn represented(division: Division, edges: &[(u64, u64, u64, f64)]) -> Vec<RepresentedRow> {
        let mut component = Component::new(division, &TaskContext::default());
        for &(root, high, low, jaccard) in edges {
            component.add(root, Edge { high, low, jaccard }).unwrap();
        }
        let batch = component.next(None).unwrap().unwrap();
        let number = |at: usize| batch.column(at).as_primitive::<UInt64Type>();
        let share = |at: usize, row| batch.column(at).as_primitive::<Float64Type>().iter().nth(row).unwrap();
        let row = |row| {
            let [root, node, representative] = [0, 1, 2].map(|at| number(at).value(row));
            (root, node, representative, share(3, row), share(4, row))
        };
        (0..batch.num_rows()).map(row).collect()
    }

    #[test]
    fn components_are_independent() {
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
        assert_eq!(represented(Division::Whole(ClusterMethod::Components), &edges), expected);
        let expected = [(7, 2, 1, Some(0.9), None), (5, 2, 1, Some(0.7), None), (9, 3, 1, Some(0.6), None)];
        assert_eq!(represented(Division::Whole(ClusterMethod::Representative), &edges), expected);
    }

    type SetRow = ([u64; 5], &'static [u64]);

    /// Returns a batch of sets (root, place, role, set, documents, shingles).
    fn batch(rows: &[SetRow]) -> RecordBatch {
        let numbers =
            ["root", "place", "role", "set", "documents"].into_iter().enumerate().map(|(at, name)| {
                let column = UInt64Array::from_iter_values(rows.iter().map(|row| row.0[at]));
                (name, Arc::new(column) as ArrayRef)
            });
        let lists = rows.iter().map(|row| Some(row.1.iter().copied().map(Some).collect::<Vec<_>>()));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(lists));
        RecordBatch::try_from_iter(numbers.chain([("shingles", lists)])).unwrap()
    }

    fn counted(batches: Vec<RecordBatch>, contained: Option<f64>) -> Result<Vec<[u64; 7]>> {
        let mut cluster = LossCounter::new(contained, &TaskContext::default());
        let mut rows = Vec::new();
        for sets in batches.into_iter().map(Some).chain([None]) {
            let Some(batch) = cluster.next(sets)? else { continue };
            for row in 0..batch.num_rows() {
                rows.push([0, 1, 2, 3, 4, 5, 6].map(|at| match batch.column(at).data_type() {
                    DataType::Boolean => u64::from(batch.column(at).as_boolean().value(row)),
                    _ => batch.column(at).as_primitive::<UInt64Type>().value(row),
                }));
            }
        }
        Ok(rows)
    }

    #[test]
    fn clusters_are_counted_wherever_batches_end() {
        let rows: [SetRow; 5] = [
            ([7, 1, REPRESENTATIVE, 70, 0], &[1, 2, 3, 4]),
            ([7, 1, PAIRED, 71, 2], &[9, 1, 2, 3]),
            ([7, 1, CHAINED, 72, 1], &[4, 8]),
            ([7, 3, REPRESENTATIVE, 73, 0], &[5]),
            ([7, 3, PAIRED, 74, 1], &[5, 6]),
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
            assert_eq!(counted(batches(), None).unwrap(), expected(2));
            // The chained document is kept.
            assert_eq!(counted(batches(), Some(0.5)).unwrap(), expected(1));
        }
        let error = counted(vec![batch(&[([7, 1, PAIRED, 71, 2], &[9])])], None).unwrap_err();
        assert!(error.to_string().contains("no representative"), "{error}");
    }
}
