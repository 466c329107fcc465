//! `resemblance executor`: runs an executor, the process of a cluster that executes tasks.

use std::net::SocketAddr;

use crate::address::socket_address;
use crate::cli::commands::scheduler::{check_bind, is_loopback, is_on_loopback, runtime};
use crate::cli::process;
use crate::cli::signals::signalled;
use crate::engine::cluster::executor::{self, ExecutorSettings};
use crate::error::{Error, Result};

/// The minimum memory per task in bytes, which the buffers of a sort need.
const MIN_MEMORY: u64 = 64 << 20;

/// Run an executor of a cluster: it asks a scheduler for tasks; on SIGTERM, it finishes its tasks and ends
#[derive(clap::Args)]
#[command(after_help = "  resemblance executor --scheduler localhost:50050 --memory 8GiB")]
pub(crate) struct ExecutorCommand {
    #[command(flatten)]
    settings: ExecutorSettings,
    /// Bind an address that other machines can reach without a token (RESEMBLANCE_CLUSTER_TOKEN); connections are then not authenticated.
    /// Use it only in a network that only the cluster can reach
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Address of /healthz and /readyz; by default, the port of --bind plus 2
    #[arg(long, value_name = "HOST:PORT", value_parser = socket_address)]
    health: Option<SocketAddr>,
}

impl ExecutorCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let settings = &self.settings;
        let ExecutorSettings { bind, vcores, memory, .. } = *settings;
        check_bind(bind, self.allow_unauthenticated)?;
        if bind.port() == 0 {
            return Err(Error::job(
                "--bind has port 0, which means any free port, but executors and drivers connect to the port that --bind \
                 names: name one, such as 50051",
            ));
        }
        let health = match (self.health, bind.port().checked_add(2)) {
            (Some(health), _) => health,
            (None, Some(port)) => SocketAddr::new(bind.ip(), port),
            (None, None) => {
                return Err(Error::job(
                    "--bind has so high a port that none is left for health checks: set --health",
                ));
            }
        };
        if is_loopback(bind) && !is_on_loopback(&settings.scheduler) {
            tracing::warn!(
                "the scheduler may be on another machine, and only this one reaches --bind {bind}: if others must fetch its rows, bind an \
                 address of the cluster's network, and set RESEMBLANCE_CLUSTER_TOKEN or add --allow-unauthenticated"
            );
        }
        if memory / (vcores as u64) < MIN_MEMORY {
            return Err(Error::job(format!(
                "--memory is {memory} bytes for --vcores {vcores}: expected 64MiB or more for each of them"
            )));
        }
        let runtime = runtime()?;
        let (host, port) = &settings.scheduler;
        let listening = |address: SocketAddr| {
            tracing::info!(%address, %health, vcores, scheduler = format!("{host}:{port}"), "the executor listens");
        };
        let ended = runtime.block_on(executor::run(settings, health, listening, signalled()));
        process::end(runtime);
        ended
    }
}
