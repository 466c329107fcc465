//! `resemblance executor`: runs an executor, the process of a cluster that executes tasks.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cli::arguments;
use crate::cli::commands::scheduler::{address, check_bind, is_loopback, is_on_loopback, runtime};
use crate::cli::process::{self, allocator};
use crate::cli::signals::signalled;
use crate::engine::cluster::executor::{self, ExecutorSettings};
use crate::error::{Error, Result};

/// The minimum memory per task in bytes. A sort needs this amount for its buffers.
const MIN_MEMORY: u64 = 64 << 20;

/// Run an executor of a cluster: it asks a scheduler for tasks; on SIGTERM, it finishes its tasks and ends
#[derive(clap::Args)]
#[command(after_help = "  resemblance executor --scheduler localhost:50050 --memory 8GiB")]
pub(crate) struct ExecutorCommand {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = arguments::host_port)]
    scheduler: (String, u16),
    /// Address from which other executors and drivers fetch the results of its tasks
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051", value_parser = address)]
    bind: SocketAddr,
    /// Bind an address that other machines can reach without a token (RESEMBLANCE_CLUSTER_TOKEN); connections are then not authenticated.
    /// Use it only in a network that only the cluster can reach
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Host name under which other processes reach it; by default, the address from which it reaches the scheduler
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Address of /healthz and /readyz; by default, the port of --bind plus 2
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    health: Option<SocketAddr>,
    /// Number of tasks that run at the same time; 0 means one per core
    #[arg(long, value_name = "N", default_value_t = 0)]
    vcores: usize,
    /// Memory for all tasks together, such as 4GiB, or a share of the machine's memory; tasks that need more spill to disk
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
    /// Folder for spills and for the files that tasks exchange [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Seconds to wait for the scheduler at the start
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    wait: u16,
}

impl ExecutorCommand {
    pub(crate) fn run(&self) -> Result<()> {
        check_bind(self.bind, self.allow_unauthenticated)?;
        if self.bind.port() == 0 {
            return Err(Error::job(
                "--bind has port 0, which means any free port, but executors and drivers connect to the port that --bind \
                 names: name one, such as 50051",
            ));
        }
        let health = match (self.health, self.bind.port().checked_add(2)) {
            (Some(health), _) => health,
            (None, Some(port)) => SocketAddr::new(self.bind.ip(), port),
            (None, None) => {
                return Err(Error::job(
                    "--bind has so high a port that none is left for health checks: set --health",
                ));
            }
        };
        if is_loopback(self.bind) && !is_on_loopback(&self.scheduler) {
            tracing::warn!(
                "the scheduler may be on another machine, and only this one reaches --bind {}: where others fetch what the \
                 tasks here write, bind an address of the cluster's own network, and set RESEMBLANCE_CLUSTER_TOKEN or add \
                 --allow-unauthenticated",
                self.bind
            );
        }
        let vcores = match self.vcores {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            vcores => vcores,
        };
        if self.memory / (vcores as u64) < MIN_MEMORY {
            return Err(Error::job(format!(
                "--memory is {} bytes for --vcores {vcores}: expected 64MiB or more for each of them",
                self.memory
            )));
        }
        let settings = ExecutorSettings {
            scheduler: self.scheduler.clone(),
            bind: self.bind,
            advertise: self.advertise.clone(),
            health,
            vcores,
            memory: self.memory,
            work_dir: self.work_dir.clone(),
            wait: self.wait,
        };
        allocator::give_back(self.memory, vcores);
        let runtime = runtime()?;
        let (host, port) = &self.scheduler;
        let listening = |address: SocketAddr| {
            tracing::info!(%address, %health, vcores, scheduler = format!("{host}:{port}"), "the executor listens");
        };
        let ended = runtime.block_on(executor::run(&settings, listening, signalled()));
        process::end(runtime);
        ended
    }
}
