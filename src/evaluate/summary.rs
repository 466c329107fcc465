use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::interval::{Estimate, Stratum, recall, share, total};
use super::partners::{KeptRanks, Partners, SetOverlap};
use super::sets::{DrawnSet, FoundPair, FoundPairs, Set, SetDraw, Sets};
use super::truth::Agreement;
use crate::job::band_choice::Curve;
use crate::job::{Compare, Job, ScoreBy};
use crate::output::Stored;

/// The recall of an output. A share is `None` if there is neither a found nor a missed pair, document or removal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Recall {
    /// The share of true pairs that the output contains. A true pair consists of two different shingle sets whose similarity reaches the
    /// threshold. The job decides whether it is exact or estimated.
    pub pairs: Option<Estimate>,
    /// Among documents to which another document is similar, the share with a pair in the output.
    pub documents: Option<Estimate>,
    /// The share of removed documents among documents that are or should be removed. A document should be removed if a similar kept
    /// document precedes it in the order of `clusters.keep`. The kept document must also contain the share of its shingles that
    /// `clusters.contained` requires.
    pub removals: Option<Estimate>,
}

/// Recall and precision by exact similarity, if the job decides on pairs by estimates. Pairs have the weights of their drawn sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ByExactRule {
    /// Among pairs with at least the threshold's exact similarity, the share in the output.
    pub recall: Option<Estimate>,
    /// Among pairs in the output, the share with at least the threshold's exact similarity.
    pub precision: Option<Estimate>,
}

/// The recall of pairs in an interval of similarities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecallAt {
    /// The minimum Jaccard similarity.
    pub from: f64,
    /// The upper end of the interval, which is excluded unless it is 1.
    pub to: f64,
    /// The number of true pairs in the sample.
    pub pairs: u64,
    /// The share of true pairs that the output contains. Pairs have the weights of their drawn sets.
    pub measured: Option<Estimate>,
    /// The recall that [`Curve`] predicts, averaged over the true pairs.
    pub expected: f64,
}

/// The error of the estimated similarities, over the sample's pairs in the output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bias {
    /// The mean of the differences `estimate - exact`.
    pub bias: f64,
    /// The standard deviation of the differences `estimate - exact`.
    pub deviation: f64,
    /// The number of pairs.
    pub pairs: u64,
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// The number of drawn shingle sets.
    pub sample: u64,
    /// The number of shingle sets in the output.
    pub shingle_sets: u64,
    /// The number of pairs in the output between different shingle sets.
    pub found_pairs: u64,
    /// The estimated number of missed pairs.
    pub missed_pairs: Estimate,
    /// The measured recall.
    pub recall: Recall,
    /// The recall that [`Curve`] predicts for the exact similarities of the sample's pairs; `None` if no pair reaches the threshold.
    pub expected: Option<f64>,
    /// The share of the output's pairs whose exact similarity reaches the threshold, by the sample; `None` if the sample has no such pair.
    pub precision: Option<Estimate>,
    /// Recall and precision by exact similarity; `None` if the job already decides on pairs by exact similarity.
    pub by_exact_rule: Option<ByExactRule>,
    /// The recall in each interval of exact similarity.
    pub by_similarity: Vec<RecallAt>,
    /// The number of the sample's pairs in the output that break the rule of the job or have a wrong similarity. If the number is above
    /// 0, the program has a defect.
    pub wrong_pairs: u64,
    /// The error of the estimated similarities; `None` if the output has no pairs with drawn sets. Also `None` if the job selects pairs
    /// by their estimates, since the estimates of selected pairs are too large.
    pub estimate: Option<Bias>,
    /// The agreement with known pairs or clusters; `None` if no file of them is given.
    pub truth: Option<Agreement>,
}

/// The number of intervals in [`Evaluation::by_similarity`].
const BINS: usize = 10;

/// A pair of a drawn set and another set whose exact or estimated similarity reaches the threshold.
struct TruePair {
    unit: usize,
    weight: f64,
    jaccard: f64,
    is_similar: bool,
    is_found: bool,
}

pub(super) struct EvaluatedSets {
    pub(super) partners: Partners,
    pub(super) found: FoundPairs,
    pub(super) stay: KeptRanks,
}

pub(super) fn summary(stored: &Stored, sets: &Sets, draw: &SetDraw, seen: &EvaluatedSets) -> Evaluation {
    let (job, counts, found) = (stored.job(), &stored.manifest().counts, &seen.found);
    let curve = job.curve();
    let found_pairs = counts.scores.saturating_sub(sets.same_across(job.candidates.compare));
    let of = |drawn: &DrawnSet| SetWithPartners { sets: &sets.sets, job, drawn: *drawn, seen };
    let strata = |value: &dyn Fn(&SetWithPartners<'_>) -> f64| {
        let mut strata: Vec<Stratum> =
            draw.sizes.iter().map(|&size| Stratum { size, drawn: Vec::new() }).collect();
        for drawn in &draw.drawn {
            strata[drawn.stratum].drawn.push(value(&of(drawn)));
        }
        strata
    };
    // A pair is counted for each of its two sets, so each count is half a pair. A set that misses partners is assumed to miss three (1.5
    // pairs).
    let missed_pairs = total(&strata(&|unit| unit.missed_pairs() as f64 / 2.0), 1.5);
    let missed_documents = total(&strata(&|unit| unit.missed_documents()), 1.0);
    let missed_removals = total(&strata(&|unit| unit.missed_removals()), 1.0);
    let pairs: Vec<TruePair> =
        draw.drawn.iter().enumerate().flat_map(|(unit, drawn)| of(drawn).pairs(unit)).collect();
    let precision = weighted(pairs.iter().filter(|pair| pair.is_found), |pair| pair.is_similar);
    let similar: Vec<&TruePair> = pairs.iter().filter(|pair| pair.is_similar).collect();
    Evaluation {
        sample: draw.drawn.len() as u64,
        shingle_sets: sets.sets.len() as u64,
        found_pairs,
        missed_pairs,
        recall: Recall {
            pairs: recall(found_pairs, missed_pairs),
            documents: recall(counts.clustered_documents, missed_documents),
            removals: recall(counts.removed_documents, missed_removals),
        },
        expected: expected(&curve, &similar),
        precision,
        by_exact_rule: (job.score.by == ScoreBy::Signature).then(|| ByExactRule {
            recall: weighted(similar.iter().copied(), |pair| pair.is_found),
            precision,
        }),
        by_similarity: by_similarity(job, &curve, &similar),
        wrong_pairs: draw.drawn.iter().map(|drawn| of(drawn).wrong_pairs()).sum(),
        estimate: if curve.has_estimates() {
            None
        } else {
            bias(draw.drawn.iter().flat_map(|drawn| found.get(&drawn.set)).flat_map(BTreeMap::values))
        },
        truth: None,
    }
}

struct SetWithPartners<'a> {
    sets: &'a HashMap<u64, Set>,
    job: &'a Job,
    drawn: DrawnSet,
    seen: &'a EvaluatedSets,
}

impl SetWithPartners<'_> {
    /// Returns the partners that are pairs by the rule of the job.
    fn partners(&self) -> impl Iterator<Item = (u64, SetOverlap)> {
        self.all_partners().filter(|(_, common)| common.is_pair(&self.job.score))
    }

    fn all_partners(&self) -> impl Iterator<Item = (u64, SetOverlap)> {
        self.seen.partners.get(&self.drawn.set).into_iter().flatten().map(|(set, common)| (*set, *common))
    }

    fn found(&self, other: u64) -> Option<FoundPair> {
        self.seen.found.get(&self.drawn.set)?.get(&other).copied()
    }

    /// Returns whether `other` has different shingles. Sets in different groups can have the same.
    fn is_other(&self, other: u64) -> bool {
        let hashes = |set: u64| self.sets.get(&set).map(|set| set.hashes);
        hashes(self.drawn.set) != hashes(other)
    }

    fn missed(&self) -> impl Iterator<Item = (u64, SetOverlap)> {
        self.partners().filter(|(other, _)| self.found(*other).is_none())
    }

    /// Returns the number of missed partners with different shingles.
    fn missed_pairs(&self) -> usize {
        self.missed().filter(|(other, _)| self.is_other(*other)).count()
    }

    /// Returns the number of documents with the set if they are in no cluster although other documents are similar, or 0.
    fn missed_documents(&self) -> f64 {
        let alone = self.sets.get(&self.drawn.set).filter(|set| set.cluster == 0);
        alone.filter(|_| self.missed().next().is_some()).map_or(0.0, |set| set.documents as f64)
    }

    /// Returns the number of kept documents with the set that a similar kept document precedes, so that they should have been removed.
    fn missed_removals(&self) -> f64 {
        let contained = self.job.clusters.contained.unwrap_or(0.0);
        let contains = |common: &SetOverlap| common.containment() >= contained;
        let partners = self.partners().filter(|(_, common)| contains(common)).map(|(other, _)| other);
        // Documents with the same set are pairs too, unless the job only compares documents of different groups.
        let copies = (self.job.candidates.compare != Compare::Across).then_some(self.drawn.set);
        let before = partners.chain(copies).flat_map(|set| self.stay(set)).min();
        let Some(before) = before else { return 0.0 };
        self.stay(self.drawn.set).filter(|&at| at > before).count() as f64
    }

    fn stay(&self, set: u64) -> impl Iterator<Item = u64> {
        self.seen.stay.get(&set).into_iter().flatten().copied()
    }

    fn wrong_pairs(&self) -> u64 {
        let partners = self.seen.partners.get(&self.drawn.set);
        let is_right = |other: &u64, pair: &FoundPair| {
            partners
                .and_then(|partners| partners.get(other))
                .is_some_and(|common| common.is_pair(&self.job.score) && common.jaccard() == pair.jaccard)
        };
        let found = self.seen.found.get(&self.drawn.set).into_iter().flatten();
        found.filter(|(other, pair)| !is_right(other, pair)).count() as u64
    }

    fn pairs(&self, unit: usize) -> Vec<TruePair> {
        let weight = self.drawn.weight;
        let pair = |(other, common): (u64, SetOverlap)| TruePair {
            unit,
            weight,
            jaccard: common.jaccard(),
            is_similar: common.is_similar(&self.job.score),
            is_found: self.found(other).is_some(),
        };
        self.all_partners().filter(|(other, _)| self.is_other(*other)).map(pair).collect()
    }
}

/// Returns the weighted mean of the probabilities with which the job finds `pairs`, if there are pairs.
fn expected(curve: &Curve, pairs: &[&TruePair]) -> Option<f64> {
    let sums = pairs.iter().fold((0.0, 0.0), |(all, found), pair| {
        (all + pair.weight, found + pair.weight * curve.kept(pair.jaccard))
    });
    (sums.0 > 0.0).then(|| sums.1 / sums.0)
}

/// Returns the weighted share of the pairs for which `counts` returns true. Pairs of the same drawn set depend on each other, so they are
/// one observation.
fn weighted<'a>(
    pairs: impl Iterator<Item = &'a TruePair>,
    counts: impl Fn(&TruePair) -> bool,
) -> Option<Estimate> {
    let mut units: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for pair in pairs {
        let (all, counted) = units.entry(pair.unit).or_default();
        *all += pair.weight;
        *counted += if counts(pair) { pair.weight } else { 0.0 };
    }
    share(&units.into_values().collect::<Vec<_>>())
}

fn by_similarity<'a>(job: &Job, curve: &Curve, pairs: &[&'a TruePair]) -> Vec<RecallAt> {
    let least = job.score.measure.least_jaccard(job.score.threshold).unwrap_or(0.0);
    let edge = |bin: usize| least + (1.0 - least) * bin as f64 / BINS as f64;
    let bin_of = |jaccard: f64| (0..BINS).rev().find(|&bin| jaccard >= edge(bin)).unwrap_or(0);
    let mut bins: Vec<Vec<&'a TruePair>> = vec![Vec::new(); BINS];
    for &pair in pairs {
        bins[bin_of(pair.jaccard)].push(pair);
    }
    let at = |(bin, pairs): (usize, Vec<&'a TruePair>)| {
        let expected = expected(curve, &pairs)?;
        Some(RecallAt {
            from: edge(bin),
            to: edge(bin + 1),
            pairs: pairs.len() as u64,
            measured: weighted(pairs.iter().copied(), |pair| pair.is_found),
            expected,
        })
    };
    bins.into_iter().enumerate().filter_map(at).collect()
}

fn bias<'a>(pairs: impl Iterator<Item = &'a FoundPair>) -> Option<Bias> {
    let differences: Vec<f64> = pairs.map(|pair| pair.estimate - pair.jaccard).collect();
    let n = differences.len() as f64;
    if differences.is_empty() {
        return None;
    }
    let bias = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|difference| (difference - bias).powi(2)).sum();
    Some(Bias { bias, deviation: (squares / n).sqrt(), pairs: differences.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job;

    /// A job with threshold 0.5 and three sets, of which 0 and 1 are a pair.
    fn scene() -> (Job, HashMap<u64, Set>) {
        let set = |id, cluster| (id, Set { hashes: [id, 0], group: 0, shingles: 10, documents: 1, cluster });
        (job::with_keys("score.threshold = 0.5"), [set(0, 2), set(1, 2), set(2, 0)].into())
    }

    #[test]
    fn a_set_is_held_against_what_the_output_has_of_it() {
        let (job, sets) = scene();
        let common = |shared| SetOverlap { shared, of: [10, 10], agrees: false };
        let partners: Partners =
            [(1, [(0, common(8))].into()), (2, [(0, common(7)), (1, common(9))].into())].into();
        let right = FoundPair { jaccard: 8.0 / 12.0, estimate: 0.7 };
        let seen = |found: FoundPairs| {
            let stay = [(0, vec![1]), (1, Vec::new()), (2, vec![3])].into();
            EvaluatedSets { partners: partners.clone(), found, stay }
        };
        let unit = |set, seen| {
            let drawn = DrawnSet { set, stratum: 0, weight: 1.0 };
            SetWithPartners { sets: &sets, job: &job, drawn, seen }
        };
        let found = seen([(1, [(0, right)].into()), (2, Default::default())].into());
        let one = unit(1, &found);
        assert_eq!((one.missed().count(), one.missed_documents(), one.missed_removals()), (0, 0.0, 0.0));
        // Set 2 is in no pair, and is kept although set 0 precedes it and is kept too.
        let two = unit(2, &found);
        assert_eq!((two.missed().count(), two.missed_documents(), two.missed_removals()), (2, 1.0, 1.0));
        assert_eq!(one.wrong_pairs() + two.wrong_pairs(), 0);
        // One pair has a wrong similarity, and another one is not similar.
        let wrong = FoundPair { jaccard: 0.66, ..right };
        let found = seen([(1, [(0, wrong), (2, right)].into())].into());
        assert_eq!(unit(1, &found).wrong_pairs(), 2);
    }

    #[test]
    fn pairs_are_counted_in_the_interval_of_their_similarity() {
        let (job, _) = scene();
        let pair =
            |unit, jaccard, is_found| TruePair { unit, weight: 2.0, jaccard, is_similar: true, is_found };
        let pairs = [pair(0, 0.5, true), pair(0, 0.54, false), pair(1, 1.0, true)];
        let found: Vec<_> = by_similarity(&job, &job.curve(), &pairs.each_ref())
            .into_iter()
            .map(|at| (at.from, at.to, at.pairs, at.measured.unwrap().value))
            .collect();
        assert_eq!(found, [(0.5, 0.55, 2, 0.5), (0.95, 1.0, 1, 1.0)]);
    }
}
