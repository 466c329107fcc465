//! The executors that a scheduler knows. One that starts at the address of another has taken its place, and one that says
//! that it ends is gone: what they did is done again now, not only when their silence has lasted too long.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::executor_status::Status;
use ballista_core::serde::protobuf::{ExecutorHeartbeat, ExecutorStatus};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::task_manager::JobInfoCache;

/// The last sign of life of one that is lost, in seconds since 1970.
const LONG_AGO: u64 = 0;

/// Ballista's memory of executors, in which an address has one executor.
#[derive(Default)]
pub(super) struct ExecutorRegistry {
    executors: InMemoryClusterState,
}

impl ExecutorRegistry {
    /// Makes the last sign of life of those that had the address of `new` so old that they are lost.
    async fn give_up_predecessors(&self, new: &ExecutorMetadata) -> Result<()> {
        for old in self.executors.registered_executor_metadata().await {
            let same_place = (&old.host, old.port) == (&new.host, new.port) && old.id != new.id;
            if let (true, Some(heartbeat)) = (same_place, self.executors.get_executor_heartbeat(&old.id)) {
                tracing::warn!(
                    gone = old.id,
                    new = new.id,
                    "an executor was started at the address of another one"
                );
                let lost = ExecutorHeartbeat { timestamp: LONG_AGO, ..heartbeat };
                self.executors.save_executor_heartbeat(lost).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl ClusterState for ExecutorRegistry {
    async fn init(&self) -> Result<()> {
        self.executors.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        self.executors.bind_schedulable_tasks(distribution, active_jobs, executors).await
    }

    async fn unbind_tasks(&self, executor_slots: Vec<ExecutorSlot>) -> Result<()> {
        self.executors.unbind_tasks(executor_slots).await
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, spec: ExecutorData) -> Result<()> {
        self.executors.register_executor(metadata, spec).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        // ExecutorRegistry send this whenever they ask for tasks.
        if self.executors.get_executor_heartbeat(&metadata.id).is_none() {
            self.give_up_predecessors(&metadata).await?;
        }
        self.executors.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.executors.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.executors.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        let ended = matches!(&heartbeat.status, Some(ExecutorStatus { status: Some(Status::Dead(_)) }));
        let timestamp = if ended { LONG_AGO } else { heartbeat.timestamp };
        self.executors.save_executor_heartbeat(ExecutorHeartbeat { timestamp, ..heartbeat }).await
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        self.executors.remove_executor(executor_id).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.executors.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.executors.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.executors.cluster_state_events().await
    }
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::scheduler::{ExecutorOperatingSystemSpecification, ExecutorSpecification};

    use super::*;

    #[tokio::test]
    async fn who_starts_at_an_address_makes_the_one_before_it_lost() {
        let executors = ExecutorRegistry::default();
        let executor = |id: &str, port: u16| ExecutorMetadata {
            id: id.into(),
            host: "10.0.0.7".into(),
            port,
            grpc_port: port,
            specification: ExecutorSpecification::default().with_vcores(1),
            os_info: ExecutorOperatingSystemSpecification::default(),
        };
        for (id, port) in [("first", 1), ("elsewhere", 2), ("second", 1), ("second", 1)] {
            executors.save_executor_metadata(executor(id, port)).await.unwrap();
        }
        let lost = |id: &str| executors.get_executor_heartbeat(id).unwrap().timestamp == LONG_AGO;
        assert_eq!([lost("first"), lost("elsewhere"), lost("second")], [true, false, false]);
        let last = ExecutorHeartbeat {
            status: Some(ExecutorStatus { status: Some(Status::Dead(String::new())) }),
            ..executors.get_executor_heartbeat("elsewhere").unwrap()
        };
        executors.save_executor_heartbeat(last).await.unwrap();
        assert!(lost("elsewhere"));
    }
}
