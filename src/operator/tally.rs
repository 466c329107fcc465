//! Documents without shingles that are supposed to be frequent, and how often all shingles occur that may be.
//!
//! A sample of the documents shows which shingles may be frequent. This operator supposes that it is right, and counts what shows
//! later whether it was: those shingles exactly, and all others so that no count is too small.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanBuilder, ListArray, RecordBatch, UInt64Array, UInt64Builder, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef};
use datafusion::common::cast::{as_boolean_array, as_list_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::counters::{ByKey, Counted, SharedCounters, key};
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// Supposed shingles (shingle: UInt64, frequent: Boolean), and documents (doc: UInt64, .., shingles: `List<UInt64>`) -> the same
/// documents and further columns, which are null where they do not apply:
///
/// - `doubtful: Boolean`: true for a document with a supposed shingle whose `frequent` is false. Its set is null. The sets of
///   others have no supposed shingle.
/// - `shingle`, `documents`, `least`, `missed`, `first_doc: UInt64`: behind the documents of a partition, in rows of their own. A
///   supposed shingle that occurs has the number of its documents and the smallest of their keys. Another one is in at most
///   `documents` and in at least `least` of them; it has no row where it is in `missed` of them or fewer. A row without a shingle
///   has the number of documents whose set is not empty, and in `missed` the number that a shingle without a row reached at most.
///
/// The supposed shingles are one partition and are read whole before the first document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tally {
    /// A sample, whose documents come into one partition, so that its counts are as large as they can be.
    Sample,
    /// All documents, which keep their partitions.
    Documents {
        /// The sum over all partitions of what a shingle without a row reaches, unless there are too many shingles for it.
        missed: u64,
    },
}

/// What a shingle of a sample reaches without a row, unless there are too many.
const MISSED: u64 = 3;

/// The further columns.
fn further() -> [Field; 6] {
    let number = |name| Field::new(name, DataType::UInt64, true);
    [
        Field::new("doubtful", DataType::Boolean, true),
        number("shingle"),
        number("documents"),
        number("least"),
        number("missed"),
        number("first_doc"),
    ]
}

/// The columns that come out of documents with these columns.
pub(crate) fn schema(documents: &Schema) -> SchemaRef {
    let mut fields = SchemaBuilder::new();
    documents.fields().iter().for_each(|field| fields.push(field.as_ref().clone().with_nullable(true)));
    further().into_iter().for_each(|field| fields.push(field));
    Arc::new(fields.finish())
}

/// The columns of supposed shingles.
pub(crate) fn supposed_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("shingle", DataType::UInt64, false),
        Field::new("frequent", DataType::Boolean, false),
    ]))
}

/// Supposed shingles in memory.
#[derive(Debug)]
pub(crate) struct Supposed {
    /// A bit for the first bits of the key of each: nearly all others are known by it.
    bits: Vec<u64>,
    /// Their places, by key.
    places: ByKey<usize>,
    shingles: Vec<u64>,
    frequent: Vec<bool>,
    _held: MemoryReservation,
}

/// The bits of [`Supposed`], and bytes of a supposed shingle.
const BITS: u32 = 18;
const BYTES_OF_SUPPOSED: usize = 48;

impl Supposed {
    async fn read(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Self> {
        let held = MemoryConsumer::new("Tally").register(context.memory_pool());
        held.try_grow(1 << (BITS - 3))?;
        let mut supposed = Self {
            bits: vec![0; 1 << (BITS - 6)],
            places: ByKey::default(),
            shingles: Vec::new(),
            frequent: Vec::new(),
            _held: held,
        };
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await.transpose()? {
            supposed._held.try_grow(BYTES_OF_SUPPOSED * batch.num_rows())?;
            let (shingles, frequent) =
                (as_uint64_array(batch.column(0))?, as_boolean_array(batch.column(1))?);
            for (&shingle, frequent) in shingles.values().iter().zip(frequent.values()) {
                supposed.insert(shingle, frequent);
            }
        }
        Ok(supposed)
    }

    fn insert(&mut self, shingle: u64, frequent: bool) {
        let key = key(shingle);
        let (word, bit) = Self::bit(key);
        self.bits[word] |= bit;
        self.places.insert(key, self.shingles.len());
        self.shingles.push(shingle);
        self.frequent.push(frequent);
    }

    fn bit(key: u64) -> (usize, u64) {
        let at = key >> (u64::BITS - BITS);
        ((at >> 6) as usize, 1 << (at & 63))
    }

    /// The place of the shingle with this key, if it is supposed.
    fn place(&self, key: u64) -> Option<usize> {
        let (word, bit) = Self::bit(key);
        match self.bits[word] & bit {
            0 => None,
            _ => self.places.get(&key).copied(),
        }
    }
}

/// The columns of counts, behind `doubtful`.
const COUNTS: usize = 5;

/// The counts of a partition.
struct SampleTally {
    documents: u64,
    /// For each supposed shingle the number of its documents, and the smallest of their keys.
    supposed: Vec<(u64, u64)>,
    /// Those of all other shingles.
    counters: SharedCounters,
    _held: MemoryReservation,
}

impl SampleTally {
    fn new(supposed: &Supposed, missed: u64, context: &TaskContext) -> Result<Self> {
        let held = MemoryConsumer::new("Tally").register(context.memory_pool());
        held.try_grow(SharedCounters::BYTES + 16 * supposed.shingles.len())?;
        Ok(Self {
            documents: 0,
            supposed: vec![(0, u64::MAX); supposed.shingles.len()],
            counters: SharedCounters::new(missed),
            _held: held,
        })
    }

    /// The documents of a batch, with the further columns.
    fn judge(&mut self, batch: &RecordBatch, supposed: &Supposed, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        let Some(lists) = columns.pop() else { return internal_err!("documents have shingles") };
        let lists = as_list_array(&lists)?;
        let docs = as_uint64_array(batch.column(0))?.values();
        let (offsets, values) = (lists.value_offsets(), as_uint64_array(lists.values())?.values());
        let (mut ends, mut rest) = (vec![0_i32], Vec::<u64>::with_capacity(values.len()));
        let (mut there, mut doubtful) = (Vec::with_capacity(lists.len()), BooleanBuilder::new());
        for row in 0..lists.len() {
            let (start, mut in_doubt) = (rest.len(), false);
            if lists.is_valid(row) {
                // The offsets of Arrow lists are ascending and not negative.
                let set = &values[offsets[row] as usize..offsets[row + 1] as usize];
                self.documents += u64::from(!set.is_empty());
                for &shingle in set {
                    let key = key(shingle);
                    match supposed.place(key) {
                        None => rest.push(shingle),
                        Some(place) => {
                            let (documents, first) = &mut self.supposed[place];
                            (*documents, *first) = (*documents + 1, docs[row].min(*first));
                            in_doubt |= !supposed.frequent[place];
                        }
                    }
                }
                self.counters.count_all(&rest[start..]);
            }
            if in_doubt {
                rest.truncate(start);
            }
            doubtful.append_option(in_doubt.then_some(true));
            there.push(lists.is_valid(row) && !in_doubt);
            // There are no more than before, and so fewer than 2^31.
            ends.push(rest.len() as i32);
        }
        let DataType::List(item) = lists.data_type() else { return internal_err!("shingles are a list") };
        let (ends, rest) = (OffsetBuffer::new(ScalarBuffer::from(ends)), UInt64Array::from(rest));
        let there = Some(NullBuffer::from(there));
        columns.push(Arc::new(ListArray::try_new(Arc::clone(item), ends, Arc::new(rest), there)?));
        columns.push(Arc::new(doubtful.finish()));
        columns.extend((0..COUNTS).map(|_| new_null_array(&DataType::UInt64, batch.num_rows())));
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }

    /// The rows behind the documents.
    fn rows(self, supposed: &Supposed, schema: &SchemaRef) -> Vec<Result<RecordBatch>> {
        let missed = self.counters.missed();
        let mut rows: Vec<[Option<u64>; COUNTS]> =
            vec![[None, Some(self.documents), None, Some(missed), None]];
        let counted = supposed.shingles.iter().zip(&self.supposed);
        let counted = counted.filter(|(_, (documents, _))| *documents > 0);
        rows.extend(counted.map(|(&shingle, &(documents, first))| {
            [Some(shingle), Some(documents), Some(documents), None, Some(first)]
        }));
        rows.extend(self.counters.into_counted().map(|Counted { shingle, most, least }| {
            [Some(shingle), Some(most), Some(least), Some(missed), None]
        }));
        let of_documents = schema.fields().len() - COUNTS;
        let batches = rows.chunks(ROWS).map(|rows| {
            let fields = schema.fields().iter().take(of_documents);
            let mut columns: Vec<ArrayRef> =
                fields.map(|field| new_null_array(field.data_type(), rows.len())).collect();
            for at in 0..COUNTS {
                let mut numbers = UInt64Builder::with_capacity(rows.len());
                rows.iter().for_each(|row| numbers.append_option(row[at]));
                columns.push(Arc::new(numbers.finish()));
            }
            Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
        });
        batches.collect()
    }
}

/// Rows of counts in a batch.
const ROWS: usize = 8_192;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample => f.write_str("sample"),
            Self::Documents { missed } => write!(f, "missed={missed}"),
        }
    }
}

impl Description for Tally {
    const NAME: &'static str = "TallyExec";

    type Shared = SharedValue<Supposed>;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [_, documents] = inputs else {
            return internal_err!("supposed shingles are counted in documents");
        };
        let columns = schema(&documents.schema());
        let of_documents = match self {
            Self::Sample => Requirement::single_partition(),
            Self::Documents { .. } => Requirement::none(),
        };
        let requirements = vec![Requirement::single_partition(), of_documents];
        Ok(Shape::over(inputs, columns, requirements)?.adds_rows())
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let [supposed, documents] = task.inputs else {
            return internal_err!("supposed shingles are counted in documents");
        };
        let partitions = documents.output_partitioning().partition_count() as u64;
        let missed = match *self {
            Self::Sample => MISSED,
            Self::Documents { missed } => (missed / partitions.max(1)).max(1),
        };
        let (supposed, documents) = (Arc::clone(supposed), task.rows_of(1)?);
        let (shared, context, schema) = (Arc::clone(task.shared), task.context, task.schema);
        let batches = stream::once(async move {
            let read = Supposed::read(supposed, Arc::clone(&context));
            let supposed = shared.get(read).await?;
            let counts = SampleTally::new(&supposed, missed, &context)?;
            let partition =
                Partition { documents, supposed, counts: Some(counts), rows: VecDeque::new(), schema };
            Ok::<_, DataFusionError>(stream::try_unfold(partition, async |mut partition| {
                Ok(partition.next().await?.map(|batch| (batch, partition)))
            }))
        });
        Ok(batches.try_flatten().boxed())
    }
}

/// A partition that is read.
struct Partition {
    documents: SendableRecordBatchStream,
    supposed: Arc<Supposed>,
    /// `None` behind the last document.
    counts: Option<SampleTally>,
    /// The rows behind the documents.
    rows: VecDeque<Result<RecordBatch>>,
    schema: SchemaRef,
}

impl Partition {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(counts) = &mut self.counts {
            if let Some(batch) = self.documents.next().await.transpose()? {
                return counts.judge(&batch, &self.supposed, &self.schema).map(Some);
            }
            if let Some(counts) = self.counts.take() {
                self.rows = counts.rows(&self.supposed, &self.schema).into();
            }
        }
        self.rows.pop_front().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;

    use super::*;

    fn supposed(shingles: &[(u64, bool)]) -> Supposed {
        let pool = TaskContext::default();
        let held = MemoryConsumer::new("test").register(pool.memory_pool());
        let mut supposed = Supposed {
            bits: vec![0; 1 << (BITS - 6)],
            places: ByKey::default(),
            shingles: Vec::new(),
            frequent: Vec::new(),
            _held: held,
        };
        shingles.iter().for_each(|&(shingle, frequent)| supposed.insert(shingle, frequent));
        supposed
    }

    fn batch(sets: &[BTreeSet<u64>]) -> RecordBatch {
        let docs: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..sets.len() as u64));
        let lists = sets.iter().map(|set| Some(set.iter().map(|&shingle| Some(shingle)).collect::<Vec<_>>()));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(lists));
        RecordBatch::try_from_iter([("doc", docs), ("shingles", lists)]).unwrap()
    }

    proptest! {
        /// Supposed shingles are counted exactly, and no count of another one is too small, whatever is missed.
        #[test]
        fn no_count_is_too_small(
            sets in prop::collection::vec(prop::collection::btree_set(0u64..40, 0..12), 1..80),
            missed in 1u64..20,
            more in 0u64..3,
        ) {
            let batch = batch(&sets);
            let schema = schema(&batch.schema());
            let supposed = supposed(&[(3, true), (5, false), (99, true)]);
            let mut counts = SampleTally::new(&supposed, missed, &TaskContext::default()).unwrap();
            let mut judged = Vec::new();
            for start in (0..sets.len()).step_by(7) {
                let part = batch.slice(start, 7.min(sets.len() - start));
                judged.push(counts.judge(&part, &supposed, &schema).unwrap());
                counts.counters.miss(counts.counters.missed() + more);
            }
            let mut row = 0;
            for batch in &judged {
                let lists = batch.column(1).as_list::<i32>();
                for at in 0..batch.num_rows() {
                    let set = &sets[row];
                    let rest: BTreeSet<u64> = set.iter().copied().filter(|shingle| ![3, 5].contains(shingle)).collect();
                    prop_assert_eq!(batch.column(2).is_valid(at), set.contains(&5));
                    prop_assert_eq!(lists.is_valid(at), !set.contains(&5));
                    if lists.is_valid(at) {
                        let found = lists.value(at).as_primitive::<UInt64Type>().values().iter().copied().collect();
                        prop_assert_eq!(rest, found);
                    }
                    row += 1;
                }
            }
            let mut documents: BTreeMap<u64, u64> = BTreeMap::new();
            sets.iter().flatten().for_each(|&shingle| *documents.entry(shingle).or_default() += 1);
            let mut reached = None;
            let mut listed = BTreeSet::new();
            for batch in counts.rows(&supposed, &schema) {
                let batch = batch.unwrap();
                let number = |at: usize, row: usize| {
                    let column = batch.column(at).as_primitive::<UInt64Type>();
                    column.is_valid(row).then(|| column.value(row))
                };
                for row in 0..batch.num_rows() {
                    let (counted, least, missed) = (number(4, row).unwrap(), number(5, row), number(6, row));
                    match number(3, row) {
                        None => {
                            prop_assert_eq!(counted, sets.iter().filter(|set| !set.is_empty()).count() as u64);
                            reached = missed;
                        }
                        Some(shingle) if [3, 5].contains(&shingle) => {
                            prop_assert_eq!(counted, documents[&shingle]);
                            let first = sets.iter().position(|set| set.contains(&shingle)).unwrap() as u64;
                            prop_assert_eq!((least, missed, number(7, row)), (Some(counted), None, Some(first)));
                            listed.insert(shingle);
                        }
                        Some(shingle) => {
                            prop_assert!(counted >= documents[&shingle] && least.unwrap() <= documents[&shingle]);
                            listed.insert(shingle);
                        }
                    }
                }
            }
            for (shingle, documents) in documents {
                prop_assert!(listed.contains(&shingle) || documents <= reached.unwrap(), "{shingle}: {documents}");
            }
        }
    }
}
