//! Sends HTTP requests with a time limit, and runs the threads that send events, spans and metrics.

use std::cell::RefCell;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, ClientBuilder, Method, RequestBuilder, StatusCode};
use url::Url;

use crate::address::masked;
use crate::cli::screen::print::one_line;
use crate::error::{Error, Result, chain};

/// Sends a request. Returns the status, and the first line of the body, cut off at 200 characters. Fails with `Kind::Engine` if no answer
/// arrives within `limit`.
pub(crate) fn exchange(
    limit: Duration,
    client: ClientBuilder,
    request: impl FnOnce(Client) -> RequestBuilder,
) -> Result<(StatusCode, String)> {
    // Only the innermost error says why the request failed.
    let why = |e: reqwest::Error| chain(&e.without_url()).last().map(|cause| cause.to_string());
    let failed = |e| Error::engine(why(e).unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        // Redirects are not followed, so that no other host receives the secrets.
        let client =
            client.redirect(Policy::none()).connect_timeout(limit).timeout(limit).build().map_err(failed)?;
        let answer = request(client).send().await.map_err(failed)?;
        let status = answer.status();
        // The status is valid even if the body cannot be read completely.
        let body = answer.text().await.unwrap_or_default();
        // The text is masked before it is cut off, because a part of a secret would not be recognised.
        let first = masked(body.lines().next().unwrap_or_default());
        Ok((status, first.chars().take(200).collect()))
    });
    // Does not wait for a DNS lookup that hangs.
    runtime.shutdown_background();
    answer
}

/// Sends `body` to `url`. `noun` names the body in messages. Fails with `Kind::Input` if the status is not a success, or if no answer
/// arrives within `limit`.
pub(crate) fn send(
    limit: Duration,
    method: Method,
    url: &Url,
    noun: &str,
    headers: HeaderMap,
    body: impl Into<Body>,
) -> Result<()> {
    let refused = |how: &str| format!("{} does not accept {noun}{how}", without_secrets(url));
    let request = |client: Client| client.request(method, url.clone()).headers(headers).body(body);
    let (status, answer) =
        exchange(limit, Client::builder(), request).map_err(|e| Error::input(refused("")).because(e))?;
    if status.is_success() {
        return Ok(());
    }
    Err(Error::input(refused(&format!(": it answers {status}: {answer}"))))
}

/// Returns the URL without user, password and query.
pub(crate) fn without_secrets(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The maximum time for which a command waits for its senders at its end.
const END_LIMIT: Duration = Duration::from_secs(2);

thread_local! {
    static SENDERS: RefCell<Vec<Sender>> = const { RefCell::new(Vec::new()) };
}

struct Sender {
    /// The noun for the sent data in messages: plural, with an article.
    noun: &'static str,
    /// Receives the result of the thread. It is closed without a result if the thread panics.
    ended: Receiver<Result<()>>,
}

/// Starts a thread that calls `send`. Fails with `Kind::Engine` if the thread cannot be started.
pub(crate) fn start(noun: &'static str, send: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (done, ended) = mpsc::channel();
    let span = tracing::Span::current();
    let work = move || {
        let _entered = span.entered();
        // Sending fails if the command no longer waits.
        drop(done.send(send()));
    };
    let thread = std::thread::Builder::new().name("sender".into()).spawn(work);
    thread.map_err(|e| Error::engine("a thread cannot be started").because(e))?;
    SENDERS.with(|senders| senders.borrow_mut().push(Sender { noun, ended }));
    Ok(())
}

/// Waits up to two seconds in total for all senders. The first failure for each noun is logged as a warning.
pub(crate) fn wait() {
    wait_until(Instant::now() + END_LIMIT);
}

fn wait_until(end: Instant) {
    let mut failed = Vec::new();
    for Sender { noun, ended } in SENDERS.with(RefCell::take) {
        let sent = match ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(sent) => sent,
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::input(format!("{noun} were not sent within {} seconds", END_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::bug(format!("{noun} were not sent"))),
        };
        if let Err(error) = sent
            && !failed.contains(&noun)
        {
            failed.push(noun);
            tracing::warn!("{}", one_line(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_senders_share_one_limit() {
        let (release, blocked) = mpsc::channel::<()>();
        start("the events", move || {
            let _released = blocked.recv();
            Ok(())
        })
        .unwrap();
        start("the metrics", || Ok(())).unwrap();
        // The first sender is still blocked when `wait_until` returns.
        wait_until(Instant::now());
        drop(release);
        assert!(SENDERS.with(RefCell::take).is_empty());
    }
}
