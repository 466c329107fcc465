//! The role of the executor: it asks a scheduler for tasks, runs them, and hands what they wrote to other executors.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::ExecutorHealth;
use datafusion::prelude::SessionConfig;
use tokio::net::{TcpListener, TcpStream};

use super::settings::MESSAGE_BYTES;
use super::{Codec, member, settings as configuration};
use crate::engine::session;
use crate::error::{Context, Error, Result};

/// What an executor is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The scheduler's host and port.
    pub scheduler: (String, u16),
    /// Where other executors and drivers fetch what tasks wrote.
    pub bind: SocketAddr,
    /// The host that they are told; none is the address that the scheduler sees.
    pub advertise: Option<String>,
    /// Where `/healthz` and `/readyz` are served.
    pub health: SocketAddr,
    /// Tasks at once.
    pub vcores: usize,
    /// Bytes that all tasks may hold together.
    pub memory: u64,
    /// Where spills and what tasks wrote for others are kept.
    pub work_dir: PathBuf,
    /// Seconds to wait for the scheduler at the start.
    pub wait: u16,
}

/// Seconds after which what a job left in the work folder is removed, and how often that is looked for.
const LEFTOVERS_SECONDS: u64 = 24 * 3600;
const CLEAN_UP_SECONDS: u64 = 600;

/// Runs an executor until Ctrl-C or SIGTERM, on which it ends its tasks first.
///
/// # Errors
/// When an address cannot be listened on, the work folder cannot be written, or no scheduler answers.
pub async fn run(settings: &Settings, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let work_dir = work_dir(&settings.work_dir)?;
    let free = TcpListener::bind(settings.bind).await;
    drop(free.context(|| format!("cannot listen on {}: is another process there?", settings.bind))?);
    let health = ExecutorHealth::new();
    let probes = TcpListener::bind(settings.health).await.context(|| {
        format!("cannot listen on {} for health checks: choose another with --health", settings.health)
    })?;
    let probes = tokio::spawn(serve_health(probes, health.clone()));

    let pool_bytes = session::pool_bytes(settings.memory) / settings.vcores * settings.vcores;
    let id = member::id(settings.vcores, pool_bytes / settings.vcores);
    let runtime = session::builder(Some(settings.work_dir.clone()))?.build_arc()?;
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
        work_dir: Some(work_dir),
        job_data_ttl_seconds: LEFTOVERS_SECONDS,
        job_data_clean_up_interval_seconds: CLEAN_UP_SECONDS,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        memory_pool_size: Some(pool_bytes as u64),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&functions))),
        override_runtime_producer: Some(Arc::new(move |_: &SessionConfig| Ok(Arc::clone(&runtime)))),
        override_config_producer: Some(Arc::new(SessionConfig::new_with_ballista)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        health,
        ..Default::default()
    };
    listening(settings.bind);
    if let Err(missing) = scheduler_listens(settings).await {
        probes.abort();
        return Err(missing);
    }
    let ended = start_executor_process(Arc::new(config)).await;
    probes.abort();
    let (host, port) = &settings.scheduler;
    ended.map_err(|e| {
        Error::engine(format!("the executor stopped; its scheduler is {host}:{port}")).because(e)
    })
}

/// Waits until somebody listens where the scheduler should be: Ballista's own waiting for it never ends.
async fn scheduler_listens(settings: &Settings) -> Result<()> {
    let (host, port) = &settings.scheduler;
    let tries = async {
        while let Err(why) = TcpStream::connect((host.as_str(), *port)).await {
            tracing::debug!(%why, "the scheduler is not there yet");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let wait = settings.wait;
    tokio::time::timeout(Duration::from_secs(wait.into()), tries).await.map_err(|_| {
        Error::engine(format!(
            "no scheduler listens on {host}:{port}, also after {wait} seconds: start it, correct --scheduler or raise --wait"
        ))
    })
}

/// The folder's path as text, made and writable.
fn work_dir(folder: &Path) -> Result<String> {
    let unusable = || format!("cannot write to {}: choose another folder with --work-dir", folder.display());
    std::fs::create_dir_all(folder).context(unusable)?;
    tempfile::tempfile_in(folder).context(unusable)?;
    match folder.to_str() {
        Some(folder) => Ok(folder.to_owned()),
        None => Err(Error::job(format!("--work-dir {} is no UTF-8: choose another", folder.display()))),
    }
}

/// `/healthz` answers while the process lives; `/readyz` while the scheduler answers it.
async fn serve_health(listener: TcpListener, health: ExecutorHealth) -> std::io::Result<()> {
    let ready = move || async move {
        match health.is_ready() {
            true => (StatusCode::OK, "ready\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler does not answer\n"),
        }
    };
    let routes = Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready));
    axum::serve(listener, routes).await
}
