//! Records what the command of this process does, and sends it when the command ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use crate::apply;
use crate::cli::support::errors::sentences;
use crate::cli::support::http;
use crate::engine::{Both, Progress};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::machine;
use crate::pipeline::Outcome;
use crate::telemetry::{
    CollectorRequest, CommandFailure, Recorded, TelemetrySettings, of_application, of_job, of_run,
};

/// The time limit of a request, so that its own error comes before the end of the wait for all senders.
const REQUEST_LIMIT: Duration = Duration::from_millis(1_800);

thread_local! {
    /// The command of this thread, if the environment names a collector.
    static CURRENT: RefCell<Option<Arc<Recorded>>> = const { RefCell::new(None) };
}

fn current() -> Option<Arc<Recorded>> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Begins the command of this name, if the environment names a collector. Nothing here fails the command: what goes wrong is a
/// warning.
pub(in crate::cli) fn begin(command: &str, run_id: Option<&str>) {
    let settings = TelemetrySettings::read(Environment::of_process()).unwrap_or_else(|error| {
        tracing::warn!("no spans and no metrics are sent: {}", sentences(&error).join("; because: "));
        None
    });
    let Some(settings) = settings else { return };
    let recorded = Recorded::begin(settings, command, machine::now());
    if let Some(id) = run_id {
        recorded.set_text("resemblance.run.id", id);
    }
    CURRENT.with(|current| current.replace(Some(Arc::new(recorded))));
}

/// Progress whose stages become spans too.
pub(in crate::cli) fn watched(shown: Arc<dyn Progress>) -> Arc<dyn Progress> {
    match current() {
        Some(recorded) => Arc::new(Both(recorded, shown)),
        None => shown,
    }
}

/// The command runs `job`.
pub(in crate::cli) fn runs(job: &Job) {
    if let Some(recorded) = current() {
        recorded.set(of_job(job));
    }
}

/// The run of the command ended so.
pub(in crate::cli) fn ran(outcome: &Outcome) {
    if let Some(recorded) = current() {
        recorded.set(of_run(outcome));
    }
}

/// The command wrote this to the folder `to`.
pub(in crate::cli) fn applied(to: &str, outcome: &apply::ApplyOutcome) {
    if let Some(recorded) = current() {
        recorded.set(of_application(to, outcome));
    }
}

/// The run has these metrics.
pub(in crate::cli) fn measured(metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) {
    if let Some(recorded) = current()
        && let Err(error) = recorded.measure(metrics)
    {
        tracing::warn!("{}", sentences(&error).join("; because: "));
    }
}

/// Ends the command, and starts to send all requests at once.
pub(in crate::cli) fn end(error: Option<&Error>) {
    let Some(recorded) = CURRENT.with(RefCell::take) else { return };
    let failure = error.map(|error| CommandFailure {
        kind: error.kind().name(),
        described: sentences(error).join("; because: "),
    });
    let exit_code = error.map_or(0, |error| error.kind().exit_code());
    if let Err(error) = recorded.end(exit_code, failure.as_ref()).and_then(send_all) {
        tracing::warn!("{}", sentences(&error).join("; because: "));
    }
}

fn send_all(requests: Vec<CollectorRequest>) -> Result<()> {
    requests
        .into_iter()
        .try_for_each(|request| http::start("the spans and metrics of OpenTelemetry", move || send(&request)))
}

fn send(request: &CollectorRequest) -> Result<()> {
    let mut headers = request.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(request.content_type));
    http::post(REQUEST_LIMIT, &request.url, "what OpenTelemetry sends", headers, request.body.clone())
}
