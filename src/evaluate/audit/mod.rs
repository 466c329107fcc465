//! Audits a finished output: writes a pack of pairs to label, and estimates the precision from the labels.

mod labels;
mod pack;
mod population;

use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::evaluate::Estimate;
use crate::evaluate::interval::{Z, Z_OF_STRATA, wilson};
use crate::lookup::Finished;
use labels::{Label, Labels};
pub use pack::{AuditSettings, AuditedPair, Pack, StratumOfPack};
use population::{CHAINED, Population, draw};

/// Draws pairs of the finished output at `url`, and reads their texts. The same seed draws the same pairs.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if the output has no pairs, or if `settings.pairs` is smaller than the number of strata
/// with pairs.
/// Returns [`Kind::Input`](crate::error::Kind::Input) if the output or its source is missing or has changed.
pub async fn audit(session: &SessionContext, url: &str, settings: &AuditSettings) -> Result<Pack> {
    let finished = Finished::open(session, url).await?.with_source_in(settings.places.clone());
    let population = Population::open(session, &finished).await?;
    let draw = draw(&population, settings.pairs, settings.seed).await?;
    if draw.drawn.is_empty() {
        return Err(Error::job(format!("{url} has no pairs, so there is nothing to judge")));
    }
    pack::pack(&finished, &population, draw, settings).await
}

/// The share of true duplicates among the pairs of an output, estimated from labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// The number of rows in the file of labels that name a pair.
    pub rows: u64,
    /// The number of pairs with the label `yes` or `no`.
    pub judged: u64,
    /// The number of pairs with the label `yes`.
    pub yes: u64,
    /// The number of pairs with the label `unsure`, which the estimates treat like pairs without a label.
    pub unsure: u64,
    /// The number of pairs in the file without a label.
    pub missing: u64,
    /// The estimated share of true duplicates in the table `pairs`, weighted by the sizes of the strata; `None` without labels.
    pub pairs: Option<Estimate>,
    /// The estimated share of true duplicates among all pairs, including chained pairs; `None` without labels.
    pub all: Option<Estimate>,
    /// The strata that contain pairs.
    pub strata: Vec<JudgedStratum>,
    /// The precision at several thresholds.
    pub curve: Vec<PrecisionAt>,
}

/// The labels and the estimate of a stratum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedStratum {
    /// The name.
    pub name: String,
    /// A phrase that describes the pairs in this stratum.
    pub what: String,
    /// The number of the output's pairs in this stratum.
    pub pairs: u64,
    /// The number of pairs with the label `yes` or `no`.
    pub judged: u64,
    /// The number of pairs with the label `yes`.
    pub yes: u64,
    /// The estimated share of true duplicates, with Wilson's interval; `None` if there are no labels.
    pub share: Option<Estimate>,
}

/// The precision at a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionAt {
    /// The threshold, in the measure of the job.
    pub threshold: f64,
    /// The number of pairs with at least this similarity.
    pub pairs: u64,
    /// The number of pairs with the label `yes` or `no`.
    pub judged: u64,
    /// The estimated share of true duplicates among the pairs with at least this similarity; `None` if there are no labels.
    pub share: Option<Estimate>,
}

/// Estimates the share of true duplicates among the pairs of the finished output at `url`, from the labels in `file`. In each stratum,
/// the labelled pairs must be a random sample, as the pairs of [`audit`] are.
///
/// # Errors
/// Returns [`Kind::Input`](crate::error::Kind::Input) if the file cannot be read, or the output is missing.
/// Returns [`Kind::Input`](crate::error::Kind::Input) with the number of the row, if the file contains an unknown label or a pair that is
/// not in the output.
pub async fn judge(session: &SessionContext, url: &str, file: &str) -> Result<Judged> {
    let finished = Finished::open(session, url).await?;
    judge_finished(session, &finished, url, file).await
}

/// Like [`judge`], but for an output that is already open in `session`.
pub(crate) async fn judge_finished(
    session: &SessionContext,
    finished: &Finished,
    url: &str,
    file: &str,
) -> Result<Judged> {
    let Labels { file, rows } = labels::read(file)?;
    let population = Population::open(session, finished).await?;
    let count = |label: Option<Label>| rows.values().filter(|row| row.label == label).count() as u64;
    let (yes, no, unsure, missing) =
        (count(Some(Label::Yes)), count(Some(Label::No)), count(Some(Label::Unsure)), count(None));
    let thresholds = thresholds(finished.job().score.threshold);
    let mut strata = vec![JudgedPairs::default(); population.strata.len()];
    let mut reaching = vec![strata.clone(); thresholds.len()];
    let mut unknown = rows.clone();
    population
        .each(|candidate| {
            let key = candidate.ends.key();
            unknown.remove(&key);
            let label = rows.get(&key).and_then(|row| row.label);
            strata[candidate.stratum].add(label);
            let Some(scores) = candidate.scores else { return };
            let similarity = population.similarity(scores);
            let reached = thresholds.iter().take_while(|threshold| similarity >= **threshold).count();
            reaching[..reached].iter_mut().for_each(|strata| strata[candidate.stratum].add(label));
        })
        .await?;
    if let Some(row) = unknown.values().map(|row| row.row).min() {
        return Err(Error::input(format!(
            "{file}, row {row}: {url} has no such pair; label the pairs of its own --audit, and change neither keys nor ids"
        )));
    }
    let mut found = strata.clone();
    found.remove(CHAINED);
    let stratum = |(at, &JudgedPairs { pairs, judged, yes }): (usize, &JudgedPairs)| JudgedStratum {
        name: population.strata[at].clone(),
        what: population.describe(at),
        pairs,
        judged,
        yes,
        share: strata[at].share(Z),
    };
    let precision = |(&threshold, strata): (&f64, &Vec<JudgedPairs>)| PrecisionAt {
        threshold,
        pairs: strata.iter().map(|stratum| stratum.pairs).sum(),
        judged: strata.iter().map(|stratum| stratum.judged).sum(),
        share: weighted(strata),
    };
    Ok(Judged {
        rows: rows.len() as u64,
        judged: yes + no,
        yes,
        unsure,
        missing,
        pairs: weighted(&found),
        all: weighted(&strata),
        strata: strata.iter().enumerate().filter(|(_, stratum)| stratum.pairs > 0).map(stratum).collect(),
        curve: thresholds.iter().zip(&reaching).map(precision).collect(),
    })
}

/// The number of steps from the threshold of the job to 1.
const STEPS: usize = 10;

/// Returns thresholds from the threshold of the job to 1, ascending.
fn thresholds(from: f64) -> Vec<f64> {
    let step = |at: usize| from + (1.0 - from) * at as f64 / STEPS as f64;
    let mut thresholds: Vec<f64> = (0..STEPS).map(step).chain([1.0]).collect();
    thresholds.dedup();
    thresholds
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct JudgedPairs {
    pairs: u64,
    judged: u64,
    yes: u64,
}

impl JudgedPairs {
    fn add(&mut self, label: Option<Label>) {
        self.pairs += 1;
        self.judged += u64::from(matches!(label, Some(Label::Yes | Label::No)));
        self.yes += u64::from(label == Some(Label::Yes));
    }

    /// Returns the share of the label `yes`, with the interval of Wilson (1927) for the quantile `z`, if there are labels.
    ///
    /// Wilson's interval assumes draws with replacement, but pairs are drawn without replacement. So it gets the sample size that would
    /// have the same variance with replacement (Kish, *Survey Sampling*, 1965, section 8.2). If all pairs are judged, both ends equal the
    /// share.
    fn share(&self, z: f64) -> Option<Estimate> {
        let (n, size) = (self.judged as f64, self.pairs as f64);
        if self.judged == 0 {
            return None;
        }
        let value = self.yes as f64 / n;
        if self.judged == self.pairs {
            return Some(Estimate { value, low: value, high: value });
        }
        let effective = n * (size - 1.0) / (size - n);
        let (low, high) = wilson(value * effective, effective, z);
        Some(Estimate { value, low, high })
    }
}

/// Returns the share of the label `yes` among all strata, weighted by their numbers of pairs, if there are labels.
///
/// Each stratum has a Wilson interval. The squared distances from each share to the ends of its interval are added up (Zou and Donner,
/// *Construction of confidence limits about effect measures*, 2008). A stratum without labels gets the weighted share of the others, and
/// an interval from 0 to 1.
fn weighted(strata: &[JudgedPairs]) -> Option<Estimate> {
    let judged = || strata.iter().filter(|stratum| stratum.judged > 0);
    let known: u64 = judged().map(|stratum| stratum.pairs).sum();
    if known == 0 {
        return None;
    }
    let yes: f64 =
        judged().map(|stratum| stratum.yes as f64 * stratum.pairs as f64 / stratum.judged as f64).sum();
    let value = yes / known as f64;
    let all: u64 = strata.iter().map(|stratum| stratum.pairs).sum();
    let (mut below, mut above) = (0.0, 0.0);
    for stratum in strata {
        let weight = stratum.pairs as f64 / all as f64;
        let unknown = Estimate { value, low: 0.0, high: 1.0 };
        let share = stratum.share(Z_OF_STRATA).unwrap_or(unknown);
        below += (weight * (share.value - share.low)).powi(2);
        above += (weight * (share.high - share.value)).powi(2);
    }
    Some(Estimate { value, low: (value - below.sqrt()).max(0.0), high: (value + above.sqrt()).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pairs: u64, judged: u64, yes: u64) -> JudgedPairs {
        JudgedPairs { pairs, judged, yes }
    }

    #[test]
    fn a_stratum_that_is_judged_whole_is_known() {
        assert_eq!(sample(8, 8, 2).share(Z), Some(Estimate { value: 0.25, low: 0.25, high: 0.25 }));
        assert_eq!(sample(8, 0, 0).share(Z), None);
        let few = sample(1_000_000_000, 263, 81).share(Z).unwrap();
        assert!((few.low - 0.2553).abs() < 5e-5 && (few.high - 0.3662).abs() < 5e-5, "{few:?}");
    }

    #[test]
    fn strata_count_by_their_pairs() {
        let found = weighted(&[sample(900, 10, 10), sample(100, 50, 10)]).unwrap();
        assert!((found.value - 0.92).abs() < 1e-12, "{found:?}");
        assert!(found.low > 0.6 && found.low < 0.8 && found.high > 0.92 && found.high < 0.95, "{found:?}");
        assert_eq!(weighted(&[sample(5, 5, 1), sample(3, 3, 3)]).unwrap().value, 0.5);
        assert_eq!(weighted(&[sample(5, 0, 0), sample(0, 0, 0)]), None);
        let found = weighted(&[sample(500, 500, 500), sample(500, 0, 0)]).unwrap();
        assert_eq!((found.value, found.low, found.high), (1.0, 0.5, 1.0));
    }

    #[test]
    fn thresholds_end_with_the_same_shingles() {
        assert_eq!(thresholds(1.0), [1.0]);
        let from_half = thresholds(0.5);
        assert_eq!((from_half.len(), from_half[0], from_half[1], from_half[10]), (11, 0.5, 0.55, 1.0));
    }
}
