//! The HTTP interface of a scheduler: its executors and jobs, and the errors for a process that it refuses.
//!
//! Plans are sized for the cores and the memory of executors. Ballista registers executors without these numbers, so the id of an
//! executor contains them: `executor-<uuid>-<cores>x<bytes>`.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls;

use super::connections::{ClusterToken, Trust, scheme};
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, CLUSTER_TOKEN};
use crate::error::{Error, Result, chain, one_line};
use crate::plan::Description;
use crate::source::{NumberRows, ParseFiles};

/// The time limit of an answer. All answers are small.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Rest {
    client: Client,
    address: String,
    scheduler: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Executors {
    pub count: usize,
    /// The number of tasks that the executors run at the same time, limited by the cores of their machines.
    pub cores: usize,
    /// The number of bytes that a task may reserve on the smallest executor.
    pub task_bytes: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Advance {
    pub query_stages: usize,
    pub query_stages_done: usize,
    /// The number of tasks that have started. `running` and `done` are parts of it.
    pub tasks: usize,
    pub running: usize,
    pub done: usize,
    /// The number of partitions of the finished tasks.
    pub partitions_done: u64,
    /// The number of tasks that failed or were lost with their executor.
    pub lost: usize,
    pub rows_in: u64,
    pub rows_out: u64,
    /// The tasks that were reading the source when their executor was lost.
    pub dead: BTreeSet<DeadTask>,
}

/// A task whose executor was lost while it ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeadTask {
    pub query_stage: String,
    pub partitions: Vec<u32>,
    /// The message about the task, which names the executor.
    pub message: String,
}

#[derive(Deserialize)]
struct ExecutorEntry {
    id: String,
    #[serde(default)]
    last_seen: Option<u64>,
}

#[derive(Deserialize)]
struct JobEntry {
    job_id: String,
    job_name: String,
}

/// The version of a scheduler, in a form that other servers do not return.
#[derive(Deserialize)]
struct SchedulerVersion {
    #[serde(rename = "version")]
    _ballista: String,
    #[serde(rename = "datafusion_version")]
    _datafusion: String,
}

#[derive(Deserialize)]
struct QueryStages {
    stages: Vec<QueryStage>,
}

#[derive(Deserialize)]
struct QueryStage {
    stage_id: String,
    #[serde(default)]
    stage_plan: Option<String>,
    stage_status: String,
    input_rows: u64,
    output_rows: u64,
    tasks: Vec<Option<TaskState>>,
}

#[derive(Deserialize)]
struct TaskState {
    /// A string, or an object if the task failed.
    status: serde_json::Value,
    #[serde(default)]
    partition_id: Vec<u32>,
    /// The time when the task ended, or 0.
    #[serde(default)]
    end_exec_time: u64,
}

impl TaskState {
    /// Returns the message about a task that was lost before its end. A task that failed has no such message.
    fn lost_while_running(&self) -> Option<&str> {
        let failed = self.status.as_object()?.values().next()?;
        let is_lost = failed.get("reason")? == "ResultLost" && self.end_exec_time == 0;
        failed.get("error")?.as_str().filter(|_| is_lost)
    }
}

impl Rest {
    /// Creates a client for the scheduler at `address`, which is a host and a port.
    pub(super) fn new(address: &str, trust: Option<&Trust>) -> Result<Self> {
        let mut client = Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().redirect(Policy::none());
        if let Some(token) = ClusterToken::from_environment() {
            client = client.user_agent(token.user_agent());
        }
        if let Some(trust) = trust {
            client = trust.add_to_client(client);
        }
        let client = client.build().map_err(|e| Error::job("no HTTP client can be made").because(e))?;
        Ok(Self { client, address: address.to_owned(), scheduler: format!("{}://{address}", scheme(trust)) })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let url = format!("{}{path}", self.scheduler);
        let answer = self.client.get(&url).send().await.map_err(|e| one_line(&e))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|e| one_line(&e))?;
        if !status.is_success() {
            return Err(format!("{url} answered {status}"));
        }
        serde_json::from_str(&text).map_err(|e| format!("{url} did not answer as a scheduler does: {e}"))
    }

    /// Checks that the scheduler accepts the token and the TLS settings of this process, and that this process trusts the scheduler.
    /// Fails with `Kind::Job` otherwise. A missing answer is no refusal.
    pub(super) async fn accepts(&self) -> Result<()> {
        let refused = match self.client.get(format!("{}/api/version", self.scheduler)).send().await {
            Ok(answer) => refused_by_answer(&self.address, answer.status()),
            Err(failed) => refused_by_tls(&self.address, &failed),
        };
        refused.map_or(Ok(()), Err)
    }

    /// Checks that the server is a scheduler. The error explains why it is no scheduler.
    pub(super) async fn is_scheduler(&self) -> Result<(), String> {
        self.get::<SchedulerVersion>("/api/version").await.map(|_| ())
    }

    /// Returns the executors of the scheduler whose ids this program made.
    pub(super) async fn executors(&self) -> Result<Executors, String> {
        let executors: Vec<ExecutorEntry> = self.get("/api/executors").await?;
        let known = executors.iter().filter(|executor| executor.last_seen.is_some());
        let members: Vec<_> = known.filter_map(|executor| executor_resources(&executor.id)).collect();
        Ok(Executors {
            count: members.len(),
            cores: members.iter().map(|(cores, _)| cores).sum(),
            task_bytes: members.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0),
        })
    }

    /// Returns the id of the job with this name, if the scheduler lists the job already.
    pub(super) async fn job_id(&self, name: &str) -> Result<Option<String>, String> {
        let jobs: Vec<JobEntry> = self.get("/api/jobs").await?;
        Ok(jobs.into_iter().find(|job| job.job_name == name).map(|job| job.job_id))
    }

    pub(super) async fn advance(&self, job_id: &str) -> Result<Advance, String> {
        let QueryStages { stages } = self.get(&format!("/api/job/{job_id}/stages")).await?;
        let tasks = || stages.iter().flat_map(|stage| stage.tasks.iter().flatten());
        let reads_source = |stage: &&QueryStage| {
            let plan = stage.stage_plan.as_deref().unwrap_or_default();
            [ParseFiles::NAME, NumberRows::NAME].iter().any(|name| plan.contains(name))
        };
        let dead = stages.iter().filter(reads_source).flat_map(|stage| {
            stage.tasks.iter().flatten().filter_map(|task| {
                Some(DeadTask {
                    query_stage: stage.stage_id.clone(),
                    partitions: task.partition_id.clone(),
                    message: task.lost_while_running()?.to_owned(),
                })
            })
        });
        let having = |status: &'static str| tasks().filter(move |task| task.status == status);
        Ok(Advance {
            query_stages: stages.len(),
            query_stages_done: stages.iter().filter(|stage| stage.stage_status == "Successful").count(),
            tasks: tasks().count(),
            running: having("Running").count(),
            done: having("Successful").count(),
            partitions_done: having("Successful").map(|task| task.partition_id.len().max(1) as u64).sum(),
            lost: tasks().filter(|task| task.status.is_object()).count(),
            rows_in: stages.iter().map(|stage| stage.input_rows).max().unwrap_or(0),
            rows_out: stages.iter().map(|stage| stage.output_rows).max().unwrap_or(0),
            dead: dead.collect(),
        })
    }

    pub(super) async fn cancel(&self, job_id: &str) -> Result<(), String> {
        let url = format!("{}/api/job/{job_id}", self.scheduler);
        self.client.patch(&url).send().await.map_err(|e| one_line(&e))?;
        Ok(())
    }
}

/// Returns the error for a request that the scheduler at `address` refused, if `status` is a refusal.
fn refused_by_answer(address: &str, status: StatusCode) -> Option<Error> {
    match status {
        StatusCode::UNAUTHORIZED => {
            let own = match ClusterToken::from_environment() {
                Some(_) => "another one than this process has",
                None => "and this process has none",
            };
            Some(Error::job(format!(
                "the scheduler {address} asks for a token, {own}: set {CLUSTER_TOKEN} to the value that the scheduler was \
                 started with"
            )))
        }
        StatusCode::UPGRADE_REQUIRED => Some(Error::job(format!(
            "the scheduler {address} asks for TLS, and this process has none: set {CLUSTER_CA} to the file of the authority that \
             signs the certificates of the cluster"
        ))),
        _ => None,
    }
}

/// Returns the error for a refused TLS connection to the server at `address`, if TLS caused the failure.
fn refused_by_tls(address: &str, failed: &reqwest::Error) -> Option<Error> {
    let why = chain(failed).find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    let message = match why {
        rustls::Error::InvalidCertificate(_) => format!(
            "the certificate of the scheduler {address} cannot be trusted: give it one for this host that the authority in \
             {CLUSTER_CA} has signed"
        ),
        _ => format!(
            "there is no TLS connection to the scheduler {address}: start it with {CLUSTER_CERTIFICATE} and {CLUSTER_KEY}, or unset \
             {CLUSTER_CA} if the cluster has no TLS"
        ),
    };
    Some(Error::job(message).because(why.clone()))
}

/// Returns the id of a new executor, which differs for each start.
pub(super) fn executor_id(cores: usize, task_bytes: usize) -> String {
    format!("executor-{}-{cores}x{task_bytes}", uuid::Uuid::new_v4().simple())
}

/// Returns the number of cores in an executor's id, and the number of bytes that a task may reserve, if this program made the id.
fn executor_resources(id: &str) -> Option<(usize, usize)> {
    let (cores, bytes) = id.strip_prefix("executor-")?.rsplit_once('-')?.1.split_once('x')?;
    Some((cores.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_cores_and_bytes() {
        assert_eq!(executor_resources(&executor_id(3, 1 << 30)), Some((3, 1 << 30)));
        assert_ne!(executor_id(1, 1), executor_id(1, 1));
        assert_eq!(executor_resources("other"), None);
    }
}
