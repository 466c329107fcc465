//! A page about a finished output: its results, the removals and the shingles that they lose, example texts, and the expected recall.
//! `--json` prints the same data.

mod changes;
mod draws;
mod numbers;
mod page;
mod view;

use datafusion::prelude::SessionContext;
use serde::Deserialize;

use crate::error::{Context, Error, Result};
use crate::evaluate::audit;
use crate::evaluate::{self, EvaluationSettings, MAX_EVALUATED};
use crate::forecast::Forecast;
use crate::job::{parse_size, whole};
use crate::lookup::Finished;
pub use crate::page::{Side, TextPart};
pub(crate) use numbers::dataset;
pub use page::html;
pub use view::*;

/// The settings of a report.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct ReportSettings {
    /// An earlier output to compare with
    #[arg(long, value_name = "OUTPUT")]
    pub before: Option<String>,
    /// Measure the recall on about N shingle sets, like evaluate
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_EVALUATED))]
    pub evaluate: Option<usize>,
    /// A file with labels of pairs, as read by evaluate --labels
    #[arg(long, value_name = "FILE")]
    pub labels: Option<String>,
    /// The record of `run --forecast --record`; the page compares the forecast in it with the run
    #[arg(long, value_name = "FILE")]
    pub record: Option<String>,
    /// Seed for the choice of the random cluster
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// The new location of a moved source; give as many locations as the source has URLs, in the same order
    #[arg(long, value_name = "URL")]
    pub source: Vec<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = parse_size)]
    pub memory: u64,
}

/// Reads the tables of the finished output at `url`, and the texts of the shown documents, or the reason why they cannot be read.
///
/// # Errors
/// Returns the errors of [`Finished::open`] for both outputs, and of [`evaluate::evaluate`] and [`audit::judge`] if they are called.
/// Returns [`Kind::Job`](crate::error::Kind::Job) if the record belongs to another output.
pub async fn report(session: &SessionContext, url: &str, settings: &ReportSettings) -> Result<Report> {
    let record = settings.record.as_deref().map(ReportRecord::read).transpose()?;
    let finished = Finished::open(session, url).await?.with_source_in(settings.source.clone());
    let mut report = numbers::read(session, &finished, url).await?;
    if let Some(record) = record {
        record.add_to(&mut report, &finished.manifest().fingerprint)?;
    }
    (report.clusters, report.no_texts) = draws::read(session, &finished, settings.seed).await?;
    if let Some(before) = &settings.before {
        report.before = Some(changes::compare(session, &finished, before, report.per_unit).await?);
    }
    if let Some(sample) = settings.evaluate {
        let (memory, seed) = (settings.memory, EvaluationSettings::SEED);
        let settings = EvaluationSettings { sample, seed, memory, truth: None };
        report.recall.measured = Some(evaluate::evaluate(session, url, &settings).await?);
    }
    if let Some(file) = &settings.labels {
        report.judged = Some(audit::judge_finished(session, &finished, url, file).await?);
    }
    Ok(report)
}

/// The fields of a record of `resemblance run --forecast --record FILE` that a report shows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct ReportRecord {
    #[serde(default)]
    forecast: Option<Forecast>,
    #[serde(default)]
    peak_memory_bytes: Option<u64>,
    manifest: OutputIdentity,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OutputIdentity {
    fingerprint: String,
}

impl ReportRecord {
    /// Reads a record. Fails with `Kind::Input` if the file is not the readable record of a successful run.
    fn read(file: &str) -> Result<Self> {
        let text = std::fs::read_to_string(file).context(|| format!("cannot read the record {file}"))?;
        serde_json::from_str(&text).map_err(|e| {
            Error::input(format!(
                "{file} is not the record of a run that succeeded: name a file that `resemblance run --record` wrote"
            ))
            .because(e)
        })
    }

    /// Adds the record to `report` about the output with this fingerprint. Fails with `Kind::Job` if the record belongs to another
    /// output.
    fn add_to(&self, report: &mut Report, fingerprint: &str) -> Result<()> {
        if self.manifest.fingerprint != fingerprint {
            return Err(Error::job(format!(
                "the record does not belong to the result in {}: name the record of the run that made this result",
                report.output
            )));
        }
        let cost = &mut report.cost;
        cost.peak_memory = self.peak_memory_bytes;
        cost.forecast.clone_from(&self.forecast);
        for forecast in self.forecast.iter().flat_map(|forecast| &forecast.stages) {
            if let Some(stage) = cost.stages.iter_mut().find(|stage| stage.name == forecast.name) {
                stage.forecast = Some(forecast.clone());
            }
        }
        Ok(())
    }
}
