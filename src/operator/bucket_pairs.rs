//! The self-join on the bucket: the pairs of documents that share a bucket. A hash join holds one side in memory, and DataFusion's hash
//! join does not spill. This join needs one pass over rows that are grouped by bucket. [`super::bucket_groups`] groups the rows of a
//! partition and spills, and DataFusion sorts the rows of [`super::prefixes`]. A bucket with one document yields no rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, UInt64Array, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::bucket_groups::group_by_bucket;
use crate::kernel::measure::{least_contained, least_shared};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// The columns (a, b): two documents in a bucket, a < b. A pair can occur several times, at most once per common bucket. In a row without
/// b, the bucket of document a is hot or dense.
pub(super) fn pair_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, true),
    ]))
}

/// The rule that selects the pairs of a bucket. The operator maps (bucket: UInt64, doc: UInt64, ..), partitioned by bucket, to the columns
/// of [`pair_schema`]. An optional last column `reference: Boolean` marks reference documents, which are not paired with each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum PairRule {
    /// All pairs of rows (bucket, doc). A bucket with more than `hot` documents is hot. It yields each document alone, because the number
    /// of its pairs is quadratic.
    All {
        /// The maximum number of documents in a bucket.
        hot: u64,
    },
    /// The pairs whose Jaccard similarity can reach `threshold`, by bounds on sizes and positions (Xiao, Wang, Lin and Yu, *Efficient
    /// similarity joins for near duplicate detection*, WWW 2008, sections 3 and 4.1). The input is (shingle, doc, size, position), and the
    /// buckets are shingles. `size` is the size of the document's set. `position` is the number of its shingles that precede this shingle
    /// in an order that all documents share. Every pair that reaches the threshold is found at the first common shingle of its documents. A
    /// bucket with more than `dense` documents yields each document alone: see [`super::dense_pairs`].
    MinJaccard {
        threshold: f64,
        /// The maximum number of documents in a bucket; `None` for any number.
        dense: Option<u64>,
    },
    /// The pairs in which the larger set can contain at least the share `threshold` of the smaller set, by bounds on sizes and positions.
    /// The input has the columns of [`PairRule::MinJaccard`], and every token that can be the first common token with a smaller document.
    MinContainment { threshold: f64 },
}

impl PairRule {
    /// The maximum number of documents in a bucket that is paired.
    fn most(self) -> u64 {
        match self {
            PairRule::All { hot } => hot,
            PairRule::MinJaccard { dense, .. } => dense.unwrap_or(u64::MAX),
            PairRule::MinContainment { .. } => u64::MAX,
        }
    }

    /// Whether two members, of which `x` is not larger, may reach the threshold if their bucket's shingle is their first common shingle.
    /// Returns `None` if this is false for `x` and all later members. `last` contains the two sizes and the bound of the last call.
    fn meet(self, x: &BucketMember, y: &BucketMember, last: &mut (u32, u32, Option<u64>)) -> Option<bool> {
        let rest = |member: &BucketMember| u64::from(member.size - member.position);
        match self {
            PairRule::All { .. } => Some(true),
            PairRule::MinJaccard { threshold, .. } => {
                if (x.size, y.size) != (last.0, last.1) {
                    *last = (x.size, y.size, least_shared(x.size.into(), y.size.into(), threshold));
                }
                // If this is the first common shingle, only this shingle and later shingles can be common.
                last.2.map(|least| rest(x).min(rest(y)) >= least)
            }
            PairRule::MinContainment { threshold } => {
                // The bound depends on the size of the smaller set alone.
                if x.size != last.0 {
                    *last = (x.size, 0, Some(least_contained(x.size.into(), threshold)));
                }
                last.2.filter(|&least| rest(x) >= least).map(|least| rest(y) >= least)
            }
        }
    }

    /// Whether the operator groups the rows itself, so that its input need not be sorted. This requires rows (bucket, doc) without other
    /// columns.
    fn groups(self, columns: &Schema) -> bool {
        matches!(self, PairRule::All { .. }) && columns.fields().len() == 2
    }
}

impl Description for PairRule {
    const NAME: &'static str = "BucketSelfJoinExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairRule::All { hot } => write!(f, "buckets of {hot} or fewer"),
            PairRule::MinJaccard { threshold, dense: None } => write!(f, "jaccard >= {threshold}"),
            PairRule::MinJaccard { threshold, dense: Some(dense) } => {
                write!(f, "jaccard >= {threshold}, buckets of {dense} or fewer")
            }
            PairRule::MinContainment { threshold } => write!(f, "containment >= {threshold}"),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        let requirement = if self.groups(&columns) {
            Requirement::keyed(&columns)
        } else {
            Requirement::sorted(&columns, [])
        };
        Shape::over(inputs, pair_schema(), vec![requirement])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let rows = task.rows_of(0)?;
        let context = &task.context;
        let input = if self.groups(&rows.schema()) {
            stream::once(group_by_bucket(rows, Arc::clone(context))).try_flatten().boxed()
        } else {
            rows.boxed()
        };
        let chunk = Chunk::new(*self, most_members(context));
        let members = BucketMembers { members: Vec::new(), hot: false, first: 0, second: 1, chunk };
        Ok(pairs_of_buckets(input, members, "BucketPairs", context))
    }
}

/// The maximum number of members of a hot or dense bucket that are held in memory.
const MAX_WAITING: usize = 1 << 16;

/// The documents of the current bucket, and the indices of its next pair.
#[derive(Debug)]
struct BucketMembers {
    members: Vec<BucketMember>,
    /// Whether some members were written before the end of the bucket, because the bucket is hot.
    hot: bool,
    /// The next pair is (members[first], members[second]).
    first: usize,
    second: usize,
    chunk: Chunk,
}

impl BucketMembers {
    fn is_hot(&self) -> bool {
        self.hot || self.members.len() as u64 > self.chunk.rule.most()
    }

    fn write_each(&mut self, pairs: &mut PairBuilder) {
        while let Some(member) = self.members.get(self.first) {
            if pairs.is_full() {
                return;
            }
            pairs.push_alone(member.doc);
            self.first += 1;
        }
    }

    /// Writes every pair with a new document. New documents come first.
    fn write_pairs(&mut self, pairs: &mut PairBuilder) {
        let mut left = PAIRS_AT_ONCE;
        while let Some(x) = self.members.get(self.first) {
            while !x.is_reference
                && let Some(y) = self.members.get(self.second)
            {
                if pairs.is_full() || left == 0 {
                    return;
                }
                left -= 1;
                pairs.push(x.doc, y.doc);
                self.second += 1;
            }
            self.first += 1;
            self.second = self.first + 1;
        }
    }
}

impl Bucket for BucketMembers {
    fn restart(&mut self, same: bool) {
        self.hot &= same;
        self.members.clear();
        (self.first, self.second) = (0, 1);
    }

    fn push(&mut self, member: BucketMember) {
        self.members.push(member);
    }

    fn overflows(&mut self) -> bool {
        let overflows = self.members.len() >= MAX_WAITING && self.is_hot();
        self.hot |= overflows;
        overflows
    }

    fn close(&mut self) {
        match self.chunk.rule {
            _ if self.is_hot() => {}
            PairRule::All { .. } => self.members.sort_by_key(|member| member.is_reference),
            PairRule::MinJaccard { .. } | PairRule::MinContainment { .. } => {
                self.chunk.add(&mut self.members)
            }
        }
    }

    fn end(&mut self) -> bool {
        self.restart(false);
        self.chunk.complete();
        !self.is_written()
    }

    fn is_written(&self) -> bool {
        self.first >= self.members.len() && self.chunk.is_written()
    }

    fn write(&mut self, pairs: &mut PairBuilder) {
        match self.chunk.rule {
            _ if self.is_hot() => self.write_each(pairs),
            PairRule::All { .. } => self.write_pairs(pairs),
            PairRule::MinJaccard { .. } | PairRule::MinContainment { .. } => self.chunk.write(pairs),
        }
    }

    fn memory(&self) -> usize {
        self.members.capacity() * size_of::<BucketMember>() + self.chunk.members.capacity() * BYTES_IN_CHUNK
    }
}

/// Several complete buckets, whose common pairs are written only once. Similar documents share many of their rarest shingles.
#[derive(Debug)]
struct Chunk {
    rule: PairRule,
    /// The number of members at which the chunk is complete.
    most: usize,
    /// The members of each bucket in turn, ordered by size and document.
    members: Vec<ChunkMember>,
    /// The indices of all members, ordered by document. Empty until the chunk is complete.
    order: Vec<u32>,
    /// For each document, the number of the last document with which it was paired.
    seen: Vec<u32>,
    /// The next pair is (members[order[first]], members[second]), if `second` is not 0.
    first: usize,
    second: usize,
}

#[derive(Debug)]
struct ChunkMember {
    member: BucketMember,
    /// The end of its bucket in the chunk.
    end: u32,
    /// The number of its document in the chunk.
    number: u32,
}

/// The largest [`Chunk::most`].
const MOST_MEMBERS: usize = 1 << 20;

/// Each task has a chunk, with at most the bytes of the memory pool divided by this number.
const PART_OF_POOL: usize = 64;

/// The bytes that a chunk holds for each member, with the buffer for sorting.
const BYTES_IN_CHUNK: usize = size_of::<ChunkMember>() + 24;

fn most_members(context: &TaskContext) -> usize {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / PART_OF_POOL / BYTES_IN_CHUNK).min(MOST_MEMBERS),
        MemoryLimit::Infinite | MemoryLimit::Unknown => MOST_MEMBERS,
    }
}

impl Chunk {
    fn new(rule: PairRule, most: usize) -> Self {
        Self { rule, most, members: Vec::new(), order: Vec::new(), seen: Vec::new(), first: 0, second: 0 }
    }

    /// Adds a bucket, and removes its members from `bucket`.
    fn add(&mut self, bucket: &mut Vec<BucketMember>) {
        bucket.sort_unstable_by_key(|member| (member.size, member.doc));
        // A chunk has fewer than 2^32 members, because the pairs of a larger bucket could not be written.
        let end = (self.members.len() + bucket.len()) as u32;
        self.members.extend(bucket.drain(..).map(|member| ChunkMember { member, end, number: 0 }));
        if self.members.len() >= self.most {
            self.complete();
        }
    }

    fn complete(&mut self) {
        let docs = self.members.iter().zip(0..).map(|(member, at)| (member.member.doc, at));
        let mut docs: Vec<(u64, u32)> = docs.collect();
        docs.sort_unstable();
        self.seen.clear();
        for members in docs.chunk_by(|one, next| one.0 == next.0) {
            members.iter().for_each(|&(_, at)| self.members[at as usize].number = self.seen.len() as u32);
            self.seen.push(u32::MAX);
        }
        self.order.extend(docs.into_iter().map(|(_, at)| at));
    }

    fn is_written(&self) -> bool {
        self.first >= self.order.len()
    }

    /// Writes each pair that the rule keeps, except pairs of two reference documents.
    fn write(&mut self, pairs: &mut PairBuilder) {
        let (mut left, mut last) = (PAIRS_AT_ONCE, (0, 0, None));
        while let Some(&at) = self.order.get(self.first) {
            let ChunkMember { member: x, end, number } = &self.members[at as usize];
            self.second = self.second.max(at as usize + 1);
            for ChunkMember { member: y, number: other, .. } in &self.members[self.second..*end as usize] {
                if pairs.is_full() || left == 0 {
                    return;
                }
                left -= 1;
                self.second += 1;
                let seen = &mut self.seen[*other as usize];
                if *seen == *number {
                    continue;
                }
                match self.rule.meet(x, y, &mut last) {
                    Some(true) if !(x.is_reference && y.is_reference) => {
                        *seen = *number;
                        pairs.push(x.doc, y.doc);
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            self.first += 1;
            self.second = 0;
        }
        if self.first > 0 {
            self.members.clear();
            self.order.clear();
            self.first = 0;
        }
    }
}

/// The number of pairs that are examined before other tasks may run.
pub(super) const PAIRS_AT_ONCE: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct BucketMember {
    pub(super) doc: u64,
    /// The number of shingles in the document; 0 if the rule does not use it.
    pub(super) size: u32,
    /// The number of the document's shingles that precede the bucket's shingle, in the order that all documents share.
    pub(super) position: u32,
    /// The state of the document in [`super::dense_pairs`].
    pub(super) state: u32,
    pub(super) is_reference: bool,
}

/// The columns (bucket, doc[, size, position[, state]][, reference]) of a batch.
struct MemberColumns {
    buckets: UInt64Array,
    docs: UInt64Array,
    /// The columns size, position and state that the batch contains, in this order.
    numbers: Vec<UInt32Array>,
    is_reference: Option<BooleanArray>,
}

impl MemberColumns {
    fn try_new(batch: &RecordBatch) -> Result<Self> {
        let numbers = batch.columns().iter().filter_map(|column| column.as_primitive_opt::<UInt32Type>());
        Ok(Self {
            buckets: as_uint64_array(batch.column(0))?.clone(),
            docs: as_uint64_array(batch.column(1))?.clone(),
            numbers: numbers.cloned().collect(),
            is_reference: batch.columns().last().and_then(|column| column.as_boolean_opt().cloned()),
        })
    }

    fn member(&self, row: usize) -> BucketMember {
        let number = |nth: usize| self.numbers.get(nth).map_or(0, |numbers| numbers.value(row));
        let is_reference = self.is_reference.as_ref().is_some_and(|is_reference| is_reference.value(row));
        let (size, position, state) = (number(0), number(1), number(2));
        BucketMember { doc: self.docs.value(row), size, position, state, is_reference }
    }
}

/// The documents of the current bucket, and the progress of writing its pairs.
pub(super) trait Bucket: Send + 'static {
    /// Removes the members. `same` tells whether the next members belong to the same bucket.
    fn restart(&mut self, same: bool);

    fn push(&mut self, member: BucketMember);

    /// Whether there are so many members that they must be written before the rest of the bucket is read.
    fn overflows(&mut self) -> bool {
        false
    }

    /// Decides which members are paired. The method is called after the last member of the bucket was added.
    fn close(&mut self);

    /// Prepares pairs that are written after the last bucket. Returns false if there are none.
    fn end(&mut self) -> bool {
        false
    }

    fn is_written(&self) -> bool;

    /// Writes pairs until the batch is full or [`PAIRS_AT_ONCE`] pairs were examined.
    fn write(&mut self, pairs: &mut PairBuilder);

    fn memory(&self) -> usize;
}

/// Returns the pairs in the buckets of `input`, whose rows are grouped by bucket. `consumer` names the memory reservation for the members.
pub(super) fn pairs_of_buckets<B: Bucket>(
    input: Batches,
    bucket: B,
    consumer: &str,
    context: &TaskContext,
) -> Batches {
    let reader = BucketReader {
        input,
        rows: None,
        row: 0,
        id: None,
        bucket,
        held: MemoryConsumer::new(consumer).register(context.memory_pool()),
        batch_size: context.session_config().batch_size(),
    };
    let batches = stream::try_unfold(reader, async |mut reader| {
        Ok(reader.next_batch().await?.map(|batch| (batch, reader)))
    });
    batches.boxed()
}

struct BucketReader<B> {
    input: Batches,
    rows: Option<MemberColumns>,
    row: usize,
    /// The bucket of the current members.
    id: Option<u64>,
    bucket: B,
    held: MemoryReservation,
    batch_size: usize,
}

impl<B: Bucket> BucketReader<B> {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut pairs = PairBuilder::new(self.batch_size);
        loop {
            // The pairs of a bucket are written after its last row, in as many batches as they need.
            self.bucket.write(&mut pairs);
            let is_at_end = !pairs.is_full() && self.bucket.is_written() && !self.read_bucket().await?;
            if pairs.is_full() || is_at_end && !self.bucket.end() {
                return pairs.finish();
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reads rows to the end of a bucket, or until the bucket overflows. Returns false at the end of the input.
    async fn read_bucket(&mut self) -> Result<bool> {
        let mut started = false;
        loop {
            if let Some(rows) = &self.rows {
                while self.row < rows.buckets.len() {
                    let id = rows.buckets.value(self.row);
                    let same = self.id == Some(id);
                    if !started {
                        self.bucket.restart(same);
                        self.id = Some(id);
                        started = true;
                    } else if !same {
                        self.bucket.close();
                        return Ok(true);
                    }
                    self.bucket.push(rows.member(self.row));
                    self.row += 1;
                    if self.bucket.overflows() {
                        return Ok(true);
                    }
                }
                self.held.try_resize(self.bucket.memory())?;
            }
            let batch = self.input.next().await.transpose()?;
            self.rows = batch.as_ref().map(MemberColumns::try_new).transpose()?;
            self.row = 0;
            if self.rows.is_none() {
                if started {
                    self.bucket.close();
                }
                return Ok(started);
            }
        }
    }
}

pub(super) struct PairBuilder {
    a: UInt64Builder,
    b: UInt64Builder,
    room: usize,
}

impl PairBuilder {
    fn new(room: usize) -> Self {
        Self { a: UInt64Builder::with_capacity(room), b: UInt64Builder::with_capacity(room), room }
    }

    pub(super) fn is_full(&self) -> bool {
        self.a.values_slice().len() >= self.room
    }

    pub(super) fn push(&mut self, x: u64, y: u64) {
        if x != y {
            self.a.append_value(x.min(y));
            self.b.append_value(x.max(y));
        }
    }

    /// Adds a row with only one document.
    pub(super) fn push_alone(&mut self, doc: u64) {
        self.a.append_value(doc);
        self.b.append_null();
    }

    fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.a.values_slice().is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(self.a.finish()), Arc::new(self.b.finish())];
        Ok(Some(RecordBatch::try_new(pair_schema(), columns)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::measure::Measure;

    proptest! {
        #[test]
        fn a_chunk_writes_the_pairs_of_its_buckets_once(
            documents in vec((1..20_u32, any::<bool>()), 12),
            buckets in vec(btree_map(0..12_usize, any::<u32>(), 0..9), 1..20),
            measure in prop_oneof![Just(Measure::Jaccard), Just(Measure::Containment)],
        ) {
            let threshold = 0.5;
            let rule = match measure {
                Measure::Jaccard => PairRule::MinJaccard { threshold, dense: None },
                Measure::Containment => PairRule::MinContainment { threshold },
            };
            let (mut chunk, mut expected) = (
                Chunk::new(rule, MOST_MEMBERS),
                BTreeSet::new(),
            );
            for bucket in buckets {
                let members = bucket.into_iter().map(|(doc, position)| {
                    let (size, is_reference) = documents[doc];
                    BucketMember { doc: doc as u64, size, position: position % size, state: 0, is_reference }
                });
                let mut members: Vec<BucketMember> = members.collect();
                for (at, x) in members.iter().enumerate() {
                    expected.extend(members[at + 1..].iter().filter_map(|y| {
                        let most = u64::from((x.size - x.position).min(y.size - y.position));
                        let may_match = measure.similarity(most, [x.size.into(), y.size.into()]) >= threshold;
                        (may_match && !(x.is_reference && y.is_reference)).then_some((x.doc, y.doc))
                    }));
                }
                chunk.add(&mut members);
            }
            chunk.complete();
            let mut written = Vec::new();
            while !chunk.is_written() {
                let mut pairs = PairBuilder::new(3);
                chunk.write(&mut pairs);
                let (a, b) = (pairs.a.values_slice(), pairs.b.values_slice());
                written.extend(a.iter().copied().zip(b.iter().copied()));
            }
            written.sort_unstable();
            prop_assert_eq!(written, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
