//! The first row of each key, and its values in all rows of the key.
//!
//! The engine sorts the rows, and one pass over them is enough. A window function does the same, but keeps a state for each of
//! its partitions, which costs twenty times as much where most keys have two rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat, interleave, partition, take};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use super::with_flag;
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// Rows (key.., order.., .., of_first..) -> all of them with a last column `is_first: Boolean`, which is true for the first row
/// of each key in the order of the columns behind it. The columns `of_first` have the values of that row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstOfEach {
    /// The number of columns of the key, at least one.
    pub key: usize,
    /// How each of the columns is ordered that follow the key.
    pub order: Vec<ColumnOrder>,
    /// The number of columns at the end that get the values of the first row.
    pub of_first: usize,
}

/// The order by one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnOrder {
    pub descending: bool,
    pub nulls_first: bool,
}

/// The columns of the rows, and `is_first`.
pub(crate) fn marked(rows: &Schema) -> SchemaRef {
    with_flag(rows, "is_first")
}

/// The first row of the key that was read last, by its columns of the key and those `of_first`; `None` before the first batch.
type FirstRow = Option<Vec<ArrayRef>>;

impl FirstOfEach {
    /// Marks the rows of a batch, which follow `first` and rows of its key.
    fn mark(&self, batch: &RecordBatch, first: &mut FirstRow) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let own = batch.num_columns().saturating_sub(self.of_first);
        // Only these columns are looked at; all others stay as they are.
        let (keys, of_first) = (&batch.columns()[..self.key], &batch.columns()[own..]);
        let runs = if rows > 0 { partition(keys)?.ranges() } else { Vec::new() };
        // The key of the batch before may continue in this one.
        let before = match first.as_ref() {
            Some(first) if rows > 0 && continues(first, keys)? => Some(&first[self.key..]),
            _ => None,
        };
        // Of each row, the first one of its key: in this batch, or the one before it.
        let mut firsts = Vec::with_capacity(rows);
        for run in &runs {
            let is_before = run.start == 0 && before.is_some();
            let place = if is_before { (0, 0) } else { (1, run.start) };
            firsts.extend(std::iter::repeat_n(place, run.len()));
        }
        let is_first: BooleanArray =
            (0..).zip(&firsts).map(|(row, &first)| Some(first == (1, row))).collect();
        let mut columns = batch.columns()[..own].to_vec();
        for (at, column) in of_first.iter().enumerate() {
            let before = before.map_or(column, |before| &before[at]);
            columns.push(interleave(&[before.as_ref(), column.as_ref()], &firsts)?);
        }
        columns.push(Arc::new(is_first));
        if let Some(&(1, row)) = firsts.last() {
            // Copies, so that the batch is not held.
            let row = UInt32Array::from(vec![row as u32]);
            let copied = keys.iter().chain(of_first).map(|column| take(column, &row, None));
            *first = Some(copied.collect::<std::result::Result<_, _>>()?);
        }
        Ok(RecordBatch::try_new(marked(&batch.schema()), columns)?)
    }
}

/// Whether the first row of `keys` has the key of `first`.
fn continues(first: &[ArrayRef], keys: &[ArrayRef]) -> Result<bool> {
    let both = first.iter().zip(keys).map(|(first, key)| concat(&[first.as_ref(), key.slice(0, 1).as_ref()]));
    let both = both.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(partition(&both)?.len() == 1)
}

impl Description for FirstOfEach {
    const NAME: &'static str = "FirstOfEachExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} columns of the first row", self.of_first)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let (key, order) = (self.key, self.order.len());
        if key == 0 || columns.fields().len() < key + order + self.of_first {
            return plan_err!("a first row is found by {key} and {order} columns, not by {columns}");
        }
        let low = (1..key).map(|at| (at, SortOptions::default()));
        let further = (key..).zip(&self.order).map(|(at, &ColumnOrder { descending, nulls_first })| {
            (at, SortOptions { descending, nulls_first })
        });
        let sorted = Requirement::sorted(&columns, low.chain(further));
        Shape::over(inputs, marked(&columns), vec![sorted])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut first = None;
        Ok(task.rows_of(0)?.map(move |batch| self.mark(&batch?, &mut first)).boxed())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{AsArray, UInt64Array};
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;

    use super::*;

    fn batch(rows: &[[u64; 4]]) -> RecordBatch {
        let column = |at: usize| Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row[at]))) as _;
        RecordBatch::try_from_iter(["key_0", "key_1", "order", "kept"].into_iter().zip((0..4).map(column)))
            .unwrap()
    }

    proptest! {
        /// Whatever the batches are, each row has the value of the first row of its key.
        #[test]
        fn every_row_has_the_values_of_the_first_one(
            rows in proptest::collection::btree_map([0..3_u64, 0..3, 0..40], any::<u64>(), 0..60),
            sizes in proptest::collection::vec(1..9_usize, 60),
        ) {
            let rows: Vec<[u64; 4]> = rows.into_iter().map(|([a, b, order], value)| [a, b, order, value]).collect();
            let mut firsts: BTreeMap<[u64; 2], [u64; 4]> = BTreeMap::new();
            for row in &rows {
                firsts.entry([row[0], row[1]]).or_insert(*row);
            }
            let operator = FirstOfEach { key: 2, order: vec![ColumnOrder { descending: false, nulls_first: false }], of_first: 1 };
            let (mut first, mut rest, mut sizes) = (None, &rows[..], sizes.into_iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                rest = later;
                let marked = operator.mark(&batch(now), &mut first).unwrap();
                let numbers = |at: usize| marked.column(at).as_primitive::<UInt64Type>();
                for (at, row) in now.iter().enumerate() {
                    let first = firsts[&[row[0], row[1]]];
                    prop_assert_eq!(numbers(3).value(at), first[3]);
                    prop_assert_eq!(marked.column(4).as_boolean().value(at), first == *row);
                    prop_assert_eq!(numbers(2).value(at), row[2]);
                }
            }
        }
    }
}
