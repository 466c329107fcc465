//! Requests of web pages, which no process of a cluster answers. A browser on the machine of a scheduler reaches it, and a page of
//! anybody could ask the browser to do so.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;

/// `routes` that refuse web pages. With `named_locally` they refuse every host name that a stranger can have too: a page from there
/// may have found this machine behind its own name (DNS rebinding), and its requests look like those of other programs.
pub(super) fn refused(routes: Router, named_locally: bool) -> Router {
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
}
