//! The executor polls a scheduler for tasks, runs them, and serves their output to other executors.

use std::net::SocketAddr;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::ExecutorStoppedParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::create_grpc_client_endpoint;
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use ballista_executor::health::ExecutorHealth;
use datafusion::prelude::SessionConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::checksums::refuse_damaged;
use super::connections::{Trust, acceptor, endpoints, health, listen, serve, with_endpoints};
use super::rest::{Rest, executor_id};
use super::settings::MESSAGE_BYTES;
use super::tasks::{ExecutorState, Tasks};
use super::{Codec, settings as configuration};
use crate::address::{host_port, socket_address};
use crate::engine::session;
use crate::engine::spills::{self, SpillFolder};
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY};
use crate::error::{Context, Error, Result};
use crate::job::parse_size;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExecutorSettings {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_port)]
    pub scheduler: (String, u16),
    /// Address from which other executors and drivers fetch the results of its tasks
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051", value_parser = socket_address)]
    pub bind: SocketAddr,
    /// Host name under which other processes reach it; by default, the address from which it reaches the scheduler
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// Number of tasks that run at the same time; 0 means one per core
    #[arg(long, value_name = "N", default_value = "0", value_parser = task_slots)]
    pub vcores: usize,
    /// Memory for all tasks together, such as 4GiB, or a share of the machine's memory; tasks that need more spill to disk
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = parse_size)]
    pub memory: u64,
    /// Folder for spills and for the files that tasks exchange [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Seconds to wait for the scheduler at the start
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    pub wait: u16,
}

/// Parses `--vcores`. 0 means one per core.
fn task_slots(text: &str) -> std::result::Result<usize, ParseIntError> {
    Ok(match text.parse()? {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        vcores => vcores,
    })
}

/// The age in seconds after which leftovers of jobs in the work folder are removed.
const LEFTOVERS_SECONDS: u64 = 24 * 3600;
const CLEAN_UP_SECONDS: u64 = 600;

/// Runs an executor until `leaving` becomes true, by Ctrl-C or SIGTERM. It then finishes its tasks and starts no new ones. `probed` is
/// the address of `/healthz` and `/readyz`.
pub(crate) async fn run(
    settings: &ExecutorSettings,
    probed: SocketAddr,
    listening: impl FnOnce(SocketAddr),
    leaving: impl Future<Output = bool> + Send + 'static,
) -> Result<()> {
    let (trust, acceptor) = (Trust::from_environment()?, acceptor()?);
    if trust.is_some() != acceptor.is_some() {
        return Err(Error::job(format!(
            "an executor serves what its tasks wrote and fetches what others wrote: set {CLUSTER_CA}, {CLUSTER_CERTIFICATE} and \
             {CLUSTER_KEY}, or none of them"
        )));
    }
    let work_dir = spills::parent(settings.work_dir.clone())?;
    let unusable =
        || format!("cannot write to {}: choose another folder with --work-dir", work_dir.display());
    // Other users cannot read this folder. Ballista removes every folder inside it, so only this executor may use it.
    let folder = SpillFolder::create(&work_dir).context(unusable)?;
    let Some(shuffles) = folder.path().to_str() else {
        return Err(Error::job(format!("--work-dir {} is not UTF-8: choose another", work_dir.display())));
    };
    // Ballista listens on this address later, and its error would not explain a wrong address.
    drop(listen(settings.bind, "--bind").await?);
    let scheduler = ExecutorHealth::new();
    let (probed_health, polls) = (scheduler.clone(), scheduler.clone());
    let probes = listen(probed, "--health").await?;
    let routes = health(move || probed_health.is_ready(), "the scheduler does not answer\n");
    let probes = tokio::spawn(serve(probes, Router::new(), routes, acceptor.clone(), std::future::pending()));

    let pool_bytes = session::pool_bytes(settings.memory) / settings.vcores * settings.vcores;
    let cores = cores(settings.vcores);
    let id = executor_id(cores, pool_bytes / settings.vcores);
    let address = match &settings.advertise {
        Some(host) => format!("{host}:{}", settings.bind.port()),
        None => settings.bind.to_string(),
    };
    let runtime =
        session::builder(Some(work_dir.clone()), Some(format!("the executor {address}")))?.build_arc()?;
    let tasks = Tasks::new(address.clone(), work_dir.clone());
    let to_others = trust.clone();
    let state = tasks.state();
    let functions = configuration::state(SessionConfig::new(), Arc::clone(&runtime))?;
    let config = ExecutorProcessConfig {
        executor_id: id,
        bind_host: settings.bind.ip().to_string(),
        external_host: settings.advertise.clone(),
        port: settings.bind.port(),
        grpc_port: settings.bind.port(),
        scheduler_host: settings.scheduler.0.clone(),
        scheduler_port: settings.scheduler.1,
        scheduler_connect_timeout_seconds: settings.wait.max(1),
        vcores: settings.vcores,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(shuffles.to_owned()),
        job_data_ttl_seconds: LEFTOVERS_SECONDS,
        job_data_clean_up_interval_seconds: CLEAN_UP_SECONDS,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        memory_pool_size: Some(pool_bytes as u64),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&functions))),
        override_runtime_producer: Some(Arc::new(move |_: &SessionConfig| Ok(Arc::clone(&runtime)))),
        override_config_producer: Some(Arc::new(move || {
            with_endpoints(SessionConfig::new_with_ballista(), to_others.as_ref())
        })),
        override_create_grpc_client_endpoint: Some(endpoints(trust.as_ref())),
        override_arrow_flight_service: Some(flight(address, acceptor)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        override_execution_engine: Some(Arc::new(tasks)),
        health: scheduler,
        ..Default::default()
    };
    listening(settings.bind);
    if let Err(missing) = await_scheduler(settings, trust.as_ref()).await {
        probes.abort();
        return Err(missing);
    }
    let leaves = Arc::clone(&state);
    tokio::spawn(async move {
        // `leaving` is false if signals cannot be received.
        if leaving.await {
            leaves.leaving.cancel();
        }
    });
    let config = Arc::new(config);
    let (host, port) = &settings.scheduler;
    let ended = tokio::select! {
        ended = start_executor_process(Arc::clone(&config)) => ended.map_err(|e| {
            Error::engine(format!("the executor stopped; its scheduler is {host}:{port}")).because(e)
        }),
        () = watch_scheduler(&polls, settings) => Err(Error::engine(format!(
            "{host}:{port} answers as a scheduler does, but took no request for tasks within {} seconds: correct \
             --scheduler, or start one there of this version",
            settings.wait
        ))),
        () = drained_for_a_full_disk(&state) => {
            Err(Error::engine(format!(
                "no space is left on the disk of {}, so this executor stops and leaves its tasks to others: free some \
                 space or choose another folder with --work-dir, then start it again",
                work_dir.display()
            )))
        }
    };
    probes.abort();
    if tokio::time::timeout(DEREGISTER_TIMEOUT, deregister(&config)).await.is_err() {
        tracing::debug!("the executor could not be deregistered in time");
    }
    ended
}

fn flight(executor: String, acceptor: Option<TlsAcceptor>) -> Arc<ArrowFlightServerProvider> {
    Arc::new(move |folder, address, mut shutdown, _| {
        let flight = FlightServiceServer::new(BallistaFlightService::new(folder.clone()))
            .max_encoding_message_size(MESSAGE_BYTES as usize)
            .max_decoding_message_size(MESSAGE_BYTES as usize);
        let routes = Router::new().route_service("/arrow.flight.protocol.FlightService/{*method}", flight);
        let routes = refuse_damaged(routes, folder, executor.clone());
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let listener = TcpListener::bind(address).await?;
            let stopped = async move { shutdown.recv().await };
            Ok(serve(listener, routes, Router::new(), acceptor, stopped).await?)
        })
    })
}

const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(2);

/// Deregisters this executor, so that its scheduler restarts its tasks on other executors immediately.
async fn deregister(config: &Arc<ExecutorProcessConfig>) {
    let scheduler = format!("http://{}:{}", config.scheduler_host, config.scheduler_port);
    let stopped =
        ExecutorStoppedParams { executor_id: config.executor_id.clone(), reason: "it ended".to_owned() };
    let sent = async {
        let mut endpoint = create_grpc_client_endpoint(scheduler, None)?;
        if let Some(customize) = &config.override_create_grpc_client_endpoint {
            endpoint = customize(endpoint).map_err(|e| BallistaError::General(e.to_string()))?;
        }
        let mut client = SchedulerGrpcClient::new(endpoint.connect().await?);
        Ok(client.executor_stopped(stopped).await?)
    };
    if let Err::<_, BallistaError>(why) = sent.await {
        tracing::debug!(%why, "the executor could not be deregistered");
    }
}

/// Returns the number of tasks for which plans are sized: at most twice the number of cores. More tasks would wait for each other and
/// exchange smaller partitions.
fn cores(vcores: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(vcores, usize::from);
    if vcores > cores {
        tracing::warn!(
            vcores,
            cores,
            "there are more vcores than cores: tasks share the cores, and each has only its part of --memory"
        );
    }
    vcores.min(cores.saturating_mul(2))
}

/// The time in which the scheduler must receive the state of the task that filled the disk.
const REPORT_TIME: Duration = Duration::from_millis(500);

/// The maximum time to wait for running tasks after the disk is full. Other executors then run them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the executor's disk is full, and then for the running tasks.
async fn drained_for_a_full_disk(state: &ExecutorState) {
    state.disk_full.cancelled().await;
    tracing::error!("no space is left on the disk of --work-dir: tasks go back to the scheduler");
    tokio::time::sleep(REPORT_TIME).await;
    state.tasks.close();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, state.tasks.wait()).await;
}

/// Waits until a scheduler answers. Ballista would wait forever, and would connect to any kind of server.
async fn await_scheduler(settings: &ExecutorSettings, trust: Option<&Trust>) -> Result<()> {
    let (host, port) = &settings.scheduler;
    let rest = Rest::new(&format!("{host}:{port}"), trust)?;
    let mut last = "it did not answer".to_owned();
    rest.accepts().await?;
    let tries = async {
        while let Err(why) = rest.is_scheduler().await {
            tracing::debug!(why, "the scheduler does not answer yet");
            last = why;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let wait = settings.wait;
    let answered = tokio::time::timeout(Duration::from_secs(wait.into()), tries).await;
    answered.map_err(|_| {
        Error::engine(format!(
            "no scheduler answered on {host}:{port} within {wait} seconds: start it, correct --scheduler or raise \
             --wait"
        ))
        .because(last)
    })
}

/// The interval between two checks of the scheduler.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Returns if the scheduler accepts no request for tasks within `settings.wait`. Otherwise runs forever, and logs when the scheduler
/// stops and starts answering. Ballista would log every request, twenty per second.
async fn watch_scheduler(polls: &ExecutorHealth, settings: &ExecutorSettings) {
    let first = async {
        while !polls.is_ready() {
            // Polls more often than the executor sends requests.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(settings.wait.into()), first).await.is_err() {
        return;
    }
    let (host, port) = &settings.scheduler;
    let mut answers = true;
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        match (std::mem::replace(&mut answers, polls.is_ready()), answers) {
            (true, false) => tracing::warn!("the scheduler {host}:{port} does not answer; waiting for it"),
            (false, true) => tracing::info!("the scheduler {host}:{port} answers again"),
            _ => {}
        }
    }
}
