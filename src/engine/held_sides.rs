//! The sides that the joins of a plan hold whole.
//!
//! The planner decides for each join by itself whether its left side is small enough to be held. If a plan has several such
//! joins, one above the other, all of these sides are in memory at the same time.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::prelude::SessionConfig;

use super::session;

/// The number of sides that the joins of a plan hold whole, and their estimated bytes, as the planner estimates them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HeldSides {
    number: usize,
    bytes: usize,
}

impl HeldSides {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut all = Self::default();
        all.add(plan);
        all
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>()
            && *join.partition_mode() == PartitionMode::CollectLeft
        {
            self.number += 1;
            self.bytes += StatisticsContext::new()
                .compute(join.left().as_ref(), &StatisticsArgs::new())
                .map_or(0, |side| {
                    let rows = || {
                        side.num_rows.get_value().map(|rows| rows.saturating_mul(session::BYTES_OF_HELD_ROW))
                    };
                    side.total_byte_size.get_value().copied().or_else(rows).unwrap_or(0)
                });
        }
        plan.children().into_iter().for_each(|child| self.add(child));
    }
}

/// The configuration by which `plan`, made with `config`, has to be planned again, because its joins together hold more than one
/// of them may; `None` if the plan can stay.
pub(crate) fn holding_less(plan: &Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Option<SessionConfig> {
    let HeldSides { number, bytes } = HeldSides::of(plan);
    let most = config.options().optimizer.hash_join_single_partition_threshold;
    (number > 1 && bytes > most).then(|| session::hold_one_part_in(config.clone(), number))
}

#[cfg(test)]
mod tests {
    use arrow::array::{RecordBatch, UInt64Array};
    use datafusion::common::JoinType;
    use datafusion::prelude::{DataFrame, SessionContext};

    use super::*;
    use crate::job;

    fn numbers(session: &SessionContext, name: &str, bytes: usize) -> DataFrame {
        let numbers = Arc::new(UInt64Array::from_iter_values(0..bytes as u64 / 8)) as _;
        session.read_batch(RecordBatch::try_from_iter([(name, numbers)]).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn sides_that_are_large_together_share_what_one_may_take() {
        let settings = job::Engine { threads: 2, ..job::Engine::local(64 << 20) };
        let session = session::session(&settings).unwrap();
        let config = session.copied_config();
        let most = config.options().optimizer.hash_join_single_partition_threshold;
        // A join over a join; their left sides have so many bytes.
        let planned = async |upper: usize, lower: usize| {
            let of = |name: &str, bytes: usize| numbers(&session, name, bytes);
            let below =
                of("b", lower).join(of("c", 4 * most), JoinType::Right, &["b"], &["c"], None).unwrap();
            let above = of("a", upper).join(below, JoinType::Right, &["a"], &["c"], None).unwrap();
            above.create_physical_plan().await.unwrap()
        };
        let few = planned(800, 800).await;
        assert_eq!(HeldSides::of(&few).number, 2);
        assert!(holding_less(&few, &config).is_none());
        let large = planned(most * 3 / 4, most * 3 / 4).await;
        let both = HeldSides::of(&large);
        assert!(both.number == 2 && both.bytes > most, "{both:?}");
        let less = holding_less(&large, &config).unwrap();
        assert_eq!(less.options().optimizer.hash_join_single_partition_threshold, most / 2);
        let one = planned(2 * most, 800).await;
        assert_eq!(HeldSides::of(&one).number, 1);
        assert!(holding_less(&one, &config).is_none());
    }
}
