//! Sends the OpenLineage events of a run, in a thread of their own.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::cli::support::errors::sentences;
use crate::cli::support::http;
use crate::cli::support::run_job::Ran;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::lineage::{EventDestination, Events, LineageSettings, RunEnd};
use crate::machine;

/// The time limit of one event.
const EVENT_LIMIT: Duration = Duration::from_secs(1);

/// The events of a run, if the environment asks for them. Nothing here fails the run: what goes wrong is a warning.
pub(in crate::cli) struct Lineage(Option<OpenRun>);

struct OpenRun {
    events: Events,
    queue: Sender<Value>,
}

impl Lineage {
    /// Sends the event of the start of the run `run_id` of the job `name`. There is no `job` if it cannot be read.
    pub(in crate::cli) fn begin(run_id: &str, name: &str, job: Option<&Job>) -> Self {
        let opened = LineageSettings::read(Environment::of_process()).and_then(|settings| match settings {
            Some(settings) => Ok(Some(OpenRun::new(Events::new(settings, run_id, name, job))?)),
            None => Ok(None),
        });
        Self(opened.unwrap_or_else(|error| {
            tracing::warn!("no OpenLineage events are sent: {}", sentences(&error).join("; because: "));
            None
        }))
    }

    /// Sends the event of the end.
    pub(in crate::cli) fn end(self, ran: Result<&Ran, &Error>) {
        let Some(OpenRun { events, queue }) = self.0 else { return };
        let end = match ran {
            Ok(ran) => RunEnd::Complete { manifest: &ran.outcome.manifest, verdicts: &ran.verdicts },
            Err(error) => RunEnd::Failed { error, described: sentences(error).join("; because: ") },
        };
        // The thread takes what is in the queue until that is closed, which it is here.
        let _ = queue.send(events.end(&end, machine::now()));
    }
}

impl OpenRun {
    /// Starts the thread that sends, with the event of the start.
    fn new(events: Events) -> Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let (first, destination) = (events.start(machine::now()), events.destination().clone());
        http::start("the OpenLineage events", move || {
            for event in std::iter::once(first).chain(waiting) {
                if let Err(error) = send(&destination, &event) {
                    tracing::warn!("{}", sentences(&error).join("; because: "));
                }
            }
            Ok(())
        })?;
        Ok(Self { events, queue })
    }
}

fn send(destination: &EventDestination, event: &Value) -> Result<()> {
    let (url, api_key) = match destination {
        EventDestination::Console => {
            tracing::info!("{event}");
            return Ok(());
        }
        EventDestination::Http { url, api_key } => (url, api_key),
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = api_key {
        let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut bearer =
            bearer.map_err(|e| Error::input("the API key is no value of a header").because(e))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let what = format!("the OpenLineage event {}", event["eventType"].as_str().unwrap_or_default());
    http::post(EVENT_LIMIT, url, &what, headers, event.to_string())
}
