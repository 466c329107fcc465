//! The S-curve of banding, the probabilities that follow from it, and the rules that choose bands and rows.
//!
//! With b bands of r rows, two documents with Jaccard similarity s share a bucket with probability 1 - (1 - s^r)^b. See Leskovec,
//! Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4.2. A [`Curve`] also includes all other settings of a job that decide
//! whether a pair is found.

use std::iter::repeat_n;

use super::{BandRule, Choice, Lsh, Method, Minhash, Score, ScoreBy};
use crate::error::{Error, Result};
use crate::kernel::signature::estimate;

/// The probability that a job finds a pair, as a function of the Jaccard similarity of the pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The bands of the job, or `None` if all similar pairs are candidates.
    lsh: Option<Lsh>,
    /// One entry per number of differing values in two signatures, from 0 to the largest number whose estimate reaches the threshold. An
    /// entry contains the logarithm of the number of ways to place the differences, and the probability that such a pair is a candidate.
    /// `None` if the job does not drop candidates by their estimates.
    by_estimate: Option<Vec<(f64, f64)>>,
    permutations: usize,
}

impl Curve {
    /// Computes the curve of a job with these sections. If the job drops candidates by estimates, the time grows with the square of the
    /// number of permutations.
    pub(super) fn new(method: Method, minhash: &Minhash, lsh: &Lsh, score: &Score) -> Self {
        let Minhash { permutations, bits, .. } = minhash;
        let lsh = method.uses_buckets().then(|| lsh.clone());
        let kept = (0..=*permutations)
            .take_while(|apart| estimate(permutations - apart, *permutations, *bits) >= score.threshold);
        let by_estimate = (score.prefilter || score.by == ScoreBy::Signature)
            .then(|| by_differences(*permutations, lsh.as_ref(), kept.count()));
        Self { lsh, by_estimate, permutations: *permutations }
    }

    pub(crate) fn has_estimates(&self) -> bool {
        self.by_estimate.is_some()
    }

    /// Returns the probability that two documents with Jaccard similarity `s`, in [0, 1], become a candidate that the job does not drop
    /// by its estimate.
    pub fn kept(&self, s: f64) -> f64 {
        let Some(by_differences) = &self.by_estimate else { return self.candidate(s) };
        let (same, other) = (s.ln(), (-s).ln_1p());
        // 0 ln 0 is defined as 0 here.
        let times = |count: usize, ln: f64| if count == 0 { 0.0 } else { count as f64 * ln };
        let at = |(apart, (places, candidate)): (usize, &(f64, f64))| {
            candidate * (places + times(self.permutations - apart, same) + times(apart, other)).exp()
        };
        by_differences.iter().enumerate().map(at).sum::<f64>().min(1.0)
    }

    /// Returns the probability that two documents with Jaccard similarity `s` become a candidate.
    pub fn candidate(&self, s: f64) -> f64 {
        match &self.lsh {
            Some(lsh) => -(log_missed(s, lsh.bands, lsh.rows) + log_not_by_chance(lsh)).exp_m1(),
            None => 1.0,
        }
    }
}

/// Returns the logarithm of the probability that two documents share no bucket by chance. The probability is 1 unless all bands share a
/// table.
fn log_not_by_chance(lsh: &Lsh) -> f64 {
    lsh.table_size.map_or(0.0, |size| (lsh.bands * lsh.bands) as f64 * (-1.0 / size as f64).ln_1p())
}

/// Returns one entry for each d in 0..`counts`, the number of positions at which two signatures of `n` values differ. An entry contains the
/// logarithm of the number of ways to place the differences. It also contains the share of these ways with which the pair is a candidate.
///
/// The pair is missed if each band contains a difference. The placements are therefore counted band by band. If a band of r values follows
/// t values, d differences have C(t + r, d) placements. In C(r, h) C(t, d - h) of them, the band contains h differences. All terms are
/// positive, so no digits are lost.
fn by_differences(n: usize, lsh: Option<&Lsh>, counts: usize) -> Vec<(f64, f64)> {
    let mut factorials = vec![0.0];
    factorials.extend((1..=n).scan(0.0, |sum, k| {
        *sum += (k as f64).ln();
        Some(*sum)
    }));
    let choose = |n: usize, k: usize| factorials[n] - factorials[k] - factorials[n - k];
    let (bands, rows) = lsh.map_or((0, 0), |lsh| (lsh.bands, lsh.rows));
    // The values outside the bands form a last block, which need not contain a difference.
    let blocks = repeat_n((rows, 1), bands).chain([(n - bands * rows, 0)]);
    let (mut missed, mut values) = (vec![1.0], 0);
    for (block, least) in blocks {
        let all = values + block;
        let share = |d: usize| {
            let here = least.max(d.saturating_sub(values))..=block.min(d);
            let places = |h| (choose(block, h) + choose(values, d - h) - choose(all, d)).exp();
            here.map(|h| missed[d - h] * places(h)).sum::<f64>()
        };
        missed = (0..counts.min(all + 1)).map(share).collect();
        values = all;
    }
    let not_by_chance = lsh.map_or(0.0, |lsh| log_not_by_chance(lsh).exp());
    missed.into_iter().enumerate().map(|(d, missed)| (choose(n, d), 1.0 - missed * not_by_chance)).collect()
}

/// Returns the probability that two documents with Jaccard similarity `s`, in [0, 1], share a bucket in at least one of `bands` bands with
/// `rows` rows. The probability increases with `s` and with `bands`, and decreases with `rows`.
pub fn probability(s: f64, bands: usize, rows: usize) -> f64 {
    // 1 - (1 - x)^b loses all digits if x is tiny. This form loses none, and is exact at s = 0 and s = 1.
    -log_missed(s, bands, rows).exp_m1()
}

/// Returns the approximate similarity at which the curve is steepest, which is (1/b)^(1/r).
pub(crate) fn threshold(bands: usize, rows: usize) -> f64 {
    (1.0 / bands as f64).powf(1.0 / rows as f64)
}

/// Returns the area under the curve to the left of `threshold`, in [0, threshold]. If similarities are evenly distributed, it is the
/// expected share of dissimilar pairs that become candidates.
fn false_positive_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| probability(s, bands, rows), 0.0, threshold)
}

/// Returns the area above the curve to the right of `threshold`, in [0, 1 - threshold]. If similarities are evenly distributed, it is the
/// expected share of similar pairs that are missed.
fn false_negative_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| log_missed(s, bands, rows).exp(), threshold, 1.0)
}

/// Returns the natural logarithm of the probability that no band agrees: b ln(1 - s^r).
fn log_missed(s: f64, bands: usize, rows: usize) -> f64 {
    bands as f64 * (-s.powf(rows as f64)).ln_1p()
}

/// Returns the integral of a monotone `f` over [from, to] with an error of about 1e-9, by Simpson's rule.
///
/// If the result for an interval differs from the sum for its halves, the halves are integrated separately (Kuncir, *Algorithm 103*,
/// 1962). Since `f` is monotone, its values at the ends show whether it changes in the interval.
fn integrate(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    let middle = 0.5 * (from + to);
    let ends = [f(from), f(middle), f(to)];
    refine(&f, [from, to], ends, simpson([from, to], ends), 1e-9, 48)
}

fn refine(
    f: &impl Fn(f64) -> f64,
    [from, to]: [f64; 2],
    [left, mid, right]: [f64; 3],
    whole: f64,
    tolerance: f64,
    depth: u32,
) -> f64 {
    let middle = 0.5 * (from + to);
    let first = [left, f(0.5 * (from + middle)), mid];
    let second = [mid, f(0.5 * (middle + to)), right];
    let halves = [simpson([from, middle], first), simpson([middle, to], second)];
    let difference = halves[0] + halves[1] - whole;
    // The usual limit, 15 times the tolerance, would accept a steep curve by chance.
    if depth == 0 || difference.abs() <= tolerance {
        // Richardson's step: the error of the sum of both halves is about a fifteenth of `difference`.
        return halves[0] + halves[1] + difference / 15.0;
    }
    refine(f, [from, middle], first, halves[0], 0.5 * tolerance, depth - 1)
        + refine(f, [middle, to], second, halves[1], 0.5 * tolerance, depth - 1)
}

fn simpson([from, to]: [f64; 2], [left, mid, right]: [f64; 3]) -> f64 {
    (to - from) / 6.0 * (left + 4.0 * mid + right)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bands {
    pub bands: usize,
    pub rows: usize,
}

impl Bands {
    /// Returns the probability that a pair with exactly this similarity becomes a candidate.
    fn recall(self, similarity: f64) -> f64 {
        probability(similarity, self.bands, self.rows)
    }

    fn threshold(self) -> f64 {
        threshold(self.bands, self.rows)
    }
}

/// Chooses bands and rows by `choice` for `threshold`. Returns `None` if the job gives them. If no bands and rows reach the recall, fails
/// with `Kind::Job`, unless the `method` uses no buckets.
pub(crate) fn choose_bands(
    choice: Choice,
    permutations: usize,
    threshold: f64,
    method: Method,
) -> Result<Option<Bands>> {
    Ok(Some(match choice {
        Choice::Given => return Ok(None),
        Choice::Rule(BandRule::Nearest) => nearest(permutations, threshold, |_| true),
        Choice::Rule(BandRule::Balanced) => balanced(permutations, threshold),
        // At or under the threshold, bands find more of the pairs at the threshold.
        Choice::Rule(BandRule::Recall) => nearest(permutations, threshold, |s| s <= threshold),
        // At or over the threshold, bands make fewer candidates below it.
        Choice::Rule(BandRule::Precision) => nearest(permutations, threshold, |s| s >= threshold),
        Choice::TargetRecall(target) => match target_recall(permutations, threshold, target) {
            Err(_) if !method.uses_buckets() => loosest(permutations),
            found => found?,
        },
    }))
}

/// Chooses b and r with b * r = `permutations` so that (1/b)^(1/r) is nearest to `threshold`, and `fits` if possible. Of two equally near
/// choices, takes the one with more bands, which finds more pairs.
fn nearest(permutations: usize, threshold: f64, fits: impl Fn(f64) -> bool) -> Bands {
    let (fitting, others): (Vec<Bands>, Vec<Bands>) = (1..=permutations)
        .filter(|rows| permutations.is_multiple_of(*rows))
        .map(|rows| Bands { bands: permutations / rows, rows })
        .partition(|choice| fits(choice.threshold()));
    let choices = if fitting.is_empty() { others } else { fitting };
    let distance = |choice: &Bands| (choice.threshold() - threshold).abs();
    let nearest = choices.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(Bands { bands: 1, rows: permutations })
}

/// Chooses b and r with b * r <= `permutations` that minimise the sum of the areas of false positives and false negatives. Among equal
/// sums, chooses the most rows, then the fewest bands.
///
/// This is the rule of Zhu, Nargesian, Pu, Miller, *LSH Ensemble* (VLDB 2016), section 5.4, with equal weights. For n permutations, it
/// evaluates about n ln n choices: milliseconds for hundreds of permutations, seconds for tens of thousands.
fn balanced(permutations: usize, threshold: f64) -> Bands {
    let mut best = (f64::INFINITY, Bands { bands: 1, rows: permutations });
    for rows in (1..=permutations).rev() {
        for bands in 1..=permutations / rows {
            let loss = 0.5 * false_positive_area(threshold, bands, rows)
                + 0.5 * false_negative_area(threshold, bands, rows);
            if loss < best.0 {
                best = (loss, Bands { bands, rows });
            }
        }
    }
    best.1
}

/// Chooses the largest r, then the smallest b, with b * r <= `permutations` and a recall of at least `target`, in (0, 1), at `threshold`.
/// The largest r has the steepest curve and therefore the fewest false candidates. Fails with `Kind::Job` if no b and r reach the target.
fn target_recall(permutations: usize, threshold: f64, target: f64) -> Result<Bands> {
    for rows in (1..=permutations).rev() {
        let most = Bands { bands: permutations / rows, rows };
        if most.recall(threshold) >= target {
            let reaches = |bands: &usize| Bands { bands: *bands, rows }.recall(threshold) >= target;
            let bands = (1..=most.bands).find(reaches).unwrap_or(most.bands);
            return Ok(Bands { bands, rows });
        }
    }
    let best = loosest(permutations).recall(threshold);
    Err(Error::job(format!(
        "{target} is too high for the threshold {threshold} and {permutations} permutations, which allow {best:.4} at \
         most: lower it, or raise minhash.permutations"
    )))
}

/// Returns the choice that finds the most pairs at every threshold: `permutations` bands of one row.
fn loosest(permutations: usize) -> Bands {
    Bands { bands: permutations, rows: 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job;
    use crate::job::{Bits, Job};
    use crate::kernel::hash::SplitMix64;

    fn job(permutations: usize, (bands, rows): (usize, usize), threshold: f64, keys: &str) -> Job {
        job::with_keys(&format!(
            "score.threshold = {threshold}\nminhash.permutations = {permutations}\nlsh.bands = {bands}\n\
             lsh.rows = {rows}\n{keys}"
        ))
    }

    /// Tries all placements of differences in signatures of at most 10 values.
    #[test]
    fn candidates_by_differences_are_counted_exactly() {
        for n in 1..=10_usize {
            for (bands, rows) in (1..=n).flat_map(|rows| (1..=n / rows).map(move |bands| (bands, rows))) {
                let lsh = job(n, (bands, rows), 0.5, "").lsh;
                let found = by_differences(n, Some(&lsh), n + 1);
                for (d, (places, share)) in found.into_iter().enumerate() {
                    let of_d = (0_u32..1 << n).filter(|differ| differ.count_ones() as usize == d);
                    let band = |at: usize| ((1 << rows) - 1) << (at * rows);
                    let agrees = |differ: &u32| (0..bands).any(|at| differ & band(at) == 0);
                    let all = of_d.clone().count() as f64;
                    let wanted = of_d.filter(agrees).count() as f64 / all;
                    assert!((places.exp() - all).abs() < 1e-9 * all, "{n} {d}");
                    assert!((share - wanted).abs() < 1e-12, "{n} {bands} {rows} {d}");
                }
            }
        }
    }

    /// Simulates 36 settings with 4,000 pairs of signatures each. The results must be within 4.5 standard deviations.
    #[test]
    fn the_curve_is_what_a_simulation_finds() {
        let mut random = SplitMix64(7);
        let mut share = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let table = "score.prefilter = true\nlsh.table_size = 500";
        for (n, bands) in [(128, (16, 6)), (100, (20, 5)), (64, (4, 16)), (100, (10, 9))] {
            for keys in ["score.prefilter = true", "score.by = 'signature'", table] {
                for (threshold, s) in [(0.8, 0.8), (0.7, 0.75), (0.6, 0.5)] {
                    let job = job(n, bands, threshold, keys);
                    let Lsh { bands, rows, table_size, .. } = job.lsh;
                    let correction = if job.minhash.bits == Bits::Of16 { 1.0 / 65_536.0 } else { 0.0 };
                    const DRAWS: usize = 4_000;
                    let mut kept = 0;
                    for _ in 0..DRAWS {
                        let equal: Vec<bool> = (0..n).map(|_| share() < s).collect();
                        let meet = table_size.is_some_and(|size| {
                            let mut buckets =
                                || Vec::from_iter((0..bands).map(|_| (share() * size as f64) as u64));
                            let (a, b) = (buckets(), buckets());
                            a.iter().any(|bucket| b.contains(bucket))
                        });
                        let agrees = equal.chunks_exact(rows).take(bands).any(|band| !band.contains(&false));
                        let agreement = equal.iter().filter(|&&equal| equal).count() as f64 / n as f64;
                        let passes = (agreement - correction) / (1.0 - correction) >= threshold;
                        kept += usize::from((agrees || meet) && passes);
                    }
                    let expected = job.curve().kept(s);
                    let deviation = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
                    let off = kept as f64 / DRAWS as f64 - expected;
                    assert!(off.abs() <= 4.5 * deviation + 1e-3, "{n} {bands} {rows} {keys} {s}: {off}");
                }
            }
        }
    }

    #[test]
    fn the_curve_has_its_ends_and_never_exceeds_that_of_candidates() {
        for keys in ["", "score.prefilter = true", "candidates.method = 'all'\nscore.by = 'signature'"] {
            let curve = job(1000, (40, 9), 0.7, keys).curve();
            assert_eq!(curve.kept(1.0), 1.0, "{keys}");
            assert!(curve.kept(0.0) < 1e-9, "{keys}");
            for s in (0..=100).map(|s| f64::from(s) / 100.0) {
                // The logarithm of 1000!, a sum of 1,000 logarithms, is off by less than 1e-11.
                let (kept, candidate) = (curve.kept(s), curve.candidate(s));
                assert!(kept <= candidate + 1e-11, "{keys} {s}: {kept} {candidate}");
            }
        }
    }

    #[test]
    fn the_curve_and_its_threshold_are_the_books() {
        // The expected values are 1 - (1 - s^r)^b in rational arithmetic. The first three come from the table in section 3.4.2.
        for (s, b, r, expected) in [
            (0.2, 20, 5, 0.006380581304768474),
            (0.5, 20, 5, 0.47005071531687653),
            (0.8, 20, 5, 0.9996439421094793),
            (0.8, 32, 4, 0.9999999525011427),
            (1e-6, 1000, 2, 9.999999995005e-10),
            (0.0, 20, 5, 0.0),
            (1.0, 20, 5, 1.0),
        ] {
            let found = probability(s, b, r);
            assert!((found - expected).abs() <= 1e-13 * expected, "{s} {b} {r}: {found}");
        }
        for (b, r, expected) in
            [(20, 5, 0.5492802716530588), (25, 4, 0.4472135954999579), (4, 2, 0.5), (1, 9, 1.0)]
        {
            assert!((threshold(b, r) - expected).abs() < 1e-15, "{b} {r}");
        }
    }

    #[test]
    fn areas_agree_with_a_fine_sum() {
        // The expected values come from the midpoint rule with 400,000 steps.
        for (t, b, r, positives, negatives) in [
            (0.5, 20, 5, 0.04463489348430348, 0.04598472781981867),
            (0.8, 32, 4, 0.42074661196406266, 4.0260613780235253e-10),
            (0.8, 9, 13, 0.025311863202514034, 0.03328213601214697),
        ] {
            assert!((false_positive_area(t, b, r) - positives).abs() < 1e-8, "{t} {b} {r}");
            assert!((false_negative_area(t, b, r) - negatives).abs() < 1e-8, "{t} {b} {r}");
        }
        // With one band, the integral of s^r is t^(r+1) / (r+1), even for a nearly vertical curve.
        for r in [1, 2, 10_000] {
            let exact = 1.0 / (r + 1) as f64;
            assert!((false_positive_area(1.0, 1, r) - exact).abs() < 1e-8, "{r}");
        }
    }

    proptest! {
        #[test]
        fn it_is_a_probability_that_rises_with_similarity_and_bands(
            s in 0.0..=1.0f64, step in 0.0..=1.0f64, b in 1usize..500, r in 1usize..500,
        ) {
            let p = probability(s, b, r);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!(probability(s + (1.0 - s) * step, b, r) >= p);
            prop_assert!(probability(s, b + 1, r) >= p);
            prop_assert!(probability(s, b, r + 1) <= p);
        }

        #[test]
        fn the_areas_fill_the_square_with_the_curve(t in 0.01..=1.0f64, b in 1usize..100, r in 1usize..100) {
            // The area under the whole curve follows from the areas on both sides of any threshold.
            let under = false_positive_area(t, b, r) + (1.0 - t) - false_negative_area(t, b, r);
            prop_assert!((under - false_positive_area(1.0, b, r)).abs() < 1e-7);
        }

        #[test]
        fn choices_keep_to_the_permutations(n in 1usize..300, t in 0.01..=1.0f64, target in 0.01..0.999f64) {
            for found in [by(BandRule::Nearest, n, t), by(BandRule::Recall, n, t), by(BandRule::Precision, n, t)] {
                prop_assert_eq!(found.bands * found.rows, n);
            }
            prop_assert!(by(BandRule::Precision, n, t).threshold() >= t);
            prop_assert!(by(BandRule::Recall, n, t).threshold() <= by(BandRule::Precision, n, t).threshold());
            match target_recall(n, t, target) {
                Ok(found) => {
                    prop_assert!(found.bands * found.rows <= n);
                    prop_assert!(found.recall(t) >= target);
                    // Neither fewer bands nor more rows would reach the target.
                    if found.bands > 1 {
                        prop_assert!(bands(found.bands - 1, found.rows).recall(t) < target);
                    }
                    let more = found.rows + 1;
                    prop_assert!(more > n || bands(n / more, more).recall(t) < target);
                }
                Err(_) => prop_assert!(loosest(n).recall(t) < target),
            }
        }
    }

    fn bands(bands: usize, rows: usize) -> Bands {
        Bands { bands, rows }
    }

    fn by(rule: BandRule, permutations: usize, threshold: f64) -> Bands {
        choose_bands(Choice::Rule(rule), permutations, threshold, Method::Lsh).unwrap().unwrap()
    }

    #[test]
    fn choices_for_128_permutations_and_few() {
        // The expected values were found by trying every b and r with the plain formulas. Areas are midpoint sums of 4,000 steps.
        for (t, near, under, over, least_area, target) in [
            (0.3, bands(32, 4), bands(64, 2), bands(32, 4), bands(37, 3), bands(49, 2)),
            (0.5, bands(32, 4), bands(32, 4), bands(16, 8), bands(25, 5), bands(35, 3)),
            (0.7, bands(16, 8), bands(32, 4), bands(16, 8), bands(14, 9), bands(17, 4)),
            (0.8, bands(8, 16), bands(16, 8), bands(8, 16), bands(9, 13), bands(16, 6)),
            (0.9, bands(8, 16), bands(8, 16), bands(4, 32), bands(5, 25), bands(11, 10)),
        ] {
            assert_eq!(by(BandRule::Nearest, 128, t), near, "nearest {t}");
            assert_eq!(by(BandRule::Recall, 128, t), under, "recall {t}");
            assert_eq!(by(BandRule::Precision, 128, t), over, "precision {t}");
            assert_eq!(balanced(128, t), least_area, "balanced {t}");
            assert_eq!(target_recall(128, t, 0.99).unwrap(), target, "target_recall {t}");
        }
        assert_eq!(
            by(BandRule::Recall, 10, 0.05),
            bands(10, 1),
            "all over the threshold: the nearest of all"
        );
        assert_eq!(by(BandRule::Recall, 2, 0.5), bands(2, 1), "exactly at the threshold");
        assert_eq!(by(BandRule::Precision, 2, 0.5), bands(2, 1), "exactly at the threshold");
        assert_eq!(by(BandRule::Nearest, 7, 1.0), bands(1, 7));
        assert_eq!(target_recall(128, 1.0, 0.99).unwrap(), bands(1, 128), "identical sets agree everywhere");
        assert_eq!(by(BandRule::Nearest, 1, 0.5), bands(1, 1));
        assert_eq!(balanced(1, 0.5), bands(1, 1));
    }
}
