//! The server side of a cluster's connections: routes on a listener, over TLS if this process has a certificate.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::serve::{Listener, ListenerExt};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::strangers::{Entrance, Strangers};
use super::token::Token;
use super::web_pages;

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
    let (token, strangers) = (Token::of_process(), Strangers::default());
    // A name that a certificate proves is that of this process.
    let named_locally =
        token.is_none() && acceptor.is_none() && listener.local_addr()?.ip().to_canonical().is_loopback();
    let routes = strangers.introduced(routes);
    let routes = token.iter().fold(routes, |routes, token| token.guard(routes));
    let routes = web_pages::refused(routes.merge(open), named_locally);
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
