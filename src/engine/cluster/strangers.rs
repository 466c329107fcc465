//! Connections whose client has not shown yet that it may use the cluster: there are few of them, and none of them for long.
//! Otherwise anybody could take all of the connections that a process may have, by requests that never end.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

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
