//! HTTP exchanges with a time limit, and threads that send events, spans and metrics.
//!
//! A command waits for all of these threads together at its end.

use std::cell::RefCell;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, ClientBuilder, RequestBuilder, StatusCode};
use url::Url;

use crate::address::masked;
use crate::cli::support::errors::sentences;
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

/// How long a command waits at its end.
const END_LIMIT: Duration = Duration::from_secs(2);

thread_local! {
    /// The senders of the command of this thread.
    static SENDERS: RefCell<Vec<Sender>> = const { RefCell::new(Vec::new()) };
}

struct Sender {
    what: &'static str,
    /// The result of the thread, or closed without one after a panic.
    ended: Receiver<Result<()>>,
}

/// Starts a thread that sends `what`, a plural with its article.
///
/// # Errors
/// [`Kind::Engine`](crate::error::Kind::Engine) when no thread can be started.
pub(in crate::cli) fn start(
    what: &'static str,
    send: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<()> {
    let (done, ended) = mpsc::channel();
    let span = tracing::Span::current();
    let work = move || {
        let _entered = span.entered();
        // The channel is closed when the wait is over.
        drop(done.send(send()));
    };
    let thread = std::thread::Builder::new().name("sender".into()).spawn(work);
    thread.map_err(|e| Error::engine("a thread cannot be started").because(e))?;
    SENDERS.with(|senders| senders.borrow_mut().push(Sender { what, ended }));
    Ok(())
}

/// Waits for at most two seconds until all has been sent. The first failure for each `what` is a warning.
pub(in crate::cli) fn wait() {
    wait_until(Instant::now() + END_LIMIT);
}

fn wait_until(end: Instant) {
    let mut failed = Vec::new();
    for Sender { what, ended } in SENDERS.with(RefCell::take) {
        let sent = match ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(sent) => sent,
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::input(format!("{what} were not sent within {} seconds", END_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::bug(format!("{what} were not sent"))),
        };
        if let Err(error) = sent
            && !failed.contains(&what)
        {
            failed.push(what);
            tracing::warn!("{}", sentences(&error).join("; because: "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_senders_have_the_same_limit() {
        let (release, blocked) = mpsc::channel::<()>();
        start("the events", move || {
            let _released = blocked.recv();
            Ok(())
        })
        .unwrap();
        start("the metrics", || Ok(())).unwrap();
        // The first is not released before this returns, and no other limit begins after this one.
        wait_until(Instant::now());
        drop(release);
        assert!(SENDERS.with(RefCell::take).is_empty());
    }
}
