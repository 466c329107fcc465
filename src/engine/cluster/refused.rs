//! The errors of a process that a scheduler refuses, or that does not trust its scheduler.

use std::error::Error as _;
use std::io;

use reqwest::StatusCode;
use tokio_rustls::rustls;

use super::token::Token;
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, CLUSTER_TOKEN};
use crate::error::Error;

/// The error of a process whose request the scheduler at `address` answered so; `None` if it was not refused.
pub(super) fn by_answer(address: &str, status: StatusCode) -> Option<Error> {
    match status {
        StatusCode::UNAUTHORIZED => Some(unauthorized(address)),
        StatusCode::UPGRADE_REQUIRED => Some(Error::job(format!(
            "the scheduler {address} asks for TLS, and this process has none: set {CLUSTER_CA} to the file of the authority that \
             signs the certificates of the cluster"
        ))),
        _ => None,
    }
}

fn unauthorized(address: &str) -> Error {
    let has = match Token::of_process() {
        Some(_) => "another one than this process has",
        None => "and this process has none",
    };
    Error::job(format!(
        "the scheduler {address} asks for a token, {has}: set {CLUSTER_TOKEN} to the value that the scheduler was started with"
    ))
}

/// The error of a process that made no TLS connection to the server at `address`; `None` if `failed` has another reason.
pub(super) fn by_tls(address: &str, failed: &reqwest::Error) -> Option<Error> {
    let why = tls_error(failed)?;
    let message = match why {
        rustls::Error::InvalidCertificate(_) => format!(
            "the certificate of the scheduler {address} cannot be trusted: give it one for this host that the authority in \
             {CLUSTER_CA} has signed"
        ),
        _ => format!(
            "there is no TLS connection to the scheduler {address}: start it with {CLUSTER_CERTIFICATE} and {CLUSTER_KEY}, or unset \
             {CLUSTER_CA} if the cluster has no TLS"
        ),
    };
    Some(Error::job(message).because(why.clone()))
}

/// The TLS error among the causes of `failed`.
fn tls_error(failed: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause = failed.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The content of an I/O error is not its source.
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(content) => Some(content),
            None => error.source(),
        };
    }
    None
}
