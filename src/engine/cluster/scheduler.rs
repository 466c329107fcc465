//! The scheduler cuts plans into query stages and assigns their tasks to the executors that poll it.
//!
//! Ballista's own scheduler does the work. [`PatientScheduler`] in front of it changes three things:
//!
//! - Executors poll for tasks, and drivers poll for the end of a job. Ballista answers immediately, and its clients sleep for 50 ms before
//!   the next request. A stage with ten query stages would therefore take half a second. Here, an empty answer is delayed by some
//!   milliseconds.
//! - A new executor replaces the previous executor at its address, and a deregistered executor counts as lost. Their tasks begin again
//!   immediately instead of after the executor timeout.
//! - Ballista keeps the plan and every task of a job for an hour after its end, and a run sends a job per stage. Here, only the last few
//!   jobs are kept, for readers of the HTTP interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::scheduler_grpc_server::{
    SERVICE_NAME, SchedulerGrpc, SchedulerGrpcServer,
};
use ballista_core::serde::protobuf::{self, ExecutorHeartbeat, executor_status, job_status};
use ballista_core::serde::scheduler::ExecutorSpecification;
use ballista_scheduler::api::get_routes;
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState, JobState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::{SchedulerServer, SessionBuilder};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};

use super::connections::{acceptor, listen, serve};
use super::settings::MESSAGE_BYTES;
use super::{Codec, settings as configuration};
use crate::address::socket_address;
use crate::engine::session;
use crate::error::{Error, Result};

/// The settings of a scheduler.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SchedulerSettings {
    /// Address to listen on: gRPC, and HTTP with /healthz, /readyz and /api
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = socket_address)]
    pub bind: SocketAddr,
    /// Seconds without a heartbeat after which an executor counts as lost; executors send a heartbeat every five seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(6..))]
    pub executor_timeout: u64,
    /// Seconds that jobs wait while there is no executor
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub grace: u64,
}

/// Runs a scheduler until it fails or the future is dropped. Passes its address to `listening` before the first request.
///
/// # Errors
/// When it cannot listen on the address, the TLS settings are wrong, or serving ends.
pub(crate) async fn run(settings: &SchedulerSettings, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let acceptor = acceptor()?;
    let listener = listen(settings.bind, "--bind").await?;
    let address = listener.local_addr()?;
    let runtime = session::builder(None, Some(format!("the scheduler {address}")))?.build_arc()?;
    let build: SessionBuilder = Arc::new(move |config: SessionConfig| {
        configuration::state(config, Arc::clone(&runtime)).map_err(DataFusionError::from)
    });
    let configure: ConfigProducer = Arc::new(SessionConfig::new_with_ballista);
    let config = Arc::new(SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        // Executors that poll count their own free cores. A pushing scheduler loses count when it takes tasks back, and then waits forever.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: settings.executor_timeout,
        expire_dead_executor_interval_seconds: (settings.executor_timeout / 10).clamp(1, 15),
        no_executors_grace_period_seconds: settings.grace,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        // `PatientScheduler` removes finished jobs itself.
        finished_job_state_clean_up_interval_seconds: 0,
        // Ballista redirects this path to its own web page. No request can use the path, because requests cannot contain control
        // characters.
        web_tui_route: "/\u{1}".to_owned(),
        override_config_producer: Some(Arc::clone(&configure)),
        override_session_builder: Some(Arc::clone(&build)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        ..Default::default()
    });
    let served = async {
        let jobs = Arc::new(InMemoryJobState::new(&config.scheduler_id, build, configure));
        let executors = Arc::new(InMemoryClusterState::default());
        let cluster = BallistaCluster::new(Arc::clone(&executors) as _, Arc::clone(&jobs) as _);
        let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await?;
        listening(address);
        serve_all(
            listener,
            PatientScheduler { scheduler, executors, jobs, drivers: Drivers::default() },
            acceptor,
        )
        .await
    };
    served.await.map_err(|e| Error::engine("the scheduler stopped").because(e))
}

/// Serves plans, executors and the REST interface to clients with the token, and the health checks to all clients. With an acceptor, it
/// uses TLS.
async fn serve_all(
    listener: TcpListener,
    patient: PatientScheduler,
    acceptor: Option<TlsAcceptor>,
) -> ballista_core::error::Result<()> {
    let scheduler = Arc::new(patient.scheduler.clone());
    let grpc = SchedulerGrpcServer::new(patient)
        .max_encoding_message_size(MESSAGE_BYTES as usize)
        .max_decoding_message_size(MESSAGE_BYTES as usize);
    let server = Arc::clone(&scheduler);
    let ready = move || async move {
        if server.is_ready() {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "there is no executor\n")
        }
    };
    let routes = get_routes(scheduler).route_service(&format!("/{SERVICE_NAME}/{{*method}}"), grpc);
    let health = Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready));
    Ok(serve(listener, routes, health, acceptor, std::future::pending()).await?)
}

/// Ballista's scheduler with the types of our plans.
type TaskScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The wait in milliseconds before each repeated look. The next query stage is usually ready after the first or second wait.
const WAITS: [u64; 5] = [1, 2, 4, 8, 16];

/// The time that executors wait for tasks after a driver's last request for the end of its job. Without a job, a cluster gets no more
/// requests than with Ballista's own scheduler.
const AWAITED: Duration = Duration::from_secs(2);

/// The heartbeat of a lost executor, in seconds since 1970. It is older than any timeout.
const EXPIRED: u64 = 0;

/// The number of finished jobs that are kept. Clients do not need them, because they are notified when a job ends.
const MAX_FINISHED: usize = 16;

/// Ballista's scheduler with the changes above.
struct PatientScheduler {
    scheduler: TaskScheduler,
    executors: Arc<InMemoryClusterState>,
    jobs: Arc<InMemoryJobState>,
    drivers: Drivers,
}

impl PatientScheduler {
    /// Marks earlier executors at the address of the new executor `id` as lost.
    async fn expire_predecessors(&self, id: &str) -> ballista_core::error::Result<()> {
        let new = self.executors.get_executor_metadata(id).await?;
        for old in self.executors.registered_executor_metadata().await {
            if (&old.host, old.port) == (&new.host, new.port) && old.id != new.id {
                tracing::warn!(gone = old.id, new = new.id, "an executor replaces the one at its address");
                self.expire(&old.id).await?;
            }
        }
        Ok(())
    }

    /// Marks an executor as lost.
    async fn expire(&self, id: &str) -> ballista_core::error::Result<()> {
        match self.executors.get_executor_heartbeat(id) {
            Some(last) => {
                let lost = ExecutorHeartbeat { timestamp: EXPIRED, ..last };
                self.executors.save_executor_heartbeat(lost).await
            }
            None => Ok(()),
        }
    }

    /// Removes all finished jobs except the last few.
    async fn forget_jobs(&self) -> ballista_core::error::Result<()> {
        let mut finished = Vec::new();
        for job in self.jobs.get_jobs().await? {
            let ended_at = match self.jobs.get_job_status(&job).await?.and_then(|job| job.status) {
                Some(job_status::Status::Successful(job)) => job.ended_at,
                Some(job_status::Status::Failed(job)) => job.ended_at,
                _ => continue,
            };
            finished.push((ended_at, job));
        }
        finished.sort();
        finished.truncate(finished.len().saturating_sub(MAX_FINISHED));
        for (_, job) in finished {
            self.jobs.remove_job(&job).await?;
        }
        Ok(())
    }
}

/// The drivers that wait for the end of a job.
#[derive(Default)]
struct Drivers {
    /// A counter of the open streams: each stream of job states holds a reference.
    streams: Arc<()>,
    /// The time of the last request for the state of a job.
    asked: Mutex<Option<Instant>>,
}

impl Drivers {
    fn note_request(&self) {
        *self.asked.lock() = Some(Instant::now());
    }

    /// Returns the states of a job. A driver counts as waiting as long as it holds this stream.
    fn waiting<S: Stream + Send + 'static>(&self, states: S) -> impl Stream<Item = S::Item> + Send + 'static {
        let waits = Arc::clone(&self.streams);
        states.inspect(move |_| _ = &waits)
    }

    /// Whether a driver waits, in which case tasks may come soon.
    fn wait(&self) -> bool {
        Arc::strong_count(&self.streams) > 1 || self.asked.lock().is_some_and(|at| at.elapsed() < AWAITED)
    }
}

type PollAnswer<T> = Result<Response<T>, Status>;

/// Repeats the request until the answer is not `empty` or all waits have passed.
async fn look<T, F: Future<Output = PollAnswer<T>>>(
    first: impl Future<Output = PollAnswer<T>>,
    empty: impl Fn(&T) -> bool,
    mut again: impl FnMut() -> F,
) -> PollAnswer<T> {
    let mut answer = first.await?;
    for wait in WAITS {
        if !empty(answer.get_ref()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
        answer = again().await?;
    }
    Ok(answer)
}

/// Whether an executor runs no task. A busy executor must be able to report the end of its tasks in time.
fn is_idle(params: &protobuf::PollWorkParams) -> bool {
    let specification = params.metadata.as_ref().and_then(|executor| executor.specification.clone());
    let specification: Option<ExecutorSpecification> = specification.map(Into::into);
    specification.is_some_and(|executor| executor.vcores == params.num_free_vcores)
}

fn is_empty(work: &protobuf::PollWorkResult) -> bool {
    work.tasks.is_empty() && work.jobs_to_clean.is_empty()
}

fn is_unfinished(job: &protobuf::GetJobStatusResult) -> bool {
    let status = job.status.as_ref().and_then(|job| job.status.as_ref());
    matches!(status, Some(job_status::Status::Queued(_) | job_status::Status::Running(_)))
}

#[async_trait]
impl SchedulerGrpc for PatientScheduler {
    type ExecuteQueryPushStream = <TaskScheduler as SchedulerGrpc>::ExecuteQueryPushStream;

    async fn poll_work(
        &self,
        request: Request<protobuf::PollWorkParams>,
    ) -> PollAnswer<protobuf::PollWorkResult> {
        let (metadata, extensions, params) = request.into_parts();
        let new = params.metadata.as_ref().map(|executor| executor.id.clone());
        let new = new.filter(|id| self.executors.get_executor_heartbeat(id).is_none());
        // The end of a task is reported only once.
        let waits = self.drivers.wait() && is_idle(&params);
        let later = waits.then(|| protobuf::PollWorkParams { task_status: Vec::new(), ..params.clone() });
        let poll = |params| {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), params);
            self.scheduler.poll_work(request)
        };
        let first = async {
            let answer = poll(params).await;
            // The executor is known from this poll on, even if the poll fails, so its predecessors are expired only here.
            if let Some(id) = new
                && let Err(error) = self.expire_predecessors(&id).await
            {
                tracing::warn!(%error, executor = id, "the predecessors of an executor could not be expired");
            }
            answer
        };
        match later {
            Some(later) => look(first, is_empty, || poll(later.clone())).await,
            None => first.await,
        }
    }

    async fn get_job_status(
        &self,
        request: Request<protobuf::GetJobStatusParams>,
    ) -> PollAnswer<protobuf::GetJobStatusResult> {
        self.drivers.note_request();
        let (metadata, extensions, params) = request.into_parts();
        let status = || {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), params.clone());
            self.scheduler.get_job_status(request)
        };
        look(status(), is_unfinished, status).await
    }

    async fn register_executor(
        &self,
        request: Request<protobuf::RegisterExecutorParams>,
    ) -> PollAnswer<protobuf::RegisterExecutorResult> {
        self.scheduler.register_executor(request).await
    }

    async fn heart_beat_from_executor(
        &self,
        request: Request<protobuf::HeartBeatParams>,
    ) -> PollAnswer<protobuf::HeartBeatResult> {
        let (id, status) = (request.get_ref().executor_id.clone(), request.get_ref().status.clone());
        let answer = self.scheduler.heart_beat_from_executor(request).await?;
        if matches!(status.and_then(|status| status.status), Some(executor_status::Status::Dead(_))) {
            self.expire(&id).await.map_err(|e| Status::internal(e.to_string()))?;
        }
        Ok(answer)
    }

    async fn update_task_status(
        &self,
        request: Request<protobuf::UpdateTaskStatusParams>,
    ) -> PollAnswer<protobuf::UpdateTaskStatusResult> {
        SchedulerGrpc::update_task_status(&self.scheduler, request).await
    }

    async fn create_update_session(
        &self,
        request: Request<protobuf::CreateUpdateSessionParams>,
    ) -> PollAnswer<protobuf::CreateUpdateSessionResult> {
        self.scheduler.create_update_session(request).await
    }

    async fn remove_session(
        &self,
        request: Request<protobuf::RemoveSessionParams>,
    ) -> PollAnswer<protobuf::RemoveSessionResult> {
        self.scheduler.remove_session(request).await
    }

    async fn execute_query_push(
        &self,
        request: Request<protobuf::ExecuteQueryParams>,
    ) -> PollAnswer<Self::ExecuteQueryPushStream> {
        self.forget_jobs().await.map_err(|e| Status::internal(e.to_string()))?;
        let states = self.scheduler.execute_query_push(request).await?;
        Ok(states.map(|states| -> Self::ExecuteQueryPushStream { Box::pin(self.drivers.waiting(states)) }))
    }

    async fn execute_query(
        &self,
        request: Request<protobuf::ExecuteQueryParams>,
    ) -> PollAnswer<protobuf::ExecuteQueryResult> {
        self.drivers.note_request();
        self.forget_jobs().await.map_err(|e| Status::internal(e.to_string()))?;
        self.scheduler.execute_query(request).await
    }

    async fn get_job_metrics(
        &self,
        request: Request<protobuf::GetJobMetricsParams>,
    ) -> PollAnswer<protobuf::GetJobMetricsResult> {
        self.scheduler.get_job_metrics(request).await
    }

    async fn executor_stopped(
        &self,
        request: Request<protobuf::ExecutorStoppedParams>,
    ) -> PollAnswer<protobuf::ExecutorStoppedResult> {
        self.scheduler.executor_stopped(request).await
    }

    async fn cancel_job(
        &self,
        request: Request<protobuf::CancelJobParams>,
    ) -> PollAnswer<protobuf::CancelJobResult> {
        SchedulerGrpc::cancel_job(&self.scheduler, request).await
    }

    async fn clean_job_data(
        &self,
        request: Request<protobuf::CleanJobDataParams>,
    ) -> PollAnswer<protobuf::CleanJobDataResult> {
        self.scheduler.clean_job_data(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ballista_core::serde::protobuf::{ExecutorRegistration, PollWorkParams};

    use super::*;

    #[tokio::test]
    async fn an_answer_waits_until_it_has_something_to_say() {
        for (ready_at, asked) in [(1, 1), (3, 3), (100, 1 + WAITS.len())] {
            let times = Cell::new(0);
            let ready = || {
                times.set(times.get() + 1);
                std::future::ready(Ok(Response::new(times.get() >= ready_at)))
            };
            let answer = look(ready(), |ready| !ready, ready).await.unwrap().into_inner();
            assert_eq!((answer, times.get()), (ready_at <= asked, asked));
        }
        let fails = || std::future::ready(Err::<Response<bool>, _>(Status::internal("broken")));
        assert!(look(fails(), |_| true, fails).await.is_err());
    }

    #[test]
    fn no_answer_waits_unless_a_driver_does() {
        let drivers = Drivers::default();
        assert!(!drivers.wait());
        // A driver that polls.
        drivers.note_request();
        assert!(drivers.wait());
        *drivers.asked.lock() = Instant::now().checked_sub(AWAITED);
        assert!(!drivers.wait());
        // A driver that receives a stream of states.
        let states = drivers.waiting(futures::stream::iter([1, 2]));
        assert!(drivers.wait());
        drop(states);
        assert!(!drivers.wait());
    }

    #[test]
    fn executors_with_a_task_are_answered_at_once() {
        let specification = Some(ExecutorSpecification::default().with_vcores(2).into());
        let metadata = Some(ExecutorRegistration { specification, ..Default::default() });
        for (num_free_vcores, idle) in [(0, false), (1, false), (2, true)] {
            let params = PollWorkParams { metadata: metadata.clone(), num_free_vcores, task_status: vec![] };
            assert_eq!(is_idle(&params), idle);
        }
        assert!(!is_idle(&PollWorkParams::default()));
    }
}
