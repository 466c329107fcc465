//! The part that `compare` and `sweep` share: a session that Ctrl-C stops, and where the results go.

use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::cli::support::arguments::JobArguments;
use crate::cli::support::own_file::{FileMark, OwnFile};
use crate::cli::support::print;
use crate::cli::support::progress::Screen;
use crate::cli::support::work::JobRuntime;
use crate::engine::{RunControl, session};
use crate::error::{Context, Error, Result};
use crate::job::Job;
use crate::page::{self, Chart, HtmlPage, Series};

/// The arguments of a command that measures a job.
#[derive(clap::Args)]
pub(in crate::cli) struct MeasureArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    results: Results,
}

impl MeasureArguments {
    /// Runs `work` on a session for the job, until it ends or a signal stops it. Returns what it measured and the lines to add
    /// to a chart, which are read before.
    pub(in crate::cli) fn run<T>(
        &self,
        screen: &Screen,
        work: impl AsyncFnOnce(&SessionContext, &Job, &RunControl) -> Result<T>,
    ) -> Result<(T, Vec<Series>)> {
        let job = self.job.load()?;
        let added = self.results.prepare()?;
        let threads = JobRuntime::begin(&job.engine)?;
        let session = session::session(&job.engine)?;
        let control = RunControl { stop: threads.stop.clone(), progress: screen.progress() };
        let result = threads.run_or(work(&session, &job, &control), Error::stopped);
        screen.clear();
        Ok((result?, added))
    }

    /// Writes the page and the charts if a folder was given, and prints `measured` as JSON or as `text`.
    pub(in crate::cli) fn publish(
        &self,
        measured: &impl Serialize,
        page: (&str, &HtmlPage),
        charts: &[(&str, Chart)],
        text: &str,
    ) -> Result<()> {
        let Results { json, plots, .. } = &self.results;
        if *json {
            let measured = serde_json::to_value(measured)
                .map_err(|e| Error::bug("the measurements cannot be written").because(e))?;
            print::result(&format!("{measured:#}\n"))?;
        } else {
            print::result(text)?;
        }
        match plots {
            Some(folder) => {
                let written = listed(folder, &write_plots(folder, page, charts)?);
                if *json { Ok(()) } else { print::result(&written) }
            }
            None => Ok(()),
        }
    }
}

/// Where the results go.
#[derive(clap::Args)]
struct Results {
    /// Print everything that was measured as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the charts as SVG files, and an HTML page with all of them, into this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Add lines of other programs to the first chart: a CSV file with the columns name, documents and seconds
    #[arg(long, value_name = "FILE", requires = "plots")]
    add_series: Option<PathBuf>,
}

impl Results {
    /// Reads the lines to add to a chart and creates the folder for charts, so that errors come before the measurement.
    fn prepare(&self) -> Result<Vec<Series>> {
        let added = match &self.add_series {
            Some(file) => page::added(file).context(|| "--add-series".to_owned())?,
            None => Vec::new(),
        };
        if let Some(folder) = &self.plots {
            std::fs::create_dir_all(folder)
                .context(|| format!("--plots: cannot create the folder {}", folder.display()))?;
        }
        Ok(added)
    }
}

/// Writes the charts and the page into a folder, and returns the paths of the files.
fn write_plots(folder: &Path, page: (&str, &HtmlPage), charts: &[(&str, Chart)]) -> Result<Vec<PathBuf>> {
    let svg = FileMark { beginning: page::SVG_MARK, what: "a chart of this program" };
    let html = FileMark { beginning: page::HTML_MARK, what: "a page of this program" };
    let of = |name: &str, ending, mark| OwnFile::at("--plots", folder.join(format!("{name}.{ending}")), mark);
    let mut files = Vec::with_capacity(charts.len() + 1);
    for (name, chart) in charts {
        files.push((of(name, "svg", svg)?, page::svg(chart)?));
    }
    files.push((of(page.0, "html", html)?, page::html(page.1)?));
    files.iter().try_for_each(|(file, text)| file.write(text))?;
    Ok(files.iter().map(|(file, _)| file.path().to_owned()).collect())
}

/// `written in FOLDER: a.svg, b.html`.
fn listed(folder: &Path, written: &[PathBuf]) -> String {
    let names: Vec<_> =
        written.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy()).collect();
    format!("written in {}: {}\n", folder.display(), names.join(", "))
}
