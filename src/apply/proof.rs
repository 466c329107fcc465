//! The proof that figures of an output meet the requirements: the file `_resemblance/proof.json` beside the result.

use serde::{Deserialize, Serialize};

use super::alarms::figures;
use super::input::Opened;
use crate::error::{Error, Result};
use crate::job::{Figure, Requirements};
use crate::output::manifest::File;
use crate::output::{Layout, Stored};

/// The name of the file in the folder of records, and of its table in the manifest.
const FILE: &str = "proof.json";
const TABLE: &str = "proof";

/// The figures that `apply` proved before it removed documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The version of this program.
    pub resemblance: String,
    /// The fingerprint of the output's run.
    pub output_fingerprint: String,
    /// The CRC-32 (IEEE) of the output's manifest, which contains the CRC-32 of every file of the output.
    pub output_crc32: u32,
    /// The requirements.
    pub require: Requirements,
    /// The required figures.
    pub figures: Vec<ProvenFigure>,
    /// The sample from which recall, and precision without labels, are estimated. `None` if neither is required.
    pub sample: Option<Sample>,
    /// The labels by which people judged pairs. `None` if precision is not judged by them.
    pub labels: Option<Labels>,
}

/// A required figure and its 95 % interval. Both ends of an exact figure equal its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProvenFigure {
    /// The figure.
    pub figure: Figure,
    /// The bound, in \[0, 1\].
    pub required: f64,
    /// The value, in \[0, 1\].
    pub value: f64,
    /// The lower end of the interval, in \[0, 1\].
    pub low: f64,
    /// The upper end of the interval, in \[0, 1\].
    pub high: f64,
    /// Whether the whole interval meets the bound.
    pub proven: bool,
}

/// A sample of shingle sets: see [`EvaluationSettings`](crate::evaluate::EvaluationSettings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The number of drawn shingle sets.
    pub drawn: u64,
    /// The number of all shingle sets.
    pub shingle_sets: u64,
    /// The seed of the draw.
    pub seed: u64,
}

/// A file of labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// The path, as the user named it.
    pub file: String,
    /// The CRC-32 (IEEE) of its bytes.
    pub crc32: u32,
    /// The number of pairs with a label that counts.
    pub judged: u64,
}

impl ProvenFigure {
    /// Compares an interval (value, low, high) with a bound.
    pub(crate) fn new((figure, required): (Figure, f64), [value, low, high]: [f64; 3]) -> Self {
        let proven = if figure.is_minimum() { low >= required } else { high <= required };
        Self { figure, required, value, low, high, proven }
    }
}

impl Opened {
    /// Sets the proof that is written beside the result.
    pub fn set_proof(&mut self, proof: Proof) {
        self.settings.require = Some(proof.require);
        self.proof = Some(proof);
    }

    pub(crate) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Returns the share of compared documents that are removed.
    pub(crate) async fn removed_share(&self) -> Result<f64> {
        let [documents, removed] = self.removals().await?;
        Ok(removed as f64 / documents.max(1) as f64)
    }

    /// Returns the share of removed documents that lose more than 2 % of their shingles. Fails with `Kind::Job` if it is unknown.
    pub(crate) async fn lossy_share(&self) -> Result<f64> {
        let [_, removed] = self.removals().await?;
        match self.losses().await?.lossy_removals {
            Some(lossy) => Ok(lossy as f64 / removed.max(1) as f64),
            None if removed == 0 => Ok(0.0),
            None => Err(Error::job(format!(
                "{}: the losses of the removed documents are unknown with these options: leave `lossy` out of the requirements, or apply \
                 without --keep-up-to",
                self.stored.layout().shown()
            ))),
        }
    }

    /// Returns the numbers of compared documents and of removed documents.
    async fn removals(&self) -> Result<[u64; 2]> {
        let figures = figures(&self.stored, None, self.removal()).await?;
        Ok([figures.iter().map(|all| all.documents).sum(), figures.iter().map(|all| all.removed).sum()])
    }
}

/// Writes the proof to the folder of records, and returns its file in the folder of the result.
pub(super) async fn put(records: &Layout, proof: &Proof) -> Result<File> {
    records.put_record(TABLE, FILE, proof).await
}
