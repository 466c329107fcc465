//! The settings of OpenTelemetry from its standard environment variables: endpoints, attributes and the parent span in the form of W3C
//! Trace Context (<https://www.w3.org/TR/trace-context/>).

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::collector_variable;
use crate::environment::Environment;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct TelemetrySettings {
    pub(super) traces: Option<SignalEndpoint>,
    pub(super) metrics: Option<SignalEndpoint>,
    pub(super) resource: Vec<(String, String)>,
    pub(super) parent: Option<ParentSpan>,
}

#[derive(Debug, PartialEq)]
pub(super) struct SignalEndpoint {
    pub(super) url: Url,
    pub(super) encoding: BodyEncoding,
    pub(super) headers: HeaderMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEncoding {
    Protobuf,
    Json,
}

/// The variables for one signal (spans or metrics), which take precedence over the variables for all signals.
struct Signal {
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
    /// The path of this signal below the endpoint for all signals.
    path: [&'static str; 2],
}

const TRACES: Signal = Signal {
    exporter: "OTEL_TRACES_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    path: ["v1", "traces"],
};
const METRICS: Signal = Signal {
    exporter: "OTEL_METRICS_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    path: ["v1", "metrics"],
};
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

impl TelemetrySettings {
    /// Reads the settings, if any signal is sent. Fails with `Kind::Job` if a variable has an invalid value.
    pub(crate) fn read(environment: &Environment) -> Result<Option<Self>> {
        if collector_variable(environment).is_none() {
            return Ok(None);
        }
        let (traces, metrics) = (TRACES.endpoint(environment)?, METRICS.endpoint(environment)?);
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut resource =
            vec![pair("service.version", env!("CARGO_PKG_VERSION")), pair("service.name", "resemblance")];
        let mut given = match environment.get("OTEL_RESOURCE_ATTRIBUTES") {
            Some(text) => pairs("OTEL_RESOURCE_ATTRIBUTES", text)?,
            None => Vec::new(),
        };
        given.extend(environment.get("OTEL_SERVICE_NAME").map(|name| pair("service.name", name)));
        for attribute in given {
            resource.retain(|(key, _)| *key != attribute.0);
            resource.push(attribute);
        }
        Ok(Some(Self { traces, metrics, resource, parent: ParentSpan::read(environment) }))
    }
}

impl Signal {
    fn endpoint(&self, environment: &Environment) -> Result<Option<SignalEndpoint>> {
        match environment.get(self.exporter) {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(Error::job(format!(
                    "the variable {} is {other:?}: expected otlp or none",
                    self.exporter
                )));
            }
        }
        let Some((name, text)) = environment.first([self.endpoint, ENDPOINT]) else { return Ok(None) };
        let url = self.url(name, text)?;
        let encoding = match environment.first([self.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL"]) {
            None | Some((_, "http/protobuf")) => BodyEncoding::Protobuf,
            Some((_, "http/json")) => BodyEncoding::Json,
            Some((name, other)) => {
                return Err(Error::job(format!(
                    "the variable {name} is {other:?}: expected http/protobuf or http/json, for which collectors have the port 4318"
                )));
            }
        };
        let headers = match environment.first([self.headers, "OTEL_EXPORTER_OTLP_HEADERS"]) {
            Some((name, text)) => headers(name, text)?,
            None => HeaderMap::new(),
        };
        Ok(Some(SignalEndpoint { url, encoding, headers }))
    }

    /// Parses an endpoint. Adds the path of this signal to the endpoint for all signals.
    fn url(&self, name: &str, text: &str) -> Result<Url> {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // The URL may include a password, so the message omits it.
        let mut url = url.ok_or_else(|| {
            Error::job(format!(
                "the variable {name} is not the http:// or https:// URL of a collector, such as http://collector:4318"
            ))
        })?;
        if name == ENDPOINT
            && let Ok(mut path) = url.path_segments_mut()
        {
            path.pop_if_empty().extend(self.path);
        }
        Ok(url)
    }
}

fn headers(variable: &str, text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (key, value) in pairs(variable, text)? {
        let header = HeaderName::try_from(key.as_str()).ok().zip(HeaderValue::try_from(value).ok());
        // The values of headers are secrets.
        let (key, mut value) = header.ok_or_else(|| malformed(variable))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Parses `KEY=VALUE,KEY=VALUE` with percent-encoded values.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
    };
    parts.map(|part| pair(part).ok_or_else(|| malformed(variable))).collect()
}

fn malformed(variable: &str) -> Error {
    Error::job(format!(
        "the variable {variable} is not of the form KEY=VALUE,KEY=VALUE, in which values are percent-encoded"
    ))
}

/// The span of another program that started this command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentSpan {
    pub(super) trace_id: Vec<u8>,
    pub(super) span_id: Vec<u8>,
    /// The trace state of other programs, which every span repeats.
    pub(super) state: String,
    /// Whether the parent is recorded.
    pub(super) is_sampled: bool,
}

impl ParentSpan {
    /// Reads TRACEPARENT and TRACESTATE. The standard requires that an invalid parent is ignored.
    fn read(environment: &Environment) -> Option<Self> {
        let text = environment.get("TRACEPARENT")?;
        let parent = parse(text);
        if parent.is_none() {
            tracing::warn!(
                "the variable TRACEPARENT is {text:?}, which names no span, so the trace begins here: expected \
                 VERSION-TRACE-SPAN-FLAGS, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            );
        }
        let state = environment.get("TRACESTATE").unwrap_or_default().to_owned();
        Some(Self { state, ..parent? })
    }
}

fn parse(text: &str) -> Option<ParentSpan> {
    let mut parts = text.split('-');
    let [version, trace_id, span_id, flags] = std::array::from_fn(|_| parts.next());
    let (version, flags) = (bytes(version?, 1)?[0], bytes(flags?, 1)?[0]);
    // Later versions can have more parts.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let (trace_id, span_id) = (bytes(trace_id?, 16)?, bytes(span_id?, 8)?);
    let are_valid = [&trace_id, &span_id].iter().all(|id| id.iter().any(|&byte| byte != 0));
    are_valid.then(|| ParentSpan { trace_id, span_id, state: String::new(), is_sampled: flags & 1 == 1 })
}

/// Parses `number` bytes of lower-case hexadecimal digits.
fn bytes(text: &str, number: usize) -> Option<Vec<u8>> {
    let are_digits = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if !are_digits || text.len() != 2 * number {
        return None;
    }
    (0..number).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    fn read(variables: &[(&str, &str)]) -> Result<Option<TelemetrySettings>> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TelemetrySettings::read(&Environment::new(variables.collect()))
    }

    fn urls(variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let settings = read(variables).unwrap().unwrap();
        let url = |destination: Option<SignalEndpoint>| destination.map(|to| to.url.to_string());
        (url(settings.traces), url(settings.metrics))
    }

    #[test]
    fn one_endpoint_serves_both_signals_and_each_may_have_its_own() {
        let both = |traces: &str, metrics: &str| (Some(traces.to_owned()), Some(metrics.to_owned()));
        assert_eq!(urls(&[ALL]), both("http://collector:4318/v1/traces", "http://collector:4318/v1/metrics"));
        let below = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://host/otlp/?key=1");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://prometheus:9090/api/v1/otlp/v1/metrics");
        assert_eq!(urls(&[below, own]), both("https://host/otlp/v1/traces?key=1", own.1));
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://tempo:4318");
        assert_eq!(urls(&[traces]), (Some("http://tempo:4318/".to_owned()), None));
        assert_eq!(urls(&[ALL, ("OTEL_TRACES_EXPORTER", "none")]).0, None);
        let off = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        for none in [&[][..], &[ALL, ("OTEL_SDK_DISABLED", "True")], &[ALL, off[0], off[1]], &[off[0]]] {
            assert!(read(none).unwrap().is_none(), "{none:?}");
        }
    }

    #[test]
    fn headers_protocols_and_attributes_follow_the_standard() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20aHVzaA%3D%3D, x-scope = a=b,"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-scope=metrics"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%2Cb"),
            ("OTEL_SERVICE_NAME", "nightly"),
        ]);
        let TelemetrySettings { traces, metrics, resource, .. } = settings.unwrap().unwrap();
        let (traces, metrics) = (traces.unwrap(), metrics.unwrap());
        assert_eq!((traces.encoding, metrics.encoding), (BodyEncoding::Json, BodyEncoding::Protobuf));
        assert_eq!(traces.headers["authorization"], "Basic aHVzaA==");
        assert_eq!(traces.headers["x-scope"], "a=b");
        assert_eq!(metrics.headers["x-scope"], "metrics");
        assert_eq!(metrics.headers.len(), 1);
        let resource: Vec<_> = resource.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let version = ("service.version", env!("CARGO_PKG_VERSION"));
        assert_eq!(resource, [version, ("deployment.environment.name", "a,b"), ("service.name", "nightly")]);
        assert_eq!(read(&[ALL]).unwrap().unwrap().resource[1].1, "resemblance");
    }

    #[test]
    fn errors_name_the_variable_and_show_no_secret() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "user:hush@collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "hush"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hush"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=hush%0A"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "hush=%ff"),
            ("OTEL_RESOURCE_ATTRIBUTES", "hush"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
        ] {
            let error = read(&[ALL, (name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("hush"), "{error}");
        }
    }

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_parent_is_read_in_the_format_of_the_standard() {
        let sampled = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!((sampled.trace_id[0], sampled.trace_id[15], sampled.trace_id.len()), (0x4b, 0x36, 16));
        assert_eq!((sampled.span_id[1], sampled.span_id.len(), sampled.is_sampled), (0xf0, 8, true));
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-02")).unwrap().is_sampled);
        assert!(parse(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")).is_some());
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{TRACE}-01"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}é-{SPAN}-01", &TRACE[..30]),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong}");
        }
    }
}
