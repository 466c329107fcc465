//! The self-join on the bucket: the documents of a bucket that may be a pair, in one pass over rows that are grouped by bucket.
//!
//! A hash join would hold one side in memory, and DataFusion's does not spill. Here [`super::by_bucket`] groups the rows of a
//! partition, and spills; rows of prefixes come sorted by DataFusion. A bucket of one document is dropped before any pair
//! exists.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::bucket_reader::{Bucket, BucketMember, PAIRS_AT_ONCE, PairBuilder, pair_schema, pairs_of_buckets};
use super::by_bucket::by_bucket;
use crate::kernel::jaccard::{least_contained, least_shared};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// Which documents of a bucket are paired: (bucket: UInt64, doc: UInt64, ..), partitioned by bucket -> the columns of
/// [`schema`]. An optional last column `reference: Boolean` marks reference documents, which are not paired with each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum PairRule {
    /// All pairs. A bucket of more than `hot` documents is hot: it yields each document alone instead of pairs, whose number
    /// would be quadratic. The input is (bucket, doc).
    All {
        /// The most documents in a bucket.
        hot: u64,
    },
    /// The pairs whose Jaccard similarity can reach `threshold`, by the bounds of the bucket, which here is a shingle. The input
    /// is (shingle, doc, size, position): the size of the document's set, and the number of its shingles before this one in an
    /// order that all documents share. The first shingle that both documents have yields every pair that reaches the threshold.
    ///
    /// The bounds on sizes and positions are those of Xiao, Wang, Lin and Yu, *Efficient similarity joins for near
    /// duplicate detection*, WWW 2008, sections 3 and 4.1.
    ///
    /// A bucket of more than `dense` documents yields each document alone instead of pairs: see [`super::dense_pairs`].
    MinJaccard {
        /// The least similarity.
        threshold: f64,
        /// The most documents in a bucket; `None` for any number.
        dense: Option<u64>,
    },
    /// The pairs in which the larger set can contain a share of `threshold` of the smaller one, by the bounds of the bucket. The
    /// input is that of [`PairRule::MinJaccard`], with every token of a document that may be the first one that it shares with a
    /// smaller document.
    MinContainment {
        /// The least share.
        threshold: f64,
    },
}

impl PairRule {
    /// The most documents of a bucket that is paired.
    fn most(self) -> u64 {
        match self {
            PairRule::All { hot } => hot,
            PairRule::MinJaccard { dense, .. } => dense.unwrap_or(u64::MAX),
            PairRule::MinContainment { .. } => u64::MAX,
        }
    }

    /// Whether the operator groups rows of these columns itself, so that they need not be sorted: (bucket, doc) alone.
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
        let schema = rows.schema();
        let input = match self.groups(&schema) {
            false => rows,
            true => {
                let grouped = stream::once(by_bucket(rows, Arc::clone(&context))).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(schema, grouped))
            }
        };
        Ok(pairs_of_buckets(input, BucketMembers::new(*self), "BucketPairs", &context))
    }
}

/// Members of a hot or dense bucket that are held at once.
const MAX_WAITING: usize = 1 << 16;

/// The documents of the bucket that is being read, and the place of its next pair.
#[derive(Debug)]
struct BucketMembers {
    rule: PairRule,
    members: Vec<BucketMember>,
    /// Whether members of this bucket were written before all of them were read, because it is hot.
    hot: bool,
    /// The next pair is (members[first], members[second]).
    first: usize,
    second: usize,
}

impl BucketMembers {
    fn new(rule: PairRule) -> Self {
        Self { rule, members: Vec::new(), hot: false, first: 0, second: 1 }
    }

    /// Whether it has too many members to be paired.
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

    /// Writes the pairs with a new document for which `meet` is true. `None` from `meet` holds for all further members too.
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
            // New documents first: every pair has one, and it is the first.
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
                    // If this is the first common shingle, at most this one and all that follow are common.
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
