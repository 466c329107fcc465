//! The HTTP interface of a scheduler: its executors and jobs.

use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::endpoints::scheme;
use super::tls::Trust;
use super::token::Token;
use super::{member, refused};
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
struct Executor {
    id: String,
    #[serde(default)]
    last_seen: Option<u64>,
}

/// An entry of the list of jobs.
#[derive(Deserialize)]
struct Job {
    job_id: String,
    job_name: String,
}

/// The version of a scheduler, by which it differs from other servers.
#[derive(Deserialize)]
struct Version {
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
        let client = match Token::of_process() {
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
            Ok(answer) => refused::by_answer(&self.address, answer.status()),
            Err(failed) => refused::by_tls(&self.address, &failed),
        };
        refused.map_or(Ok(()), Err)
    }

    /// Checks that the server is a scheduler; the error is the reason why not.
    pub(super) async fn is_scheduler(&self) -> Result<(), String> {
        self.get::<Version>("/api/version").await.map(|_| ())
    }

    /// The executors that the scheduler knows and that are ours.
    pub(super) async fn executors(&self) -> Result<Executors, String> {
        let executors: Vec<Executor> = self.get("/api/executors").await?;
        let known = executors.iter().filter(|executor| executor.last_seen.is_some());
        let members: Vec<_> = known.filter_map(|executor| member::read(&executor.id)).collect();
        Ok(Executors {
            count: members.len(),
            cores: members.iter().map(|(cores, _)| cores).sum(),
            task_bytes: members.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0),
        })
    }

    /// The id of the job of this name, once it is known.
    pub(super) async fn job_id(&self, name: &str) -> Result<Option<String>, String> {
        let jobs: Vec<Job> = self.get("/api/jobs").await?;
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
