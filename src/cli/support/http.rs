//! One HTTP exchange with a time limit.

use std::time::Duration;

use reqwest::{Client, ClientBuilder, RequestBuilder, StatusCode};
use url::Url;

use crate::error::{Error, Result};

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
    let failed = |e: reqwest::Error| Error::engine("the HTTP exchange failed").because(e.without_url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let client = client.connect_timeout(limit).timeout(limit).build().map_err(failed)?;
        let answer = request(client).send().await.map_err(failed)?;
        let status = answer.status();
        // The status decides, even if the body breaks off.
        let body = answer.text().await.unwrap_or_default();
        Ok((status, body.lines().next().unwrap_or_default().chars().take(200).collect()))
    });
    // A DNS look-up may hang longer than the limit: do not wait for it.
    runtime.shutdown_background();
    answer
}

/// Host and path, without a user, a password or a query.
pub(in crate::cli) fn without_secrets(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
