//! Shows results, progress and the log on the terminal.
//!
//! If standard error is a terminal, progress is a bar. Otherwise it is one log line per stage.

pub(crate) mod log;
pub(crate) mod print;
mod progress;
pub(crate) mod side_by_side;
pub(crate) mod time_left;

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

use indicatif::ProgressBar;
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::address::secrets::masked;
use crate::engine::{Journal, Progress};
use crate::environment::Environment;
use crate::error::visible::visible;
use log::LogFormat;
use progress::{Bar, UNKNOWN, style};
use time_left::Costs;

/// Standard error, which the progress bar and the log share.
#[derive(Clone)]
pub(crate) struct Screen {
    bar: ProgressBar,
    format: LogFormat,
    is_quiet: bool,
    /// The forecast costs of the stages in the next run, if there is a forecast.
    costs: Arc<Mutex<Option<Costs>>>,
    pub(crate) journal: Journal,
}

impl Screen {
    /// Creates a screen. Progress is a bar if standard error is a terminal and `is_plain` is false. A quiet screen shows only errors.
    pub(crate) fn new(is_plain: bool, format: LogFormat, is_quiet: bool) -> Self {
        let bar = if std::io::stderr().is_terminal() && !is_plain {
            ProgressBar::no_length().with_style(style(UNKNOWN))
        } else {
            ProgressBar::hidden()
        };
        Self { bar, format, is_quiet, costs: Arc::default(), journal: Journal::default() }
    }

    pub(crate) fn expect(&self, costs: Costs) {
        *self.costs.lock() = Some(costs);
    }

    /// Shows a line on standard error, unless the screen is quiet. With the format JSON, the line is a log event.
    pub(crate) fn say(&self, line: &str) {
        match self.format {
            _ if self.is_quiet => {}
            LogFormat::Json => tracing::info!("{line}"),
            LogFormat::Text => {
                self.bar.suspend(|| print::message(&format!("{}\n", visible(&masked(line)))));
            }
        }
    }

    /// Starts the log of warnings and errors. Without a bar, it also has a line per stage if `stages` is set or the format is JSON.
    /// `verbose` and `RESEMBLANCE_LOG` change these defaults.
    pub(crate) fn start_log(&self, verbose: u8, stages: bool) {
        let format = self.format;
        let has_stages = self.bar.is_hidden() && (stages || format == LogFormat::Json);
        let default = match (self.is_quiet, verbose, has_stages) {
            (true, ..) => "error",
            (_, 0, false) => "warn",
            (_, 0, true) | (_, 1, _) => "warn,resemblance=info",
            _ => "warn,resemblance=debug,ballista=info",
        };
        let environment = Environment::process();
        let filter = log::filter(environment.get("RESEMBLANCE_LOG"), default);
        let colour = std::io::stderr().is_terminal() && environment.allows_colour();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(self.clone())
            .with_target(false)
            .log_internal_errors(false);
        // Starting the log fails only if the process already has a log.
        let _ = match format {
            LogFormat::Json => log.json().with_span_list(false).with_ansi(false).try_init(),
            LogFormat::Text => log.with_ansi(colour).fmt_fields(log::fields()).try_init(),
        };
    }

    pub(crate) fn progress(&self) -> Arc<dyn Progress> {
        let (costs, journal) = (Arc::clone(&self.costs), Arc::clone(&self.journal));
        Arc::new(Bar::new(self.bar.clone(), self.format, costs, journal))
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = Screen;

    fn make_writer(&'a self) -> Screen {
        self.clone()
    }
}

thread_local! {
    static WRITING: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn is_writing() -> bool {
    WRITING.try_with(Cell::get).unwrap_or(true)
}

/// Writes complete log lines. Ignores errors, because a full disk or a closed pipe must not end a run.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = log::without_secrets(&String::from_utf8_lossy(bytes), self.format);
        WRITING.set(true);
        self.bar.suspend(|| {
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        });
        WRITING.set(false);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let _ = std::io::stderr().lock().flush();
        Ok(())
    }
}
