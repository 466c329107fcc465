//! The scheduler: it cuts plans into query stages and assigns their tasks to the executors that poll it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::scheduler_grpc_server::{SERVICE_NAME, SchedulerGrpcServer};
use ballista_scheduler::api::get_routes;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::cluster::memory::InMemoryJobState;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::SessionBuilder;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::credentials::acceptor;
use super::polls::{PatientScheduler, TaskScheduler};
use super::scheduler_state::{ExecutorRegistry, FinishedJobs};
use super::serve::{listen, serve};
use super::settings::{MESSAGE_BYTES, own_stores};
use super::{Codec, settings as configuration};
use crate::engine::session;
use crate::error::{Error, Result};

/// The settings of a scheduler.
#[derive(Debug, Clone)]
pub(crate) struct SchedulerSettings {
    /// The address for plans, executors and HTTP.
    pub bind: SocketAddr,
    /// Seconds without a heartbeat after which an executor is lost. Executors send one every five seconds at least.
    pub executor_timeout: u64,
    /// Seconds that jobs wait for an executor.
    pub grace: u64,
}

/// Runs a scheduler until it fails or the future is dropped. Calls `listening` with its address before the first request.
///
/// # Errors
/// When the address cannot be listened on, the settings of TLS are wrong, or serving ends.
pub(crate) async fn run(settings: &SchedulerSettings, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let acceptor = acceptor()?;
    let listener = listen(settings.bind, "--bind").await?;
    let address = listener.local_addr()?;
    let runtime = own_stores(format!("the scheduler {address}"), session::builder(None)?).build_arc()?;
    let build: SessionBuilder = Arc::new(move |config: SessionConfig| {
        configuration::state(config, Arc::clone(&runtime)).map_err(DataFusionError::from)
    });
    let configure: ConfigProducer = Arc::new(SessionConfig::new_with_ballista);
    let config = Arc::new(SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        // Executors that poll count their own free cores. A scheduler that pushes loses count when it takes tasks back, and
        // then waits forever.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: settings.executor_timeout,
        expire_dead_executor_interval_seconds: (settings.executor_timeout / 10).clamp(1, 15),
        no_executors_grace_period_seconds: settings.grace,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        // Ballista redirects this path to a page of its own. There is no such path: a request has no control characters.
        web_tui_route: "/\u{1}".to_owned(),
        override_config_producer: Some(Arc::clone(&configure)),
        override_session_builder: Some(Arc::clone(&build)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        ..Default::default()
    });
    let served = async {
        let jobs = InMemoryJobState::new(&config.scheduler_id, build, configure);
        let executors = Arc::new(ExecutorRegistry::default());
        let cluster = BallistaCluster::new(executors, Arc::new(FinishedJobs::new(jobs)));
        let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await?;
        listening(address);
        serve_all(listener, scheduler, acceptor).await
    };
    served.await.map_err(|e| Error::engine("the scheduler stopped").because(e))
}

/// Serves plans, executors and the REST interface to those who know the token, and its health to all; over TLS with an acceptor.
async fn serve_all(
    listener: TcpListener,
    scheduler: TaskScheduler,
    acceptor: Option<TlsAcceptor>,
) -> ballista_core::error::Result<()> {
    let grpc = SchedulerGrpcServer::new(PatientScheduler::new(scheduler.clone()))
        .max_encoding_message_size(MESSAGE_BYTES as usize)
        .max_decoding_message_size(MESSAGE_BYTES as usize);
    let scheduler = Arc::new(scheduler);
    let server = Arc::clone(&scheduler);
    let ready = move || async move {
        match server.is_ready() {
            true => (StatusCode::OK, "ready\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "there is no executor\n"),
        }
    };
    let routes = get_routes(scheduler).route_service(&format!("/{SERVICE_NAME}/{{*method}}"), grpc);
    let health = Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready));
    Ok(serve(listener, routes, health, acceptor, std::future::pending()).await?)
}
