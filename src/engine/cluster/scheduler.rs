//! The scheduler cuts plans into query stages and assigns their tasks to the executors that poll it.
//!
//! Ballista's own scheduler does the work. [`PatientPolls`] in front of it changes the answers to executors that poll for tasks:
//!
//! - Ballista answers immediately, and its executors sleep for 50 ms before the next request. Ten query stages would lose half a second in
//!   these pauses. Here, the request of an idle executor is only answered when there is work, or after a second.
//! - A new executor replaces the previous executor at its address. The tasks of the previous one start again immediately instead of after
//!   the executor timeout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract;
use axum::routing::post;
use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::scheduler_grpc_server::{
    SERVICE_NAME, SchedulerGrpc, SchedulerGrpcServer,
};
use ballista_core::serde::protobuf::{ExecutorStoppedParams, PollWorkParams, PollWorkResult};
use ballista_core::serde::scheduler::ExecutorSpecification;
use ballista_scheduler::api::get_routes;
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::{SchedulerServer, SessionBuilder};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::connections::{acceptor, health, listen, serve};
use super::settings::MESSAGE_BYTES;
use super::{Codec, settings as configuration};
use crate::address::socket_address;
use crate::engine::session;
use crate::error::{Error, Result};

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

/// The number of seconds after which a finished job is forgotten. Clients are notified of the end of a job, so they do not need its record.
/// Ballista's default is an hour, and a run sends a job per stage.
const FINISHED_JOB_SECONDS: u64 = 10;

/// Runs a scheduler until it fails or the future is dropped. Calls `listening` with its address before the first request.
pub(crate) async fn run(settings: &SchedulerSettings, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let acceptor = acceptor()?;
    let listener = listen(settings.bind, "--bind").await?;
    let address = listener.local_addr()?;
    let runtime = session::builder(None, Some(format!("the scheduler {address}")))?.build_arc()?;
    let build: SessionBuilder = Arc::new(move |config: SessionConfig| {
        configuration::state(config, Arc::clone(&runtime)).map_err(DataFusionError::from)
    });
    let configure: ConfigProducer = Arc::new(SessionConfig::new_with_ballista);
    let work = Arc::new(Notify::new());
    let wakes = Arc::clone(&work);
    let config = Arc::new(SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        // Executors that poll count their free cores themselves. A scheduler that pushes tasks loses count when it takes tasks back, and
        // then waits forever.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: settings.executor_timeout,
        expire_dead_executor_interval_seconds: (settings.executor_timeout / 10).clamp(1, 15),
        no_executors_grace_period_seconds: settings.grace,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        finished_job_state_clean_up_interval_seconds: FINISHED_JOB_SECONDS,
        // Ballista redirects this path to its web page. No request can contain this path, because of its control character, so nothing is
        // redirected.
        web_tui_route: "/\u{1}".to_owned(),
        override_config_producer: Some(Arc::clone(&configure)),
        override_session_builder: Some(Arc::clone(&build)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        on_work_available: Some(Arc::new(move |_| wakes.notify_waiters())),
        ..Default::default()
    });
    let served = async {
        let jobs = InMemoryJobState::new(&config.scheduler_id, build, configure);
        let executors = Arc::new(InMemoryClusterState::default());
        let cluster = BallistaCluster::new(Arc::clone(&executors) as _, Arc::new(jobs));
        let scheduler = Arc::new(create_scheduler(cluster, config).await?);
        listening(address);
        serve_all(listener, PatientPolls { scheduler, executors, work }, acceptor).await
    };
    served.await.map_err(|e| Error::engine("the scheduler stopped").because(e))
}

/// Serves plans, executors and the REST interface to clients with the token, and the health checks to all clients.
async fn serve_all(
    listener: TcpListener,
    polls: PatientPolls,
    acceptor: Option<TlsAcceptor>,
) -> ballista_core::error::Result<()> {
    let scheduler = Arc::clone(&polls.scheduler);
    let grpc = SchedulerGrpcServer::from_arc(Arc::clone(&scheduler))
        .max_encoding_message_size(MESSAGE_BYTES as usize)
        .max_decoding_message_size(MESSAGE_BYTES as usize);
    let poll_work = move |request: extract::Request| async move {
        let mut grpc = Grpc::new(ProstCodec::default())
            .max_encoding_message_size(MESSAGE_BYTES as usize)
            .max_decoding_message_size(MESSAGE_BYTES as usize);
        grpc.unary(polls, request).await
    };
    let server = Arc::clone(&scheduler);
    let routes = get_routes(scheduler)
        .route_service(&format!("/{SERVICE_NAME}/{{*method}}"), grpc)
        .route(&format!("/{SERVICE_NAME}/PollWork"), post(poll_work));
    let health = health(move || server.is_ready(), "there is no executor\n");
    Ok(serve(listener, routes, health, acceptor, std::future::pending()).await?)
}

/// Ballista's scheduler with the types of our plans.
type TaskScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The maximum time for which a request of an idle executor waits for work. It is well below the timeout of an executor.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which a waiting request looks for work of a running job. Ballista does not announce the work of lost executors.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct PatientPolls {
    scheduler: Arc<TaskScheduler>,
    executors: Arc<InMemoryClusterState>,
    /// Notified when there is work for executors.
    work: Arc<Notify>,
}

impl PatientPolls {
    /// Answers a poll. Waits for work before it gives an idle executor an empty answer.
    async fn poll_work(&self, request: Request<PollWorkParams>) -> PollAnswer {
        let (metadata, extensions, params) = request.into_parts();
        let poll = |params| {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), params);
            self.scheduler.poll_work(request)
        };
        let (executor, num_free_vcores) = (params.metadata.clone(), params.num_free_vcores);
        let new = executor.as_ref().map(|executor| executor.id.clone());
        let new = new.filter(|id| self.executors.get_executor_heartbeat(id).is_none());
        // A new executor is not ready before its first answer.
        let waits = is_idle(&params) && new.is_none();
        let until = Instant::now() + PATIENCE;
        let mut announced = Box::pin(self.work.notified());
        let mut answer = poll(params).await;
        // The scheduler knows the executor from this poll on, even if the poll fails. So its predecessors are removed only now.
        if let Some(id) = new
            && let Err(error) = self.remove_predecessors(&id).await
        {
            tracing::warn!(%error, executor = id, "the predecessors of an executor could not be removed");
        }
        while waits && answer.as_ref().is_ok_and(|work| is_empty(work.get_ref())) && Instant::now() < until {
            let is_announced = tokio::time::timeout(LOOK_AGAIN, announced.as_mut()).await.is_ok();
            // Without a job, the poll is not repeated, so the scheduler handles no more requests than Ballista's own.
            if is_announced || self.scheduler.running_job_number() > 0 {
                announced = Box::pin(self.work.notified());
                // The first poll has already reported the tasks that ended, so further polls report none.
                let metadata = executor.clone();
                answer = poll(PollWorkParams { metadata, num_free_vcores, task_status: Vec::new() }).await;
            }
        }
        answer
    }

    /// Removes earlier executors at the address of the new executor `id`, so that their tasks start again.
    async fn remove_predecessors(&self, id: &str) -> std::result::Result<(), Status> {
        let new =
            self.executors.get_executor_metadata(id).await.map_err(|e| Status::internal(e.to_string()))?;
        for old in self.executors.registered_executor_metadata().await {
            if (&old.host, old.port) == (&new.host, new.port) && old.id != new.id {
                tracing::warn!(gone = old.id, new = new.id, "an executor replaces the one at its address");
                let reason = format!("{id} replaces it");
                let stopped = ExecutorStoppedParams { executor_id: old.id, reason };
                self.scheduler.executor_stopped(Request::new(stopped)).await?;
            }
        }
        Ok(())
    }
}

type PollAnswer = std::result::Result<Response<PollWorkResult>, Status>;

impl UnaryService<PollWorkParams> for PatientPolls {
    type Response = PollWorkResult;
    type Future = BoxFuture<'static, PollAnswer>;

    fn call(&mut self, request: Request<PollWorkParams>) -> Self::Future {
        let polls = self.clone();
        Box::pin(async move { polls.poll_work(request).await })
    }
}

/// Whether an executor runs no task. A busy executor must be answered at once, so that it can report the end of its tasks.
fn is_idle(params: &PollWorkParams) -> bool {
    let specification = params.metadata.as_ref().and_then(|executor| executor.specification.clone());
    let specification: Option<ExecutorSpecification> = specification.map(Into::into);
    specification.is_some_and(|executor| executor.vcores == params.num_free_vcores)
}

fn is_empty(work: &PollWorkResult) -> bool {
    work.tasks.is_empty() && work.jobs_to_clean.is_empty()
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::protobuf::ExecutorRegistration;

    use super::*;

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
