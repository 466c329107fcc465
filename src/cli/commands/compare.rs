//! `resemblance compare`: measures three methods that find similar pairs. `sweep` shares its arguments and output.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::cli::arguments::JobArguments;
use crate::cli::process::JobRuntime;
use crate::cli::process::files::{FileMark, OwnFile};
use crate::cli::screen::{Screen, print};
use crate::engine::{RunControl, session};
use crate::error::{Context, Result};
use crate::job::{Job, whole};
use crate::lab::compare::{COLUMNS, Comparison, MAX_REPEAT, MAX_SAMPLE, compare};
use crate::page::{self as pages, Chart, HtmlPage, Series};

/// Time three methods that find the same pairs, on growing samples
///
/// The methods are exact Jaccard of all pairs, signature agreement of all pairs, and LSH with the job's score. Each method runs in memory
/// on the first documents of the job's source. A total is the time from texts to pairs: shingle sets, signatures if the method needs them,
/// and the search. Reading the source is not counted. Nothing is written to the job's output.
#[derive(clap::Args)]
#[command(after_help = "  resemblance compare my.toml --documents 100,1000")]
pub(crate) struct CompareCommand {
    /// Sample sizes: each sample contains the first N documents that can be compared, by file and position
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "100,500,1000,2000,5000",
        value_parser = whole(1..=MAX_SAMPLE)
    )]
    documents: Vec<usize>,
    /// Repeat the measurement this many times and report the shortest time
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole(1..=MAX_REPEAT))]
    repeat: usize,
    #[command(flatten)]
    measure: MeasureArguments,
}

impl CompareCommand {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let measured = self.measure.run(screen, async |session, job, control| {
            compare(session, job, &self.documents, self.repeat, control).await
        });
        let (comparison, added) = measured?;
        let (page, charts) = (comparison.page(&added), comparison.charts(&added));
        self.measure.publish(&comparison, ("compare", &page), &charts, &as_text(&comparison))
    }
}

fn as_text(comparison: &Comparison) -> String {
    let mut text = print::table(&COLUMNS, comparison.rows());
    let _ = writeln!(
        text,
        "\npairs of similarity {} or more; each time is the shortest of {}",
        comparison.job.score.threshold, comparison.repeat
    );
    if let Some(note) = &comparison.note {
        let _ = writeln!(text, "{note}");
    }
    for (sample, sentences) in comparison.verdicts() {
        let _ = writeln!(text, "{sample}:");
        for sentence in sentences {
            let _ = writeln!(text, "  {sentence}");
        }
    }
    text
}

/// The arguments of a command that measures methods on a job.
#[derive(clap::Args)]
pub(crate) struct MeasureArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Print all measurements as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the charts as SVG files into this folder, and an HTML page that contains all of them
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Add lines for other programs to the first chart: a CSV file with the columns name, documents and seconds
    #[arg(long, value_name = "FILE", requires = "plots")]
    add_series: Option<PathBuf>,
}

impl MeasureArguments {
    /// Runs `work` on a session for the job. Returns its result, and the series of `--add-series`, which are read before `work` runs.
    pub(crate) fn run<T>(
        &self,
        screen: &Screen,
        work: impl AsyncFnOnce(&SessionContext, &Job, &RunControl) -> Result<T>,
    ) -> Result<(T, Vec<Series>)> {
        let job = self.job.load()?;
        let added = self.prepare()?;
        let runtime = JobRuntime::start(&job.engine)?;
        let session = session::session(&job.engine)?;
        let control = RunControl { stop: runtime.stop.clone(), progress: screen.progress() };
        let result = runtime.run(work(&session, &job, &control));
        screen.clear();
        Ok((result?, added))
    }

    /// Prints `measured` as JSON or as `text`. With `--plots`, also writes the page and the charts.
    pub(crate) fn publish(
        &self,
        measured: &impl Serialize,
        page: (&str, &HtmlPage),
        charts: &[(&str, Chart)],
        text: &str,
    ) -> Result<()> {
        print::json_or(self.json, measured, || text.to_owned())?;
        let Some(folder) = &self.plots else { return Ok(()) };
        let files = write_plots(folder, page, charts)?;
        if self.json { Ok(()) } else { print::result(&format!("written in {}: {files}\n", folder.display())) }
    }

    /// Reads the series and creates the folder for charts, so that errors occur before the measurement.
    fn prepare(&self) -> Result<Vec<Series>> {
        let added = match &self.add_series {
            Some(file) => pages::read_series(file).context(|| "--add-series".to_owned())?,
            None => Vec::new(),
        };
        if let Some(folder) = &self.plots {
            std::fs::create_dir_all(folder)
                .context(|| format!("--plots: cannot create the folder {}", folder.display()))?;
        }
        Ok(added)
    }
}

/// Writes the charts and the page into `folder`. Returns the names of the files, separated by commas.
fn write_plots(folder: &Path, page: (&str, &HtmlPage), charts: &[(&str, Chart)]) -> Result<String> {
    let svg = FileMark { beginning: pages::SVG_MARK, noun: "a chart of this program" };
    let html = FileMark { beginning: pages::HTML_MARK, noun: "a page of this program" };
    let file =
        |name: &str, ending, mark| OwnFile::at("--plots", folder.join(format!("{name}.{ending}")), mark);
    let mut files = Vec::with_capacity(charts.len() + 1);
    for (name, chart) in charts {
        files.push((file(name, "svg", svg)?, pages::svg(chart)?));
    }
    files.push((file(page.0, "html", html)?, pages::html(page.1)?));
    files.iter().try_for_each(|(file, text)| file.write(text))?;
    let names = files.iter().filter_map(|(file, _)| file.path().file_name());
    Ok(names.map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", "))
}
