//! One HTTP exchange with a time limit.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, ClientBuilder, RequestBuilder, StatusCode};
use url::Url;

use crate::address::masked;
use crate::error::{Error, Result, chain};

/// Sends `request` by `client`, and returns the status and the first line of the body, at most 200 characters.
///
/// # Errors
/// [`Kind::Engine`](crate::error::Kind::Engine) when there is no answer within `limit`. The message names no URL, for
/// URLs may hold passwords.
pub(in crate::cli) fn exchange(
    limit: Duration,
    client: ClientBuilder,
    request: impl FnOnce(Client) -> RequestBuilder,
) -> Result<(StatusCode, String)> {
    // The outer errors only say that a request was sent.
    let why = |e: reqwest::Error| chain(&e.without_url()).last().map(|cause| cause.to_string());
    let failed = |e| Error::engine(why(e).unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        // A redirect is an answer: another host gets no secrets.
        let client =
            client.redirect(Policy::none()).connect_timeout(limit).timeout(limit).build().map_err(failed)?;
        let answer = request(client).send().await.map_err(failed)?;
        let status = answer.status();
        // The status decides, even if the body breaks off.
        let body = answer.text().await.unwrap_or_default();
        // A secret that is cut would not be recognised.
        let first = masked(body.lines().next().unwrap_or_default());
        Ok((status, first.chars().take(200).collect()))
    });
    // A DNS look-up may hang longer than the limit: do not wait for it.
    runtime.shutdown_background();
    answer
}

/// Posts `body` to `url`, whose answer must be a success. `what` is sent, for messages.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with `what`, and the URL without secrets, when there is no answer within
/// `limit` or another status.
pub(in crate::cli) fn post(
    limit: Duration,
    url: &Url,
    what: &str,
    headers: HeaderMap,
    body: impl Into<Body>,
) -> Result<()> {
    let refused = |how: &str| format!("{} does not accept {what}{how}", without_secrets(url));
    let request = |client: Client| client.post(url.clone()).headers(headers).body(body);
    let (status, answer) =
        exchange(limit, Client::builder(), request).map_err(|e| Error::input(refused("")).because(e))?;
    match status.is_success() {
        true => Ok(()),
        false => Err(Error::input(refused(&format!(": it answers {status}: {answer}")))),
    }
}

/// Host and path, without a user, a password or a query.
pub(in crate::cli) fn without_secrets(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
