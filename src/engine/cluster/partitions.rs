//! How much there is to do of a plan on a cluster: the partitions of all of its query stages, and what is shuffled between them.

use std::sync::Arc;

use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

/// The partitions of the query stages of a plan: about, since Ballista may plan some joins in other ways.
pub(super) fn of_query_stages(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    count(plan) + before_shuffles(plan)
}

fn count(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    plan.output_partitioning().partition_count() as u64
}

/// Whether the rows that a plan divides by a key have texts. All else that stages shuffle are hashes, which no codec makes smaller.
pub(super) fn shuffles_texts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let has_texts = || plan.schema().fields().iter().any(|field| field.data_type().is_string());
    divides(plan) && has_texts() || plan.children().into_iter().any(shuffles_texts)
}

fn divides(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_hash = |plan: &RepartitionExec| matches!(plan.partitioning(), Partitioning::Hash(..));
    plan.downcast_ref::<RepartitionExec>().is_some_and(is_hash)
}

/// Those of the query stages whose rows are shuffled.
fn before_shuffles(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let ends_stage =
        plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() || divides(plan);
    let of =
        |input: &Arc<dyn ExecutionPlan>| before_shuffles(input) + if ends_stage { count(input) } else { 0 };
    plan.children().into_iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    #[tokio::test]
    async fn each_shuffle_ends_a_query_stage() {
        let config = SessionConfig::new().with_target_partitions(3);
        let session = SessionContext::new_with_config(config);
        let plan = async |sql: &str| session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows = plan("SELECT value FROM generate_series(1, 100)").await;
        assert_eq!(of_query_stages(&rows), count(&rows));
        let grouped = plan("SELECT value % 7, count(*) FROM generate_series(1, 100) GROUP BY 1").await;
        let scanned = {
            let mut below = Arc::clone(&grouped);
            while !below.is::<RepartitionExec>()
                || !matches!(below.output_partitioning(), Partitioning::Hash(..))
            {
                below = Arc::clone(below.children()[0]);
            }
            count(below.children()[0])
        };
        assert_eq!((count(&grouped), of_query_stages(&grouped)), (3, 3 + scanned));
        assert!(!shuffles_texts(&grouped));
        let texts = "SELECT arrow_cast(value, 'Utf8View'), count(*) FROM generate_series(1, 100) GROUP BY 1";
        assert!(shuffles_texts(&plan(texts).await));
        let merged: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(grouped));
        assert_eq!(of_query_stages(&merged), 1 + 3 + scanned);
    }
}
