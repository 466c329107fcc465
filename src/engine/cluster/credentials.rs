//! The credentials of the processes of a cluster, and the client side of their connections.
//!
//! With a certificate and an authority, all connections are TLS. With a token, every call carries it. A client of Ballista lets the
//! caller set one header on all of its connections, the user agent, so that header carries the token: as a SHA-256 digest, because a
//! header holds few characters.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::USER_AGENT;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use ballista_core::extension::{EndpointOverrideFn, SessionConfigExt};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::prelude::SessionConfig;
use http::Uri;
use http::uri::Scheme;
use reqwest::ClientBuilder;
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::address::secrets;
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, CLUSTER_TOKEN, Environment};
use crate::error::{Error, Result};

/// The authorities that the clients of this process trust. With them, every connection to the cluster is TLS.
#[derive(Clone)]
pub(crate) struct Trust {
    grpc: ClientTlsConfig,
    rest: Vec<reqwest::Certificate>,
}

impl Trust {
    /// By the file that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) when the file cannot be read or holds no certificate.
    pub(crate) fn of_process() -> Result<Option<Self>> {
        Environment::process().get(CLUSTER_CA).map(|path| Self::read(path.as_ref())).transpose()
    }

    fn read(path: &Path) -> Result<Self> {
        let mut rest = Vec::new();
        for certificate in certificates(CLUSTER_CA, path)? {
            let wrong = |e| unusable(CLUSTER_CA, path).because(e);
            rest.push(reqwest::Certificate::from_der(&certificate).map_err(wrong)?);
        }
        let grpc = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(std::fs::read(path)?));
        Ok(Self { grpc, rest })
    }

    /// `client`, which trusts no other authorities.
    pub(crate) fn of_client(&self, client: ClientBuilder) -> ClientBuilder {
        let client = client.tls_built_in_root_certs(false);
        self.rest.iter().cloned().fold(client, ClientBuilder::add_root_certificate)
    }

    /// `endpoint` over TLS. An executor of Ballista connects to its scheduler by `http`, whatever its settings are.
    ///
    /// # Errors
    /// When the host is no name that a certificate can have.
    pub(super) fn of_endpoint(
        &self,
        mut endpoint: Endpoint,
    ) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
        if endpoint.uri().scheme() != Some(&Scheme::HTTPS) {
            let mut parts = endpoint.uri().clone().into_parts();
            parts.scheme = Some(Scheme::HTTPS);
            endpoint =
                create_grpc_client_endpoint(Uri::from_parts(parts)?, Some(&GrpcClientConfig::default()))?;
        }
        let host = endpoint.uri().host().unwrap_or_default();
        // An IPv6 address has brackets in a URL, and none in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(endpoint.tls_config(self.grpc.clone().domain_name(host))?)
    }
}

/// What a server of this process accepts TLS connections with; `None` if the environment names no certificate.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when a certificate or its key is missing or cannot be used.
pub(super) fn acceptor() -> Result<Option<TlsAcceptor>> {
    let environment = Environment::process();
    let (certificate, key) = match (environment.get(CLUSTER_CERTIFICATE), environment.get(CLUSTER_KEY)) {
        (Some(certificate), Some(key)) => (Path::new(certificate), Path::new(key)),
        (None, None) => return Ok(None),
        _ => {
            return Err(Error::job(format!(
                "set both {CLUSTER_CERTIFICATE} and {CLUSTER_KEY}, or neither of them: a server needs its certificate and its key"
            )));
        }
    };
    acceptor_of(certificate, key).map(Some)
}

fn acceptor_of(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = certificates(CLUSTER_CERTIFICATE, certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(CLUSTER_KEY, key).because(e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|e| {
        let (certificate, key) = (certificate.display(), key.display());
        Error::job(format!("the certificate {certificate} and the key {key} cannot be used together"))
            .because(e)
    })?;
    // gRPC, and the HTTP interface of a scheduler.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificates of the file that `variable` names.
fn certificates(variable: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|e| unusable(variable, path).because(e))?;
    if found.is_empty() {
        return Err(unusable(variable, path));
    }
    Ok(found)
}

fn unusable(variable: &str, path: &Path) -> Error {
    let expected = if variable == CLUSTER_KEY { "a private key" } else { "certificates" };
    Error::job(format!("{variable} names {}: expected a file with {expected} as PEM", path.display()))
}

/// The secret of a cluster.
#[derive(Clone)]
pub(crate) struct ClusterToken {
    /// The user agent of those who know it.
    user_agent: Arc<str>,
}

impl ClusterToken {
    /// The secret in the environment of this process; `None` if no secret is set.
    pub(crate) fn of_process() -> Option<Self> {
        Environment::process().get(CLUSTER_TOKEN).map(Self::new)
    }

    fn new(secret: &str) -> Self {
        let mut user_agent = "resemblance/".to_owned();
        for byte in Sha256::digest(secret.as_bytes()) {
            // Writing to a string does not fail.
            let _ = write!(user_agent, "{byte:02x}");
        }
        secrets::remember_secret(&user_agent);
        Self { user_agent: user_agent.into() }
    }

    /// The user agent of a client that knows it.
    pub(super) fn user_agent(&self) -> &str {
        &self.user_agent
    }

    /// `routes` that answer only requests which carry the secret.
    pub(super) fn guard(&self, routes: Router) -> Router {
        let token = self.clone();
        routes.layer(from_fn(move |request: Request, next: Next| {
            let knows = token.is_in(&request);
            async move { if knows { next.run(request).await } else { no_token() } }
        }))
    }

    fn is_in(&self, request: &Request) -> bool {
        let given = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
        // Clients add their own names.
        let given = given.and_then(|given| given.split(' ').next()).unwrap_or_default();
        // All bytes are compared, so that the time does not tell how many are right.
        let differing = given.bytes().zip(self.user_agent.bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
        differing == 0 && given.len() == self.user_agent.len()
    }
}

fn no_token() -> Response {
    (StatusCode::UNAUTHORIZED, "this cluster asks for its token, which the request does not have\n")
        .into_response()
}

/// The longest time in which a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection with requests that wait is probed this often.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection whose probe is not answered within this time is closed, and its requests fail. Longer than a busy process needs.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The change to the endpoints of Ballista's clients.
///
/// Those that fetch shuffled partitions have no timeout of Ballista's. Where packets are lost without a word, a task would wait as
/// long as TCP sends them again, up to a quarter of an hour, and keep its slot even if its stage is cancelled: tasks that
/// were begun cannot be cancelled by a scheduler that executors poll.
pub(super) fn endpoints(trust: Option<&Trust>) -> EndpointOverrideFn {
    let (token, trust) = (ClusterToken::of_process(), trust.cloned());
    Arc::new(move |mut endpoint| {
        if let Some(trust) = &trust {
            endpoint = trust.of_endpoint(endpoint)?;
        }
        if let Some(token) = &token {
            endpoint = endpoint.user_agent(token.user_agent())?;
        }
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
        Ok(endpoint.http2_keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
    })
}

/// A session's configuration whose connections have these endpoints.
pub(super) fn with_endpoints(config: SessionConfig, trust: Option<&Trust>) -> SessionConfig {
    let config = if trust.is_some() { config.with_ballista_use_tls(true) } else { config };
    config.with_ballista_override_create_grpc_client_endpoint(endpoints(trust))
}

/// The scheme of a URL of the cluster.
pub(super) fn scheme(trust: Option<&Trust>) -> &'static str {
    if trust.is_some() { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens() {
        let token = ClusterToken::new("hush hush, \u{e4}");
        let request = |user_agent: &str| {
            Request::builder().header(USER_AGENT, user_agent).body(axum::body::Body::empty()).unwrap()
        };
        assert!(token.is_in(&request(token.user_agent())));
        assert!(token.is_in(&request(&format!("{} tonic/0.14", token.user_agent()))));
        let (short, other) = (&token.user_agent()[..30], ClusterToken::new("hush"));
        for wrong in [short, other.user_agent(), "", "tonic/0.14", "resemblance/"] {
            assert!(!token.is_in(&request(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&Request::new(axum::body::Body::empty())));
        assert!(!token.user_agent().contains("hush"));
    }
}
