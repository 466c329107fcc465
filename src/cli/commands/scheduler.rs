//! `resemblance scheduler`: runs a scheduler, which assigns tasks to the executors of a cluster. `executor` shares functions of this
//! file.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::cli::process::build_runtime;
use crate::cli::signals::signalled;
use crate::engine::cluster::connections::ClusterToken;
use crate::engine::cluster::scheduler::{self, SchedulerSettings};
use crate::error::{Error, Result};

/// Run the scheduler of a cluster: jobs with `engine.mode = "cluster"` are sent to it, and executors ask it for tasks
#[derive(clap::Args)]
#[command(after_help = "  resemblance scheduler --bind 127.0.0.1:50050")]
pub(crate) struct SchedulerCommand {
    #[command(flatten)]
    settings: SchedulerSettings,
    /// Bind an address that other machines can reach without a token (RESEMBLANCE_CLUSTER_TOKEN); connections are then not authenticated.
    /// Use it only in a network that only the cluster can reach
    #[arg(long)]
    allow_unauthenticated: bool,
}

impl SchedulerCommand {
    pub(crate) fn run(&self) -> Result<()> {
        check_bind(self.settings.bind, self.allow_unauthenticated)?;
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let listening = |address: SocketAddr| tracing::info!(%address, "the scheduler listens");
            tokio::select! {
                ended = scheduler::run(&self.settings, listening) => ended,
                // The process ends immediately, because drivers and executors wait for the next scheduler at this address.
                _ = signalled() => Ok(()),
            }
        });
        runtime.shutdown_background();
        ended
    }
}

/// The stack size of each thread in bytes. Decoding a deeply nested plan needs much stack.
const STACK_BYTES: usize = 16 << 20;

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    build_runtime(builder.enable_all().thread_stack_size(STACK_BYTES))
}

/// Refuses an address that other machines can reach if the cluster has no token, since connections are then not authenticated. If
/// `allowed` is true, accepts every address. Fails with `Kind::Job` and a description of the risk.
pub(crate) fn check_bind(bind: SocketAddr, allowed: bool) -> Result<()> {
    if allowed || ClusterToken::from_environment().is_some() || is_loopback(bind) {
        return Ok(());
    }
    Err(Error::job(format!(
        "--bind {bind} is not a loopback address, and connections to it are not authenticated: every process that can reach it can run \
         plans, which can read and write all files and buckets of this process. Bind it to 127.0.0.1, set a shared secret in \
         RESEMBLANCE_CLUSTER_TOKEN, or, in a network that only the cluster can reach, add --allow-unauthenticated"
    )))
}

pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Whether a host resolves only to loopback addresses. Also true if the host cannot be resolved.
pub(crate) fn is_on_loopback(host: &(String, u16)) -> bool {
    let Ok(mut addresses) = host.to_socket_addrs() else { return true };
    addresses.all(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn only_loopback_addresses_are_bound_without_permission() {
        for loopback in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            check_bind(loopback.parse().unwrap(), false).unwrap();
        }
        assert!(is_on_loopback(&("localhost".into(), 1)) && !is_on_loopback(&("10.0.0.7".into(), 1)));
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.7:1", "[::ffff:10.0.0.7]:1", "192.168.1.1:1"] {
            let error = check_bind(open.parse().unwrap(), false).unwrap_err();
            assert_eq!(error.kind(), Kind::Job);
            assert!(error.to_string().contains("--allow-unauthenticated"), "{error}");
            check_bind(open.parse().unwrap(), true).unwrap();
        }
    }
}
