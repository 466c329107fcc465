//! Forecasts of the command line: made in a temporary folder, and shown in lines.

use std::fmt::Write;
use std::path::PathBuf;

use crate::cli::support::print::{self, bytes, count, counted};
use crate::cli::support::progress::Screen;
use crate::cli::support::temporary;
use crate::cli::support::work::JobRuntime;
use crate::engine::RunControl;
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::evaluate::Estimate;
use crate::forecast::{Amount, Forecast, ForecastSettings, Template, forecast};
use crate::job::{self, Job};
use crate::output::manifest::Run as Manifest;

/// Stages that are listed, the longest ones.
const LISTED: usize = 6;
/// Passages that are listed, the most frequent ones, and characters of each.
const PASSAGES: usize = 10;
const PASSAGE: usize = 90;

/// Makes a forecast, until it is done or a signal stops it. Its folder is removed in any case.
pub(in crate::cli) fn make(job: &Job, settings: &ForecastSettings, screen: &Screen) -> Result<Forecast> {
    let spill = job.engine.spill.as_ref().map(PathBuf::from).filter(|folder| folder.is_dir());
    let folders = spill.into_iter().chain(temporary::folders()).collect();
    let folder = temporary::apart(&job.source.urls, folders)?;
    let engine = job::Engine { mode: job::Mode::Local, ..job.engine.clone() };
    let work = JobRuntime::begin(&engine)?;
    let control = RunControl { stop: work.stop.clone(), progress: screen.progress() };
    let made = work.run_or(forecast(job, folder.path(), settings, &control), Error::stopped);
    // Tasks end before their files are removed.
    drop(work);
    drop(folder);
    screen.clear();
    made
}

fn seconds(Estimate { value, low, high }: Estimate) -> [String; 2] {
    [print::duration(value), format!("{} to {}", print::duration(low), print::duration(high))]
}

fn amount(Amount { value, low, high }: Amount, shown: impl Fn(u64) -> String) -> [String; 2] {
    match low == high {
        true => [shown(value), "exact".to_owned()],
        false => [shown(value), format!("{} to {}", shown(low), shown(high))],
    }
}

/// The row of a passage: its text is cut, and shows nothing that acts on a terminal.
fn passage(template: &Template) -> Vec<String> {
    let shown = visible(&template.text).into_owned();
    let shown = match shown.char_indices().nth(PASSAGE) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    };
    vec![format!("{:.1} %", 100.0 * template.share), count(template.shingles), shown]
}

/// A forecast for people.
pub(in crate::cli) fn text(forecast: &Forecast, job: &Job) -> String {
    let sample = &forecast.sample;
    let mut text = format!(
        "job {}, by a sample of {} out of {} in {} of {}\n\n",
        forecast.name,
        counted(sample.documents, "document"),
        count(forecast.documents.value),
        count(sample.files),
        counted(sample.of_files, "file")
    );
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, [value, range]: [String; 2]| rows.push(vec![name.to_owned(), value, range]);
    row("seconds here", seconds(forecast.seconds));
    if let Some(cluster) = forecast.cluster {
        row(&format!("on a cluster of {}", counted(cluster.tasks, "task")), seconds(cluster.seconds));
    }
    if let Some(memory) = forecast.peak_memory_bytes {
        row("peak memory", amount(memory, bytes));
    }
    row("written", amount(forecast.written_bytes, bytes));
    row("result", amount(forecast.output_bytes, bytes));
    row("most disk at once", amount(forecast.most_disk_bytes, bytes));
    row("documents", amount(forecast.documents, count));
    row("rejected", amount(forecast.rejects, count));
    if let Some(candidates) = forecast.candidates {
        row("candidates", amount(candidates, count));
    }
    row("pairs", amount(forecast.pairs, count));
    if let Some(requests) = forecast.requests {
        row("requests: reads", amount(requests.reads, count));
        row("requests: writes", amount(requests.writes, count));
    }
    text.push_str(&print::table(&["forecast", "value", "range"], &rows));
    let mut longest: Vec<_> = forecast.stages.iter().collect();
    longest.sort_by(|a, b| b.seconds.value.total_cmp(&a.seconds.value));
    let shown = longest.iter().take(LISTED).map(|stage| {
        let [value, range] = seconds(stage.seconds);
        vec![stage.name.clone(), value, range, bytes(stage.written_bytes.value)]
    });
    text.push('\n');
    let header = ["longest stages", "value", "range", "written"];
    text.push_str(&print::table(&header, &shown.collect::<Vec<_>>()));
    if let Some(scheduler) = job.engine.scheduler_address() {
        let _ = writeln!(text, "\nthe job runs on {scheduler}: --tasks N estimates its seconds there");
    }
    if !forecast.templates.is_empty() {
        let rows: Vec<_> = forecast.templates.iter().take(PASSAGES).map(passage).collect();
        text.push('\n');
        text.push_str(&print::table(&["documents", "shingles", "passages that many documents have"], &rows));
    }
    for risk in &forecast.risks {
        let _ = writeln!(text, "\nrisk: {}", risk.text);
        if let Some(example) = &risk.example {
            let _ = writeln!(text, "  for example: {}", visible(example));
        }
        for set in &risk.set {
            let _ = writeln!(text, "  try --set {set}");
        }
    }
    for note in &forecast.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

/// A forecast and what the run took, for people.
pub(in crate::cli) fn compared(forecast: &Forecast, measured: &Manifest, peak_memory: Option<u64>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, [value, range]: [String; 2], measured: String| {
        rows.push(vec![name.to_owned(), value, range, measured]);
    };
    let all: f64 = measured.stages.iter().map(|stage| stage.seconds).sum();
    row("seconds", seconds(forecast.seconds), print::duration(all));
    if let Some((memory, peak)) = forecast.peak_memory_bytes.zip(peak_memory) {
        row("peak memory", amount(memory, bytes), bytes(peak));
    }
    let written = measured.stages.iter().map(|stage| stage.bytes).sum();
    row("written", amount(forecast.written_bytes, bytes), bytes(written));
    let result = measured.files().map(|file| file.bytes).sum();
    row("result", amount(forecast.output_bytes, bytes), bytes(result));
    row("pairs", amount(forecast.pairs, count), count(measured.counts.pairs));
    for stage in &forecast.stages {
        if let Some(took) = measured.stages.iter().find(|took| took.name == stage.name) {
            row(&stage.name, seconds(stage.seconds), print::duration(took.seconds));
        }
    }
    print::table(&["", "forecast", "range", "measured"], &rows)
}
