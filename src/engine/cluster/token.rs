//! The shared secret of a cluster, which every call between its processes carries.
//!
//! A client of Ballista lets the caller set one header on all of its connections, the user agent, so that header carries the
//! secret: as a SHA-256 digest, because a header holds few characters.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::USER_AGENT;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::address::secrets;
use crate::environment::Environment;

/// The secret of a cluster.
#[derive(Clone)]
pub(crate) struct Token {
    /// The user agent of those who know it.
    user_agent: Arc<str>,
}

impl Token {
    /// The secret in the environment of this process; `None` if no secret is set.
    pub(crate) fn of_process() -> Option<Self> {
        Environment::of_process().cluster_token().map(Self::new)
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
            async move { if knows { next.run(request).await } else { refused() } }
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

fn refused() -> Response {
    (StatusCode::UNAUTHORIZED, "this cluster asks for its token, which the request does not have\n")
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens() {
        let token = Token::new("hush hush, \u{e4}");
        let request = |user_agent: &str| {
            Request::builder().header(USER_AGENT, user_agent).body(axum::body::Body::empty()).unwrap()
        };
        assert!(token.is_in(&request(token.user_agent())));
        assert!(token.is_in(&request(&format!("{} tonic/0.14", token.user_agent()))));
        let (short, other) = (&token.user_agent()[..30], Token::new("hush"));
        for wrong in [short, other.user_agent(), "", "tonic/0.14", "resemblance/"] {
            assert!(!token.is_in(&request(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&Request::new(axum::body::Body::empty())));
        assert!(!token.user_agent().contains("hush"));
    }
}
