//! The jobs in a scheduler's memory. Ballista keeps the plan and every task of a job for an hour after its end, so a scheduler
//! grew by megabytes with every run, which sends a job for each stage. Here only the last few jobs are kept, for readers of the
//! HTTP interface.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::{JobStatus, job_status::Status};
use ballista_core::{JobId, JobStatusSubscriber};
use ballista_scheduler::cluster::memory::InMemoryJobState;
use ballista_scheduler::cluster::{JobState, JobStateEventStream};
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;

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
            Some(Status::Successful(_) | Status::Failed(_)) => self.note_end(job_id).await,
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
    use datafusion::error::DataFusionError;

    use super::*;
    use crate::engine::cluster::settings;
    use crate::engine::session;

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
