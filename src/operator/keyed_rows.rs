//! Passes over rows that are sorted by key: the first row of each key, and the values of each key as a list. The engine sorts the rows, on
//! disk if there are many. A window function would keep a state per key, and take twenty times as long if most keys have two rows.
//! DataFusion's `array_agg` holds and copies the rows of all keys in a partition, and uses more than twice the memory that it reserves.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, concat, interleave, partition, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use super::with_flag;
use crate::plan::{Batches, Description, Requirement, Shape, Task, map_to_end, only_input};

/// Marks the first row of each key: rows (key.., order.., .., of_first..) -> all rows with a last column `is_first: Boolean`. The rows of a
/// key are sorted by the columns after the key. In the output, the last columns, `of_first`, contain the values of the key's first row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstOfEach {
    /// The number of columns in the key, at least one.
    pub key: usize,
    /// The sort order of each column that follows the key.
    pub order: Vec<ColumnOrder>,
    /// The number of columns at the end that get the values of the first row.
    pub of_first: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnOrder {
    pub descending: bool,
    pub nulls_first: bool,
}

pub(super) fn is_first_schema(rows: &Schema) -> SchemaRef {
    with_flag(rows, "is_first")
}

/// The key columns and the columns `of_first` in the first row of the last key. `None` before the first batch.
type FirstRow = Option<Vec<ArrayRef>>;

impl FirstOfEach {
    /// Marks the rows of a batch. `first` is the first row of the last key before this batch.
    fn mark(&self, batch: &RecordBatch, first: &mut FirstRow) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let own = batch.num_columns().saturating_sub(self.of_first);
        let (keys, of_first) = (&batch.columns()[..self.key], &batch.columns()[own..]);
        let runs = if rows > 0 { partition(keys)?.ranges() } else { Vec::new() };
        // The last key of the previous batch may continue in this one.
        let before = match first.as_ref() {
            Some(first) if rows > 0 && continues(first, keys)? => Some(&first[self.key..]),
            _ => None,
        };
        // For each row, the first row of its key: (0, 0) for the row in `before`, or (1, index of a row in this batch).
        let firsts: Vec<(usize, usize)> = runs
            .iter()
            .flat_map(|run| {
                let first = if run.start == 0 && before.is_some() { (0, 0) } else { (1, run.start) };
                std::iter::repeat_n(first, run.len())
            })
            .collect();
        let is_first: BooleanArray =
            (0..).zip(&firsts).map(|(row, &first)| Some(first == (1, row))).collect();
        let mut columns = batch.columns()[..own].to_vec();
        for (at, column) in of_first.iter().enumerate() {
            let before = before.map_or(column, |before| &before[at]);
            columns.push(interleave(&[before.as_ref(), column.as_ref()], &firsts)?);
        }
        columns.push(Arc::new(is_first));
        if let Some(&(1, row)) = firsts.last() {
            // Copies the row, so that the batch can be freed.
            let row = UInt32Array::from(vec![row as u32]);
            let copied = keys.iter().chain(of_first).map(|column| take(column, &row, None));
            *first = Some(copied.collect::<std::result::Result<_, _>>()?);
        }
        Ok(RecordBatch::try_new(is_first_schema(&batch.schema()), columns)?)
    }
}

/// Whether the first row of `keys` has the same key as `first`.
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
        Shape::over(inputs, is_first_schema(&columns), vec![sorted])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut first = None;
        Ok(task.rows_of(0)?.map(move |batch| self.mark(&batch?, &mut first)).boxed())
    }
}

/// Collects the values of each key in a list: rows (key: UInt64, value) -> (key, value: `List`). The values can be in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lists;

/// The columns of `rows`, with a list in place of the second column.
pub(super) fn lists_schema(rows: &Schema) -> SchemaRef {
    let mut fields = rows.fields().iter();
    let key = fields.next().cloned();
    let lists = fields.map(|value| {
        Arc::new(Field::new(value.name(), DataType::new_list(value.data_type().clone(), true), false))
    });
    Arc::new(Schema::new(key.into_iter().chain(lists).collect::<Vec<_>>()))
}

/// The last key, and the values that were read for it.
#[derive(Debug, Default)]
struct OpenKey {
    key: Option<u64>,
    values: Vec<ArrayRef>,
}

impl OpenKey {
    /// Returns the lists of the keys that `batch` completes, if any.
    fn add(&mut self, batch: &RecordBatch, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let (keys, values) = (as_uint64_array(batch.column(0))?.values(), batch.column(1));
        let Some(&last) = keys.last() else { return Ok(None) };
        if self.key == Some(last) {
            self.values.push(Arc::clone(values));
            return Ok(None);
        }
        let complete = keys.partition_point(|key| *key < last);
        let before = self.values.iter().map(|values| values.len()).sum();
        let mut lists: Vec<(u64, usize)> = self.key.map(|key| (key, before)).into_iter().collect();
        for run in keys[..complete].chunk_by(|one, next| one == next) {
            match lists.last_mut() {
                Some((key, rows)) if *key == run[0] => *rows += run.len(),
                _ => lists.push((run[0], run.len())),
            }
        }
        let rest = values.slice(complete, values.len() - complete);
        let mut values_of_lists = std::mem::replace(&mut self.values, vec![rest]);
        values_of_lists.push(values.slice(0, complete));
        self.key = Some(last);
        build_lists(&lists, &values_of_lists, schema)
    }

    fn end(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let Self { key, values } = std::mem::take(self);
        let rows = values.iter().map(|values| values.len()).sum();
        let lists: Vec<_> = key.map(|key| (key, rows)).into_iter().collect();
        build_lists(&lists, &values, schema)
    }
}

/// Returns the rows of [`Lists`] from the keys, the number of values per key, and the values of all keys, grouped by key.
fn build_lists(
    lists: &[(u64, usize)],
    values: &[ArrayRef],
    schema: &SchemaRef,
) -> Result<Option<RecordBatch>> {
    if lists.is_empty() {
        return Ok(None);
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    let values = concat(&values)?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.1));
    let keys = UInt64Array::from_iter_values(lists.iter().map(|list| list.0));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(keys), Arc::new(ListArray::try_new(item, offsets, values, None)?)];
    Ok(Some(RecordBatch::try_new(Arc::clone(schema), columns)?))
}

impl Description for Lists {
    const NAME: &'static str = "ListsExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        let rows = input.schema();
        match rows.fields().as_ref() {
            [key, _] if key.data_type() == &DataType::UInt64 => {
                let sorted = Requirement::sorted(&rows, []);
                Ok(Shape::over(inputs, lists_schema(&rows), vec![sorted])?.partitioned_as(input))
            }
            _ => plan_err!("lists are made of a number and a value, not of {rows}"),
        }
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let (rows, schema, mut open) = (task.rows_of(0)?, task.schema, OpenKey::default());
        Ok(map_to_end(rows, move |batch| match batch {
            Some(batch) => open.add(&batch, &schema),
            None => open.end(&schema),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;

    use super::*;
    use crate::operator::fixtures::numbers;

    fn batch(rows: &[[u64; 4]]) -> RecordBatch {
        let column = |at: usize| Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row[at]))) as _;
        RecordBatch::try_from_iter(["key_0", "key_1", "order", "kept"].into_iter().zip((0..4).map(column)))
            .unwrap()
    }

    proptest! {
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
                let column = |at: usize| marked.column(at).as_primitive::<UInt64Type>();
                for (at, row) in now.iter().enumerate() {
                    let first = firsts[&[row[0], row[1]]];
                    prop_assert_eq!(column(3).value(at), first[3]);
                    prop_assert_eq!(marked.column(4).as_boolean().value(at), first == *row);
                    prop_assert_eq!(column(2).value(at), row[2]);
                }
            }
        }

        #[test]
        fn every_key_has_one_list(
            mut rows in proptest::collection::vec((0..9_u64, any::<u64>()), 0..60),
            sizes in proptest::collection::vec(0..9_usize, 60),
        ) {
            rows.sort();
            let mut expected: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            rows.iter().for_each(|(key, value)| expected.entry(*key).or_default().push(*value));
            let batch = |rows: &[(u64, u64)]| numbers(["key", "value"], rows);
            let (schema, mut open) = (lists_schema(&batch(&[]).schema()), OpenKey::default());
            let mut found = Vec::new();
            let (mut rest, mut sizes) = (&rows[..], sizes.into_iter().chain(std::iter::repeat(7)));
            while !rest.is_empty() {
                let (now, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                rest = later;
                found.extend(open.add(&batch(now), &schema).unwrap());
            }
            found.extend(open.end(&schema).unwrap());
            let lists = found.iter().flat_map(|batch| {
                let keys = batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
                let lists = batch.column(1).as_list::<i32>().iter();
                let lists: Vec<Vec<u64>> =
                    lists.map(|list| list.unwrap().as_primitive::<UInt64Type>().values().to_vec()).collect();
                keys.into_iter().zip(lists)
            });
            prop_assert_eq!(lists.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
