//! Listening on an address, with errors that explain a wrong one.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::error::{Error, Result};

/// Listens on `address`, the value of the command's `option`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the reason.
pub(super) async fn listen(address: SocketAddr, option: &str) -> Result<TcpListener> {
    let refused = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(refused) => refused,
    };
    let why = match refused.kind() {
        ErrorKind::AddrInUse => "another process listens there",
        ErrorKind::AddrNotAvailable => "this machine has no such address",
        ErrorKind::PermissionDenied => "this user may not listen there",
        _ => "the system refuses",
    };
    Err(Error::input(format!("cannot listen on {address}: {why}; choose another with {option}"))
        .because(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reason_is_a_used_or_a_foreign_address() {
        let taken = listen("127.0.0.1:0".parse().unwrap(), "--bind").await.unwrap();
        // 192.0.2.0/24 is for documentation: no machine has it.
        for (address, why) in [
            (taken.local_addr().unwrap(), "another process listens there"),
            ("192.0.2.1:50050".parse().unwrap(), "this machine has no such address"),
        ] {
            let error = listen(address, "--bind").await.unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(&address.to_string()), "{error}");
        }
    }
}
