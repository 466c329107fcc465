//! An HTTP server for what runs send to other programs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

#[derive(Clone)]
pub struct Asked {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The body as a text, and as it came.
    pub body: String,
    pub bytes: Bytes,
}

/// An HTTP server on a port of its own that remembers what it was asked.
pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub fn start(status: StatusCode) -> Server {
        Self::answering(move |_| status.into_response())
    }

    pub fn answering(answered: impl Fn(&HeaderMap) -> Response + Clone + Send + Sync + 'static) -> Server {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let remembered = Arc::clone(&asked);
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, bytes: Bytes| async move {
            let body = String::from_utf8_lossy(&bytes).into_owned();
            let answer = answered(&headers);
            remembered.lock().unwrap().push(Asked { method, uri, headers, body, bytes });
            answer
        };
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
        Server { address, asked, runtime: Some(runtime) }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
