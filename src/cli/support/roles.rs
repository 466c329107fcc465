//! What the two roles of a cluster share on the command line.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::cli::support::work;
use crate::error::Result;

/// Plans are nested deeply, and reading one takes a stack to match.
const STACK_BYTES: usize = 16 << 20;

/// A runtime for a role, with a thread for each core.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    work::built(builder.enable_all().thread_stack_size(STACK_BYTES))
}

/// `host:port`, whose host is looked up when it is used.
pub(in crate::cli) fn place(text: &str) -> Result<(String, u16), String> {
    let text = text.strip_prefix("df://").unwrap_or(text);
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    match parts {
        Some((host, port)) if !host.is_empty() && port > 0 => Ok((host, port)),
        _ => Err("expected HOST:PORT".into()),
    }
}

/// `host:port` of this machine.
pub(in crate::cli) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|e| format!("expected HOST:PORT: {e}"))?;
    addresses.next().ok_or_else(|| "no such host".into())
}
