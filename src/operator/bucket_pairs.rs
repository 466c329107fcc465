//! The self-join on the bucket: documents of a bucket that may be a pair, as one pass over rows that are together by bucket.
//!
//! A hash join would hold one side in memory, and the engine's does not spill. Here the rows of a partition are brought
//! together by bucket ([`super::by_bucket`], which spills); rows of prefixes come sorted by the engine's own sort. A bucket
//! of one document yields nothing and leaves here, before any pair exists.

use std::fmt;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array, UInt64Builder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_uint32_array, as_uint64_array};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::by_bucket::by_bucket;
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};
use crate::udf::jaccard::least_shared;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, true),
    ]))
});

/// The columns (a, b): two different documents of one bucket, a < b. A pair comes once for each bucket it shares. A row
/// without b says that a is in a hot bucket or in a dense one: see [`Meeting`].
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

#[cfg(test)]
pub(super) fn rows_schema() -> SchemaRef {
    let column = |name| Field::new(name, DataType::UInt64, false);
    Arc::new(Schema::new(vec![column("bucket"), column("doc")]))
}

/// Which documents of a bucket are paired: (bucket: UInt64, doc: UInt64, ..), partitioned by bucket -> the columns of
/// [`schema`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Meeting {
    /// Every two. A bucket of more than `hot` documents is hot, and yields each of them by itself in place of pairs,
    /// whose number would be quadratic. The input is (bucket, doc).
    Any {
        /// Documents in a bucket, at most.
        hot: u64,
    },
    /// Every two whose Jaccard similarity can reach `threshold`, as far as the bucket tells, which here is a shingle.
    /// The input is (shingle, doc, size, position): the size of the document's set, and how many shingles of it come
    /// before this one in an order that all documents share. A pair that reaches the threshold comes out of the first
    /// shingle that both have, if not of others.
    ///
    /// The bounds on sizes and positions are those of Xiao, Wang, Lin and Yu, *Efficient similarity joins for near
    /// duplicate detection*, WWW 2008, sections 3 and 4.1.
    ///
    /// A bucket of more than `dense` documents yields each of them by itself in place of pairs: see [`super::dense`].
    Reaching {
        /// The least similarity.
        threshold: f64,
        /// Documents in a bucket, at most; none for any number.
        dense: Option<u64>,
    },
}

impl Meeting {
    /// Documents of a bucket, at most, for pairs to be made of them.
    fn most(self) -> u64 {
        match self {
            Meeting::Any { hot } => hot,
            Meeting::Reaching { dense, .. } => dense.unwrap_or(u64::MAX),
        }
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meeting::Any { hot } => write!(f, "buckets of {hot} or fewer"),
            Meeting::Reaching { threshold, dense: None } => write!(f, "jaccard >= {threshold}"),
            Meeting::Reaching { threshold, dense: Some(dense) } => {
                write!(f, "jaccard >= {threshold}, buckets of {dense} or fewer")
            }
        }
    }
}

impl Description for Meeting {
    const NAME: &'static str = "BucketPairsExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        use DataType::{UInt32, UInt64};
        let columns = only_input(Self::NAME, inputs)?.schema();
        let types: Vec<_> = columns.fields().iter().map(|f| f.data_type().clone()).collect();
        let expected = match self {
            Meeting::Any { .. } => vec![UInt64, UInt64],
            Meeting::Reaching { .. } => vec![UInt64, UInt64, UInt32, UInt32],
        };
        if types != expected {
            return plan_err!("the pairs of a bucket are made of columns of {expected:?}, not of {types:?}");
        }
        let bucket: Arc<dyn PhysicalExpr> = Arc::new(Column::new(columns.field(0).name(), 0));
        let requirement = match self {
            Meeting::Any { .. } => Requirement::keyed(bucket),
            Meeting::Reaching { .. } => Requirement::sorted_by(bucket),
        };
        Shape::over(inputs, schema(), vec![requirement])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let (rows, context) = (task.rows_of(0)?, task.context);
        let input = match *self {
            Meeting::Reaching { .. } => rows,
            Meeting::Any { .. } => {
                let schema = rows.schema();
                let together = stream::once(by_bucket(rows, Arc::clone(&context))).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(schema, together))
            }
        };
        let pairs = Pairs {
            input,
            rows: None,
            row: 0,
            bucket: Bucket::new(*self),
            held: MemoryConsumer::new("BucketPairs").register(context.memory_pool()),
            batch_size: context.session_config().batch_size(),
        };
        let batches = futures::stream::try_unfold(pairs, async |mut pairs| {
            Ok(pairs.next_batch().await?.map(|batch| (batch, pairs)))
        });
        Ok(batches.boxed())
    }
}

/// A document in a bucket.
#[derive(Debug, Clone, Copy)]
struct Member {
    doc: u64,
    /// Shingles of the document; 0 where it does not matter.
    size: u32,
    /// Of those, the ones that come before the bucket's own.
    position: u32,
}

/// Pairs on their way into a batch.
pub(super) struct Found {
    a: UInt64Builder,
    b: UInt64Builder,
    room: usize,
}

impl Found {
    pub(super) fn new(room: usize) -> Self {
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

    /// A document without a second one.
    pub(super) fn push_alone(&mut self, doc: u64) {
        self.a.append_value(doc);
        self.b.append_null();
    }

    pub(super) fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.a.values_slice().is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(self.a.finish()), Arc::new(self.b.finish())];
        Ok(Some(RecordBatch::try_new(schema(), columns)?))
    }
}

/// Members of a hot or dense bucket that wait for each other.
const MAX_WAITING: usize = 1 << 16;

/// Pairs that are looked at before other tasks are let in.
const STRETCH: usize = 1 << 20;

/// The documents of the bucket being read, and how far its pairs have been written.
#[derive(Debug)]
struct Bucket {
    meeting: Meeting,
    id: u64,
    members: Vec<Member>,
    /// Whether it is known to be hot before all of its members are there.
    hot: bool,
    /// The next pair to look at is (members[first], members[second]).
    first: usize,
    second: usize,
}

impl Bucket {
    fn new(meeting: Meeting) -> Self {
        Self { meeting, id: 0, members: Vec::new(), hot: false, first: 0, second: 1 }
    }

    fn restart(&mut self, id: u64) {
        self.hot &= self.id == id;
        self.id = id;
        self.members.clear();
        (self.first, self.second) = (0, 1);
    }

    /// Whether so many members are there that it is hot and they need not wait for the others.
    fn overflows(&self) -> bool {
        self.members.len() >= MAX_WAITING && self.is_hot()
    }

    /// Whether it has too many members for pairs to be made of them.
    fn is_hot(&self) -> bool {
        self.hot || self.members.len() as u64 > self.meeting.most()
    }

    /// Call when all members are there.
    fn close(&mut self) {
        if matches!(self.meeting, Meeting::Reaching { .. }) && !self.is_hot() {
            self.members.sort_unstable_by_key(|member| (member.size, member.doc));
        }
    }

    fn is_written(&self) -> bool {
        self.first >= self.members.len()
    }

    /// Writes pairs until there is no more room, or for a while.
    fn write(&mut self, found: &mut Found) {
        match self.meeting {
            _ if self.is_hot() => self.write_each(found),
            Meeting::Any { .. } => self.write_pairs(found, |_, _| Some(true)),
            Meeting::Reaching { threshold, .. } => {
                let mut last = (0, 0, None);
                self.write_pairs(found, |x, y| {
                    if (x.size, y.size) != (last.0, last.1) {
                        last = (x.size, y.size, least_shared(x.size.into(), y.size.into(), threshold));
                    }
                    // This shingle, if it is the first that both have, and at most all that follow it.
                    let most = (x.size - x.position).min(y.size - y.position);
                    last.2.map(|least| u64::from(most) >= least)
                });
            }
        }
    }

    fn write_each(&mut self, found: &mut Found) {
        while let Some(member) = self.members.get(self.first) {
            if found.is_full() {
                return;
            }
            found.push_alone(member.doc);
            self.first += 1;
        }
    }

    /// Writes the pairs for which `meet` is true; where it is none, it is so for all members that follow.
    fn write_pairs(&mut self, found: &mut Found, mut meet: impl FnMut(&Member, &Member) -> Option<bool>) {
        let mut left = STRETCH;
        while let Some(x) = self.members.get(self.first) {
            while let Some(y) = self.members.get(self.second) {
                if found.is_full() || left == 0 {
                    return;
                }
                left -= 1;
                match meet(x, y) {
                    Some(true) => found.push(x.doc, y.doc),
                    Some(false) => {}
                    None => break,
                }
                self.second += 1;
            }
            self.first += 1;
            self.second = self.first + 1;
        }
    }
}

/// Rows of the input.
struct Rows {
    buckets: UInt64Array,
    docs: UInt64Array,
    sizes: Option<(UInt32Array, UInt32Array)>,
}

impl Rows {
    fn try_new(batch: &RecordBatch) -> Result<Self> {
        let sizes = match batch.num_columns() {
            4 => Some((as_uint32_array(batch.column(2))?.clone(), as_uint32_array(batch.column(3))?.clone())),
            _ => None,
        };
        let (buckets, docs) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        Ok(Self { buckets: buckets.clone(), docs: docs.clone(), sizes })
    }

    fn member(&self, row: usize) -> Member {
        let (size, position) =
            self.sizes.as_ref().map_or((0, 0), |(sizes, positions)| (sizes.value(row), positions.value(row)));
        Member { doc: self.docs.value(row), size, position }
    }
}

struct Pairs {
    input: SendableRecordBatchStream,
    rows: Option<Rows>,
    row: usize,
    bucket: Bucket,
    held: MemoryReservation,
    batch_size: usize,
}

impl Pairs {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut found = Found::new(self.batch_size);
        loop {
            // The pairs of a bucket are written when its last row has been read, and in as many batches as they need.
            self.bucket.write(&mut found);
            if found.is_full() || self.bucket.is_written() && !self.read_bucket().await? {
                return found.finish();
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reads on to the end of a bucket; false at the end of the input.
    async fn read_bucket(&mut self) -> Result<bool> {
        let mut started = false;
        loop {
            if let Some(rows) = &self.rows {
                while self.row < rows.buckets.len() {
                    let id = rows.buckets.value(self.row);
                    if !started {
                        self.bucket.restart(id);
                        started = true;
                    } else if id != self.bucket.id {
                        self.bucket.close();
                        return Ok(true);
                    }
                    self.bucket.members.push(rows.member(self.row));
                    self.row += 1;
                    if self.bucket.overflows() {
                        self.bucket.hot = true;
                        return Ok(true);
                    }
                }
                self.held.try_resize(self.bucket.members.capacity() * size_of::<Member>())?;
            }
            let batch = self.input.next().await.transpose()?;
            self.rows = batch.as_ref().map(Rows::try_new).transpose()?;
            self.row = 0;
            if self.rows.is_none() {
                self.bucket.close();
                return Ok(started);
            }
        }
    }
}
