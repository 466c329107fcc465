//! Measures the figures that a user requires before documents are removed.

use datafusion::prelude::SessionContext;

use super::audit::{Judged, judge};
use super::{Estimate, Evaluation, EvaluationSettings, evaluate_stored};
use crate::apply::Opened;
use crate::apply::proof::{LabelFile, Proof, ProvenFigure, Sample};
use crate::error::counts::count;
use crate::error::{Error, Result};
use crate::job::{Figure, Requirements};

/// The settings of a proof.
#[derive(Debug, Clone)]
pub struct ProofSettings {
    /// The bounds.
    pub require: Requirements,
    /// The sample for recall, and for precision without labels.
    pub evaluation: EvaluationSettings,
    /// A file of labels: see [`judge`]. Precision is then the share of true duplicates by these labels.
    pub labels: Option<String>,
}

/// Measures the required figures of an opened output. Figures that are not required are not measured.
///
/// # Errors
/// Those of [`evaluate`](super::evaluate) and [`judge`], if recall or precision are required. Returns
/// [`Kind::Job`](crate::error::Kind::Job) if the number of lossy removals is required but unknown.
pub async fn prove(session: &SessionContext, opened: &Opened, settings: &ProofSettings) -> Result<Proof> {
    let stored = opened.stored();
    let requires = |figure| settings.require.bounds().any(|(required, _)| required == figure);
    let judged = match &settings.labels {
        Some(file) => Some((read_labels(file)?, judge(session, stored.layout().shown(), file).await?)),
        None => None,
    };
    let is_sampled = requires(Figure::Recall) || (requires(Figure::Precision) && judged.is_none());
    let evaluation =
        if is_sampled { Some(evaluate_stored(stored, &settings.evaluation).await?) } else { None };
    let mut figures = Vec::new();
    for (figure, bound) in settings.require.bounds() {
        let interval = match figure {
            Figure::Recall => evaluation.as_ref().map_or(UNKNOWN, recall),
            Figure::Precision => precision(evaluation.as_ref(), judged.as_ref().map(|(_, judged)| judged)),
            Figure::Lossy => [opened.lossy_share().await?; 3],
            Figure::Removed => [opened.removed_share().await?; 3],
        };
        figures.push(ProvenFigure::new((figure, bound), interval));
    }
    let manifest = stored.layout().manifest_bytes().await?;
    let (manifest, _) = manifest.ok_or_else(|| Error::bug("the output has no manifest"))?;
    Ok(Proof {
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        output_fingerprint: stored.manifest().fingerprint.clone(),
        output_crc32: crc32fast::hash(&manifest),
        require: settings.require,
        figures,
        sample: evaluation.as_ref().map(|evaluation| Sample {
            drawn: evaluation.sample,
            shingle_sets: evaluation.shingle_sets,
            seed: settings.evaluation.seed,
        }),
        labels: judged.map(|(labels, judged)| LabelFile { judged: judged.judged, ..labels }),
    })
}

/// The interval of a figure about which nothing is known.
const UNKNOWN: [f64; 3] = [0.0, 0.0, 1.0];

fn read_labels(file: &str) -> Result<LabelFile> {
    let bytes = std::fs::read(file).map_err(|e| Error::input(format!("{file} cannot be read")).because(e))?;
    Ok(LabelFile { file: file.to_owned(), crc32: crc32fast::hash(&bytes), judged: 0 })
}

fn ends(estimate: Estimate) -> [f64; 3] {
    [estimate.value, estimate.low, estimate.high]
}

/// Returns the interval of the recall of pairs. If neither a pair nor a missed pair is known, only a complete sample proves that there is
/// none.
fn recall(evaluation: &Evaluation) -> [f64; 3] {
    match evaluation.recall.pairs {
        Some(recall) => ends(recall),
        None if evaluation.missed_pairs.high == 0.0 => [1.0; 3],
        None => [1.0, 0.0, 1.0],
    }
}

/// Returns the interval of the precision: by labels, or else by the exact similarities of the sample's pairs. Nothing is proven about an
/// output with wrong pairs.
fn precision(evaluation: Option<&Evaluation>, judged: Option<&Judged>) -> [f64; 3] {
    if let Some(judged) = judged {
        return judged.all.map_or(UNKNOWN, ends);
    }
    let Some(evaluation) = evaluation else { return UNKNOWN };
    match evaluation.precision {
        _ if evaluation.wrong_pairs > 0 => UNKNOWN,
        Some(precision) if evaluation.sample >= evaluation.shingle_sets => [precision.value; 3],
        Some(precision) => ends(precision),
        None if evaluation.found_pairs == 0 => [1.0; 3],
        None => [1.0, 0.0, 1.0],
    }
}

impl Proof {
    /// Returns an error that says how far each figure is from its bound, unless all are proven.
    ///
    /// # Errors
    /// [`Kind::Alarm`](crate::error::Kind::Alarm).
    pub fn refuse_unproven(&self) -> Result<()> {
        let unproven: Vec<String> =
            self.figures.iter().filter(|figure| !figure.proven).map(|figure| self.distance(figure)).collect();
        if unproven.is_empty() {
            return Ok(());
        }
        Err(Error::alarm(format!("not proven, so nothing is removed: {}", unproven.join("; "))))
    }

    /// Says how far a figure is from its bound, and which sample could prove it.
    fn distance(&self, figure: &ProvenFigure) -> String {
        let ProvenFigure { figure: name, required, value, low, high, .. } = *figure;
        let rule = format!("{name}{required}");
        if low == high {
            return format!("{rule}, and it is {value:.4}");
        }
        let found = format!("{rule}, and it is {value:.4} ({low:.4} to {high:.4})");
        if let Some(labels) = self.labels.as_ref().filter(|_| name == Figure::Precision) {
            let judged = labels.judged;
            return format!("{found} by {} labels: judge more pairs of `evaluate --audit`", count(judged));
        }
        let Some(Sample { drawn, shingle_sets, .. }) = self.sample else { return found };
        let by = format!("{found} by {} of {} shingle sets", count(drawn), count(shingle_sets));
        if value <= required || drawn >= shingle_sets {
            return by;
        }
        format!(
            "{by}: --sample {} could prove it",
            sufficient(drawn, [value - low, value - required]).min(shingle_sets)
        )
    }
}

/// Returns the size of a sample whose interval ends within `needed` below the value. A sample of `drawn` units has its end `distance` below.
/// The distance decreases with the square root of the sample.
fn sufficient(drawn: u64, [distance, needed]: [f64; 2]) -> u64 {
    // The margin makes the second attempt likely to succeed, although its value differs.
    (1.2 * drawn as f64 * (distance / needed).powi(2)).ceil() as u64
}
