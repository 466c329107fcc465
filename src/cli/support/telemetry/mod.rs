//! The spans and metrics of a command, which a collector of OpenTelemetry receives when the command ends.

#[cfg(not(feature = "otlp"))]
mod left_out;
#[cfg(feature = "otlp")]
mod sent;

#[cfg(not(feature = "otlp"))]
pub(in crate::cli) use left_out::{applied, begin, end, measured, ran, runs, watched};
#[cfg(feature = "otlp")]
pub(in crate::cli) use sent::{applied, begin, end, measured, ran, runs, watched};
