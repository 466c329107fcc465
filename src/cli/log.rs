//! What every log line of a run bears, and the last line of one that failed.

use super::explain;
use crate::error::Error;

/// The target of what is logged under any filter.
const ALWAYS: &str = "resemblance::always";

/// `filter`, and what is logged under any.
pub(super) fn always(filter: tracing_subscriber::EnvFilter) -> tracing_subscriber::EnvFilter {
    match format!("{ALWAYS}=error").parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// The span of a run: while it is entered, log lines bear the run's id.
pub(super) fn span(run_id: &str) -> tracing::Span {
    tracing::error_span!(target: ALWAYS, "run", run_id)
}

/// Makes the calling thread's span that of a runtime's threads, for what is spawned there has none of its own.
pub(super) fn on_every_thread(builder: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    let span = tracing::Span::current();
    // Left only by the end of the thread.
    builder.on_thread_start(move || std::mem::forget(span.clone().entered()))
}

/// The error that ends the command, as a log line.
pub(super) fn failed(error: &Error) {
    let (kind, exit_code) = (error.kind().name(), error.kind().exit_code());
    tracing::error!(target: ALWAYS, kind, exit_code, "{}", explain(error));
}

/// Whether the command line asks for JSON, for when it is too wrong to be parsed.
pub(super) fn json_wanted(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let arguments: Vec<_> = arguments.collect();
    arguments.iter().any(|a| a == "--log-format=json")
        || arguments.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json")
}
