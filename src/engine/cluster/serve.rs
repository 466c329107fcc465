//! The server side of a cluster's connections: routes on a listener, over TLS if this process has a certificate.
//!
//! Connections whose client has not shown yet that it may use the cluster are few, and none of them lasts long. Otherwise anybody
//! could take all of the connections that a process may have, by requests that never end.
//!
//! No process answers web pages. A browser on the machine of a scheduler reaches it, and a page of anybody could ask the browser to do
//! so.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::serve::{Listener, ListenerExt};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::credentials::ClusterToken;
use crate::error::{Error, Result};

/// How long a client may take until it has a TLS connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection, which is no first byte of HTTP.
const HANDSHAKE: u8 = 22;

/// The most bytes of a request without TLS that are read.
const MAX_REQUEST: u64 = 64 << 10;

/// The answer to a request without TLS. A client that gets it knows what it lacks.
const WITHOUT_TLS: &[u8] =
    b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 26\r\nConnection: close\r\n\r\nthis cluster asks for TLS\n";

/// Serves `routes` to those who know the token of this process, if it has one, and `open` to all, until `stopped` is done. Handlers
/// find the address of the client.
///
/// # Errors
/// When the listener fails.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Router,
    open: Router,
    acceptor: Option<TlsAcceptor>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (token, strangers) = (ClusterToken::of_process(), Strangers::default());
    // A name that a certificate proves is that of this process.
    let named_locally =
        token.is_none() && acceptor.is_none() && listener.local_addr()?.ip().to_canonical().is_loopback();
    let routes = strangers.introduced(routes);
    let routes = token.iter().fold(routes, |routes, token| token.guard(routes));
    let routes = without_web_pages(routes.merge(open), named_locally);
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    let listener = strangers.at(listener);
    match acceptor {
        Some(acceptor) => {
            let handshakes = FuturesUnordered::new();
            // Axum has the address of a client only for its own listeners.
            let listener = TlsListener { listener, acceptor, handshakes }.tap_io(|_| {});
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        }
        None => axum::serve(listener.tap_io(|_| {}), service).with_graceful_shutdown(stopped).await,
    }
}

/// A TLS connection and the address of its client; `None` if the handshake failed.
type Shaken = Option<(TlsStream<TcpStream>, SocketAddr)>;

/// Accepts TLS connections. A client that is slow to begin one keeps no other waiting.
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
        // To close a connection with unread bytes may lose the answer.
        tokio::io::copy(&mut stream.take(MAX_REQUEST), &mut tokio::io::sink()).await?;
        return Err(io::Error::other("the client speaks no TLS"));
    }
    acceptor.accept(stream).await
}

/// How long a client may take until its first request is answered.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most strangers at once. One more takes the place of the one that came first.
const MOST: usize = 256;

/// A connection of a stranger.
struct Stranger {
    address: SocketAddr,
    /// A second handle of the connection, which can end it.
    connection: std::net::TcpStream,
}

/// The strangers of a listener, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<VecDeque<Stranger>>>);

impl Strangers {
    /// `listener`, whose new connections are those of strangers.
    pub(super) fn at(&self, listener: TcpListener) -> Entrance {
        Entrance { listener, strangers: self.clone() }
    }

    /// `routes`, whose clients are no strangers after their first request.
    pub(super) fn introduced(&self, routes: Router) -> Router {
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
            // An earlier connection from there has ended.
            strangers.retain(|stranger| stranger.address != address);
            strangers.push_back(Stranger { address, connection });
            if strangers.len() > MOST { strangers.pop_front() } else { None }
        };
        first.iter().for_each(end);
        Ok(())
    }

    /// Ends the connection from `address`, if it is that of a stranger.
    fn end(&self, address: SocketAddr) {
        let mut strangers = self.0.lock();
        let at = strangers.iter().position(|stranger| stranger.address == address);
        at.and_then(|at| strangers.remove(at)).iter().for_each(end);
    }
}

fn end(stranger: &Stranger) {
    tracing::debug!(client = %stranger.address, "a connection is closed: no request came that is answered here");
    // The client may have closed it.
    let _ = stranger.connection.shutdown(Shutdown::Both);
}

/// A listener that counts strangers.
pub(super) struct Entrance {
    listener: TcpListener,
    strangers: Strangers,
}

impl Listener for Entrance {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Otherwise the end of an answer may wait 40 ms, until the client has acknowledged its beginning.
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

/// `routes` that refuse web pages. With `named_locally` they refuse every host name that a stranger can have too: a page from there
/// may have found this machine behind its own name (DNS rebinding), and its requests look like those of other programs.
fn without_web_pages(routes: Router, named_locally: bool) -> Router {
    routes.layer(from_fn(move |request: Request, next: Next| async move {
        match request.headers().contains_key(ORIGIN) || named_locally && !is_named_locally(&request) {
            true => (StatusCode::FORBIDDEN, "a cluster answers no web pages\n").into_response(),
            false => next.run(request).await,
        }
    }))
}

/// Whether the request names an address, or a host without a domain such as localhost.
fn is_named_locally(request: &Request) -> bool {
    let header = || request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let Some(authority) = request.uri().authority().cloned().or_else(header) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.parse::<IpAddr>().is_ok() || !host.trim_end_matches('.').contains('.')
}

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
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_host_is_local_by_its_address_or_without_a_domain() {
        let of = |uri: &str, host: Option<&str>| {
            let request = Request::builder().uri(uri);
            let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
            is_named_locally(&request.body(Body::empty()).unwrap())
        };
        for local in ["127.0.0.1:50050", "localhost:50050", "[::1]:50050", "scheduler", "localhost.:1"] {
            assert!(of("/api/jobs", Some(local)) && of(&format!("http://{local}/api/jobs"), None), "{local}");
        }
        for foreign in ["evil.example:50050", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"] {
            assert!(!of("/api/jobs", Some(foreign)), "{foreign}");
        }
        assert!(!of("http://evil.example/", Some("localhost")) && !of("/api/jobs", None));
    }

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
