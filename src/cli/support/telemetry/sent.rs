//! Records what the command of this process does, and sends it when the command ends.

use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use prometheus::proto::MetricFamily;
use reqwest::header::CONTENT_TYPE;

use crate::apply;
use crate::cli::support::errors::sentences;
use crate::cli::support::{http, record};
use crate::engine::Progress;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::pipeline::Outcome;
use crate::telemetry::{Failure, Recorded, Request, Settings, Stages, of_application, of_job, of_run};

/// How long a command waits at its end for what is sent.
const END_LIMIT: Duration = Duration::from_secs(2);
/// The time limit of a request, so that its own error comes before the end of the wait.
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
    let settings = Settings::read(Environment::of_process()).unwrap_or_else(|error| {
        tracing::warn!("no spans and no metrics are sent: {}", sentences(&error).join("; because: "));
        None
    });
    let Some(settings) = settings else { return };
    let recorded = Recorded::begin(settings, command, record::now());
    if let Some(id) = run_id {
        recorded.set_text("resemblance.run.id", id);
    }
    CURRENT.with(|current| current.replace(Some(Arc::new(recorded))));
}

/// Progress whose stages become spans too.
pub(in crate::cli) fn watched(shown: Arc<dyn Progress>) -> Arc<dyn Progress> {
    match current() {
        Some(recorded) => Arc::new(Stages { recorded, shown }),
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
pub(in crate::cli) fn applied(to: &str, outcome: &apply::Outcome) {
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

/// Ends the command, and waits for at most two seconds until all is sent. The first failure is a warning.
pub(in crate::cli) fn end(error: Option<&Error>) {
    let Some(recorded) = CURRENT.with(RefCell::take) else { return };
    let failure = error
        .map(|error| Failure { kind: error.kind().name(), described: sentences(error).join("; because: ") });
    let exit_code = error.map_or(0, |error| error.kind().exit_code());
    if let Err(error) = recorded.end(exit_code, failure.as_ref()).and_then(send_all) {
        tracing::warn!("{}", sentences(&error).join("; because: "));
    }
}

/// Sends all requests at once.
fn send_all(requests: Vec<Request>) -> Result<()> {
    let (began, (done, ended)) = (Instant::now(), mpsc::channel());
    let number = requests.len();
    for request in requests {
        let done = done.clone();
        // The channel is closed when the wait is over.
        let work = move || drop(done.send(send(&request)));
        let thread = std::thread::Builder::new().name("telemetry".into()).spawn(work);
        thread.map_err(|e| Error::engine("a thread cannot be started").because(e))?;
    }
    let mut failed = None;
    for _ in 0..number {
        let left = END_LIMIT.saturating_sub(began.elapsed());
        let sent = ended.recv_timeout(left).unwrap_or_else(|_| {
            Err(Error::input(format!(
                "the spans and metrics of OpenTelemetry were not sent within {} seconds",
                END_LIMIT.as_secs()
            )))
        });
        failed = failed.or(sent.err());
    }
    failed.map_or(Ok(()), Err)
}

fn send(request: &Request) -> Result<()> {
    let Request { url, headers, content_type, body } = request;
    let post = |client: reqwest::Client| {
        let request = client.post(url.clone()).headers(headers.clone());
        request.header(CONTENT_TYPE, *content_type).body(body.clone())
    };
    let refused =
        |how: &str| format!("{} does not accept what OpenTelemetry sends{how}", http::without_secrets(url));
    let (status, answer) = http::exchange(REQUEST_LIMIT, reqwest::Client::builder(), post)
        .map_err(|e| Error::input(refused("")).because(e))?;
    match status.is_success() {
        true => Ok(()),
        false => Err(Error::input(refused(&format!(": it answers {status}: {answer}")))),
    }
}
