//! The first row of each key, and its values in all rows of the key.
//!
//! The engine sorts the rows, and one pass over them is enough. A window function does the same, but keeps a state for each of
//! its partitions, which costs twenty times as much where most keys have two rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// Rows (key_0, key_1: UInt64, order.., .., of_first..) -> all of them with a last column `is_first: Boolean`, which is true for the
/// first row of each key (key_0, key_1) in the order of the columns behind it. The columns `of_first` have the values of that row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstOfEach {
    /// How each of the columns is ordered that follow the key.
    pub order: Vec<Order>,
    /// The number of columns at the end that get the values of the first row.
    pub of_first: usize,
}

/// The order by one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub descending: bool,
    pub nulls_first: bool,
}

/// The columns of the key.
const KEY: usize = 2;

/// The columns of the rows, and `is_first`.
pub(crate) fn marked(rows: &Schema) -> SchemaRef {
    let mut fields = SchemaBuilder::from(&rows.fields);
    fields.push(Field::new("is_first", DataType::Boolean, false));
    Arc::new(fields.finish().with_metadata(rows.metadata.clone()))
}

/// The first row of the key that was read last; `None` before the first batch.
type First = Option<RecordBatch>;

impl FirstOfEach {
    /// Marks the rows of a batch, which follow `first` and rows of its key.
    fn mark(&self, batch: &RecordBatch, first: &mut First) -> Result<RecordBatch> {
        // The row before the batch has the values of a key that continues in it.
        let before = usize::from(first.is_some());
        let rows = match first {
            Some(first) => concat_batches(&batch.schema(), [&*first, batch])?,
            None => batch.clone(),
        };
        let (high, low) =
            (as_uint64_array(rows.column(0))?.values(), as_uint64_array(rows.column(1))?.values());
        let mut firsts: Vec<u32> = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let same = row.checked_sub(1).filter(|&last| high[last] == high[row] && low[last] == low[row]);
            // A batch has fewer than 2^32 rows.
            firsts.push(same.map_or(row as u32, |last| firsts[last]));
        }
        if let Some(&last) = firsts.last() {
            // A copy, so that the batch is not held.
            *first = Some(concat_batches(&batch.schema(), [&rows.slice(last as usize, 1)])?);
        }
        let own = (before..).zip(&firsts[before..]);
        let is_first: BooleanArray = own.map(|(row, &first)| Some(first as usize == row)).collect();
        let of_first = UInt32Array::from_iter_values(firsts[before..].iter().copied());
        let mut columns = batch.columns().to_vec();
        let copied = columns.len().saturating_sub(self.of_first);
        for (at, column) in columns.iter_mut().enumerate().skip(copied) {
            *column = take(rows.column(at), &of_first, None)?;
        }
        columns.push(Arc::new(is_first));
        Ok(RecordBatch::try_new(marked(&batch.schema()), columns)?)
    }
}

impl fmt::Display for FirstOfEach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} columns of the first row", self.of_first)
    }
}

impl Description for FirstOfEach {
    const NAME: &'static str = "FirstOfEachExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let key: Vec<_> = columns.fields().iter().take(KEY).map(|field| field.data_type()).collect();
        if key != [&DataType::UInt64; KEY] || columns.fields().len() < KEY + self.order.len() + self.of_first
        {
            return plan_err!(
                "a first row is found by two numbers and {} columns, not by {columns}",
                self.order.len()
            );
        }
        let column =
            |at: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(columns.field(at).name(), at)) };
        let low = PhysicalSortRequirement::new(column(1), Some(SortOptions::default()));
        let further = (KEY..).zip(&self.order).map(|(at, order)| {
            let Order { descending, nulls_first } = *order;
            PhysicalSortRequirement::new(column(at), Some(SortOptions { descending, nulls_first }))
        });
        let sorted = Requirement::sorted_further(column(0), std::iter::once(low).chain(further));
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
            let operator = FirstOfEach { order: vec![Order { descending: false, nulls_first: false }], of_first: 1 };
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
