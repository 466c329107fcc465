//! The pairs of dense buckets. A dense bucket has too many documents with the same rare shingle to compare every two of them. A few of its
//! documents are leaders, and the other documents are compared only with leaders. This happens in rounds: the scores of a round decide
//! which documents take part in the next round.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use super::bucket_pairs::{Bucket, BucketMember, PAIRS_AT_ONCE, PairBuilder, pair_schema, pairs_of_buckets};
use crate::kernel::measure::least_shared;
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};

/// The state of a document without a leader, which may become a leader.
pub(crate) const OPEN: u32 = 0;
/// The state of a former leader that is similar to no other document.
pub(crate) const TRIED: u32 = 1;
/// The state of a document in a pair: it has a leader or is a leader.
pub(crate) const SETTLED: u32 = 2;

/// Finds the pairs of dense buckets: (token: UInt64, doc: UInt64, size: UInt32, position: UInt32, state: UInt32, reference: Boolean) -> the
/// columns of [`pair_schema`]. The input is partitioned and sorted by token. A reference document can be a leader, but needs no leader,
/// because an earlier run has decided about it. Two reference documents are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct DensePass {
    pub threshold: f64,
    /// The maximum number of documents in a bucket that is not dense. Such a bucket yields no rows.
    pub dense: u64,
    pub pairs: DensePairs,
}

/// The pairs that a pass yields in a dense bucket. A pair is skipped if the bounds of `bucket_pairs::PairRule::MinJaccard` show that its
/// similarity is below the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DensePairs {
    /// Each leader of a round with each document that has no leader. In the first `LINKING_ROUNDS` rounds, leaders are also compared with
    /// documents that have a leader. Each leader also yields a row without b. A bucket yields no rows if at most `few` of its documents
    /// have no leader.
    OfLeaders {
        /// The number of the round, from 1.
        round: u32,
    },
    /// Each document without a leader with every other document.
    OfTheRest,
}

/// The number of rounds, from the first round, in which leaders are also compared with documents that have a leader. The additional
/// comparisons keep similar groups in one cluster. They are cheap, because a bucket has only fifteen leaders in these rounds.
pub(crate) const LINKING_ROUNDS: u32 = 4;

/// The maximum number of documents in a dense bucket that may remain without a leader. These documents are compared with all other
/// documents after the last round.
pub(crate) fn few(dense: u64) -> u64 {
    dense / 16
}

impl DensePass {
    /// Returns the number of leaders in a bucket. It doubles with each round, so that even many groups need few rounds.
    fn leaders(round: u32) -> usize {
        1_usize.checked_shl(round.saturating_sub(1)).unwrap_or(usize::MAX)
    }
}

impl Description for DensePass {
    const NAME: &'static str = "DenseExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DensePass { threshold, dense, pairs } = self;
        write!(f, "jaccard >= {threshold}, buckets of more than {dense}, ")?;
        match pairs {
            DensePairs::OfLeaders { round } => write!(f, "leaders of round {round}"),
            DensePairs::OfTheRest => f.write_str("the rest"),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let columns = only_input(Self::NAME, inputs)?.schema();
        Shape::over(inputs, pair_schema(), vec![Requirement::sorted(&columns, [])])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let bucket = DenseBucket {
            pass: *self,
            members: Vec::new(),
            firsts: Vec::new(),
            first: 0,
            seconds: None,
            compared: 0,
        };
        Ok(pairs_of_buckets(task.rows_of(0)?.boxed(), bucket, "Dense", &task.context))
    }
}

/// Whether two members may reach the threshold, if the bucket's shingle is their first common shingle.
fn may_reach(one: &BucketMember, other: &BucketMember, threshold: f64) -> bool {
    if one.is_reference && other.is_reference {
        return false;
    }
    let most = (one.size - one.position).min(other.size - other.position);
    least_shared(one.size.into(), other.size.into(), threshold).is_some_and(|least| u64::from(most) >= least)
}

/// `members` is ordered by size. Returns the range of members whose size permits a similarity of at least `threshold` with `x`.
fn near_sizes(x: &BucketMember, members: &[BucketMember], threshold: f64) -> Range<usize> {
    let least = |other: &BucketMember| least_shared(x.size.into(), other.size.into(), threshold);
    let is_too_small = |other: &BucketMember| other.size < x.size && least(other).is_none();
    let most = u64::from(x.size - x.position);
    let start = members.partition_point(is_too_small);
    // A larger set must contain more of x.
    let fit = |other: &BucketMember| is_too_small(other) || least(other).is_some_and(|least| least <= most);
    start..members.partition_point(fit).max(start)
}

/// The current bucket, and the progress of writing its pairs.
#[derive(Debug)]
struct DenseBucket {
    pass: DensePass,
    members: Vec<BucketMember>,
    /// The indices of the members to compare with other members.
    firsts: Vec<usize>,
    first: usize,
    /// The indices of the members that remain to be compared with the current member; `None` before its first comparison.
    seconds: Option<[Range<usize>; 2]>,
    /// Leaders are compared with the first `compared` members.
    compared: usize,
}

impl DenseBucket {
    /// Returns the indices of the members to compare with `x`, the member at index `first`.
    fn seconds_of(&self, first: usize, x: &BucketMember) -> [Range<usize>; 2] {
        if matches!(self.pass.pairs, DensePairs::OfLeaders { .. }) {
            return [0..self.compared, 0..0];
        }
        // Documents that wait for a leader come first. If both documents of a pair wait, the earlier document writes the pair.
        let waiting = self.firsts.len();
        [first + 1..waiting, waiting..self.members.len()].map(|places| {
            let members = self.members.get(places.clone()).unwrap_or_default();
            let near = near_sizes(x, members, self.pass.threshold);
            places.start + near.start..places.start + near.end
        })
    }
}

impl Bucket for DenseBucket {
    fn restart(&mut self, _same: bool) {
        self.members.clear();
        self.firsts.clear();
    }

    fn push(&mut self, member: BucketMember) {
        self.members.push(member);
    }

    fn close(&mut self) {
        (self.first, self.seconds) = (0, None);
        self.firsts.clear();
        if self.members.len() as u64 <= self.pass.dense {
            return;
        }
        // Documents without a leader come first. The next criteria prefer good leaders. Few rare shingles mean that a document is close to
        // the common part, and many shingles mean that it is similar to most other documents.
        self.members.sort_unstable_by_key(|member| {
            (member.state == SETTLED, member.position, Reverse(member.size), member.doc)
        });
        let open = self.members.partition_point(|member| member.state != SETTLED);
        let waits = |member: &&BucketMember| member.state != SETTLED && !member.is_reference;
        let waiting = self.members.iter().filter(waits).count();
        match self.pass.pairs {
            DensePairs::OfLeaders { .. } if waiting as u64 <= few(self.pass.dense) => {}
            DensePairs::OfLeaders { round } => {
                let untried: Vec<usize> =
                    (0..open).filter(|&at| self.members.get(at).is_some_and(|m| m.state == OPEN)).collect();
                let leaders = DensePass::leaders(round).min(untried.len());
                // The leaders are spread over the order, so that they come from several groups.
                let places = (0..leaders).map(|nth| nth * untried.len() / leaders);
                self.firsts.extend(places.filter_map(|place| untried.get(place)));
                let linking = round <= LINKING_ROUNDS;
                self.compared = if linking { self.members.len() } else { open };
            }
            DensePairs::OfTheRest => {
                // Documents that wait for a leader come first, so that each pair is written once.
                self.members.sort_by_key(|member| (!waits(&member), member.size));
                self.firsts.extend(0..waiting);
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
            if self.seconds.is_none() && pairs.is_full() {
                return;
            }
            let mut seconds = self.seconds.take().unwrap_or_else(|| {
                if matches!(self.pass.pairs, DensePairs::OfLeaders { .. }) {
                    pairs.push_alone(x.doc);
                }
                self.seconds_of(first, x)
            });
            loop {
                if pairs.is_full() || left == 0 {
                    self.seconds = Some(seconds);
                    return;
                }
                let Some(second) = seconds.iter_mut().find_map(Iterator::next) else { break };
                left -= 1;
                if let Some(y) = self.members.get(second).filter(|_| second != first)
                    && may_reach(x, y, self.pass.threshold)
                {
                    pairs.push(x.doc, y.doc);
                }
            }
            self.first += 1;
        }
    }

    fn memory(&self) -> usize {
        self.members.capacity() * size_of::<BucketMember>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_out_only_pairs_that_cannot_reach_the_threshold() {
        let mut members = Vec::new();
        for size in 1..40 {
            for position in (0..size).step_by(3) {
                members.push(BucketMember { doc: 0, size, position, state: OPEN, is_reference: false });
            }
        }
        for threshold in [0.1, 0.5, 0.8, 1.0 / 3.0, 1.0] {
            let mut left_out = 0;
            for x in &members {
                let near = near_sizes(x, &members, threshold);
                for (at, y) in members.iter().enumerate().filter(|(at, _)| !near.contains(at)) {
                    assert!(!may_reach(x, y, threshold), "{threshold}: {x:?} and {y:?}, at {at}");
                    left_out += 1;
                }
                let sizes = members.get(near).unwrap_or_default().iter().map(|y| y.size);
                let most = |size: u32| least_shared(x.size.into(), size.into(), threshold);
                let fit = |size| most(size).is_some_and(|least| least <= u64::from(x.size - x.position));
                assert!(sizes.into_iter().all(fit), "{threshold}: {x:?}");
            }
            assert!(left_out > 0, "{threshold}");
        }
    }
}
