//! The HTTP interface of a scheduler: its executors and jobs, and the errors of a process that it refuses.
//!
//! Ballista's registration of an executor has no fields for the cores and the memory that plans must fit. So they are in the
//! executor's id: `executor-<uuid>-<cores>x<bytes>`.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls;

use super::credentials::{ClusterToken, Trust, scheme};
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, CLUSTER_TOKEN};
use crate::error::{Error, Result, one_line};

/// How long an answer may take: all of them are small.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A scheduler.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    client: Client,
    /// Its host and port.
    address: String,
    /// Its URL.
    scheduler: String,
}

/// The executors of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Executors {
    pub count: usize,
    /// Tasks that they run at once, limited by the cores of their machines.
    pub cores: usize,
    /// Bytes that the operators of a task may reserve on the smallest executor.
    pub task_bytes: usize,
}

/// The progress of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Advance {
    pub query_stages: usize,
    pub query_stages_done: usize,
    /// Tasks that have begun, run, and are done.
    pub tasks: usize,
    pub running: usize,
    pub done: usize,
    /// Partitions of the tasks that are done.
    pub partitions_done: u64,
    /// Tasks that failed or were lost with their executor.
    pub lost: usize,
    pub rows_in: u64,
    pub rows_out: u64,
}

#[derive(Deserialize)]
struct ExecutorEntry {
    id: String,
    #[serde(default)]
    last_seen: Option<u64>,
}

/// An entry of the list of jobs.
#[derive(Deserialize)]
struct JobEntry {
    job_id: String,
    job_name: String,
}

/// The version of a scheduler, by which it differs from other servers.
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
    stage_status: String,
    input_rows: u64,
    output_rows: u64,
    tasks: Vec<Option<TaskState>>,
}

#[derive(Deserialize)]
struct TaskState {
    /// A word, or an object for a task that failed.
    status: serde_json::Value,
    /// The partitions that it works on.
    #[serde(default)]
    partition_id: Vec<u32>,
}

impl Rest {
    /// The scheduler at `address`, a host and a port.
    ///
    /// # Errors
    /// When the authorities of `trust` cannot be used.
    pub(super) fn new(address: &str, trust: Option<&Trust>) -> Result<Self> {
        let client = Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().redirect(Policy::none());
        let client = match ClusterToken::of_process() {
            Some(token) => client.user_agent(token.user_agent()),
            None => client,
        };
        let client = match trust {
            Some(trust) => trust.of_client(client),
            None => client,
        };
        let client = client.build().map_err(|e| Error::job("no HTTP client can be made").because(e))?;
        Ok(Self { client, address: address.to_owned(), scheduler: format!("{}://{address}", scheme(trust)) })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let url = format!("{}{path}", self.scheduler);
        let answer = self.client.get(&url).send().await.map_err(|e| one_line(&e))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|e| one_line(&e))?;
        match status.is_success() {
            true => serde_json::from_str(&text)
                .map_err(|e| format!("{url} did not answer as a scheduler does: {e}")),
            false => Err(format!("{url} answered {status}")),
        }
    }

    /// Checks that the scheduler does not refuse this process for its token or for TLS, and that this process trusts it. One that
    /// does not answer is not refused.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with what to set.
    pub(super) async fn accepts(&self) -> Result<()> {
        let refused = match self.client.get(format!("{}/api/version", self.scheduler)).send().await {
            Ok(answer) => refused_by_answer(&self.address, answer.status()),
            Err(failed) => refused_by_tls(&self.address, &failed),
        };
        refused.map_or(Ok(()), Err)
    }

    /// Checks that the server is a scheduler; the error is the reason why not.
    pub(super) async fn is_scheduler(&self) -> Result<(), String> {
        self.get::<SchedulerVersion>("/api/version").await.map(|_| ())
    }

    /// The executors that the scheduler knows and that are ours.
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

    /// The id of the job of this name, once it is known.
    pub(super) async fn job_id(&self, name: &str) -> Result<Option<String>, String> {
        let jobs: Vec<JobEntry> = self.get("/api/jobs").await?;
        Ok(jobs.into_iter().find(|job| job.job_name == name).map(|job| job.job_id))
    }

    /// The progress of a job.
    pub(super) async fn advance(&self, job_id: &str) -> Result<Advance, String> {
        let QueryStages { stages } = self.get(&format!("/api/job/{job_id}/stages")).await?;
        let tasks = || stages.iter().flat_map(|stage| stage.tasks.iter().flatten());
        let all_of = |word: &'static str| tasks().filter(move |task| task.status == word);
        let of = |word| all_of(word).count();
        Ok(Advance {
            query_stages: stages.len(),
            query_stages_done: stages.iter().filter(|stage| stage.stage_status == "Successful").count(),
            tasks: tasks().count(),
            running: of("Running"),
            done: of("Successful"),
            partitions_done: all_of("Successful").map(|task| task.partition_id.len().max(1) as u64).sum(),
            lost: tasks().filter(|task| task.status.is_object()).count(),
            rows_in: stages.iter().map(|stage| stage.input_rows).max().unwrap_or(0),
            rows_out: stages.iter().map(|stage| stage.output_rows).max().unwrap_or(0),
        })
    }

    /// Cancels a job.
    pub(super) async fn cancel(&self, job_id: &str) -> Result<(), String> {
        let url = format!("{}/api/job/{job_id}", self.scheduler);
        self.client.patch(&url).send().await.map_err(|e| one_line(&e))?;
        Ok(())
    }
}

/// The error of a process whose request the scheduler at `address` answered so; `None` if it was not refused.
fn refused_by_answer(address: &str, status: StatusCode) -> Option<Error> {
    match status {
        StatusCode::UNAUTHORIZED => Some(unauthorized(address)),
        StatusCode::UPGRADE_REQUIRED => Some(Error::job(format!(
            "the scheduler {address} asks for TLS, and this process has none: set {CLUSTER_CA} to the file of the authority that \
             signs the certificates of the cluster"
        ))),
        _ => None,
    }
}

fn unauthorized(address: &str) -> Error {
    let has = match ClusterToken::of_process() {
        Some(_) => "another one than this process has",
        None => "and this process has none",
    };
    Error::job(format!(
        "the scheduler {address} asks for a token, {has}: set {CLUSTER_TOKEN} to the value that the scheduler was started with"
    ))
}

/// The error of a process that made no TLS connection to the server at `address`; `None` if `failed` has another reason.
fn refused_by_tls(address: &str, failed: &reqwest::Error) -> Option<Error> {
    let why = tls_error(failed)?;
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

/// The TLS error among the causes of `failed`.
fn tls_error(failed: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause = failed.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The content of an I/O error is not its source.
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(content) => Some(content),
            None => error.source(),
        };
    }
    None
}

/// An executor's id, unique for each start of it.
pub(super) fn executor_id(cores: usize, task_bytes: usize) -> String {
    format!("executor-{}-{cores}x{task_bytes}", uuid::Uuid::new_v4().simple())
}

/// (cores, bytes that the operators of a task may reserve) in an executor's id; `None` if it is not ours.
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
