//! The proof that figures of an output meet the requirements: the file `_resemblance/proof.json` beside the result.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::job::{Figure, Requirements};
use crate::output::Layout;
use crate::output::manifest::File;

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
    pub labels: Option<LabelFile>,
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
pub struct LabelFile {
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

/// Writes the proof to the folder of records, and returns its file in the folder of the result.
pub(super) async fn put(records: &Layout, proof: &Proof) -> Result<File> {
    records.put_record(TABLE, FILE, proof).await
}
