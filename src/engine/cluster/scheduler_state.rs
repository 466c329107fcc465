//! The executors and the jobs in a scheduler's memory.
//!
//! An executor that starts at the address of another replaces it, and one that deregisters is lost: their tasks begin again at once
//! instead of after the executor timeout.
//!
//! Ballista keeps the plan and every task of a job for an hour after its end, so a scheduler grew by megabytes with every run, which
//! sends a job for each stage. Here only the last few jobs are kept, for readers of the HTTP interface.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::{
    ExecutorHeartbeat, ExecutorStatus, JobStatus, executor_status, job_status,
};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_core::{JobId, JobStatusSubscriber};
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{
    BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot, JobState, JobStateEventStream,
};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;

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
        let ended = matches!(
            &heartbeat.status,
            Some(ExecutorStatus { status: Some(executor_status::Status::Dead(_)) })
        );
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

/// Jobs that are kept after their end. Clients do not need them: they are notified of the end.
const MAX_FINISHED: usize = 16;

/// Ballista's in-memory job state with only the last finished jobs.
pub(super) struct FinishedJobs {
    jobs: InMemoryJobState,
    /// The oldest first.
    finished: Mutex<VecDeque<JobId>>,
}

impl FinishedJobs {
    pub(super) fn new(jobs: InMemoryJobState) -> Self {
        Self { jobs, finished: Mutex::default() }
    }

    /// Registers the end of a job, and removes the oldest one if there are too many.
    async fn note_end(&self, job_id: &JobId) -> Result<()> {
        let oldest = {
            let mut finished = self.finished.lock();
            if !finished.contains(job_id) {
                finished.push_back(job_id.clone());
            }
            if finished.len() > MAX_FINISHED { finished.pop_front() } else { None }
        };
        match oldest {
            Some(oldest) => self.jobs.remove_job(&oldest).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl JobState for FinishedJobs {
    fn accept_job(&self, job_id: &JobId, job_name: &str, queued_at: u64) -> Result<()> {
        self.jobs.accept_job(job_id, job_name, queued_at)
    }

    fn pending_job_number(&self) -> usize {
        self.jobs.pending_job_number()
    }

    async fn submit_job(
        &self,
        job_id: JobId,
        graph: &ExecutionGraphBox,
        subscriber: Option<JobStatusSubscriber>,
    ) -> Result<()> {
        self.jobs.submit_job(job_id, graph, subscriber).await
    }

    async fn get_jobs(&self) -> Result<HashSet<JobId>> {
        self.jobs.get_jobs().await
    }

    async fn get_all_jobs(&self) -> Result<HashSet<JobId>> {
        self.jobs.get_all_jobs().await
    }

    async fn get_job_status(&self, job_id: &JobId) -> Result<Option<JobStatus>> {
        self.jobs.get_job_status(job_id).await
    }

    async fn get_execution_graph(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.jobs.get_execution_graph(job_id).await
    }

    async fn save_job(&self, job_id: &JobId, graph: &ExecutionGraphBox) -> Result<()> {
        self.jobs.save_job(job_id, graph).await?;
        match graph.status().status {
            Some(job_status::Status::Successful(_) | job_status::Status::Failed(_)) => {
                self.note_end(job_id).await
            }
            _ => Ok(()),
        }
    }

    async fn fail_unscheduled_job(&self, job_id: &JobId, reason: String) -> Result<()> {
        self.jobs.fail_unscheduled_job(job_id, reason).await?;
        self.note_end(job_id).await
    }

    async fn remove_job(&self, job_id: &JobId) -> Result<()> {
        let kept = {
            let mut finished = self.finished.lock();
            let place = finished.iter().position(|kept| kept == job_id);
            place.and_then(|place| finished.remove(place)).is_some()
        };
        // Ballista removes each job after a time of its own; most are removed by then.
        if kept { self.jobs.remove_job(job_id).await } else { Ok(()) }
    }

    async fn try_acquire_job(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.jobs.try_acquire_job(job_id).await
    }

    async fn job_state_events(&self) -> Result<JobStateEventStream> {
        self.jobs.job_state_events().await
    }

    async fn create_or_update_session(
        &self,
        session_id: &str,
        config: &SessionConfig,
    ) -> Result<Arc<SessionContext>> {
        self.jobs.create_or_update_session(session_id, config).await
    }

    async fn remove_session(&self, session_id: &str) -> Result<()> {
        self.jobs.remove_session(session_id).await
    }

    fn produce_config(&self) -> SessionConfig {
        self.jobs.produce_config()
    }
}

#[cfg(test)]
mod tests {
    use ballista_core::extension::SessionConfigExt;
    use ballista_core::serde::scheduler::{ExecutorOperatingSystemSpecification, ExecutorSpecification};
    use datafusion::error::DataFusionError;

    use super::*;
    use crate::engine::cluster::settings;
    use crate::engine::session;

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
            status: Some(ExecutorStatus { status: Some(executor_status::Status::Dead(String::new())) }),
            ..executors.get_executor_heartbeat("elsewhere").unwrap()
        };
        executors.save_executor_heartbeat(last).await.unwrap();
        assert!(lost("elsewhere"));
    }

    #[tokio::test]
    async fn only_the_last_jobs_are_kept() {
        let runtime = session::builder(None).unwrap().build_arc().unwrap();
        let build =
            move |config| settings::state(config, Arc::clone(&runtime)).map_err(DataFusionError::from);
        let memory = InMemoryJobState::new("s", Arc::new(build), Arc::new(SessionConfig::new_with_ballista));
        let jobs = FinishedJobs::new(memory);
        let job = |number: usize| JobId::from(format!("job{number}"));
        for number in 0..MAX_FINISHED + 5 {
            jobs.accept_job(&job(number), "a job", 0).unwrap();
            jobs.fail_unscheduled_job(&job(number), "no such plan".into()).await.unwrap();
        }
        let kept: HashSet<JobId> = (5..MAX_FINISHED + 5).map(job).collect();
        assert_eq!(jobs.get_all_jobs().await.unwrap(), kept);
        // Ballista removes all of them later.
        for number in 0..MAX_FINISHED + 5 {
            jobs.remove_job(&job(number)).await.unwrap();
        }
        assert!(jobs.get_all_jobs().await.unwrap().is_empty());
    }
}
