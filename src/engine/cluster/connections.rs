//! Both sides of a cluster's connections, with its token and TLS.
//!
//! With a certificate and an authority, all connections use TLS. With a token, every call carries the token. Ballista lets the caller set
//! only one header on all connections of a client, the user agent, so this header carries the token. It is sent as a SHA-256 digest,
//! because a header allows only some characters.
//!
//! A server limits the number of connections without an answered request, and closes them after some time. Otherwise, anybody could use
//! up all connections of a process with requests that never end.
//!
//! No process answers requests of web pages. A browser on the scheduler's machine can reach the scheduler, and any page could make it
//! send a request.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN, USER_AGENT};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::{Listener, ListenerExt};
use ballista_core::extension::{EndpointOverrideFn, SessionConfigExt};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::Uri;
use http::uri::Scheme;
use parking_lot::Mutex;
use reqwest::ClientBuilder;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::address::secrets;
use crate::environment::{CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY, CLUSTER_TOKEN, Environment};
use crate::error::{Error, Result};

/// The authorities that the clients of this process trust. If they are set, every connection to the cluster uses TLS.
#[derive(Clone)]
pub(crate) struct Trust {
    grpc: ClientTlsConfig,
    rest: Vec<reqwest::Certificate>,
}

impl Trust {
    /// Reads the file that the environment names, if it names one. Fails with `Kind::Job` if the file cannot be read or contains no
    /// certificate.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
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

    pub(crate) fn add_to_client(&self, client: ClientBuilder) -> ClientBuilder {
        let client = client.tls_built_in_root_certs(false);
        self.rest.iter().cloned().fold(client, ClientBuilder::add_root_certificate)
    }

    /// Returns `endpoint` over TLS. Replaces the scheme, because Ballista's executor always uses `http` for its scheduler.
    fn secure(&self, mut endpoint: Endpoint) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
        if endpoint.uri().scheme() != Some(&Scheme::HTTPS) {
            let mut parts = endpoint.uri().clone().into_parts();
            parts.scheme = Some(Scheme::HTTPS);
            endpoint =
                create_grpc_client_endpoint(Uri::from_parts(parts)?, Some(&GrpcClientConfig::default()))?;
        }
        let host = endpoint.uri().host().unwrap_or_default();
        // An IPv6 address has brackets in a URL, but not in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(endpoint.tls_config(self.grpc.clone().domain_name(host))?)
    }
}

/// Returns the TLS acceptor of the servers of this process, if the environment names a certificate. Fails with `Kind::Job` if a
/// certificate or its key is missing or cannot be used.
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
    // HTTP/2 for gRPC, and HTTP/1.1 for the HTTP interface of a scheduler.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Reads the certificates in the file that `variable` names.
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

/// The secret of a cluster, in the form of the user agent that clients send.
#[derive(Clone)]
pub(crate) struct ClusterToken {
    user_agent: Arc<str>,
}

impl ClusterToken {
    pub(crate) fn from_environment() -> Option<Self> {
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

    pub(super) fn user_agent(&self) -> &str {
        &self.user_agent
    }

    /// Returns `routes` with a check that refuses requests without the secret.
    fn guard(&self, routes: Router) -> Router {
        let token = self.clone();
        routes.layer(from_fn(move |request: Request, next: Next| {
            let knows = token.is_in(&request);
            async move {
                if knows {
                    return next.run(request).await;
                }
                let refusal = "this cluster asks for its token, which the request does not have\n";
                (StatusCode::UNAUTHORIZED, refusal).into_response()
            }
        }))
    }

    fn is_in(&self, request: &Request) -> bool {
        let given = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
        // Clients append their own names to the user agent.
        let given = given.and_then(|given| given.split(' ').next()).unwrap_or_default();
        // Compares all bytes, so that the time does not reveal how many are correct.
        let differing = given.bytes().zip(self.user_agent.bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
        differing == 0 && given.len() == self.user_agent.len()
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// The interval of probes on a connection with waiting requests.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The time limit of an answer to a probe. Even a busy process answers in time. Otherwise the connection is closed, and its requests
/// fail.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the function that configures the endpoints of Ballista's clients.
///
/// Ballista sets no timeout for fetching shuffled partitions. If packets are lost silently, TCP resends them for up to a quarter of an
/// hour while the task waits. The task would keep its slot even after its stage is cancelled, because a scheduler cannot cancel tasks
/// that polling executors have started.
pub(super) fn endpoints(trust: Option<&Trust>) -> EndpointOverrideFn {
    let (token, trust) = (ClusterToken::from_environment(), trust.cloned());
    Arc::new(move |mut endpoint| {
        if let Some(trust) = &trust {
            endpoint = trust.secure(endpoint)?;
        }
        if let Some(token) = &token {
            endpoint = endpoint.user_agent(token.user_agent())?;
        }
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
        Ok(endpoint.http2_keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
    })
}

/// Returns a session configuration whose connections use [`endpoints`].
pub(super) fn with_endpoints(config: SessionConfig, trust: Option<&Trust>) -> SessionConfig {
    let config = if trust.is_some() { config.with_ballista_use_tls(true) } else { config };
    config.with_ballista_override_create_grpc_client_endpoint(endpoints(trust))
}

pub(super) fn scheme(trust: Option<&Trust>) -> &'static str {
    if trust.is_some() { "https" } else { "http" }
}

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection. No HTTP request starts with it.
const HANDSHAKE: u8 = 22;

/// The maximum number of bytes that are read of a request without TLS.
const MAX_REQUEST: u64 = 64 << 10;

/// The answer to a request without TLS, which tells the client to use TLS.
const WITHOUT_TLS: &[u8] =
    b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 26\r\nConnection: close\r\n\r\nthis cluster asks for TLS\n";

/// Serves `routes` to clients with the token of this process, or to all clients if there is no token. Serves `open` to all clients. Ends
/// when `stopped` is ready. Handlers can read the client's address.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Router,
    open: Router,
    acceptor: Option<TlsAcceptor>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (token, strangers) = (ClusterToken::from_environment(), Strangers::default());
    // A certificate proves the name of the server, so the host of a request need not be checked.
    let named_locally =
        token.is_none() && acceptor.is_none() && listener.local_addr()?.ip().to_canonical().is_loopback();
    let routes = strangers.forget_after_request(routes);
    let routes = token.iter().fold(routes, |routes, token| token.guard(routes));
    let routes = without_web_pages(routes.merge(open), named_locally);
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    let listener = Entrance { listener, strangers };
    match acceptor {
        Some(acceptor) => {
            let handshakes = FuturesUnordered::new();
            // Axum only passes on the address of a client for its own types of listeners.
            let listener = TlsListener { listener, acceptor, handshakes }.tap_io(|_| {});
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        }
        None => axum::serve(listener.tap_io(|_| {}), service).with_graceful_shutdown(stopped).await,
    }
}

/// Routes `/healthz`, which answers while the process lives, and `/readyz`, which fails with `missing` unless the process is ready.
pub(super) fn health(
    is_ready: impl FnOnce() -> bool + Clone + Send + Sync + 'static,
    missing: &'static str,
) -> Router {
    let ready = move || async move {
        if is_ready() { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, missing) }
    };
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready))
}

/// A TLS connection with the address of its client, or `None` if the handshake failed.
type Shaken = Option<(TlsStream<TcpStream>, SocketAddr)>;

/// Accepts TLS connections. A slow client does not block other clients.
struct TlsListener {
    listener: Entrance,
    acceptor: TlsAcceptor,
    handshakes: FuturesUnordered<BoxFuture<'static, Shaken>>,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, client) = self.listener.accept() => {
                    let acceptor = self.acceptor.clone();
                    self.handshakes.push(Box::pin(async move {
                        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(acceptor, stream)).await;
                        match shaken.unwrap_or_else(|late| Err(late.into())) {
                            Ok(stream) => Some((stream, client)),
                            Err(why) => {
                                tracing::debug!(%client, %why, "no TLS connection");
                                None
                            }
                        }
                    }));
                }
                Some(shaken) = self.handshakes.next() => {
                    if let Some(accepted) = shaken {
                        return accepted;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn handshake(acceptor: TlsAcceptor, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? > 0 && first != [HANDSHAKE] {
        stream.write_all(WITHOUT_TLS).await?;
        stream.shutdown().await?;
        // Closing a connection with unread bytes could discard the answer.
        tokio::io::copy(&mut stream.take(MAX_REQUEST), &mut tokio::io::sink()).await?;
        return Err(io::Error::other("the client speaks no TLS"));
    }
    acceptor.accept(stream).await
}

/// The time limit for the first request of a client and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum number of [`Stranger`]s. If there are this many, a new stranger replaces the oldest one.
const MAX_STRANGERS: usize = 256;

/// A client whose first request is not yet answered.
struct Stranger {
    address: SocketAddr,
    /// A second handle of the connection, to close it.
    connection: std::net::TcpStream,
}

/// The strangers of a listener, oldest first.
#[derive(Clone, Default)]
struct Strangers(Arc<Mutex<VecDeque<Stranger>>>);

impl Strangers {
    /// Returns `routes` with a layer that removes a client from the strangers at its first request.
    fn forget_after_request(&self, routes: Router) -> Router {
        let strangers = self.clone();
        routes.layer(from_fn(
            move |ConnectInfo(address): ConnectInfo<SocketAddr>, request: Request, next: Next| {
                strangers.0.lock().retain(|stranger| stranger.address != address);
                next.run(request)
            },
        ))
    }

    fn add(&self, stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
        let connection = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned()?);
        let first = {
            let mut strangers = self.0.lock();
            // An earlier connection from this address has ended, so it is no stranger any more.
            strangers.retain(|stranger| stranger.address != address);
            strangers.push_back(Stranger { address, connection });
            if strangers.len() > MAX_STRANGERS { strangers.pop_front() } else { None }
        };
        first.iter().for_each(end);
        Ok(())
    }

    /// Closes the connection from `address` if it is a stranger.
    fn end(&self, address: SocketAddr) {
        let mut strangers = self.0.lock();
        let at = strangers.iter().position(|stranger| stranger.address == address);
        at.and_then(|at| strangers.remove(at)).iter().for_each(end);
    }
}

fn end(stranger: &Stranger) {
    tracing::debug!(client = %stranger.address, "a connection is closed: no request came that is answered here");
    // The client may already have closed the connection.
    let _ = stranger.connection.shutdown(Shutdown::Both);
}

/// A listener that registers new connections as strangers.
struct Entrance {
    listener: TcpListener,
    strangers: Strangers,
}

impl Listener for Entrance {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Without this option, the end of an answer can wait 40 ms until the client acknowledges its beginning.
            let ready = stream.set_nodelay(true).and_then(|()| self.strangers.add(&stream, address));
            match ready {
                Ok(()) => {
                    let strangers = self.strangers.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(PATIENCE).await;
                        strangers.end(address);
                    });
                    return (stream, address);
                }
                Err(why) => tracing::debug!(client = %address, %why, "no connection"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Returns `routes` with a check that refuses requests of web pages. With `named_locally`, also refuses host names with a domain. A page
/// can reach this machine under its own host name (DNS rebinding), and its requests then look like requests of programs.
fn without_web_pages(routes: Router, named_locally: bool) -> Router {
    routes.layer(from_fn(move |request: Request, next: Next| async move {
        if request.headers().contains_key(ORIGIN) || named_locally && !is_named_locally(&request) {
            return (StatusCode::FORBIDDEN, "a cluster answers no web pages\n").into_response();
        }
        next.run(request).await
    }))
}

/// Whether the request's host is an address, or a name without a domain such as localhost.
fn is_named_locally(request: &Request) -> bool {
    let header = || request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let Some(authority) = request.uri().authority().cloned().or_else(header) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.parse::<IpAddr>().is_ok() || !host.trim_end_matches('.').contains('.')
}

/// Listens on `address`, the value of the option `option`. Fails with `Kind::Input` if the address cannot be used.
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
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_the_whole_secret_opens() {
        let token = ClusterToken::new("hush hush, \u{e4}");
        let request =
            |user_agent: &str| Request::builder().header(USER_AGENT, user_agent).body(Body::empty()).unwrap();
        assert!(token.is_in(&request(token.user_agent())));
        assert!(token.is_in(&request(&format!("{} tonic/0.14", token.user_agent()))));
        let (short, other) = (&token.user_agent()[..30], ClusterToken::new("hush"));
        for wrong in [short, other.user_agent(), "", "tonic/0.14", "resemblance/"] {
            assert!(!token.is_in(&request(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&Request::new(Body::empty())));
        assert!(!token.user_agent().contains("hush"));
    }

    #[test]
    fn a_host_is_local_by_its_address_or_without_a_domain() {
        let is_local = |uri: &str, host: Option<&str>| {
            let request = Request::builder().uri(uri);
            let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
            is_named_locally(&request.body(Body::empty()).unwrap())
        };
        for local in ["127.0.0.1:50050", "localhost:50050", "[::1]:50050", "scheduler", "localhost.:1"] {
            assert!(is_local("/api/jobs", Some(local)), "{local}");
            assert!(is_local(&format!("http://{local}/api/jobs"), None), "{local}");
        }
        for foreign in ["evil.example:50050", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"] {
            assert!(!is_local("/api/jobs", Some(foreign)), "{foreign}");
        }
        assert!(!is_local("http://evil.example/", Some("localhost")) && !is_local("/api/jobs", None));
    }

    #[tokio::test]
    async fn the_reason_is_a_used_or_a_foreign_address() {
        let taken = listen("127.0.0.1:0".parse().unwrap(), "--bind").await.unwrap();
        // No machine has an address in 192.0.2.0/24, which is reserved for documentation.
        for (address, why) in [
            (taken.local_addr().unwrap(), "another process listens there"),
            ("192.0.2.1:50050".parse().unwrap(), "this machine has no such address"),
        ] {
            let error = listen(address, "--bind").await.unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(&address.to_string()), "{error}");
        }
    }
}
