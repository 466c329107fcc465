//! `resemblance plan`: forecasts the time, memory, disk and requests of a run. `run --forecast` uses these functions too.

use std::fmt::Write;
use std::path::PathBuf;

use crate::cli::arguments::JobArguments;
use crate::cli::process::{JobRuntime, files};
use crate::cli::screen::Screen;
use crate::cli::screen::print::{self, bytes, count, counted};
use crate::engine::RunControl;
use crate::error::Result;
use crate::error::visible::{shortened, visible};
use crate::evaluate::Estimate;
use crate::forecast::{Amount, Forecast, ForecastSettings, Template, forecast};
use crate::job::{EngineSettings, Job, Mode};
use crate::output::manifest::Run as Manifest;

/// Forecast the seconds, memory, disk and requests of a run, each with a range, and its risks
///
/// Runs the job in a temporary folder, on a sample that is spread over all files of the source. It uses the job's memory, threads and
/// folder for spills. Nothing is written to the job's output. Larger samples give narrower ranges.
#[derive(clap::Args)]
#[command(after_help = "  resemblance plan my.toml
  resemblance plan my.toml --sample 50000 --set score.threshold=0.7
  resemblance plan my.toml --tasks 64 --json")]
pub(crate) struct PlanCommand {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    settings: ForecastSettings,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PlanCommand {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job.load_over_output()?;
        let mut forecast = make(&job, &self.settings, screen)?;
        for risk in &mut forecast.risks {
            risk.set.retain(|set| self.job.takes(set));
        }
        print::json_or(self.json, &forecast, || text(&forecast, &job))
    }
}

/// The maximum number of listed stages. The stages that take longest are listed.
const LISTED: usize = 6;
/// The maximum number of listed passages, and of characters of each.
const PASSAGES: usize = 10;
const PASSAGE_CHARACTERS: usize = 90;

pub(crate) fn make(job: &Job, settings: &ForecastSettings, screen: &Screen) -> Result<Forecast> {
    let spill = job.engine.spill.as_ref().map(PathBuf::from).filter(|folder| folder.is_dir());
    let folders = spill.into_iter().chain(files::temporary_folders()).collect();
    let folder = files::temporary_folder_outside(&job.source.urls, folders)?;
    let engine = EngineSettings { mode: Mode::Local, ..job.engine.clone() };
    let runtime = JobRuntime::start(&engine)?;
    let control = RunControl { stop: runtime.stop.clone(), progress: screen.progress() };
    let made = runtime.run(forecast(job, folder.path(), settings, &control));
    // The tasks must end before the folder with their files is removed.
    drop(runtime);
    drop(folder);
    screen.clear();
    made
}

fn seconds(Estimate { value, low, high }: Estimate) -> [String; 2] {
    [print::duration(value), format!("{} to {}", print::duration(low), print::duration(high))]
}

fn amount(Amount { value, low, high }: Amount, shown: impl Fn(u64) -> String) -> [String; 2] {
    let range = if low == high { "exact".to_owned() } else { format!("{} to {}", shown(low), shown(high)) };
    [shown(value), range]
}

fn passage(template: &Template) -> Vec<String> {
    let shown = visible(&template.text);
    let shown = shortened(&shown, PASSAGE_CHARACTERS).into_owned();
    vec![format!("{:.1} %", 100.0 * template.share), count(template.shingles), shown]
}

pub(crate) fn text(forecast: &Forecast, job: &Job) -> String {
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
    let sizes = [
        ("peak memory", forecast.peak_memory_bytes),
        ("written", Some(forecast.written_bytes)),
        ("result", Some(forecast.output_bytes)),
        ("most disk at once", Some(forecast.most_disk_bytes)),
    ];
    for (name, value) in sizes {
        value.into_iter().for_each(|value| row(name, amount(value, bytes)));
    }
    let counts = [
        ("documents", Some(forecast.documents)),
        ("rejected", Some(forecast.rejects)),
        ("candidates", forecast.candidates),
        ("pairs", Some(forecast.pairs)),
        ("requests: reads", forecast.requests.map(|requests| requests.reads)),
        ("requests: writes", forecast.requests.map(|requests| requests.writes)),
    ];
    for (name, value) in counts {
        value.into_iter().for_each(|value| row(name, amount(value, count)));
    }
    text.push_str(&print::table(&["forecast", "value", "range"], &rows));
    let mut longest: Vec<_> = forecast.stages.iter().collect();
    longest.sort_by(|a, b| b.seconds.value.total_cmp(&a.seconds.value));
    let shown = longest.iter().take(LISTED).map(|stage| {
        let [value, range] = seconds(stage.seconds);
        vec![stage.name.clone(), value, range, bytes(stage.written_bytes.value)]
    });
    text.push('\n');
    text.push_str(&print::table(&["longest stages", "value", "range", "written"], shown));
    if let Some(scheduler) = job.engine.scheduler_address() {
        let _ = writeln!(text, "\nthe job runs on {scheduler}: --tasks N estimates its seconds there");
    }
    if !forecast.templates.is_empty() {
        let rows = forecast.templates.iter().take(PASSAGES).map(passage);
        text.push('\n');
        text.push_str(&print::table(&["documents", "shingles", "passages that many documents have"], rows));
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

pub(crate) fn compared(forecast: &Forecast, measured: &Manifest, peak_memory: Option<u64>) -> String {
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
