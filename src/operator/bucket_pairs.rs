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
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::bucket_groups::group_by_bucket;
use crate::kernel::measure::{least_contained, least_shared};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// The columns (a, b): two documents in a bucket, a < b. A pair occurs once per common bucket. In a row without b, the bucket of document a
/// is hot or dense.
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
        let (rows, context) = (task.rows_of(0)?, task.context);
        let input = if self.groups(&rows.schema()) {
            stream::once(group_by_bucket(rows, Arc::clone(&context))).try_flatten().boxed()
        } else {
            rows.boxed()
        };
        let members = BucketMembers { rule: *self, members: Vec::new(), hot: false, first: 0, second: 1 };
        Ok(pairs_of_buckets(input, members, "BucketPairs", &context))
    }
}

/// The maximum number of members of a hot or dense bucket that are held in memory.
const MAX_WAITING: usize = 1 << 16;

/// The documents of the current bucket, and the indices of its next pair.
#[derive(Debug)]
struct BucketMembers {
    rule: PairRule,
    members: Vec<BucketMember>,
    /// Whether some members were written before the end of the bucket, because the bucket is hot.
    hot: bool,
    /// The next pair is (members[first], members[second]).
    first: usize,
    second: usize,
}

impl BucketMembers {
    fn is_hot(&self) -> bool {
        self.hot || self.members.len() as u64 > self.rule.most()
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

    /// Writes each pair for which `meet` returns true, except pairs of two reference documents. If `meet` returns `None`, the first member
    /// of the pair is not compared with later members.
    fn write_pairs(
        &mut self,
        pairs: &mut PairBuilder,
        mut meet: impl FnMut(&BucketMember, &BucketMember) -> Option<bool>,
    ) {
        let mut left = PAIRS_AT_ONCE;
        while let Some(x) = self.members.get(self.first) {
            while let Some(y) = self.members.get(self.second) {
                if pairs.is_full() || left == 0 {
                    return;
                }
                left -= 1;
                match meet(x, y) {
                    Some(true) if !(x.is_reference && y.is_reference) => pairs.push(x.doc, y.doc),
                    Some(_) => {}
                    None => break,
                }
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
        match self.rule {
            _ if self.is_hot() => {}
            // New documents come first, because the first document of every pair is new.
            PairRule::All { .. } => self.members.sort_by_key(|member| member.is_reference),
            PairRule::MinJaccard { .. } | PairRule::MinContainment { .. } => {
                self.members.sort_unstable_by_key(|member| (member.size, member.doc));
            }
        }
    }

    fn is_written(&self) -> bool {
        self.first >= self.members.len()
    }

    fn write(&mut self, pairs: &mut PairBuilder) {
        match self.rule {
            _ if self.is_hot() => self.write_each(pairs),
            PairRule::All { .. } => self.write_pairs(pairs, |x, _| (!x.is_reference).then_some(true)),
            PairRule::MinJaccard { threshold, .. } => {
                let mut last = (0, 0, None);
                self.write_pairs(pairs, |x, y| {
                    if (x.size, y.size) != (last.0, last.1) {
                        last = (x.size, y.size, least_shared(x.size.into(), y.size.into(), threshold));
                    }
                    // If this is the first common shingle, only this shingle and later shingles can be common.
                    let most = (x.size - x.position).min(y.size - y.position);
                    last.2.map(|least| u64::from(most) >= least)
                });
            }
            PairRule::MinContainment { threshold } => {
                let mut last = (0, 0);
                // The smaller set comes first; the bound depends on its size alone.
                self.write_pairs(pairs, |x, y| {
                    if x.size != last.0 {
                        last = (x.size, least_contained(x.size.into(), threshold));
                    }
                    let reaches = |member: &BucketMember| u64::from(member.size - member.position) >= last.1;
                    reaches(x).then(|| reaches(y))
                });
            }
        }
    }

    fn memory(&self) -> usize {
        self.members.capacity() * size_of::<BucketMember>()
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
            if pairs.is_full() || self.bucket.is_written() && !self.read_bucket().await? {
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
