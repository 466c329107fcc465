//! The record of a run that was forecast, as `resemblance run --forecast --record FILE` writes it.

use serde::Deserialize;

use super::view::Report;
use crate::error::{Context, Error, Result};
use crate::forecast::Forecast;

/// The parts of a record that a report shows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReportRecord {
    /// The forecast of the run; `None` if none was made.
    #[serde(default)]
    pub forecast: Option<Forecast>,
    /// The most memory of the process.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// The manifest of its output.
    manifest: OutputIdentity,
}

/// The part of a manifest that identifies an output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OutputIdentity {
    fingerprint: String,
}

impl ReportRecord {
    /// Reads the record in `file`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if it cannot be read, or is not the record of a run that succeeded.
    pub fn read(file: &str) -> Result<Self> {
        let text = std::fs::read_to_string(file).context(|| format!("cannot read the record {file}"))?;
        serde_json::from_str(&text).map_err(|e| {
            Error::input(format!(
                "{file} is not the record of a run that succeeded: name a file that `resemblance run --record` wrote"
            ))
            .because(e)
        })
    }

    /// Adds it to the report on the output with this `fingerprint`.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if it is the record of another output.
    pub(super) fn add_to(&self, report: &mut Report, fingerprint: &str) -> Result<()> {
        if self.manifest.fingerprint != fingerprint {
            return Err(Error::job(format!(
                "the record is of another result than {}: name the record of the run that made it",
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
