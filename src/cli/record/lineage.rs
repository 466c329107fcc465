//! Sends the OpenLineage events of a run in a separate thread.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::cli::process::run_job::Ran;
use crate::cli::record::http;
use crate::cli::screen::print::one_line;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::machine;
use crate::telemetry::lineage::{EventDestination, Events, LineageSettings};

const EVENT_LIMIT: Duration = Duration::from_secs(1);

/// The events of a run, and the queue to the thread that sends them, if the environment requests events. Errors are logged as warnings.
pub(crate) struct Lineage(Option<(Events, Sender<Value>)>);

impl Lineage {
    /// Sends the start event of the run `run_id` of the job `name`. `job` is `None` if it cannot be read.
    pub(crate) fn begin(run_id: &str, name: &str, job: Option<&Job>) -> Self {
        let opened = LineageSettings::read(Environment::process()).and_then(|settings| {
            settings.map(|settings| start_thread(Events::new(settings, run_id, name, job))).transpose()
        });
        Self(opened.unwrap_or_else(|error| {
            tracing::warn!("no OpenLineage events are sent: {}", one_line(&error));
            None
        }))
    }

    pub(crate) fn end(self, ran: Result<&Ran, &Error>) {
        let Some((events, queue)) = self.0 else { return };
        let event = match ran {
            Ok(ran) => events.complete(&ran.outcome.manifest, &ran.verdicts, machine::now()),
            Err(error) => events.failed(error, &one_line(error), machine::now()),
        };
        // Dropping the queue ends the thread after it has sent the last event.
        let _ = queue.send(event);
    }
}

/// Starts the thread, which sends the start event first.
fn start_thread(events: Events) -> Result<(Events, Sender<Value>)> {
    let (queue, waiting) = mpsc::channel();
    let (first, destination) = (events.start(machine::now()), events.settings.destination.clone());
    http::start("the OpenLineage events", move || {
        for event in std::iter::once(first).chain(waiting) {
            if let Err(error) = send(&destination, &event) {
                tracing::warn!("{}", one_line(&error));
            }
        }
        Ok(())
    })?;
    Ok((events, queue))
}

fn send(destination: &EventDestination, event: &Value) -> Result<()> {
    let EventDestination::Http { url, api_key } = destination else {
        tracing::info!("{event}");
        return Ok(());
    };
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    if let Some(key) = api_key {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|e| Error::input("the API key cannot be the value of a header").because(e))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let noun = format!("the OpenLineage event {}", event["eventType"].as_str().unwrap_or_default());
    http::send(EVENT_LIMIT, Method::POST, url, &noun, headers, event.to_string())
}
