//! What a command does: its span, the spans of its stages, and its metrics.

use std::time::Instant;

use parking_lot::Mutex;
use prometheus::proto::MetricFamily;
use prost::Message;
use reqwest::header::HeaderMap;
use serde::Serialize;
use url::Url;
use uuid::Uuid;

use super::message::{
    Event, ExportMetrics, ExportTraces, KeyValue, Resource, ResourceMetrics, ResourceSpans, Scope,
    ScopeMetrics, ScopeSpans, Span, Status, attribute, gauges,
};
use super::settings::{BodyEncoding, ParentSpan, SignalEndpoint, TelemetrySettings};
use crate::address::masked;
use crate::engine::Progress;
use crate::error::{Error, Result};

/// `SPAN_KIND_INTERNAL`: the work of a program, and no call of another one.
const INTERNAL: i32 = 1;
/// `STATUS_CODE_ERROR`.
const FAILED: i32 = 2;

/// A request to a collector, by POST.
pub(crate) struct CollectorRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// The error that ended a command.
pub(crate) struct CommandFailure {
    /// The word for its kind, as in records.
    pub(crate) kind: &'static str,
    /// The error in one line without secrets.
    pub(crate) described: String,
}

/// What a command does, from its start to its end.
pub(crate) struct Recorded {
    settings: TelemetrySettings,
    clock: Clock,
    trace_id: Vec<u8>,
    seen: Mutex<RecordedState>,
}

/// What was seen so far.
struct RecordedState {
    command: Span,
    /// The stages that run, and those that have ended.
    running: Vec<Span>,
    ended: Vec<Span>,
    metrics: Vec<MetricFamily>,
}

/// The time of a command, which never goes back.
struct Clock {
    /// Nanoseconds since 1970 at the start.
    start: u64,
    began: Instant,
}

impl Clock {
    fn now(&self) -> u64 {
        self.start.saturating_add(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Recorded {
    /// Begins the command of this name, `at` so many seconds since 1970.
    pub(crate) fn begin(settings: TelemetrySettings, command: &str, at: f64) -> Self {
        let clock = Clock { start: (at * 1e9) as u64, began: Instant::now() };
        let parent = settings.parent.as_ref();
        let trace_id =
            parent.map_or_else(|| Uuid::new_v4().into_bytes().into(), |parent| parent.trace_id.clone());
        let mut span = new_span(format!("resemblance {command}"), &trace_id, clock.now());
        if let Some(ParentSpan { span_id, state, .. }) = parent {
            (span.parent_span_id, span.trace_state) = (span_id.clone(), state.clone());
        }
        span.attributes = vec![
            attribute("process.executable.name", "resemblance"),
            attribute("process.pid", u64::from(std::process::id())),
            attribute("resemblance.command", command),
        ];
        let seen =
            RecordedState { command: span, running: Vec::new(), ended: Vec::new(), metrics: Vec::new() };
        Self { settings, clock, trace_id, seen: Mutex::new(seen) }
    }

    /// Sets attributes of the command's span.
    pub(crate) fn set(&self, attributes: impl IntoIterator<Item = KeyValue>) {
        let kept = &mut self.seen.lock().command.attributes;
        for attribute in attributes {
            kept.retain(|other| other.key != attribute.key);
            kept.push(attribute);
        }
    }

    /// Sets an attribute of the command's span to a text.
    pub(crate) fn set_text(&self, key: &str, text: &str) {
        self.set([attribute(key, text)]);
    }

    /// Sets the metrics of the run, if metrics are wanted.
    ///
    /// # Errors
    /// Those of `metrics`.
    pub(crate) fn measure(&self, metrics: impl FnOnce() -> Result<Vec<MetricFamily>>) -> Result<()> {
        if self.settings.metrics.is_some() {
            self.seen.lock().metrics = metrics()?;
        }
        Ok(())
    }

    /// Ends the command with `exit_code`: the requests with its spans and its metrics.
    ///
    /// # Errors
    /// Only a bug causes one.
    pub(crate) fn end(
        &self,
        exit_code: u8,
        failure: Option<&CommandFailure>,
    ) -> Result<Vec<CollectorRequest>> {
        self.set([attribute("process.exit.code", u64::from(exit_code))]);
        let now = self.clock.now();
        let mut seen = self.seen.lock();
        // Those are what the error interrupted.
        let interrupted = std::mem::take(&mut seen.running);
        seen.ended.extend(interrupted.into_iter().map(|span| failed(span, failure, now)));
        let mut spans = std::mem::take(&mut seen.ended);
        spans.push(failed(seen.command.clone(), failure, now));
        let metrics = gauges(&seen.metrics, now);
        drop(seen);

        let (settings, resource) = (&self.settings, self.resource());
        let mut requests = Vec::new();
        // A trace that is not recorded at its root is recorded nowhere.
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

    fn resource(&self) -> Resource {
        let pairs = self.settings.resource.iter();
        Resource { attributes: pairs.map(|(key, value)| attribute(key, value.as_str())).collect() }
    }
}

impl Progress for Recorded {
    fn stage_begins(&self, name: &str, _number: usize, _stages: usize) {
        let mut seen = self.seen.lock();
        let mut span = new_span(name.to_owned(), &self.trace_id, self.clock.now());
        span.parent_span_id.clone_from(&seen.command.span_id);
        span.trace_state.clone_from(&seen.command.trace_state);
        span.attributes = vec![attribute("resemblance.stage.name", name)];
        seen.running.push(span);
    }

    fn recovering(&self, why: &str) {
        let (time_unix_nano, attributes) =
            (self.clock.now(), vec![attribute("resemblance.reason", masked(why))]);
        let event = Event { time_unix_nano, name: "recovering".to_owned(), attributes };
        self.seen.lock().command.events.push(event);
    }

    fn stage_ends(&self, name: &str, rows: u64, _seconds: f64, reused: bool) {
        let mut seen = self.seen.lock();
        let Some(at) = seen.running.iter().position(|span| span.name == name) else { return };
        let mut span = seen.running.remove(at);
        span.end_time_unix_nano = self.clock.now();
        span.attributes.push(attribute("resemblance.stage.rows", rows));
        span.attributes.push(attribute("resemblance.stage.reused", reused));
        seen.ended.push(span);
    }
}

fn new_span(name: String, trace_id: &[u8], now: u64) -> Span {
    Span {
        trace_id: trace_id.to_vec(),
        // The end of a random UUID, whose other parts have bits that are always the same.
        span_id: Uuid::new_v4().into_bytes()[8..].to_vec(),
        kind: INTERNAL,
        start_time_unix_nano: now,
        name,
        ..Span::default()
    }
}

/// The span that ends `now`, with the error if there is one.
fn failed(mut span: Span, failure: Option<&CommandFailure>, now: u64) -> Span {
    span.end_time_unix_nano = now;
    if let Some(CommandFailure { kind, described }) = failure {
        span.attributes.push(attribute("error.type", *kind));
        span.status = Some(Status { message: described.clone(), code: FAILED });
    }
    span
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
    Ok(CollectorRequest { url: to.url.clone(), headers: to.headers.clone(), content_type, body })
}
