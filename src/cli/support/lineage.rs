//! Sends the OpenLineage events of a run, in a thread of their own.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::Value;

use crate::cli::support::errors::sentences;
use crate::cli::support::run_job::Ran;
use crate::cli::support::{http, record};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::lineage::{Destination, End, Events, Settings};

/// The time limit of one event.
const EVENT_LIMIT: Duration = Duration::from_secs(1);
/// How long a run waits at its end for both of its events.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The events of a run, if the environment asks for them. Nothing here fails the run: what goes wrong is a warning.
pub(in crate::cli) struct Lineage(Option<Open>);

struct Open {
    events: Events,
    queue: Sender<Value>,
    /// Closed when all events of the queue were sent.
    sent: Receiver<()>,
}

impl Lineage {
    /// Sends the event of the start of the run `run_id` of the job `name`. There is no `job` if it cannot be read.
    pub(in crate::cli) fn begin(run_id: &str, name: &str, job: Option<&Job>) -> Self {
        let opened = Settings::read(Environment::of_process()).and_then(|settings| match settings {
            Some(settings) => Ok(Some(Open::new(Events::new(settings, run_id, name, job))?)),
            None => Ok(None),
        });
        Self(opened.unwrap_or_else(|error| {
            tracing::warn!("no OpenLineage events are sent: {}", sentences(&error).join("; because: "));
            None
        }))
    }

    /// Sends the event of the end, and waits for at most two seconds until all are sent.
    pub(in crate::cli) fn end(self, ran: Result<&Ran, &Error>) {
        let Some(Open { events, queue, sent }) = self.0 else { return };
        let end = match ran {
            Ok(ran) => End::Complete { manifest: &ran.outcome.manifest, verdicts: &ran.verdicts },
            Err(error) => End::Failed { error, described: sentences(error).join("; because: ") },
        };
        // The thread takes what is in the queue until that is closed.
        let _ = queue.send(events.end(&end, record::now()));
        drop(queue);
        if let Err(RecvTimeoutError::Timeout) = sent.recv_timeout(END_LIMIT) {
            tracing::warn!("the OpenLineage events were not sent within {} seconds", END_LIMIT.as_secs());
        }
    }
}

impl Open {
    /// Starts the thread that sends, with the event of the start.
    fn new(events: Events) -> Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let (done, sent) = mpsc::channel();
        let (span, destination) = (tracing::Span::current(), events.destination().clone());
        let first = events.start(record::now());
        let send_all = move || {
            let _entered = span.entered();
            for event in std::iter::once(first).chain(waiting) {
                if let Err(error) = send(&destination, &event) {
                    tracing::warn!("{}", sentences(&error).join("; because: "));
                }
            }
            drop(done);
        };
        std::thread::Builder::new()
            .name("lineage".into())
            .spawn(send_all)
            .map_err(|e| Error::engine("a thread cannot be started").because(e))?;
        Ok(Self { events, queue, sent })
    }
}

fn send(destination: &Destination, event: &Value) -> Result<()> {
    let (url, api_key) = match destination {
        Destination::Console => {
            tracing::info!("{event}");
            return Ok(());
        }
        Destination::Http { url, api_key } => (url, api_key),
    };
    let post = |client: reqwest::Client| {
        let body = event.to_string();
        let request =
            client.post(url.clone()).header(reqwest::header::CONTENT_TYPE, "application/json").body(body);
        match api_key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    };
    let (shown, kind) = (http::without_secrets(url), event["eventType"].as_str().unwrap_or_default());
    let refused = |how: &str| format!("{shown} does not accept the OpenLineage event {kind}{how}");
    let (status, answer) = http::exchange(EVENT_LIMIT, reqwest::Client::builder(), post)
        .map_err(|e| Error::input(refused("")).because(e))?;
    match status.is_success() {
        true => Ok(()),
        false => Err(Error::input(refused(&format!(": it answers {status}: {answer}")))),
    }
}
