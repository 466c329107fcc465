//! The sides that the joins of a plan hold whole.
//!
//! The planner decides for each join by itself whether its left side is small enough to be held. If a plan has several such
//! joins, all of these sides may be in memory at the same time.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::prelude::SessionConfig;

use super::session;

/// Adds the bytes of each side that a join of `plan` holds whole, as the planner estimates them.
fn held_sides(plan: &Arc<dyn ExecutionPlan>, sides: &mut Vec<usize>) {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && *join.partition_mode() == PartitionMode::CollectLeft
    {
        let side = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new());
        sides.push(side.map_or(0, |side| {
            let rows = side.num_rows.get_value().map(|rows| rows.saturating_mul(session::BYTES_OF_HELD_ROW));
            side.total_byte_size.get_value().copied().or(rows).unwrap_or(0)
        }));
    }
    plan.children().into_iter().for_each(|child| held_sides(child, sides));
}

/// The configuration with which to plan `plan` again, which was made with `config`, because its joins together hold more than one
/// of them may; `None` if the plan can stay. With it, all of them together hold no more than that, or one large side and small
/// ones.
pub(crate) fn holding_less(plan: &Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Option<SessionConfig> {
    let most = config.options().optimizer.hash_join_single_partition_threshold;
    // A plan of one partition has no other kind of join.
    if most == 0 || config.target_partitions() == 1 {
        return None;
    }
    let mut sides = Vec::new();
    held_sides(plan, &mut sides);
    let all = sides.iter().fold(0_usize, |all, side| all.saturating_add(*side));
    let large = sides.iter().filter(|side| **side > most / sides.len()).count();
    (all > most && large > 1).then(|| session::hold_one_part_in(config.clone(), large))
}

/// The least bytes of a row where Ballista's scheduler knows the number of rows alone: it adds up the widths of the columns.
#[cfg(feature = "cluster")]
const LEAST_BYTES_OF_ROW: usize = 8;

/// The bytes below which Ballista's scheduler may hold a side of `plan` whole, where the planner held none of `most` or more: no
/// side that the planner divided for the number of its rows is below.
#[cfg(feature = "cluster")]
pub(super) fn below_divided_sides(plan: &Arc<dyn ExecutionPlan>, most: usize) -> usize {
    let sides = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if *join.partition_mode() == PartitionMode::Partitioned => vec![join.left(), join.right()],
        _ => Vec::new(),
    };
    let divided = sides.into_iter().filter_map(|side| {
        let side = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new()).ok()?;
        if side.total_byte_size.get_value().is_some_and(|bytes| *bytes > 0) {
            return None;
        }
        let rows = *side.num_rows.get_value()?;
        (rows.saturating_mul(session::BYTES_OF_HELD_ROW) >= most)
            .then(|| rows.saturating_mul(LEAST_BYTES_OF_ROW))
    });
    let below = plan.children().into_iter().map(|input| below_divided_sides(input, most));
    divided.chain(below).fold(most, usize::min)
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

    fn held(plan: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
        let mut sides = Vec::new();
        held_sides(plan, &mut sides);
        sides
    }

    #[tokio::test]
    async fn sides_that_are_large_together_share_what_one_may_take() {
        let settings = job::Engine { threads: 2, ..job::Engine::local(64 << 20) };
        let session = session::session(&settings).unwrap();
        let config = session.copied_config();
        let most = config.options().optimizer.hash_join_single_partition_threshold;
        // A join over a join, whose left sides have these sizes in bytes.
        let planned = async |upper: usize, lower: usize| {
            let of = |name: &str, bytes: usize| numbers(&session, name, bytes);
            let below =
                of("b", lower).join(of("c", 4 * most), JoinType::Right, &["b"], &["c"], None).unwrap();
            let above = of("a", upper).join(below, JoinType::Right, &["a"], &["c"], None).unwrap();
            above.create_physical_plan().await.unwrap()
        };
        let few = planned(800, 800).await;
        assert_eq!(held(&few).len(), 2);
        assert!(holding_less(&few, &config).is_none());
        let large = planned(most * 3 / 4, most * 3 / 4).await;
        let both = held(&large);
        assert!(both.len() == 2 && both.iter().sum::<usize>() > most, "{both:?}");
        let less = holding_less(&large, &config).unwrap();
        assert_eq!(less.options().optimizer.hash_join_single_partition_threshold, most / 2);
        let one = planned(2 * most, 800).await;
        assert_eq!(held(&one).len(), 1);
        assert!(holding_less(&one, &config).is_none());
        let unequal = planned(most * 15 / 16, most / 8).await;
        let both = held(&unequal);
        assert!(both.len() == 2 && both.iter().sum::<usize>() > most, "{both:?}");
        assert!(holding_less(&unequal, &config).is_none(), "a small side makes no difference");
    }
}
