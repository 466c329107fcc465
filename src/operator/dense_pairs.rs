//! Dense buckets: so many documents share one of their rarest shingles that the number of their pairs is of no use.
//!
//! In place of all pairs, a few documents of a dense bucket lead, and the others are compared with those alone. That is
//! done in rounds, and the scores of a round decide who takes part in the next one: see [`crate::stage::leaders`].

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_boolean_array, as_uint32_array, as_uint64_array};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use super::bucket_reader::{Bucket, PAIRS_AT_ONCE, pairs_of_buckets};
use super::pair_builder::{PairBuilder, schema};
use crate::kernel::jaccard::least_shared;
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// A document that no leader was found for, and that may lead itself.
pub(crate) const OPEN: u32 = 0;
/// A document that led without being similar to any other, and that no leader was found for.
pub(crate) const TRIED: u32 = 1;
/// A document with a pair: it has a leader, or is one.
pub(crate) const SETTLED: u32 = 2;

/// What is made of the dense buckets: (token: UInt64, doc: UInt64, size: UInt32, position: UInt32, state: UInt32, known:
/// Boolean), partitioned and sorted by token -> (a, b) as [`super::bucket_pairs::schema`] has it.
///
/// A document that is known from an earlier run may lead, but needs no leader: that run has settled it. Two known documents
/// are no pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pass {
    /// The least similarity of a pair.
    pub threshold: f64,
    /// A bucket of more documents than this is dense. The others yield nothing.
    pub dense: u64,
    /// Which pairs are made.
    pub pairs: DensePairs,
}

/// Which pairs of a dense bucket are made. Of all, those whose similarity can reach the threshold as far as the bucket
/// tells: see `bucket_pairs::PairRule::MinJaccard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DensePairs {
    /// Each leader of this round, from 1, with each other document that has no leader, in the first `LINKING_ROUNDS` also
    /// with those that have one. For each leader there is a row without b. Buckets in which few documents are without
    /// a leader yield nothing: see `few`.
    OfLeaders {
        /// The round.
        round: u32,
    },
    /// Each document that has no leader with every other one.
    OfTheRest,
}

/// The rounds in which documents that have a leader are compared with new leaders too, so that groups of leaders that are
/// similar to each other stay in one cluster. There are fifteen leaders by then, so it costs little.
pub(crate) const LINKING_ROUNDS: u32 = 4;

/// So few documents of a dense bucket may stay without a leader, and are compared with all others in the end.
pub(crate) fn few(dense: u64) -> u64 {
    dense / 16
}

impl Pass {
    /// The leaders of a bucket in a round are twice as many as in the round before: few are enough where all documents are
    /// similar, and the number of rounds stays small where they form many groups.
    fn leaders(round: u32) -> usize {
        1_usize.checked_shl(round.saturating_sub(1)).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pass { threshold, dense, pairs } = self;
        write!(f, "jaccard >= {threshold}, buckets of more than {dense}, ")?;
        match pairs {
            DensePairs::OfLeaders { round } => write!(f, "leaders of round {round}"),
            DensePairs::OfTheRest => f.write_str("the rest"),
        }
    }
}

impl Description for Pass {
    const NAME: &'static str = "DenseExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        use DataType::{Boolean, UInt32, UInt64};
        let columns = only_input(Self::NAME, inputs)?.schema();
        let types: Vec<_> = columns.fields().iter().map(|f| f.data_type().clone()).collect();
        let expected = [UInt64, UInt64, UInt32, UInt32, UInt32, Boolean];
        if types != expected {
            return plan_err!("pairs of dense buckets are made of columns of {expected:?}, not of {types:?}");
        }
        let token = Arc::new(Column::new(columns.field(0).name(), 0));
        Shape::over(inputs, schema(), vec![Requirement::sorted_by(token)])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        Ok(pairs_of_buckets(task.rows_of(0)?, DenseBucket::new(*self), "Dense", &task.context))
    }
}

/// A document in a bucket.
#[derive(Debug, Clone, Copy)]
struct Member {
    doc: u64,
    /// Shingles of the document.
    size: u32,
    /// Of those, the ones that come before the bucket's own: they are rarer.
    position: u32,
    state: u32,
    /// Whether an earlier run knows it.
    known: bool,
}

impl Member {
    /// Whether the two may reach the threshold, if the bucket's shingle is the first that both have.
    fn may_reach(&self, other: &Member, threshold: f64) -> bool {
        if self.known && other.known {
            return false;
        }
        let most = (self.size - self.position).min(other.size - other.position);
        least_shared(self.size.into(), other.size.into(), threshold)
            .is_some_and(|least| u64::from(most) >= least)
    }
}

/// The bucket being read, and how far its pairs have been written.
#[derive(Debug)]
struct DenseBucket {
    pass: Pass,
    members: Vec<Member>,
    /// The members that are compared with others, by their places.
    firsts: Vec<usize>,
    /// The next of them, and the member that it is to be compared with; none before its own row is written.
    first: usize,
    second: Option<usize>,
    /// The members that they are compared with.
    seconds: Range<usize>,
}

impl DenseBucket {
    fn new(pass: Pass) -> Self {
        Self { pass, members: Vec::new(), firsts: Vec::new(), first: 0, second: None, seconds: 0..0 }
    }
}

impl Bucket for DenseBucket {
    type Columns = Columns;

    fn columns(batch: &RecordBatch) -> Result<Columns> {
        let number = |at: usize| -> Result<UInt32Array> { Ok(as_uint32_array(batch.column(at))?.clone()) };
        Ok(Columns {
            docs: as_uint64_array(batch.column(1))?.clone(),
            numbers: [number(2)?, number(3)?, number(4)?],
            known: as_boolean_array(batch.column(5))?.clone(),
        })
    }

    fn restart(&mut self, _same: bool) {
        self.members.clear();
        self.firsts.clear();
    }

    fn push(&mut self, columns: &Columns, row: usize) {
        self.members.push(columns.member(row));
    }

    fn close(&mut self) {
        (self.first, self.second) = (0, None);
        self.firsts.clear();
        if self.members.len() as u64 <= self.pass.dense {
            return;
        }
        // Those without a leader come first. Of these, whoever has the fewest rare shingles of its own is the most like what
        // all have in common; then whoever has the most shingles is similar to most of the others.
        self.members.sort_unstable_by_key(|member| {
            (member.state == SETTLED, member.position, Reverse(member.size), member.doc)
        });
        let open = self.members.partition_point(|member| member.state != SETTLED);
        let waits = |member: &&Member| member.state != SETTLED && !member.known;
        let waiting = self.members.iter().filter(waits).count();
        match self.pass.pairs {
            DensePairs::OfLeaders { .. } if waiting as u64 <= few(self.pass.dense) => {}
            DensePairs::OfLeaders { round } => {
                let untried: Vec<usize> =
                    (0..open).filter(|&at| self.members.get(at).is_some_and(|m| m.state == OPEN)).collect();
                let leaders = Pass::leaders(round).min(untried.len());
                // Spread over the order, so that they are not all of one group.
                let places = (0..leaders).map(|nth| nth * untried.len() / leaders);
                self.firsts.extend(places.filter_map(|place| untried.get(place)));
                let linking = round <= LINKING_ROUNDS;
                self.seconds = 0..if linking { self.members.len() } else { open };
            }
            DensePairs::OfTheRest => {
                // Whoever still waits stands before all others, so that each pair is written once.
                self.members.sort_by_key(|member| !waits(&member));
                self.firsts.extend(0..waiting);
                self.seconds = 0..self.members.len();
            }
        }
    }

    fn is_written(&self) -> bool {
        self.first >= self.firsts.len()
    }

    fn write(&mut self, pairs: &mut PairBuilder) {
        let mut left = PAIRS_AT_ONCE;
        while let Some(&first) = self.firsts.get(self.first) {
            let Some(x) = self.members.get(first) else { return };
            let of_rest = self.pass.pairs == DensePairs::OfTheRest;
            let mut second = match self.second {
                Some(second) => second,
                None if pairs.is_full() => return,
                // Of two documents of the rest, the earlier one has written the pair.
                None if of_rest => first + 1,
                None => {
                    pairs.push_alone(x.doc);
                    self.seconds.start
                }
            };
            while let Some(y) = self.members.get(second).filter(|_| second < self.seconds.end) {
                if pairs.is_full() || left == 0 {
                    self.second = Some(second);
                    return;
                }
                left -= 1;
                if second != first && x.may_reach(y, self.pass.threshold) {
                    pairs.push(x.doc, y.doc);
                }
                second += 1;
            }
            self.first += 1;
            self.second = None;
        }
    }

    fn memory(&self) -> usize {
        self.members.capacity() * size_of::<Member>()
    }
}

/// What the rows of a batch say of their documents.
struct Columns {
    docs: UInt64Array,
    /// Sizes, positions and states.
    numbers: [UInt32Array; 3],
    known: BooleanArray,
}

impl Columns {
    fn member(&self, row: usize) -> Member {
        let [size, position, state] = self.numbers.each_ref().map(|numbers| numbers.value(row));
        Member { doc: self.docs.value(row), size, position, state, known: self.known.value(row) }
    }
}
