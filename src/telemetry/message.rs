//! The messages of OTLP in protobuf and JSON. Names and tags follow <https://github.com/open-telemetry/opentelemetry-proto>. Optional
//! fields that are not needed are omitted.

use prometheus::proto::MetricFamily;
use serde::{Serialize, Serializer};

use crate::address::masked;
use crate::apply::ApplyOutcome;
use crate::job::{Input, Job};
use crate::pipeline::Outcome;

/// The body of a request to `v1/traces`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportTraces {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// A span. Times are in nanoseconds since 1970.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hexadecimal")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hexadecimal")]
    pub(super) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hexadecimal")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    /// The `SpanKind`; 1 is internal.
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "in_quotes")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "in_quotes")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "in_quotes")]
    pub(super) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    /// The `StatusCode`; 2 is an error.
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 5")]
    #[serde(flatten)]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof, Serialize)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    #[prost(bool, tag = "2")]
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "in_quotes")]
    Int(i64),
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    Array(ArrayValue),
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<AnyValue>,
}

/// The body of a request to `v1/metrics`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportMetrics {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    /// The unit `s` or `By`, or an empty text for a number without a unit.
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(message, optional, tag = "5")]
    pub(super) gauge: Option<Gauge>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<DataPoint>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DataPoint {
    #[prost(fixed64, tag = "3")]
    #[serde(serialize_with = "in_quotes")]
    pub(super) time_unix_nano: u64,
    /// The value. Optional, so that 0 is encoded too, since a point without a value is invalid.
    #[prost(double, optional, tag = "4")]
    pub(super) as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
}

pub(super) fn attribute(key: impl Into<String>, value: impl Into<Value>) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value.into()) }) }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Serializes bytes as hexadecimal digits, where OTLP deviates from the JSON mapping of protobuf.
fn hexadecimal<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Serializes a 64-bit number as a string, as the JSON mapping of protobuf requires.
fn in_quotes<S: Serializer>(number: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&number.to_string())
}

pub(crate) fn job_attributes(job: &Job) -> Vec<KeyValue> {
    let inputs = match &job.input {
        Input::Read => job.source.urls.clone(),
        Input::Reuse(reuse) => vec![reuse.output.clone()],
        Input::Merge(outputs) => outputs.clone(),
    };
    let inputs = inputs.iter().map(|url| AnyValue { value: Some(Value::Text(masked(url))) }).collect();
    let mode = if job.engine.scheduler_address().is_some() { "cluster" } else { "local" };
    vec![
        attribute("resemblance.job.name", job.name.as_str()),
        attribute("resemblance.engine.mode", mode),
        attribute("resemblance.input.urls", Value::Array(ArrayValue { values: inputs })),
        attribute("resemblance.output.url", Value::Text(masked(&job.output.url))),
    ]
}

pub(crate) fn run_attributes(outcome: &Outcome) -> Vec<KeyValue> {
    let manifest = &outcome.manifest;
    let counts = &manifest.counts;
    let files = || manifest.tables.values().flat_map(|table| &table.files);
    let numbers = [
        ("stages.reused", Some(outcome.stages_reused as u64)),
        ("input.files", Some(manifest.inputs.len() as u64)),
        ("input.bytes", Some(manifest.inputs.iter().map(|input| input.bytes).sum())),
        ("output.files", Some(files().count() as u64)),
        ("output.bytes", Some(files().map(|file| file.bytes).sum())),
        ("output.rows", Some(files().map(|file| file.rows).sum())),
        ("documents", Some(counts.documents)),
        ("rejects", Some(counts.rejects)),
        ("candidates", counts.candidates),
        ("pairs", Some(counts.pairs)),
        ("clusters", Some(counts.clusters)),
        ("removed_documents", Some(counts.removed_documents)),
    ];
    let texts = vec![
        attribute("resemblance.fingerprint", manifest.fingerprint.as_str()),
        attribute("resemblance.already_finished", Value::Bool(outcome.already_finished)),
    ];
    with_numbers(texts, numbers)
}

pub(crate) fn apply_attributes(to: &str, outcome: &ApplyOutcome) -> Vec<KeyValue> {
    let manifest = &outcome.manifest;
    let written = || manifest.files.iter().flat_map(|file| &file.written);
    let numbers = [
        ("apply.files", Some(written().count() as u64)),
        ("apply.bytes", Some(written().map(|written| written.bytes).sum())),
        ("apply.files.reused", Some(outcome.files_reused)),
        ("apply.documents.read", Some(manifest.counts.read)),
        ("apply.documents.kept", Some(manifest.counts.kept)),
        ("apply.documents.removed", Some(manifest.counts.removed)),
    ];
    let texts = vec![
        attribute("resemblance.apply.output", Value::Text(masked(&manifest.output))),
        attribute("resemblance.apply.url", Value::Text(masked(to))),
        attribute("resemblance.apply.already_finished", Value::Bool(outcome.already_finished)),
    ];
    with_numbers(texts, numbers)
}

fn with_numbers<const N: usize>(
    mut attributes: Vec<KeyValue>,
    numbers: [(&str, Option<u64>); N],
) -> Vec<KeyValue> {
    let known = numbers.into_iter().filter_map(|(key, number)| Some((key, number?)));
    attributes.extend(known.map(|(key, number)| attribute(format!("resemblance.{key}"), number)));
    attributes
}

/// Converts gauges of Prometheus to gauges of OTLP at `time`, in nanoseconds since 1970.
pub(super) fn gauges(families: &[MetricFamily], time: u64) -> Vec<Metric> {
    let gauge = |family: &MetricFamily| {
        let points = family.get_metric().iter().map(|metric| DataPoint {
            time_unix_nano: time,
            as_double: Some(metric.get_gauge().get_value()),
            attributes: metric
                .get_label()
                .iter()
                .map(|label| attribute(label.name(), label.value()))
                .collect(),
        });
        Metric {
            name: family.name().to_owned(),
            description: family.help().to_owned(),
            unit: unit(family.name()).to_owned(),
            gauge: Some(Gauge { data_points: points.collect() }),
        }
    };
    families.iter().map(gauge).collect()
}

/// Returns the UCUM unit of a metric, by the suffix of its name.
fn unit(name: &str) -> &'static str {
    match name.rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        _ => "",
    }
}
