//! Threads that send events, spans and metrics. The command waits for all of them together at its end.

use std::cell::RefCell;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::cli::support::errors::sentences;
use crate::error::{Error, Result};

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
