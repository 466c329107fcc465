//! The self-join on the bucket, over sorted buckets: documents of a bucket that may be a pair, in one pass over rows that are
//! together by bucket.
//!
//! A hash join would hold one side in memory, and the engine's does not spill. Here the rows of a partition are brought
//! together by bucket ([`super::by_bucket`], which spills); rows of prefixes come sorted by the engine's own sort. A bucket
//! of one document yields nothing and leaves here, before any pair exists.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::{as_boolean_array, as_uint32_array, as_uint64_array};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::bucket_reader::{Bucket, PAIRS_AT_ONCE, pairs_of_buckets};
use super::by_bucket::by_bucket;
use super::pair_builder::PairBuilder;
pub(crate) use super::pair_builder::schema;
use crate::kernel::jaccard::{least_contained, least_shared};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

#[cfg(test)]
pub(super) fn rows_schema() -> arrow::datatypes::SchemaRef {
    use arrow::datatypes::{Field, Schema};

    let column = |name| Field::new(name, DataType::UInt64, false);
    Arc::new(Schema::new(vec![column("bucket"), column("doc")]))
}

/// Which documents of a bucket are paired: (bucket: UInt64, doc: UInt64, ..), partitioned by bucket -> the columns of
/// [`schema`]. A further column `known: Boolean` at the end says which documents are known from an earlier run: two of those
/// are no pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum PairRule {
    /// Every two. A bucket of more than `hot` documents is hot, and yields each of them by itself instead of pairs,
    /// whose number would be quadratic. The input is (bucket, doc).
    All {
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
    /// A bucket of more than `dense` documents yields each of them by itself instead of pairs: see [`super::dense_pairs`].
    MinJaccard {
        /// The least similarity.
        threshold: f64,
        /// Documents in a bucket, at most; none for any number.
        dense: Option<u64>,
    },
    /// Every two of which the larger set can hold a share of `threshold` of the smaller one, as far as the bucket tells. The
    /// input is that of [`PairRule::MinJaccard`], with every token of a document that may be the first one it shares with a
    /// smaller document.
    MinContainment {
        /// The least share.
        threshold: f64,
    },
}

impl PairRule {
    /// Documents of a bucket, at most, for pairs to be made of them.
    fn most(self) -> u64 {
        match self {
            PairRule::All { hot } => hot,
            PairRule::MinJaccard { dense, .. } => dense.unwrap_or(u64::MAX),
            PairRule::MinContainment { .. } => u64::MAX,
        }
    }

    /// Whether the operator brings rows of these columns together itself, and they need not come sorted: those of a bucket and
    /// a document alone.
    fn brings_together(self, columns: &Schema) -> bool {
        matches!(self, PairRule::All { .. }) && columns.fields().len() == 2
    }
}

impl fmt::Display for PairRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairRule::All { hot } => write!(f, "buckets of {hot} or fewer"),
            PairRule::MinJaccard { threshold, dense: None } => write!(f, "jaccard >= {threshold}"),
            PairRule::MinJaccard { threshold, dense: Some(dense) } => {
                write!(f, "jaccard >= {threshold}, buckets of {dense} or fewer")
            }
            PairRule::MinContainment { threshold } => write!(f, "containment >= {threshold}"),
        }
    }
}

impl Description for PairRule {
    const NAME: &'static str = "BucketSelfJoinExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        use DataType::{Boolean, UInt32, UInt64};
        let columns = only_input(Self::NAME, inputs)?.schema();
        let types: Vec<_> = columns.fields().iter().map(|f| f.data_type().clone()).collect();
        let expected = match self {
            PairRule::All { .. } => vec![UInt64, UInt64],
            PairRule::MinJaccard { .. } | PairRule::MinContainment { .. } => {
                vec![UInt64, UInt64, UInt32, UInt32]
            }
        };
        let of_rule = types.strip_suffix(&[Boolean]).unwrap_or(&types);
        if of_rule != expected {
            return plan_err!("the pairs of a bucket are made of columns of {expected:?}, not of {types:?}");
        }
        let bucket: Arc<dyn PhysicalExpr> = Arc::new(Column::new(columns.field(0).name(), 0));
        let requirement = match self.brings_together(&columns) {
            true => Requirement::keyed(bucket),
            false => Requirement::sorted_by(bucket),
        };
        Shape::over(inputs, schema(), vec![requirement])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let (rows, context) = (task.rows_of(0)?, task.context);
        let schema = rows.schema();
        let input = match self.brings_together(&schema) {
            false => rows,
            true => {
                let together = stream::once(by_bucket(rows, Arc::clone(&context))).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(schema, together))
            }
        };
        Ok(pairs_of_buckets(input, BucketMembers::new(*self), "BucketPairs", &context))
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
    /// Whether an earlier run knows it.
    known: bool,
}

/// Members of a hot or dense bucket that wait for each other.
const MAX_WAITING: usize = 1 << 16;

/// The documents of the bucket being read, and how far its pairs have been written.
#[derive(Debug)]
struct BucketMembers {
    rule: PairRule,
    members: Vec<Member>,
    /// Whether it is known to be hot before all of its members are there.
    hot: bool,
    /// The next pair to look at is (members[first], members[second]).
    first: usize,
    second: usize,
}

impl BucketMembers {
    fn new(rule: PairRule) -> Self {
        Self { rule, members: Vec::new(), hot: false, first: 0, second: 1 }
    }

    /// Whether it has too many members for pairs to be made of them.
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

    /// Writes the pairs of which a document is new and for which `meet` is true; where it is none, it is so for all members
    /// that follow.
    fn write_pairs(
        &mut self,
        pairs: &mut PairBuilder,
        mut meet: impl FnMut(&Member, &Member) -> Option<bool>,
    ) {
        let mut left = PAIRS_AT_ONCE;
        while let Some(x) = self.members.get(self.first) {
            while let Some(y) = self.members.get(self.second) {
                if pairs.is_full() || left == 0 {
                    return;
                }
                left -= 1;
                match meet(x, y) {
                    Some(true) if !(x.known && y.known) => pairs.push(x.doc, y.doc),
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
    type Columns = Columns;

    fn columns(batch: &RecordBatch) -> Result<Columns> {
        let sizes = match batch.num_columns() {
            4 | 5 => {
                Some((as_uint32_array(batch.column(2))?.clone(), as_uint32_array(batch.column(3))?.clone()))
            }
            _ => None,
        };
        let known = match batch.columns() {
            [_, _, known] | [_, _, _, _, known] => Some(as_boolean_array(known)?.clone()),
            _ => None,
        };
        Ok(Columns { docs: as_uint64_array(batch.column(1))?.clone(), sizes, known })
    }

    fn restart(&mut self, same: bool) {
        self.hot &= same;
        self.members.clear();
        (self.first, self.second) = (0, 1);
    }

    fn push(&mut self, columns: &Columns, row: usize) {
        self.members.push(columns.member(row));
    }

    fn overflows(&mut self) -> bool {
        let overflows = self.members.len() >= MAX_WAITING && self.is_hot();
        self.hot |= overflows;
        overflows
    }

    fn close(&mut self) {
        match self.rule {
            _ if self.is_hot() => {}
            // After the new ones there is no first document of a pair.
            PairRule::All { .. } => self.members.sort_by_key(|member| member.known),
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
            PairRule::All { .. } => self.write_pairs(pairs, |x, _| (!x.known).then_some(true)),
            PairRule::MinJaccard { threshold, .. } => {
                let mut last = (0, 0, None);
                self.write_pairs(pairs, |x, y| {
                    if (x.size, y.size) != (last.0, last.1) {
                        last = (x.size, y.size, least_shared(x.size.into(), y.size.into(), threshold));
                    }
                    // This shingle, if it is the first that both have, and at most all that follow it.
                    let most = (x.size - x.position).min(y.size - y.position);
                    last.2.map(|least| u64::from(most) >= least)
                });
            }
            PairRule::MinContainment { threshold } => {
                let mut last = (0, 0);
                // The smaller one comes first; what it holds from this token on does not depend on the other.
                self.write_pairs(pairs, |x, y| {
                    if x.size != last.0 {
                        last = (x.size, least_contained(x.size.into(), threshold));
                    }
                    let reaches = |member: &Member| u64::from(member.size - member.position) >= last.1;
                    reaches(x).then(|| reaches(y))
                });
            }
        }
    }

    fn memory(&self) -> usize {
        self.members.capacity() * size_of::<Member>()
    }
}

/// What the rows of a batch say of their documents.
struct Columns {
    docs: UInt64Array,
    /// Sizes and positions.
    sizes: Option<(UInt32Array, UInt32Array)>,
    /// Which documents are known; none if all are new.
    known: Option<BooleanArray>,
}

impl Columns {
    fn member(&self, row: usize) -> Member {
        let (size, position) =
            self.sizes.as_ref().map_or((0, 0), |(sizes, positions)| (sizes.value(row), positions.value(row)));
        let known = self.known.as_ref().is_some_and(|known| known.value(row));
        Member { doc: self.docs.value(row), size, position, known }
    }
}
