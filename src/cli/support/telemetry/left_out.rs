//! Without the feature nothing is recorded, and a variable that asks for it is a warning.

use std::sync::Arc;

use prometheus::proto::MetricFamily;

use crate::apply;
use crate::engine::Progress;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::pipeline::Outcome;
use crate::telemetry::collector_variable;

/// Warns if the environment names a collector.
pub(in crate::cli) fn begin(_command: &str, _run_id: Option<&str>) {
    if let Some(variable) = collector_variable(Environment::of_process()) {
        tracing::warn!(
            "{variable} is set, but this program was compiled without the feature otlp: no spans and no metrics are sent"
        );
    }
}

/// Records nothing.
pub(in crate::cli) fn watched(shown: Arc<dyn Progress>) -> Arc<dyn Progress> {
    shown
}

/// Records nothing.
pub(in crate::cli) fn runs(_job: &Job) {}

/// Records nothing.
pub(in crate::cli) fn ran(_outcome: &Outcome) {}

/// Records nothing.
pub(in crate::cli) fn applied(_to: &str, _outcome: &apply::ApplyOutcome) {}

/// Records nothing.
pub(in crate::cli) fn measured(_metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) {}

/// Sends nothing.
pub(in crate::cli) fn end(_error: Option<&Error>) {}
