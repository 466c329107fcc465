//! The role of the executor: it asks a scheduler for tasks, runs them, and hands what they wrote to other executors.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::executor_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{ExecutorStatus, HeartBeatParams};
use ballista_executor::executor_process::{
    ExecutorProcessConfig, start_executor_process, structure_executor_metadata,
};
use ballista_executor::health::ExecutorHealth;
use datafusion::prelude::SessionConfig;
use tokio::net::TcpListener;

use super::listen::listen;
use super::rest::Rest;
use super::settings::MESSAGE_BYTES;
use super::tasks::{State, Tasks};
use super::{Codec, member, own_stores, settings as configuration};
use crate::engine::session;
use crate::error::{Context, Error, Result};
use crate::output::ours;

/// What an executor is started with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
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

/// Runs an executor until Ctrl-C or SIGTERM, on which it ends its tasks first. `leaving` is true when one of them has come:
/// from then on it begins no tasks.
///
/// # Errors
/// When an address cannot be listened on, the work folder cannot be written, or no scheduler answers.
pub(crate) async fn run(
    settings: &Settings,
    listening: impl FnOnce(SocketAddr),
    leaving: impl Future<Output = bool> + Send + 'static,
) -> Result<()> {
    let shuffles = shuffles(&settings.work_dir, settings.bind.port())?;
    // Ballista listens there later, and does not say what is wrong with the address.
    drop(listen(settings.bind, "--bind").await?);
    let health = ExecutorHealth::new();
    let probes = listen(settings.health, "--health").await?;
    let probes = tokio::spawn(serve_health(probes, health.clone()));
    let polls = health.clone();

    let pool_bytes = session::pool_bytes(settings.memory) / settings.vcores * settings.vcores;
    let cores = cores(settings.vcores);
    let id = member::id(cores, pool_bytes / settings.vcores);
    let place = match &settings.advertise {
        Some(host) => format!("{host}:{}", settings.bind.port()),
        None => settings.bind.to_string(),
    };
    let runtime =
        own_stores::of(format!("the executor {place}"), session::builder(Some(settings.work_dir.clone()))?);
    let runtime = runtime.build_arc()?;
    let tasks = Tasks::new(place, settings.work_dir.clone());
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
        work_dir: Some(shuffles.clone()),
        job_data_ttl_seconds: LEFTOVERS_SECONDS,
        job_data_clean_up_interval_seconds: CLEAN_UP_SECONDS,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        memory_pool_size: Some(pool_bytes as u64),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&functions))),
        override_runtime_producer: Some(Arc::new(move |_: &SessionConfig| Ok(Arc::clone(&runtime)))),
        override_config_producer: Some(Arc::new(SessionConfig::new_with_ballista)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        override_execution_engine: Some(Arc::new(tasks)),
        health,
        ..Default::default()
    };
    listening(settings.bind);
    if let Err(missing) = await_scheduler(settings).await {
        probes.abort();
        return Err(missing);
    }
    let leaves = Arc::clone(&state);
    tokio::spawn(async move {
        // Where signals cannot be heard, none has come.
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
            // What it wrote for others goes with it; nobody comes for it any more.
            if let Err(why) = std::fs::remove_dir_all(&shuffles) {
                tracing::warn!(%why, folder = shuffles, "what tasks wrote could not be removed");
            }
            Err(Error::engine(format!(
                "no space is left on the disk of {}, so this executor stops and leaves its tasks to others: free some \
                 space or choose another folder with --work-dir, then start it again",
                settings.work_dir.display()
            )))
        }
    };
    probes.abort();
    if tokio::time::timeout(FAREWELL, farewell(&config)).await.is_err() {
        tracing::debug!("the scheduler could not be told that this executor stops");
    }
    ended
}

/// How long an executor that ends tries to tell the scheduler so.
const FAREWELL: Duration = Duration::from_secs(2);

/// Tells the scheduler that this executor and what it wrote are gone.
async fn farewell(config: &Arc<ExecutorProcessConfig>) {
    let scheduler = format!("http://{}:{}", config.scheduler_host, config.scheduler_port);
    let last = HeartBeatParams {
        executor_id: config.executor_id.clone(),
        metrics: Vec::new(),
        status: Some(ExecutorStatus { status: Some(Status::Dead(String::new())) }),
        metadata: Some(structure_executor_metadata(config, config.vcores as u32)),
    };
    let told =
        async { Ok(SchedulerGrpcClient::connect(scheduler).await?.heart_beat_from_executor(last).await?) };
    if let Err::<_, BallistaError>(why) = told.await {
        tracing::debug!(%why, "the scheduler could not be told that this executor stops");
    }
}

/// Of so many tasks at once, those that plans are made for. More than twice the cores only wait for one another, and each
/// makes the pieces smaller that all tasks exchange.
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

/// Looks for the end of the tasks that run when the disk is full.
const DRAIN_INTERVAL: Duration = Duration::from_millis(500);

/// Tasks that have not ended after so many looks go down with the executor: another one does them again.
const DRAIN_LOOKS: usize = 120;

/// Waits until a task has found the executor's disk full, and then for the tasks that still run. One look at least, in
/// which the scheduler is told how that task ended.
async fn drained_for_a_full_disk(state: &State) {
    state.disk_full.cancelled().await;
    tracing::error!("no space is left on the disk of --work-dir: tasks go back to the scheduler");
    for _ in 0..DRAIN_LOOKS {
        tokio::time::sleep(DRAIN_INTERVAL).await;
        if state.running() == 0 {
            break;
        }
    }
}

/// Waits until a scheduler answers where it should be. Ballista's own waiting for a connection never ends, and what it
/// connects to need not be a scheduler.
async fn await_scheduler(settings: &Settings) -> Result<()> {
    let (host, port) = &settings.scheduler;
    let rest = Rest::new(&format!("{host}:{port}"));
    let mut last = "it did not answer".to_owned();
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

/// How often is looked whether the scheduler answers.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Returns where the scheduler has taken no request for tasks within `settings.wait`. Once it has, this goes on for ever, and
/// logs when the scheduler no longer answers and when it does again: Ballista would log each of twenty requests a second.
async fn watch_scheduler(polls: &ExecutorHealth, settings: &Settings) {
    let first = async {
        while !polls.is_ready() {
            // More often than requests are sent: one that was taken is seen, whatever becomes of the next one.
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

/// The folder inside `folder` for what tasks write for one another, as text, made and writable. It is the executor's own
/// by the mark in it: Ballista removes every folder that it finds there, those at the end and those that grew old.
fn shuffles(folder: &Path, port: u16) -> Result<String> {
    let unusable = || format!("cannot write to {}: choose another folder with --work-dir", folder.display());
    let shuffles = folder.join(format!("resemblance-executor-{port}"));
    std::fs::create_dir_all(&shuffles).context(unusable)?;
    if !ours::mark_folder(&shuffles).context(unusable)? {
        return Err(Error::job(format!(
            "{} holds files of somebody else, which this executor would remove: move it away, or choose another folder with \
             --work-dir",
            shuffles.display()
        )));
    }
    tempfile::tempfile_in(&shuffles).context(unusable)?;
    match shuffles.to_str() {
        Some(shuffles) => Ok(shuffles.to_owned()),
        None => Err(Error::job(format!("--work-dir {} is not UTF-8: choose another", folder.display()))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_somebody_else_is_not_taken_for_shuffles() {
        let parent = tempfile::tempdir().unwrap();
        let made = shuffles(parent.path(), 1).unwrap();
        std::fs::create_dir(Path::new(&made).join("job")).unwrap();
        assert_eq!(shuffles(parent.path(), 1).unwrap(), made);
        let mine = parent.path().join("resemblance-executor-2/mine");
        std::fs::create_dir_all(&mine).unwrap();
        let error = shuffles(parent.path(), 2).unwrap_err().to_string();
        assert!(error.contains("resemblance-executor-2 holds files of somebody else"), "{error}");
        assert!(mine.is_dir());
    }
}
