//! Progress: a bar where standard error is a terminal, and otherwise a log line for each stage.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use crate::address::secrets::masked;
use crate::cli::support::time_left::{self, Costs, TimeLeft};
use crate::cli::support::{log, print, telemetry};
use crate::engine::{InputProgress, InputUnit, Progress};
use crate::environment::Environment;
use crate::error::visible::visible;

/// Standard error: a line of progress that log lines do not tear.
#[derive(Clone)]
pub(in crate::cli) struct Screen {
    bar: ProgressBar,
    /// The format of log lines.
    format: log::LogFormat,
    is_quiet: bool,
    /// The costs of the stages of the next run, if it has a forecast.
    costs: Arc<Mutex<Option<Costs>>>,
}

impl Screen {
    /// A screen with a bar on a terminal, unless `plain` lines are wanted.
    pub(in crate::cli) fn new(plain: bool) -> Self {
        let bar = match std::io::stderr().is_terminal() && !plain {
            true => ProgressBar::no_length().with_style(style(UNKNOWN)),
            false => ProgressBar::hidden(),
        };
        Self { bar, format: log::LogFormat::Text, is_quiet: false, costs: Arc::default() }
    }

    /// The screen for lines in `format`, and for errors alone if it `is_quiet`.
    pub(in crate::cli) fn with(self, format: log::LogFormat, is_quiet: bool) -> Self {
        Self { format, is_quiet, ..self }
    }

    /// The next run has a forecast with these costs.
    pub(in crate::cli) fn expect(&self, costs: Costs) {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner) = Some(costs);
    }

    /// Shows a line on standard error, unless the screen is quiet; among log lines of JSON it is one of them.
    pub(in crate::cli) fn say(&self, line: &str) {
        match self.format {
            _ if self.is_quiet => {}
            log::LogFormat::Json => tracing::info!("{line}"),
            log::LogFormat::Text => {
                self.bar.suspend(|| print::message(&format!("{}\n", visible(&masked(line)))));
            }
        }
    }

    /// Starts the log: warnings, and without a bar each stage if `stages` are wanted or lines are JSON, unless `-v` or
    /// `RESEMBLANCE_LOG` is set.
    pub(in crate::cli) fn start_log(&self, verbose: u8, stages: bool) {
        let format = self.format;
        let has_stages = self.bar.is_hidden() && (stages || format == log::LogFormat::Json);
        let default = match (self.is_quiet, verbose, has_stages) {
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
            .with_writer(self.clone())
            .with_target(false)
            .log_internal_errors(false);
        // This fails only if the process has a log already, which then stays.
        let _ = match format {
            log::LogFormat::Json => log.json().with_span_list(false).with_ansi(false).try_init(),
            log::LogFormat::Text => log.with_ansi(colour).fmt_fields(log::fields()).try_init(),
        };
    }

    pub(in crate::cli) fn progress(&self) -> Arc<dyn Progress> {
        telemetry::watched(Arc::new(Bar {
            bar: self.bar.clone(),
            format: self.format,
            costs: Arc::clone(&self.costs),
            stage: Mutex::default(),
            run: Mutex::default(),
        }))
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

/// A bar without the size of its input, and bars with it.
const UNKNOWN: &str = "{spinner} {prefix} {msg} ({elapsed})";
const ROWS: &str = "{spinner} {prefix} {percent}% of {human_len} rows, {speed}{msg} ({elapsed})";
const BYTES: &str = "{spinner} {prefix} {percent}% of {binary_total_bytes}, {speed}{msg} ({elapsed})";
const PARTITIONS: &str = "{spinner} {prefix} {percent}% of {human_len} partitions, {speed}{msg} ({elapsed})";

/// How long a stage is counted before its rate is shown: what was there at once says nothing about the rest.
const FIRST_RATE: Duration = Duration::from_millis(500);

/// The style for `template`, whose errors would be errors of this program.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// The mean rate since the first count, and the time left at this rate: `8,230 rows/s, 12 s left, `. Empty until they are known.
fn speed(unit: InputUnit, since: Duration, done: u64, left: u64) -> String {
    let rate = done as f64 / since.as_secs_f64();
    if since < FIRST_RATE || rate < 1e-3 {
        return String::new();
    }
    let seconds = print::duration((left as f64 / rate).ceil());
    match unit {
        InputUnit::Rows => format!("{} rows/s, {seconds} left, ", print::count(rate.round() as u64)),
        InputUnit::Bytes => format!("{}/s, {seconds} left, ", print::bytes(rate as u64)),
        InputUnit::Partitions => format!("{seconds} left, "),
    }
}

/// The target of the log lines that say how far a stage is; no filter has them by default.
const TARGET: &str = "resemblance::progress";

/// How often such a line is logged.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

struct Bar {
    bar: ProgressBar,
    /// The format of log lines.
    format: log::LogFormat,
    costs: Arc<Mutex<Option<Costs>>>,
    stage: Mutex<RunningStage>,
    /// The run of a job and its beginning; `None` for other work.
    run: Mutex<Option<(TimeLeft, Instant)>>,
}

/// The running stage.
#[derive(Default)]
struct RunningStage {
    name: String,
    number: usize,
    stages: usize,
    /// Stages that have ended, this one not counted.
    ended: usize,
    /// The tasks on a cluster, or what it lost; empty on one machine.
    tasks: String,
    /// What is counted, once it is known.
    unit: Option<InputUnit>,
    /// When a line was logged last.
    logged: Option<Instant>,
}

impl Bar {
    fn stage(&self) -> MutexGuard<'_, RunningStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the time that the run will still take. Returns the seconds, if they can be estimated.
    fn left(&self, change: impl FnOnce(&mut TimeLeft)) -> Option<f64> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, began) = run.as_mut()?;
        change(left);
        let seconds = left.seconds(began.elapsed().as_secs_f64())?;
        Some((seconds * 10.0).round() / 10.0)
    }

    /// Shows the running stage, and the seconds until the end of the run.
    fn show(&self, RunningStage { name, number, stages, .. }: &RunningStage, left: Option<f64>) {
        self.bar.set_prefix(time_left::text(name, (*number, *stages), left));
    }

    /// Counts in `unit` from now on; `counted` are done already.
    fn count_in(&self, unit: InputUnit, counted: u64) {
        let template = match unit {
            InputUnit::Rows => ROWS,
            InputUnit::Bytes => BYTES,
            InputUnit::Partitions => PARTITIONS,
        };
        let began = Instant::now();
        let speed = move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let (done, all) = (state.pos(), state.len().unwrap_or_default());
            let (done_since, left) = (done.saturating_sub(counted), all.saturating_sub(done));
            let _ = text.write_str(&speed(unit, began.elapsed(), done_since, left));
        };
        self.bar.set_style(style(template).with_key("speed", speed));
    }
}

impl Progress for Bar {
    fn run_begins(&self, stages: &[String]) {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let left = TimeLeft::of(costs.unwrap_or_else(Costs::typical), stages);
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some((left, Instant::now()));
    }

    fn stage_begins(&self, name: &str, number: usize, stages: usize) {
        let left_seconds = self.left(|run| run.begins(name));
        {
            let mut stage = self.stage();
            let ended = stage.ended;
            *stage = RunningStage { name: name.to_owned(), number, stages, ended, ..RunningStage::default() };
            self.show(&stage, left_seconds);
        }
        self.bar.set_style(style(UNKNOWN));
        self.bar.enable_steady_tick(Duration::from_millis(120));
        self.bar.set_message("");
        self.bar.tick();
        // A visible bar shows the stage, and of text lines each stage has one, at its end.
        if self.bar.is_hidden() && self.format == log::LogFormat::Json {
            tracing::info!(stage = name, number, stages, left_seconds, "begins");
        }
    }

    fn stage_advances(&self, rows_in: u64, rows_out: u64) {
        // Rows read count before rows written: most stages write only after they have read everything.
        let (read, written) = (print::count(rows_in), print::count(rows_out));
        let stage = self.stage();
        let rows = match (rows_in > rows_out, rows_out > 0, stage.unit) {
            (_, true, Some(_)) => format!("{written} written"),
            (_, false, Some(_)) => "nothing written yet".to_owned(),
            (true, true, None) => format!("{read} rows read, {written} written"),
            (true, false, None) => format!("{read} rows read"),
            (false, _, None) => format!("{written} rows"),
        };
        self.bar.set_message(format!("{}{rows}", stage.tasks));
    }

    fn stage_reaches(&self, name: &str, InputProgress { done, all, unit }: InputProgress) {
        let left_seconds = self.left(|run| run.reaches(name, done as f64 / all.max(1) as f64));
        let mut stage = self.stage();
        self.show(&stage, left_seconds);
        // Of stages that run at the same time, the bar has the one that began last.
        if stage.name != name {
            return;
        }
        if stage.unit != Some(unit) {
            stage.unit = Some(unit);
            self.count_in(unit, done);
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
        if self.bar.is_hidden() && stage.logged.is_none_or(|logged| logged.elapsed() >= LINE_INTERVAL) {
            stage.logged = Some(Instant::now());
            let RunningStage { name, number, stages, .. } = &*stage;
            let unit = match unit {
                InputUnit::Rows => "rows",
                InputUnit::Bytes => "bytes",
                InputUnit::Partitions => "partitions",
            };
            tracing::debug!(target: TARGET, stage = name, number, stages, done, all, unit, left_seconds, "reached");
        }
    }

    fn tasks(&self, done: usize, begun: usize, query_stages_done: usize, query_stages: usize) {
        self.stage().tasks =
            format!("{query_stages_done} of {query_stages} query stages, {done} of {begun} tasks begun, ");
    }

    fn recovering(&self, why: &str) {
        self.bar.set_message(format!("recovering: {}", visible(why)));
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool) {
        let seconds = (seconds * 1e3).round() / 1e3;
        let left_seconds = self.left(|run| run.ends(name, reused));
        let (number, stages) = {
            let mut stage = self.stage();
            stage.ended += 1;
            (stage.ended, stage.stages)
        };
        match reused {
            true => tracing::info!(
                stage = name,
                number,
                stages,
                rows,
                left_seconds,
                "taken over from an earlier run"
            ),
            false => tracing::info!(stage = name, number, stages, rows, seconds, left_seconds, "done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_round_and_wait_until_they_say_something() {
        let after = |seconds: f64| Duration::from_secs_f64(seconds);
        assert_eq!(speed(InputUnit::Rows, after(0.1), 1_000_000, 5), "");
        assert_eq!(speed(InputUnit::Rows, after(9.0), 0, 5), "");
        assert_eq!(speed(InputUnit::Rows, after(3.0), 10_000, 40_000), "3,333 rows/s, 12 s left, ");
        assert_eq!(speed(InputUnit::Bytes, after(2.0), 8 << 20, 4 << 20), "4.0 MiB/s, 1.0 s left, ");
        assert_eq!(speed(InputUnit::Partitions, after(2.0), 1, 3), "6.0 s left, ");
    }

    #[test]
    fn every_template_is_one() {
        for template in [UNKNOWN, ROWS, BYTES, PARTITIONS] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
