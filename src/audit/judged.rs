//! What the labels of a sample say about all pairs of an output.

use serde::Serialize;

use super::labels::{Label, Labels};
use super::population::{CHAINED, Population};
use crate::error::{Error, Result};
use crate::evaluate::Estimate;
use crate::evaluate::interval::{Z, Z_OF_STRATA, wilson};

/// The share of true duplicates among the pairs of an output, by labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// Rows of the file with a pair.
    pub rows: u64,
    /// Those with the label yes or no.
    pub judged: u64,
    /// Those with the label yes.
    pub yes: u64,
    /// Those with the label unsure, which count as missing.
    pub unsure: u64,
    /// Those without a label.
    pub missing: u64,
    /// The share of true duplicates among the pairs that were found, weighted by the sizes of the strata; `None` without a label.
    pub pairs: Option<Estimate>,
    /// The same among all pairs that the output decides on: those that were found and the chained ones.
    pub all: Option<Estimate>,
    /// The strata that have pairs.
    pub strata: Vec<JudgedStratum>,
    /// The share among the found pairs whose similarity reaches each of several thresholds.
    pub curve: Vec<PrecisionAt>,
}

/// The labels of a stratum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedStratum {
    /// Its name.
    pub name: String,
    /// What is in it, as a phrase.
    pub what: String,
    /// The pairs that the output has of it.
    pub pairs: u64,
    /// Those with the label yes or no.
    pub judged: u64,
    /// Those with the label yes.
    pub yes: u64,
    /// The share of true duplicates, with Wilson's interval; `None` without a label.
    pub share: Option<Estimate>,
}

/// The precision of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionAt {
    /// The threshold, of the measure of the job.
    pub threshold: f64,
    /// The pairs that reach it.
    pub pairs: u64,
    /// Those with the label yes or no.
    pub judged: u64,
    /// The share of true duplicates among them; `None` without a label.
    pub share: Option<Estimate>,
}

/// Steps from the threshold of the job to 1.
const STEPS: usize = 10;

/// Pairs and the labels of a random sample of them.
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

    /// The share of yes with the interval of Wilson (1927) for the quantile `z`; `None` without a label. Pairs are drawn without
    /// replacement: the interval is that of a sample whose variance is as small as this makes it (Kish, *Survey Sampling*, 1965,
    /// section 8.2), and has one number if all pairs are judged.
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

/// The share of yes among all pairs of strata, each weighted by its pairs; `None` without a label. The distances to the ends of
/// the strata's Wilson intervals add up by their squares (Zou and Donner, *Construction of confidence limits about effect
/// measures*, 2008). A stratum without a label has the share of the others, and an interval from 0 to 1.
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

/// Counts the pairs of `population` by stratum and threshold, and finds the stratum of each label.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the row of a pair that the output at `url` does not have; when a table cannot
/// be read.
pub(super) async fn judge(population: &Population<'_>, labels: Labels, url: &str) -> Result<Judged> {
    let Labels { file, rows } = labels;
    let count = |label: Option<Label>| rows.values().filter(|row| row.label == label).count() as u64;
    let (yes, no, unsure, missing) =
        (count(Some(Label::Yes)), count(Some(Label::No)), count(Some(Label::Unsure)), count(None));
    let measure = population.measure();
    let thresholds = thresholds(population.threshold());
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
            let reached = thresholds.iter().take_while(|threshold| scores.by(measure) >= **threshold).count();
            reaching[..reached].iter_mut().for_each(|strata| strata[candidate.stratum].add(label));
        })
        .await?;
    if let Some(row) = unknown.values().map(|row| row.row).min() {
        return Err(Error::input(format!(
            "{file}, row {row}: {url} has no such pair; label the pairs of its own --audit, and change neither keys nor ids"
        )));
    }
    let found: Vec<JudgedPairs> =
        strata.iter().enumerate().filter(|(at, _)| *at != CHAINED).map(|(_, sample)| *sample).collect();
    let stratum = |(at, sample): (usize, &JudgedPairs)| JudgedStratum {
        name: population.strata[at].clone(),
        what: population.describe(at),
        pairs: sample.pairs,
        judged: sample.judged,
        yes: sample.yes,
        share: sample.share(Z),
    };
    let precision = |(threshold, strata): (f64, &Vec<JudgedPairs>)| PrecisionAt {
        threshold,
        pairs: strata.iter().map(|sample| sample.pairs).sum(),
        judged: strata.iter().map(|sample| sample.judged).sum(),
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
        strata: strata.iter().enumerate().filter(|(_, sample)| sample.pairs > 0).map(stratum).collect(),
        curve: thresholds.iter().copied().zip(&reaching).map(precision).collect(),
    })
}

/// Thresholds from that of the job to 1, ascending.
fn thresholds(from: f64) -> Vec<f64> {
    let step = |at: usize| from + (1.0 - from) * at as f64 / STEPS as f64;
    let mut thresholds: Vec<f64> = (0..STEPS).map(step).chain([1.0]).collect();
    thresholds.dedup();
    thresholds
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
    }

    #[test]
    fn a_stratum_without_labels_may_have_any_share() {
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
