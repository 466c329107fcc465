//! The values of each key as a list.
//!
//! The engine sorts the rows, on disk if there are many, and one pass over them is enough. The engine's `array_agg` holds the
//! rows of all keys of a partition at once, and copies them when it makes the lists: together more than twice the memory that it
//! reserves.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, RecordBatch, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// Rows (key: UInt64, value) -> (key, value: `List`), one row for each key with all its values, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lists;

/// The columns of `rows`, the second one as a list.
pub(crate) fn schema(rows: &Schema) -> SchemaRef {
    let mut fields = rows.fields().iter();
    let key = fields.next().cloned();
    let lists = fields.map(|value| {
        Arc::new(Field::new(value.name(), DataType::new_list(value.data_type().clone(), true), false))
    });
    Arc::new(Schema::new(key.into_iter().chain(lists).collect::<Vec<_>>()))
}

/// The key that was read last, whose values may not be complete, and those so far.
#[derive(Debug, Default)]
struct OpenKey {
    key: Option<u64>,
    values: Vec<ArrayRef>,
}

impl OpenKey {
    /// The lists of the keys that are complete with `batch`; `None` if no key is complete.
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
        lists_of(&lists, &values_of_lists, schema)
    }

    /// The list of the last key.
    fn end(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let Self { key, values } = std::mem::take(self);
        let rows = values.iter().map(|values| values.len()).sum();
        let lists: Vec<_> = key.map(|key| (key, rows)).into_iter().collect();
        lists_of(&lists, &values, schema)
    }
}

/// Keys with the numbers of their values, and the values of all of them, one key after the other -> the rows of [`Lists`].
fn lists_of(lists: &[(u64, usize)], values: &[ArrayRef], schema: &SchemaRef) -> Result<Option<RecordBatch>> {
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
                Ok(Shape::over(inputs, schema(&rows), vec![sorted])?.partitioned_as(input))
            }
            _ => plan_err!("lists are made of a number and a value, not of {rows}"),
        }
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let (rows, schema, mut open) = (task.rows_of(0)?, task.schema, OpenKey::default());
        let ends = stream::once(async { Ok(None) });
        let lists = rows.map_ok(Some).chain(ends).map(move |batch| match batch? {
            Some(batch) => open.add(&batch, &schema),
            None => open.end(&schema),
        });
        Ok(lists.try_filter_map(|lists| async move { Ok(lists) }).boxed())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the batches are, each key has one list with all its values.
        #[test]
        fn every_key_has_one_list(
            rows in proptest::collection::vec((0..9_u64, any::<u64>()), 0..60),
            sizes in proptest::collection::vec(0..9_usize, 60),
        ) {
            let mut rows = rows;
            rows.sort();
            let mut wanted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            rows.iter().for_each(|(key, value)| wanted.entry(*key).or_default().push(*value));
            let number = |name| Field::new(name, DataType::UInt64, false);
            let columns = Arc::new(Schema::new(vec![number("key"), number("value")]));
            let (schema, mut open) = (schema(&columns), OpenKey::default());
            let mut found = Vec::new();
            let (mut rest, mut sizes) = (&rows[..], sizes.into_iter().chain(std::iter::repeat(7)));
            while !rest.is_empty() {
                let (now, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                rest = later;
                let column = |of: fn(&(u64, u64)) -> u64| Arc::new(UInt64Array::from_iter_values(now.iter().map(of)));
                let batch = RecordBatch::try_new(Arc::clone(&columns), vec![column(|row| row.0), column(|row| row.1)]);
                found.extend(open.add(&batch.unwrap(), &schema).unwrap());
            }
            found.extend(open.end(&schema).unwrap());
            let lists = found.iter().flat_map(|batch| {
                let keys = batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
                let lists = batch.column(1).as_list::<i32>().iter();
                let lists: Vec<Vec<u64>> =
                    lists.map(|list| list.unwrap().as_primitive::<UInt64Type>().values().to_vec()).collect();
                keys.into_iter().zip(lists)
            });
            prop_assert_eq!(lists.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>());
        }
    }
}
