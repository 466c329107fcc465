//! What the commands that measure share: a session that Ctrl-C stops, and files of charts.

use std::path::Path;

use datafusion::prelude::SessionContext;

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

/// The lines that a chart is to show beside those that are measured.
pub(in crate::cli) fn added(file: Option<&Path>) -> Result<Vec<Series>> {
    match file {
        Some(file) => report::added(file).context(|| "--add-series".to_owned()),
        None => Ok(Vec::new()),
    }
}

/// Makes the folder for charts, before anything is measured for it.
pub(in crate::cli) fn make_folder(folder: Option<&Path>) -> Result<()> {
    match folder {
        Some(folder) => std::fs::create_dir_all(folder)
            .context(|| format!("--plots: cannot create the folder {}", folder.display())),
        None => Ok(()),
    }
}

/// Writes the charts and the page into a folder, and says what was written.
pub(in crate::cli) fn write_plots(
    folder: &Path,
    page: (&str, &Page),
    charts: &[(&str, Chart)],
) -> Result<Vec<std::path::PathBuf>> {
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
pub(in crate::cli) fn said(folder: &Path, written: &[std::path::PathBuf]) -> String {
    let names: Vec<_> =
        written.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy()).collect();
    format!("written in {}: {}\n", folder.display(), names.join(", "))
}
