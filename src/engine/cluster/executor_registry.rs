//! The executors that a scheduler knows. An executor that starts at the address of another replaces it, and one that
//! deregisters is lost: their tasks begin again at once instead of after the executor timeout.

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

/// The heartbeat of an executor that is lost, in seconds since 1970: older than any timeout.
const EXPIRED: u64 = 0;

/// Ballista's in-memory registry, with at most one executor for each address.
#[derive(Default)]
pub(super) struct ExecutorRegistry {
    executors: InMemoryClusterState,
}

impl ExecutorRegistry {
    /// Expires the executors that had the address of `new`.
    async fn expire_predecessors(&self, new: &ExecutorMetadata) -> Result<()> {
        for old in self.executors.registered_executor_metadata().await {
            let same_place = (&old.host, old.port) == (&new.host, new.port) && old.id != new.id;
            if let (true, Some(heartbeat)) = (same_place, self.executors.get_executor_heartbeat(&old.id)) {
                tracing::warn!(
                    gone = old.id,
                    new = new.id,
                    "an executor started at the address of another one, which is lost"
                );
                let lost = ExecutorHeartbeat { timestamp: EXPIRED, ..heartbeat };
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
        // Executors send this with every request for tasks.
        if self.executors.get_executor_heartbeat(&metadata.id).is_none() {
            self.expire_predecessors(&metadata).await?;
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
        let timestamp = if ended { EXPIRED } else { heartbeat.timestamp };
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
    async fn an_executor_replaces_the_one_at_its_address() {
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
        let lost = |id: &str| executors.get_executor_heartbeat(id).unwrap().timestamp == EXPIRED;
        assert_eq!([lost("first"), lost("elsewhere"), lost("second")], [true, false, false]);
        let last = ExecutorHeartbeat {
            status: Some(ExecutorStatus { status: Some(Status::Dead(String::new())) }),
            ..executors.get_executor_heartbeat("elsewhere").unwrap()
        };
        executors.save_executor_heartbeat(last).await.unwrap();
        assert!(lost("elsewhere"));
    }
}
