//! What the commands that measure share: a session that Ctrl-C stops, and where their results go.

use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::cli::support::print;
use crate::cli::support::progress::Screen;
use crate::cli::support::work::Work;
use crate::engine::{RunControl, session};
use crate::error::{Context, Error, Kind, Result};
use crate::job::Job;
use crate::report::{self, Chart, Page, Series};

/// Runs `work` on a session for `job`, until it ends or somebody stops it.
pub(in crate::cli) fn run<T>(
    job: &Job,
    screen: &Screen,
    work: impl AsyncFnOnce(&SessionContext, &RunControl) -> Result<T>,
) -> Result<T> {
    let threads = Work::begin(&job.engine)?;
    let session = session::session(&job.engine)?;
    let control = RunControl { stop: threads.stop.clone(), progress: screen.progress() };
    let result = threads.block_on(async {
        tokio::select! {
            biased;
            result = work(&session, &control) => result,
            () = threads.stop.cancelled() => Err(Error::new(Kind::Interrupted, "stopped; nothing was written")),
        }
    });
    screen.clear();
    result
}

/// The arguments that say where a command which measures puts its results.
#[derive(clap::Args)]
pub(in crate::cli) struct Results {
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
    /// Reads the lines that are added to a chart and makes the folder for charts, before anything is measured for them.
    pub(in crate::cli) fn prepare(&self) -> Result<Vec<Series>> {
        let added = match &self.add_series {
            Some(file) => report::added(file).context(|| "--add-series".to_owned())?,
            None => Vec::new(),
        };
        if let Some(folder) = &self.plots {
            std::fs::create_dir_all(folder)
                .context(|| format!("--plots: cannot create the folder {}", folder.display()))?;
        }
        Ok(added)
    }

    /// Writes the page and the charts if a folder was given, and prints what was `found` as JSON or as `text`.
    pub(in crate::cli) fn publish(
        &self,
        found: &impl Serialize,
        page: (&str, &Page),
        charts: &[(&str, Chart)],
        text: &str,
    ) -> Result<()> {
        let written = match &self.plots {
            Some(folder) => said(folder, &write_plots(folder, page, charts)?),
            None => String::new(),
        };
        if self.json {
            let found = serde_json::to_value(found)
                .map_err(|e| Error::bug("the measurements cannot be written").because(e))?;
            return print::result(&format!("{found:#}\n"));
        }
        print::result(&format!("{text}{written}"))
    }
}

/// Writes the charts and the page into a folder, and says what was written.
fn write_plots(folder: &Path, page: (&str, &Page), charts: &[(&str, Chart)]) -> Result<Vec<PathBuf>> {
    let mut written = Vec::with_capacity(charts.len() + 1);
    let mut write = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
        Ok::<_, Error>(())
    };
    for (name, chart) in charts {
        write(format!("{name}.svg"), report::svg(chart)?)?;
    }
    write(format!("{}.html", page.0), report::html(page.1)?)?;
    Ok(written)
}

/// `written in FOLDER: a.svg, b.html`.
fn said(folder: &Path, written: &[PathBuf]) -> String {
    let names: Vec<_> =
        written.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy()).collect();
    format!("written in {}: {}\n", folder.display(), names.join(", "))
}
