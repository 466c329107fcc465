//! The record of a command: its span, the spans of its stages, and its metrics.

use std::time::Instant;

use prometheus::proto::MetricFamily;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use url::Url;
use uuid::Uuid;

use super::message::{
    Event, ExportMetrics, ExportTraces, KeyValue, Resource, ResourceMetrics, ResourceSpans, Scope,
    ScopeMetrics, ScopeSpans, Span, Status, Value, attribute, gauges,
};
use super::settings::{BodyEncoding, ParentSpan, SignalEndpoint, TelemetrySettings};
use crate::address::masked;
use crate::engine::StageEvent;
use crate::error::{Error, Result};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: i32 = 1;
/// `STATUS_CODE_ERROR`.
const FAILED: i32 = 2;

pub(crate) struct CollectorRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The record of a command from its start to its end.
pub(crate) struct Recorded {
    settings: TelemetrySettings,
    /// The start in nanoseconds since 1970. `began` is the same time on the monotonic clock, which measures durations.
    start: u64,
    began: Instant,
    command: Span,
    metrics: Vec<MetricFamily>,
}

impl Recorded {
    /// Starts the record of `command`, at `at` seconds since 1970.
    pub(crate) fn begin(settings: TelemetrySettings, command: &str, run_id: Option<&str>, at: f64) -> Self {
        let start = (at * 1e9) as u64;
        let parent = settings.parent.as_ref();
        let trace_id =
            parent.map_or_else(|| Uuid::new_v4().into_bytes().into(), |parent| parent.trace_id.clone());
        let mut span = new_span(format!("resemblance {command}"), trace_id, start);
        if let Some(ParentSpan { span_id, state, .. }) = parent {
            (span.parent_span_id, span.trace_state) = (span_id.clone(), state.clone());
        }
        span.attributes = vec![
            attribute("process.executable.name", "resemblance"),
            attribute("process.pid", u64::from(std::process::id())),
            attribute("resemblance.command", command),
        ];
        span.attributes.extend(run_id.map(|id| attribute("resemblance.run.id", id)));
        Self { settings, start, began: Instant::now(), command: span, metrics: Vec::new() }
    }

    fn nanoseconds(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.began);
        self.start.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn set(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        let kept = &mut self.command.attributes;
        for attribute in attributes {
            kept.retain(|other| other.key != attribute.key);
            kept.push(attribute);
        }
    }

    pub(crate) fn measure(&mut self, metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) -> Result<()> {
        if self.settings.metrics.is_some() {
            self.metrics = metrics()?;
        }
        Ok(())
    }

    /// Ends the record of the command, and returns the requests with its spans and metrics. `events` are the events of its stages. The
    /// span of a failed command contains the kind of its error, and a description in one line without secrets.
    pub(crate) fn end(
        mut self,
        exit_code: u8,
        failure: Option<(&'static str, String)>,
        events: &[(Instant, StageEvent)],
    ) -> Result<Vec<CollectorRequest>> {
        self.set([attribute("process.exit.code", u64::from(exit_code))]);
        let now = self.nanoseconds(Instant::now());
        let end = |mut span: Span| {
            span.end_time_unix_nano = now;
            if let Some((kind, description)) = &failure {
                span.attributes.push(attribute("error.type", *kind));
                span.status = Some(Status { message: description.clone(), code: FAILED });
            }
            span
        };
        let (mut spans, interrupted) = self.add_stages(events);
        spans.extend(interrupted.into_iter().map(end));
        spans.push(end(self.command.clone()));
        let metrics = gauges(&self.metrics, now);

        let (settings, resource) = (&self.settings, self.resource());
        let mut requests = Vec::new();
        // The children of a parent that is not sampled are not sent.
        let is_sampled = settings.parent.as_ref().is_none_or(|parent| parent.is_sampled);
        if let Some(to) = settings.traces.as_ref().filter(|_| is_sampled) {
            let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
            let resource_spans = vec![ResourceSpans { resource: Some(resource.clone()), scope_spans }];
            requests.push(request(to, &ExportTraces { resource_spans })?);
        }
        if let Some(to) = settings.metrics.as_ref().filter(|_| !metrics.is_empty()) {
            let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
            let resource_metrics = vec![ResourceMetrics { resource: Some(resource), scope_metrics }];
            requests.push(request(to, &ExportMetrics { resource_metrics })?);
        }
        Ok(requests)
    }

    /// Returns the spans of ended and of running stages. Adds recoveries to the command's span.
    fn add_stages(&mut self, events: &[(Instant, StageEvent)]) -> (Vec<Span>, Vec<Span>) {
        let (mut ended, mut running) = (Vec::new(), Vec::<Span>::new());
        for (time, event) in events {
            let time = self.nanoseconds(*time);
            match event {
                StageEvent::Begins(name) => {
                    let mut span = new_span(name.clone(), self.command.trace_id.clone(), time);
                    span.parent_span_id.clone_from(&self.command.span_id);
                    span.trace_state.clone_from(&self.command.trace_state);
                    span.attributes = vec![attribute("resemblance.stage.name", name.as_str())];
                    running.push(span);
                }
                StageEvent::Recovers(why) => {
                    let attributes = vec![attribute("resemblance.reason", Value::Text(masked(why)))];
                    let name = "recovering".to_owned();
                    self.command.events.push(Event { time_unix_nano: time, name, attributes });
                }
                StageEvent::Ends { name, rows, reused, .. } => {
                    let Some(at) = running.iter().position(|span| &span.name == name) else { continue };
                    let mut span = running.remove(at);
                    span.end_time_unix_nano = time;
                    span.attributes.push(attribute("resemblance.stage.rows", *rows));
                    span.attributes.push(attribute("resemblance.stage.reused", Value::Bool(*reused)));
                    ended.push(span);
                }
            }
        }
        (ended, running)
    }

    fn resource(&self) -> Resource {
        let pairs = self.settings.resource.iter();
        Resource { attributes: pairs.map(|(key, value)| attribute(key, value.as_str())).collect() }
    }
}

fn new_span(name: String, trace_id: Vec<u8>, now: u64) -> Span {
    Span {
        trace_id,
        // Takes the second half of a random UUID, because the first half contains more fixed bits.
        span_id: Uuid::new_v4().into_bytes()[8..].to_vec(),
        kind: INTERNAL,
        start_time_unix_nano: now,
        name,
        ..Span::default()
    }
}

fn scope() -> Scope {
    Scope { name: "resemblance".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn request(to: &SignalEndpoint, message: &(impl Message + Serialize)) -> Result<CollectorRequest> {
    let (content_type, body) = match to.encoding {
        BodyEncoding::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
        BodyEncoding::Json => {
            let json = serde_json::to_vec(message);
            ("application/json", json.map_err(|e| Error::bug("a message cannot be written").because(e))?)
        }
    };
    let mut headers = to.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(CollectorRequest { url: to.url.clone(), headers, body })
}
