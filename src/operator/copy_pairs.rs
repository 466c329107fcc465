//! The pairs of copies. A self-join would copy two ids for each pair. This operator reads rows that are sorted by group. Its ids are
//! dictionaries, so that a pair contains only the places of its ids.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Requirement, Shape, Task, map_to_end, only_input};

/// Pairs the documents of each group: (rep, id, size, shingle_count) -> the columns of [`copy_pairs_schema`]. In each pair, `id_a` is less
/// than `id_b`. In a group with a `size` of more than `full`, each document is paired only with the smallest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyPairs {
    pub full: u64,
}

/// The columns (id_a, id_b, shingle_count). The ids are dictionaries.
pub(super) fn copy_pairs_schema(members: &Schema) -> SchemaRef {
    let values = members.field(1).data_type().clone();
    let id = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values));
    Arc::new(Schema::new(vec![
        Field::new("id_a", id.clone(), false),
        Field::new("id_b", id, false),
        Field::new("shingle_count", DataType::UInt64, false),
    ]))
}

impl Description for CopyPairs {
    const NAME: &'static str = "CopyPairsExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all pairs of {} or fewer documents", self.full)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let members = only_input(Self::NAME, inputs)?.schema();
        let sorted = Requirement::sorted(&members, [(1, SortOptions::default())]);
        Shape::over(inputs, copy_pairs_schema(&members), vec![sorted])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let (schema, rows) = (Arc::clone(&task.schema), task.context.session_config().batch_size());
        let mut open = None;
        let groups = map_to_end(task.rows_of(0)?, move |batch| self.groups(&mut open, batch));
        let pairs = groups.map_ok(move |groups| stream::iter(groups.pairs(Arc::clone(&schema), rows)));
        let pairs = pairs.try_flatten().and_then(async |batch| {
            tokio::task::consume_budget().await;
            Ok(batch)
        });
        Ok(pairs.boxed())
    }
}

/// Members, and the groups that can be paired.
struct CopyGroups {
    members: RecordBatch,
    groups: Vec<CopyGroup>,
}

/// The rows of a group in its batch. Each of `firsts` is paired with all later rows.
struct CopyGroup {
    firsts: Range<u32>,
    end: u32,
}

impl CopyPairs {
    /// Returns the groups in the members `open` and `batch`. Pass `None` at the end. The last group may continue in the next batch, so the
    /// members that are needed there are left in `open`: all, or the first if the others are paired only with it.
    fn groups(
        &self,
        open: &mut Option<RecordBatch>,
        batch: Option<RecordBatch>,
    ) -> Result<Option<CopyGroups>> {
        let is_end = batch.is_none();
        let members: Vec<RecordBatch> = open.take().into_iter().chain(batch).collect();
        let Some(first) = members.first() else { return Ok(None) };
        let members = concat_batches(&first.schema(), &members)?;
        let reps = as_uint64_array(members.column(0))?.values();
        let sizes = as_uint64_array(members.column(2))?.values();
        let (mut groups, mut start) = (Vec::new(), 0);
        for group in reps.chunk_by(|one, next| one == next) {
            let (end, is_star) = (start + group.len(), sizes[start] > self.full);
            let firsts = start..if is_star { start + 1 } else { end };
            let is_open = end == reps.len() && !is_end;
            if is_open {
                *open = Some(members.slice(start, firsts.len()));
            }
            if is_star || !is_open {
                // A batch has fewer than 2^32 rows.
                groups.push(CopyGroup { firsts: firsts.start as u32..firsts.end as u32, end: end as u32 });
            }
            start = end;
        }
        Ok(Some(CopyGroups { members, groups }))
    }
}

impl CopyGroups {
    /// Returns the pairs of the groups in batches of `most` rows.
    fn pairs(self, schema: SchemaRef, most: usize) -> impl Iterator<Item = Result<RecordBatch>> {
        let Self { members, groups } = self;
        let mut pairs = groups.into_iter().flat_map(|CopyGroup { firsts, end }| {
            firsts.flat_map(move |a| (a + 1..end).map(move |b| (a, b)))
        });
        std::iter::from_fn(move || {
            let (a, b): (Vec<u32>, Vec<u32>) = pairs.by_ref().take(most).unzip();
            (!a.is_empty()).then(|| pairs_at(&members, (a, b), &schema))
        })
    }
}

fn pairs_at(members: &RecordBatch, (a, b): (Vec<u32>, Vec<u32>), schema: &SchemaRef) -> Result<RecordBatch> {
    let (a, b) = (UInt32Array::from(a), UInt32Array::from(b));
    let counts = take(members.column(3), &a, None)?;
    let ids = |at| DictionaryArray::try_new(at, Arc::clone(members.column(1)));
    let columns: Vec<ArrayRef> = vec![Arc::new(ids(a)?), Arc::new(ids(b)?), counts];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use arrow::array::{AsArray, UInt64Array};
    use arrow::compute::cast;
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;

    use super::*;

    fn batch(rows: &[[u64; 4]]) -> RecordBatch {
        let column = |at: usize| Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row[at]))) as _;
        let names = ["rep", "id", "size", "shingle_count"];
        RecordBatch::try_from_iter(names.into_iter().zip((0..4).map(column))).unwrap()
    }

    proptest! {
        #[test]
        fn every_two_documents_of_a_group_or_each_with_the_smallest_id_are_paired(
            groups in proptest::collection::btree_map(0..9_u64, proptest::collection::btree_set(0..40_u64, 1..9), 0..9),
            cuts in proptest::collection::vec(1..7_usize, 90),
            full in 1..9_u64,
            most in 1..9_usize,
        ) {
            let mut rows = Vec::new();
            let mut expected: BTreeMap<(u64, u64, u64), usize> = BTreeMap::new();
            for (&rep, ids) in &groups {
                let size = ids.len() as u64;
                rows.extend(ids.iter().map(|&id| [rep, id, size, 100 + rep]));
                let firsts: BTreeSet<u64> = if size > full { ids.first().copied().into_iter().collect() } else { ids.clone() };
                for a in firsts {
                    ids.range(a + 1..).for_each(|&b| *expected.entry((a, b, 100 + rep)).or_default() += 1);
                }
            }
            let (operator, mut open, mut rest, mut found) = (CopyPairs { full }, None, &rows[..], BTreeMap::new());
            let mut cuts = cuts.into_iter().cycle();
            let schema = copy_pairs_schema(&batch(&[]).schema());
            loop {
                let (now, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                let groups = operator.groups(&mut open, (!now.is_empty()).then(|| batch(now))).unwrap();
                for pairs in groups.into_iter().flat_map(|groups| groups.pairs(Arc::clone(&schema), most)) {
                    let pairs = pairs.unwrap();
                    prop_assert!(pairs.num_rows() <= most);
                    let number = |at: usize| {
                        let column = cast(pairs.column(at), &DataType::UInt64).unwrap();
                        column.as_primitive::<UInt64Type>().values().to_vec()
                    };
                    let (a, b, counts) = (number(0), number(1), number(2));
                    for at in 0..a.len() {
                        *found.entry((a[at], b[at], counts[at])).or_default() += 1;
                    }
                }
                if now.is_empty() {
                    break;
                }
                rest = later;
            }
            prop_assert_eq!(found, expected);
        }
    }
}
