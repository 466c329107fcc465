//! Estimates from stratified samples, with 95 % intervals.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate<T = f64> {
    /// The estimate.
    pub value: T,
    /// The lower end of the interval.
    pub low: T,
    /// The upper end of the interval.
    pub high: T,
}

/// Adds up the values, and adds up both ends of the intervals.
impl<T: Add<Output = T> + Default> Sum for Estimate<T> {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            value: sum.value + one.value,
            low: sum.low + one.low,
            high: sum.high + one.high,
        })
    }
}

/// The quantile of the normal distribution for 95 % intervals: 2.5 % of it are above.
pub(crate) const Z: f64 = 1.959_963_984_540_054;
/// The quantile for the intervals of strata. Larger than [`Z`], because a total adds many small strata with few positive units each. In
/// simulations, the interval of a total then contains the true value in 95 of 100 draws.
pub(crate) const Z_OF_STRATA: f64 = 2.15;

/// A stratum of units, some of which were drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Stratum {
    pub(super) size: u64,
    /// The value of each drawn unit, at least 0.
    pub(super) drawn: Vec<f64>,
}

/// Returns Wilson's interval for the share `count / n` (*Probable inference, the law of succession, and statistical inference*, 1927).
/// `n` can be a fraction.
pub(crate) fn wilson(count: f64, n: f64, z: f64) -> (f64, f64) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let share = count / n;
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// With this number of positive units, their mean is reliable.
const ENOUGH: f64 = 3.0;

impl Stratum {
    /// Returns the estimated total over all units, and its distances to both ends of its interval. `usual` is the assumed value of a
    /// positive unit if few were drawn.
    fn total(&self, usual: f64) -> (f64, f64, f64) {
        let (n, size) = (self.drawn.len() as f64, self.size as f64);
        if self.drawn.is_empty() {
            return (0.0, 0.0, size * usual);
        }
        let positive: Vec<f64> = self.drawn.iter().copied().filter(|&value| value > 0.0).collect();
        let k = positive.len() as f64;
        let mean = if positive.is_empty() { usual } else { positive.iter().sum::<f64>() / k };
        let typical = if k < ENOUGH { mean.max(usual) } else { mean };
        let share = k / n;
        // Units are drawn without replacement, so the total of a completely drawn stratum is exact.
        let left = (1.0 - n / size).max(0.0);
        let (low, high) = wilson(k, n, Z_OF_STRATA);
        let spread = if k > 1.0 {
            positive.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (k - 1.0)
        } else {
            // The spread of a single value is unknown, so the square of the value is assumed.
            mean * mean * k
        };
        // The spread of few values is uncertain, so the last factor widens the interval, as the longer tails of Student's distribution
        // do.
        let of_values = Z_OF_STRATA * Z_OF_STRATA * spread / k.max(1.0) * (1.0 + ENOUGH / k.max(1.0));
        let distance = |share_there: f64| {
            let of_share = ((share_there - share) * typical).powi(2);
            size * (left * (of_share + share_there * share_there * of_values)).sqrt()
        };
        // Multiplies first, so that the total of a completely drawn stratum is exact.
        let value = self.drawn.iter().sum::<f64>() * size / n;
        (value, distance(low), distance(high))
    }
}

/// Returns the total over all strata. Its squared distance to each end of the interval is the sum of the squared distances of the strata
/// (Zou and Donner, *Construction of confidence limits about effect measures*, 2008).
pub(super) fn total<'a>(strata: impl IntoIterator<Item = &'a Stratum>, usual: f64) -> Estimate {
    let (mut value, mut below, mut above) = (0.0, 0.0, 0.0);
    for stratum in strata {
        let (total, low, high) = stratum.total(usual);
        (value, below, above) = (value + total, below + low * low, above + high * high);
    }
    Estimate { value, low: (value - below.sqrt()).max(0.0), high: value + above.sqrt() }
}

/// Returns the share `found / (found + missed)`; `None` if both numbers are 0.
pub(super) fn recall(found: u64, missed: Estimate) -> Option<Estimate> {
    let found = found as f64;
    let of = |missed: f64| if found + missed > 0.0 { found / (found + missed) } else { 1.0 };
    let any = found > 0.0 || missed.value > 0.0;
    any.then(|| Estimate { value: of(missed.value), low: of(missed.high), high: of(missed.low) })
}

/// Returns a weighted share. `units` contains (weight, found weight) for each unit. The interval counts each unit as one observation.
pub(super) fn share(units: &[(f64, f64)]) -> Option<Estimate> {
    let (all, found) = units.iter().fold((0.0, 0.0), |(all, found), unit| (all + unit.0, found + unit.1));
    if all <= 0.0 {
        return None;
    }
    let squares: f64 = units.iter().map(|unit| unit.0 * unit.0).sum();
    let n = all * all / squares;
    let value = found / all;
    let (low, high) = wilson(value * n, n, Z);
    Some(Estimate { value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::hash::SplitMix64;

    #[test]
    fn wilsons_interval_is_that_of_the_tables() {
        let close = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!((low - expected.0).abs() < 5e-5 && (high - expected.1).abs() < 5e-5, "{low} {high}");
        };
        close(wilson(0.0, 10.0, Z), (0.0, 0.2775));
        close(wilson(5.0, 10.0, Z), (0.2366, 0.7634));
        close(wilson(10.0, 10.0, Z), (0.7225, 1.0));
        close(wilson(81.0, 263.0, Z), (0.2553, 0.3662));
    }

    #[test]
    fn the_total_of_a_stratum_that_was_drawn_whole_is_known() {
        let strata = [Stratum { size: 3, drawn: vec![1.0, 0.0, 2.5] }, Stratum { size: 1, drawn: vec![0.0] }];
        assert_eq!(total(&strata, 0.5), Estimate { value: 3.5, low: 3.5, high: 3.5 });
        assert_eq!(recall(7, total(&strata, 0.5)).unwrap().value, 7.0 / 10.5);
        assert_eq!(recall(0, total(&[], 1.0)), None);
        let stratum = Stratum { size: 1000, drawn: vec![0.0; 100] };
        let Estimate { value, low, high } = total([&stratum], 0.5);
        assert_eq!((value, low), (0.0, 0.0));
        // 4.4 % of the units have a value of one half.
        assert!((20.0..23.0).contains(&high), "{high}");
    }

    /// In most draws, the interval contains the total, also for populations with few large values.
    #[test]
    fn intervals_hold_the_total() {
        let mut random = SplitMix64(7);
        let mut below = |n: u64| random.next() % n;
        for (share, most) in [(3, 6), (20, 6), (100, 6), (400, 6), (20, 40), (5, 1)] {
            let mut value = || if below(share) == 0 { 0.5 * (1 + below(most)) as f64 } else { 0.0 };
            let population: Vec<f64> = (0..2000).map(|_| value()).collect();
            let truth: f64 = population.iter().sum();
            let mut held = 0;
            for _ in 0..400 {
                let mut rest = population.clone();
                let drawn = (0..150).map(|_| rest.swap_remove(below(rest.len() as u64) as usize)).collect();
                let Estimate { low, high, .. } = total([&Stratum { size: 2000, drawn }], 1.5);
                held += u32::from((low..=high).contains(&truth));
            }
            assert!(held >= 372, "one in {share}, {most} at most: {held} of 400");
        }
    }
}
