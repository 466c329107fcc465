//! The log: the filter, the span with the run id, the format of lines, and the line for the error that ends a command.

use std::fmt::Debug;

use serde_json::Value;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::address::secrets::masked;
use crate::cli::screen::print;
use crate::error::Error;
use crate::error::visible::{escaped, visible};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The target of events that every filter accepts.
const ALWAYS: &str = "resemblance::always";

/// Directives that drop events of Ballista. This program reports the same itself. The driver reports a failed job with its recovery, and
/// the executor reports once that a scheduler does not answer.
const REPEATED: [&str; 3] = [
    "ballista_core::execution_plans=off",
    "ballista_scheduler::display=off",
    "ballista_executor::execution_loop=error",
];

/// Returns the filter `given` if it is valid, and otherwise `default`. Adds [`REPEATED`] unless the filter mentions Ballista.
pub(crate) fn filter(given: Option<&str>, default: &str) -> EnvFilter {
    let given = given.and_then(|given| Some((given, EnvFilter::try_new(given).ok()?)));
    let (text, mut filter) = given.unwrap_or_else(|| (default, EnvFilter::new(default)));
    let left_out: &[&str] = if text.contains("ballista") { &[] } else { &REPEATED };
    let always = format!("{ALWAYS}=error");
    for directive in left_out.iter().copied().chain([always.as_str()]) {
        if let Ok(directive) = directive.parse() {
            filter = filter.add_directive(directive);
        }
    }
    filter
}

pub(crate) fn span(run_id: &str) -> tracing::Span {
    tracing::error_span!(target: ALWAYS, "run", run_id)
}

/// Returns the format of fields in text lines. Escapes control characters, and starts every line of the field `plan` on a new line.
pub(crate) fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(writer, "{}", visible(&value)),
            "plan" => value.lines().try_for_each(|line| write!(writer, "\n    {}", visible(line))),
            name => write!(writer, "{name}={}", visible(&value)),
        }
    };
    debug_fn(field).delimited(" ")
}

/// Masks the secrets in a log line, and escapes control characters in JSON lines.
pub(crate) fn without_secrets(line: &str, format: LogFormat) -> String {
    let masked = masked(line);
    if format == LogFormat::Text {
        return masked;
    }
    if masked == line {
        return escaped(line).into_owned();
    }
    // Masking can split an escape sequence in a JSON string, so the strings are masked one by one.
    let Ok(mut value) = serde_json::from_str(line) else { return masked };
    mask_strings(&mut value);
    escaped(&format!("{value}\n")).into_owned()
}

fn mask_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Array(values) => values.iter_mut().for_each(mask_strings),
        Value::Object(values) => values.values_mut().for_each(mask_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(crate) fn failed(error: &Error) {
    let (kind, exit_code) = (error.kind().name(), error.kind().exit_code());
    tracing::error!(target: ALWAYS, kind, exit_code, "{}", print::sentences(error).join("\n  because: "));
}

pub(crate) fn json_wanted(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let arguments: Vec<_> = arguments.collect();
    arguments.iter().any(|a| a == "--log-format=json")
        || arguments.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_of_ballista_are_dropped_unless_the_filter_names_it() {
        let directives = |given, default| filter(given, default).to_string();
        for left_out in [directives(None, "warn"), directives(Some("warn,resemblance=debug"), "error")] {
            assert!(REPEATED.iter().all(|directive| left_out.contains(directive)), "{left_out}");
        }
        for kept in
            [directives(None, "warn,ballista=info"), directives(Some("ballista_executor=warn"), "warn")]
        {
            assert!(!REPEATED.iter().any(|directive| kept.contains(directive)), "{kept}");
        }
        // An invalid filter is replaced by the default.
        let unread = directives(Some("a=b=c"), "warn");
        assert!(unread.contains("warn") && unread.contains(ALWAYS), "{unread}");
    }

    #[test]
    fn a_json_line_stays_json_when_a_secret_is_masked() {
        let secret = "s3://key:n0t\nfor\"eyes@bucket/a";
        crate::address::secrets::remember(secret);
        let line = serde_json::json!({"fields": {"message": format!("reading {secret}"), "n": 1}});
        let shown = without_secrets(&format!("{line}\n"), LogFormat::Json);
        let value: Value = serde_json::from_str(&shown).unwrap();
        let message = value["fields"]["message"].as_str().unwrap();
        assert!(!message.contains("n0t") && message.starts_with("reading s3://"), "{message}");
        assert!(shown.ends_with('\n') && value["fields"]["n"] == 1, "{shown}");
        assert_eq!(without_secrets("{\"b\":1,\"a\":2}\n", LogFormat::Json), "{\"b\":1,\"a\":2}\n");
        assert_eq!(without_secrets("{\"a\":\"\u{9b}2J\"}\n", LogFormat::Json), "{\"a\":\"\\u009b2J\"}\n");
    }
}
