//! Progress: a bar where standard error is a terminal, log lines otherwise.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use crate::address::secrets::masked;
use crate::cli::support::{log, print};
use crate::engine::Progress;
use crate::environment::Environment;
use crate::error::visible::visible;

/// Standard error: a line of progress that log lines do not tear.
#[derive(Clone)]
pub(in crate::cli) struct Screen {
    bar: ProgressBar,
    /// The format of log lines.
    format: log::Format,
    is_quiet: bool,
}

impl Screen {
    /// A screen with a bar on a terminal, unless `plain` lines are wanted.
    pub(in crate::cli) fn new(plain: bool) -> Self {
        let bar = match std::io::stderr().is_terminal() && !plain {
            true => ProgressBar::no_length(),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { bar, format: log::Format::Text, is_quiet: false }
    }

    /// The screen for lines in `format`, and for errors alone if it `is_quiet`.
    pub(in crate::cli) fn with(self, format: log::Format, is_quiet: bool) -> Self {
        Self { format, is_quiet, ..self }
    }

    /// Shows a line on standard error, unless the screen is quiet; among log lines of JSON it is one of them.
    pub(in crate::cli) fn say(&self, line: &str) {
        match self.format {
            _ if self.is_quiet => {}
            log::Format::Json => tracing::info!("{line}"),
            log::Format::Text => {
                self.bar.suspend(|| print::message(&format!("{}\n", visible(&masked(line)))));
            }
        }
    }

    /// Starts the log: warnings with a bar, each stage without one, unless `-v` or `RESEMBLANCE_LOG` is set.
    pub(in crate::cli) fn start_log(&self, verbose: u8, quiet: bool, format: log::Format) {
        let default = match (quiet, verbose, self.bar.is_hidden()) {
            (true, ..) => "error",
            (_, 0, false) => "warn",
            (_, 0, true) | (_, 1, _) => "warn,resemblance=info",
            _ => "warn,resemblance=debug,ballista=info",
        };
        let environment = Environment::of_process();
        let filter = log::filter(environment.log(), default);
        let colour = std::io::stderr().is_terminal() && environment.allows_colour();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(Self { bar: self.bar.clone(), format, is_quiet: quiet })
            .with_target(false)
            .log_internal_errors(false);
        // This fails only if the process has a log already, which then stays.
        let _ = match format {
            log::Format::Json => log.json().with_span_list(false).with_ansi(false).try_init(),
            log::Format::Text => log.with_ansi(colour).fmt_fields(log::fields()).try_init(),
        };
    }

    pub(in crate::cli) fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Bar { bar: self.bar.clone(), tasks: Mutex::default() })
    }

    pub(in crate::cli) fn clear(&self) {
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

/// Whether the calling thread is writing a log line.
pub(in crate::cli) fn is_writing() -> bool {
    WRITING.try_with(Cell::get).unwrap_or(true)
}

/// Takes whole log lines. It never fails: a full disk or a closed pipe must not end a run.
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

struct Bar {
    bar: ProgressBar,
    /// The tasks of the running stage on a cluster, or what it lost; empty on one machine.
    tasks: Mutex<String>,
}

impl Bar {
    fn set_tasks(&self, tasks: String) {
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }
}

impl Progress for Bar {
    fn stage_begins(&self, name: &str, number: usize, stages: usize) {
        self.bar.enable_steady_tick(Duration::from_millis(120));
        self.bar.set_prefix(format!("[{number}/{stages}] {name}"));
        self.bar.set_message("");
        self.set_tasks(String::new());
        self.bar.tick();
        // A visible bar shows the stage.
        if self.bar.is_hidden() {
            tracing::info!(stage = name, number, stages, "begins");
        }
    }

    fn stage_advances(&self, rows_in: u64, rows_out: u64) {
        // Rows read count before rows written: most stages write only after they have read everything.
        let (read, written) = (print::count(rows_in), print::count(rows_out));
        let rows = match (rows_in > rows_out, rows_out > 0) {
            (true, true) => format!("{read} rows read, {written} written"),
            (true, false) => format!("{read} rows read"),
            (false, _) => format!("{written} rows"),
        };
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.set_message(format!("{tasks}{rows}"));
    }

    fn tasks(&self, done: usize, begun: usize, query_stages_done: usize, query_stages: usize) {
        self.set_tasks(format!(
            "{query_stages_done} of {query_stages} query stages, {done} of {begun} tasks begun, "
        ));
    }

    fn recovering(&self, why: &str) {
        self.bar.set_message(format!("recovering: {}", visible(why)));
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool) {
        let seconds = (seconds * 1e3).round() / 1e3;
        match reused {
            true => tracing::info!(stage = name, rows, "taken over from an earlier run"),
            false => tracing::info!(stage = name, rows, seconds, "done"),
        }
    }
}
