//! Shows the progress of a run in a bar, or in log lines if there is no bar.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use parking_lot::Mutex;

use super::log::LogFormat;
use super::print;
use super::time_left::{self, Costs, TimeLeft};
use crate::engine::{InputProgress, InputUnit, Journal, Progress, StageEvent};
use crate::error::visible::visible;

/// The templates of the bar: one for inputs of unknown size, and one for each unit.
pub(super) const UNKNOWN: &str = "{spinner} {prefix} {msg} ({elapsed})";
const ROWS: &str = "{spinner} {prefix} {percent}% of {human_len} rows, {speed}{msg} ({elapsed})";
const BYTES: &str = "{spinner} {prefix} {percent}% of {binary_total_bytes}, {speed}{msg} ({elapsed})";
const PARTITIONS: &str = "{spinner} {prefix} {percent}% of {human_len} partitions, {speed}{msg} ({elapsed})";

/// The time before a rate is shown. Data that was available at the beginning would distort an earlier rate.
const FIRST_RATE: Duration = Duration::from_millis(500);

/// Returns the style for `template`. A test checks that all templates are valid.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Returns the mean rate and the remaining time, such as `8,230 rows/s, 12 s left, `. Empty at the beginning, and if the rate is close to
/// 0.
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

/// The target of log lines about the progress within a stage. The default filters drop these lines.
const TARGET: &str = "resemblance::progress";

/// The minimum interval between two log lines about the progress within a stage.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Bar {
    bar: ProgressBar,
    format: LogFormat,
    costs: Arc<Mutex<Option<Costs>>>,
    journal: Journal,
    stage: Mutex<RunningStage>,
    /// The remaining time of the run, and its start time.
    run: Mutex<Option<(TimeLeft, Instant)>>,
}

#[derive(Default)]
struct RunningStage {
    name: String,
    number: usize,
    stages: usize,
    /// The number of stages that have ended.
    ended: usize,
    /// A text about the tasks on a cluster. Empty on one machine.
    tasks: String,
    /// The unit of the input, once the stage has reported its progress.
    unit: Option<InputUnit>,
    /// The time of the last log line about the progress within the stage.
    logged: Option<Instant>,
}

impl Bar {
    /// Shows progress on `bar`, or in log lines in `format`. `costs` contains the forecast of the next run.
    pub(super) fn new(
        bar: ProgressBar,
        format: LogFormat,
        costs: Arc<Mutex<Option<Costs>>>,
        journal: Journal,
    ) -> Self {
        Self { bar, format, costs, journal, stage: Mutex::default(), run: Mutex::default() }
    }

    fn record(&self, event: StageEvent) {
        self.journal.lock().push((Instant::now(), event));
    }

    /// Changes the estimate of the remaining time. Returns the remaining seconds if they can be estimated.
    fn left(&self, change: impl FnOnce(&mut TimeLeft)) -> Option<f64> {
        let mut run = self.run.lock();
        let (left, began) = run.as_mut()?;
        change(left);
        let seconds = left.seconds(began.elapsed().as_secs_f64())?;
        Some((seconds * 10.0).round() / 10.0)
    }

    fn show(&self, RunningStage { name, number, stages, .. }: &RunningStage, left: Option<f64>) {
        self.bar.set_prefix(time_left::text(name, (*number, *stages), left));
    }

    /// Switches the bar to `unit`. The rate is measured from now on, so the finished amount `counted` does not count.
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
        let costs = self.costs.lock().take();
        let left = TimeLeft::new(costs.unwrap_or_else(Costs::typical), stages);
        *self.run.lock() = Some((left, Instant::now()));
    }

    fn stage_begins(&self, name: &str, number: usize, stages: usize) {
        self.record(StageEvent::Begins(name.to_owned()));
        let left_seconds = self.left(|run| run.begins(name));
        {
            let mut stage = self.stage.lock();
            let ended = stage.ended;
            *stage = RunningStage { name: name.to_owned(), number, stages, ended, ..RunningStage::default() };
            self.show(&stage, left_seconds);
        }
        self.bar.set_style(style(UNKNOWN));
        self.bar.enable_steady_tick(Duration::from_millis(120));
        self.bar.set_message("");
        self.bar.tick();
        // A visible bar already shows the stage. A text log has a line only when a stage ends.
        if self.bar.is_hidden() && self.format == LogFormat::Json {
            tracing::info!(stage = name, number, stages, left_seconds, "begins");
        }
    }

    fn stage_advances(&self, rows_in: u64, rows_out: u64) {
        // Most stages write only after they have read all of their input, so the line first shows the rows that were read.
        let (read, written) = (print::counted(rows_in, "row"), print::count(rows_out));
        let stage = self.stage.lock();
        let rows = match (rows_in > rows_out, rows_out > 0, stage.unit) {
            (_, true, Some(_)) => format!("{written} written"),
            (_, false, Some(_)) => "nothing written yet".to_owned(),
            (true, true, None) => format!("{read} read, {written} written"),
            (true, false, None) => format!("{read} read"),
            (false, _, None) => print::counted(rows_out, "row"),
        };
        self.bar.set_message(format!("{}{rows}", stage.tasks));
    }

    fn stage_reaches(&self, name: &str, InputProgress { done, all, unit }: InputProgress) {
        let left_seconds = self.left(|run| run.reaches(name, done as f64 / all.max(1) as f64));
        let mut stage = self.stage.lock();
        self.show(&stage, left_seconds);
        // The bar only shows the stage that started last.
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
            let unit = unit.name();
            tracing::debug!(target: TARGET, stage = name, number, stages, done, all, unit, left_seconds, "reached");
        }
    }

    fn tasks(&self, done: usize, begun: usize, query_stages_done: usize, query_stages: usize) {
        self.stage.lock().tasks =
            format!("{query_stages_done} of {query_stages} query stages, {done} of {begun} tasks begun, ");
    }

    fn recovering(&self, why: &str) {
        self.record(StageEvent::Recovers(why.to_owned()));
        self.bar.set_message(format!("recovering: {}", visible(why)));
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool) {
        self.record(StageEvent::Ends { name: name.to_owned(), rows, seconds, reused });
        let seconds = (seconds * 1e3).round() / 1e3;
        let left_seconds = self.left(|run| run.ends(name, reused));
        let (number, stages) = {
            let mut stage = self.stage.lock();
            stage.ended += 1;
            (stage.ended, stage.stages)
        };
        if reused {
            let message = "taken over from an earlier run";
            tracing::info!(stage = name, number, stages, rows, left_seconds, "{message}");
        } else {
            tracing::info!(stage = name, number, stages, rows, seconds, left_seconds, "done");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_and_appear_after_a_while() {
        let after = |seconds: f64| Duration::from_secs_f64(seconds);
        assert_eq!(speed(InputUnit::Rows, after(0.1), 1_000_000, 5), "");
        assert_eq!(speed(InputUnit::Rows, after(9.0), 0, 5), "");
        assert_eq!(speed(InputUnit::Rows, after(3.0), 10_000, 40_000), "3,333 rows/s, 12 s left, ");
        assert_eq!(speed(InputUnit::Bytes, after(2.0), 8 << 20, 4 << 20), "4.0 MiB/s, 1.0 s left, ");
        assert_eq!(speed(InputUnit::Partitions, after(2.0), 1, 3), "6.0 s left, ");
    }

    #[test]
    fn every_template_is_valid() {
        for template in [UNKNOWN, ROWS, BYTES, PARTITIONS] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
