//! OpenTelemetry: the spans of a command and of its stages, and the metrics of a run.
//!
//! They are the requests of OTLP/HTTP, version 1 (<https://opentelemetry.io/docs/specs/otlp/>), two at most, which the command line
//! sends when the command ends.

#[cfg(feature = "otlp")]
mod message;
#[cfg(feature = "otlp")]
mod recorded;
#[cfg(feature = "otlp")]
mod settings;

#[cfg(feature = "otlp")]
pub(crate) use message::{of_application, of_job, of_run};
#[cfg(feature = "otlp")]
pub(crate) use recorded::{CollectorRequest, CommandFailure, Recorded};
#[cfg(feature = "otlp")]
pub(crate) use settings::TelemetrySettings;

use crate::environment::{self as names, Environment};

/// The variable that names a collector; `None` if none does, or if telemetry is turned off.
pub(crate) fn collector_variable(environment: &Environment) -> Option<&'static str> {
    if environment.get(names::OTEL_SDK_DISABLED).is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return None;
    }
    [names::OTEL_ENDPOINT, names::OTEL_TRACES_ENDPOINT, names::OTEL_METRICS_ENDPOINT]
        .into_iter()
        .find(|name| environment.get(name).is_some())
}
