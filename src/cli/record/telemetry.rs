//! Records the spans and metrics of a command, and sends them to an OpenTelemetry collector at its end. Without the feature `otlp`, only
//! warns if the environment names a collector.

#[cfg(not(feature = "otlp"))]
pub(crate) use disabled::{applied, begin, end, measured, ran, runs};
#[cfg(feature = "otlp")]
pub(crate) use enabled::{applied, begin, end, measured, ran, runs};

#[cfg(feature = "otlp")]
mod enabled {
    use std::cell::RefCell;
    use std::time::{Duration, Instant};

    use prometheus::proto::MetricFamily;
    use reqwest::Method;

    use crate::apply::ApplyOutcome;
    use crate::cli::record::http;
    use crate::cli::screen::print::one_line;
    use crate::engine::StageEvent;
    use crate::environment::Environment;
    use crate::error::{Error, Result};
    use crate::job::Job;
    use crate::machine;
    use crate::pipeline::Outcome;
    use crate::telemetry::{
        CollectorRequest, Recorded, TelemetrySettings, apply_attributes, job_attributes, run_attributes,
    };

    /// The time limit for a request. Commands wait longer for their senders, so the error of a request is still reported.
    const REQUEST_LIMIT: Duration = Duration::from_millis(1_800);

    thread_local! {
        /// The record of the command on this thread, if the environment names a collector.
        static CURRENT: RefCell<Option<Recorded>> = const { RefCell::new(None) };
    }

    fn with_current(record: impl FnOnce(&mut Recorded)) {
        CURRENT.with_borrow_mut(|current| current.as_mut().map(record));
    }

    /// Begins to record a command if the environment names a collector. Errors are logged as warnings.
    pub(crate) fn begin(command: &str, run_id: Option<&str>) {
        let settings = TelemetrySettings::read(Environment::process()).unwrap_or_else(|error| {
            tracing::warn!("no spans and no metrics are sent: {}", one_line(&error));
            None
        });
        let Some(settings) = settings else { return };
        CURRENT.set(Some(Recorded::begin(settings, command, run_id, machine::now())));
    }

    pub(crate) fn runs(job: &Job) {
        with_current(|recorded| recorded.set(job_attributes(job)));
    }

    pub(crate) fn ran(outcome: &Outcome) {
        with_current(|recorded| recorded.set(run_attributes(outcome)));
    }

    pub(crate) fn applied(to: &str, outcome: &ApplyOutcome) {
        with_current(|recorded| recorded.set(apply_attributes(to, outcome)));
    }

    pub(crate) fn measured(metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) {
        with_current(|recorded| {
            if let Err(error) = recorded.measure(metrics) {
                tracing::warn!("{}", one_line(&error));
            }
        });
    }

    /// Ends the record with the events of the command's stages, and starts to send it.
    pub(crate) fn end(error: Option<&Error>, events: &[(Instant, StageEvent)]) {
        let Some(recorded) = CURRENT.take() else { return };
        let failure = error.map(|error| (error.kind().name(), one_line(error)));
        let exit_code = error.map_or(0, |error| error.kind().exit_code());
        if let Err(error) = recorded.end(exit_code, failure, events).and_then(send) {
            tracing::warn!("{}", one_line(&error));
        }
    }

    fn send(requests: Vec<CollectorRequest>) -> Result<()> {
        requests.into_iter().try_for_each(|CollectorRequest { url, headers, body }| {
            http::start("the spans and metrics of OpenTelemetry", move || {
                http::send(REQUEST_LIMIT, Method::POST, &url, "what OpenTelemetry sends", headers, body)
            })
        })
    }
}

#[cfg(not(feature = "otlp"))]
mod disabled {
    use std::time::Instant;

    use prometheus::proto::MetricFamily;

    use crate::apply::ApplyOutcome;
    use crate::engine::StageEvent;
    use crate::environment::Environment;
    use crate::error::{Error, Result};
    use crate::job::Job;
    use crate::pipeline::Outcome;
    use crate::telemetry::collector_variable;

    pub(crate) fn begin(_command: &str, _run_id: Option<&str>) {
        if let Some(variable) = collector_variable(Environment::process()) {
            tracing::warn!(
                "{variable} is set, but this program was compiled without the feature otlp: no spans and no metrics are sent"
            );
        }
    }

    pub(crate) fn runs(_job: &Job) {}

    pub(crate) fn ran(_outcome: &Outcome) {}

    pub(crate) fn applied(_to: &str, _outcome: &ApplyOutcome) {}

    pub(crate) fn measured(_metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) {}

    pub(crate) fn end(_error: Option<&Error>, _events: &[(Instant, StageEvent)]) {}
}
