//! `resemblance scheduler`: the role that plans the tasks of a cluster.

use std::net::SocketAddr;

use crate::cli::support::roles;
use crate::engine::cluster::scheduler::{self, SchedulerSettings};
use crate::error::Result;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance scheduler --bind 127.0.0.1:50050";

/// Run the scheduler of a cluster: jobs with `engine.mode = "cluster"` are sent to it, and executors ask it for tasks
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct SchedulerCommand {
    /// Address to listen on: gRPC, and HTTP with /healthz, /readyz and /api
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = roles::address)]
    bind: SocketAddr,
    /// Bind an address that other machines reach without a token (RESEMBLANCE_CLUSTER_TOKEN), so that nothing asks who connects:
    /// for a network that only the cluster can reach
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Seconds without a sign of life after which an executor counts as lost; executors send one every five seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(6..))]
    executor_timeout: u64,
    /// Seconds that jobs wait while there is no executor
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u64,
}

impl SchedulerCommand {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        roles::check_bind(self.bind, self.allow_unauthenticated)?;
        let settings =
            SchedulerSettings { bind: self.bind, executor_timeout: self.executor_timeout, grace: self.grace };
        let runtime = roles::runtime()?;
        let ended = runtime.block_on(async {
            let listening = |address: SocketAddr| tracing::info!(%address, "the scheduler listens");
            tokio::select! {
                ended = scheduler::run(&settings, listening) => ended,
                // Drivers and executors wait for the next scheduler at this address.
                _ = crate::cli::support::work::signalled() => Ok(()),
            }
        });
        runtime.shutdown_background();
        ended
    }
}
