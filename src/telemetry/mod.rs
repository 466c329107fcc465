//! The OpenTelemetry spans and metrics of a command, and in `lineage` the OpenLineage events of a run. The command line sends spans and
//! metrics at its end, in at most two requests of OTLP/HTTP, version 1 (<https://opentelemetry.io/docs/specs/otlp/>).

pub(crate) mod lineage;
#[cfg(feature = "otlp")]
mod message;
#[cfg(feature = "otlp")]
mod recorded;
#[cfg(feature = "otlp")]
mod settings;

#[cfg(feature = "otlp")]
pub(crate) use message::{apply_attributes, job_attributes, run_attributes};
#[cfg(feature = "otlp")]
pub(crate) use recorded::{CollectorRequest, Recorded};
#[cfg(feature = "otlp")]
pub(crate) use settings::TelemetrySettings;

use crate::environment::Environment;

/// Returns the variable that names a collector, unless telemetry is disabled.
pub(crate) fn collector_variable(environment: &Environment) -> Option<&'static str> {
    let endpoints = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    ];
    let (name, _) = environment.first(endpoints).filter(|_| !environment.is_true("OTEL_SDK_DISABLED"))?;
    Some(name)
}
