//! The part that the two roles of a cluster share on the command line.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::cli::support::work;
use crate::engine::cluster::credentials::ClusterToken;
use crate::error::{Error, Result};

/// Decoding deeply nested plans needs a large stack.
const STACK_BYTES: usize = 16 << 20;

/// A runtime for a role, with a thread for each core.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    work::built(builder.enable_all().thread_stack_size(STACK_BYTES))
}

/// `host:port`; the host is resolved when it is used.
pub(in crate::cli) fn place(text: &str) -> Result<(String, u16), String> {
    let text = text.strip_prefix("df://").unwrap_or(text);
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    match parts {
        Some((host, port)) if !host.is_empty() && port > 0 => Ok((host, port)),
        _ => Err("expected HOST:PORT".into()),
    }
}

/// Refuses an address that other machines can reach, unless it is `allowed`, or the cluster has a token: without one, roles do not
/// authenticate connections.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the risk.
pub(in crate::cli) fn check_bind(bind: SocketAddr, allowed: bool) -> Result<()> {
    if allowed || ClusterToken::of_process().is_some() || is_loopback(bind) {
        return Ok(());
    }
    Err(Error::job(format!(
        "--bind {bind} is not a loopback address, and connections to it are not authenticated: every process that can reach it \
         can run plans here, which read and write every file and bucket that this process may. Bind it to 127.0.0.1, set a shared \
         secret in RESEMBLANCE_CLUSTER_TOKEN, or, in a network that only the cluster can reach, add --allow-unauthenticated"
    )))
}

/// Whether only this machine can reach an address.
pub(in crate::cli) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Whether a host is on this machine's loopback; true if its name cannot be resolved.
pub(in crate::cli) fn is_on_loopback(place: &(String, u16)) -> bool {
    let Ok(mut addresses) = place.to_socket_addrs() else { return true };
    addresses.all(is_loopback)
}

/// `host:port` of this machine.
pub(in crate::cli) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|e| format!("expected HOST:PORT: {e}"))?;
    addresses.next().ok_or_else(|| "no such host".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn only_loopback_addresses_are_bound_without_a_word() {
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
