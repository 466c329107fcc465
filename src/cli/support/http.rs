//! One HTTP exchange with an end: what is asked of other programs on the way.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode};

use crate::error::{Error, Result};

/// Whether the proxies that the environment names are gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Proxies {
    OfTheEnvironment,
    None,
}

/// Sends what `request` makes of a client, and returns the answer's status and the first line of its body, at most
/// 200 characters.
///
/// # Errors
/// [`Kind::Engine`](crate::error::Kind::Engine) when there is no answer within `limit`. The message names no URL, for
/// URLs may hold passwords.
pub(in crate::cli) fn exchange(
    limit: Duration,
    through: Proxies,
    request: impl FnOnce(Client) -> RequestBuilder,
) -> Result<(StatusCode, String)> {
    let failed = |e: reqwest::Error| Error::engine("the HTTP exchange failed").because(e.without_url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let client = Client::builder().connect_timeout(limit).timeout(limit);
        let client = match through {
            Proxies::OfTheEnvironment => client,
            Proxies::None => client.no_proxy(),
        };
        let client = client.build().map_err(failed)?;
        let answer = request(client).send().await.map_err(failed)?;
        let status = answer.status();
        // The status has said what matters; a body that breaks off is no reason to doubt it.
        let body = answer.text().await.unwrap_or_default();
        Ok((status, body.lines().next().unwrap_or_default().chars().take(200).collect()))
    });
    // A look-up of a name may hang longer than the limit: the process does not wait for it.
    runtime.shutdown_background();
    answer
}
