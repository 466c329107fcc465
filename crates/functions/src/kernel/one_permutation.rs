//! `one_permutation(shingles, permutations, seed)`: a signature for which each shingle is hashed once, or a few times in small sets,
//! instead of once per permutation.
//!
//! A hash assigns a bin, out of t bins, and a value to each shingle. The signature consists of the minimum value in each bin (Li, Owen and
//! Zhang, *One permutation hashing*, NIPS 2012). A small set leaves bins empty. Further rounds fill the empty bins (Dahlgaard, Knudsen and
//! Thorup, *Fast similarity sketching*, FOCS 2017). In each round, another hash assigns all shingles to bins, and only empty bins are
//! filled.
//!
//! ```text
//! w_i(x) = first output of splitmix64 whose state starts as x XOR k_i
//! k_i    = output i of splitmix64 whose state starts as the seed, counted from 0
//!
//! rounds 0 to t - 1     bin = floor(upper half of w_i(x) * t / 2^32)     value = lower half of w_i(x)
//! rounds t to 2 t - 1   bin = i - t for every x                          value = lower half of w_i(x)
//!
//! signature[bin] = least value that falls into the bin in the first round in which any does
//! ```
//!
//! So each bin defines an order of all shingles: by the first round that assigns the shingle to the bin, then by the value. The bin
//! contains the value of the set's first shingle in this order. The probability that two sets have the same first shingle is their Jaccard
//! similarity. The rounds stop as soon as all bins are filled, which takes about n + t ln t hashes for n shingles. Signatures of different
//! lengths cannot be compared. The definition never changes, because stored signatures are compared with later signatures.
//!
//! The known alternative copies full bins into empty ones (Shrivastava, *Optimal densification for fast and accurate minwise hashing*, ICML
//! 2017). Its estimate has the same mean and takes one hash per shingle. In small sets its variance is larger, and the search for full bins
//! takes t^2 / n steps. With 128 bins and 20,000 seeds, the variance was 3.1 times as large for 5 shingles, 1.7 times for 100, and equal
//! for 1000.

use crate::kernel::hash::SplitMix64;
use crate::kernel::vector::{self, Kernel};

/// The hash functions of all rounds. They are strong enough for elements that are not hashes, such as consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    /// Two keys per bin: first the keys of the rounds over all bins, then one key for the round of each single bin.
    pub(crate) keys: Vec<u64>,
}

impl Rounds {
    /// Derives the hashes for `bins` bins from `seed`. A signature has one value per bin.
    pub fn new(bins: usize, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        Self { keys: (0..2 * bins).map(|_| random.next()).collect() }
    }
}

/// Appends the signature of `shingles` to `out`: the value of each bin, in order. An empty set fills no bin, so nothing is appended.
/// `scratch` can contain anything; reusing it saves an allocation.
pub fn one_permutation(shingles: &[u64], rounds: &Rounds, scratch: &mut Vec<u64>, out: &mut Vec<u32>) {
    if shingles.is_empty() {
        return;
    }
    let (shared, own) = rounds.keys.split_at(rounds.keys.len() / 2);
    scratch.clear();
    scratch.resize(shared.len(), EMPTY);
    vector::widest(Fill { shingles, shared, own, bins: scratch });
    // The cast keeps the value and drops the round.
    out.extend(scratch.iter().map(|&bin| bin as u32));
}

/// The content of an empty bin. In a filled bin, the upper half is the round, which is far below 2^32, and the lower half is the value.
const EMPTY: u64 = u64::MAX;

/// The number of shingles that are hashed together. They fill four AVX-512 registers. A larger number is not faster.
const LANES: usize = 32;

struct Fill<'a> {
    shingles: &'a [u64],
    shared: &'a [u64],
    own: &'a [u64],
    bins: &'a mut [u64],
}

impl Kernel for Fill<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { shingles, shared, own, bins } = self;
        let mut empty = bins.len();
        for (round, &key) in (0_u64..).zip(shared) {
            let (blocks, rest) = shingles.as_chunks::<LANES>();
            for block in blocks {
                empty -= send(&block.map(|shingle| word(shingle, key)), round, bins);
            }
            for &shingle in rest {
                empty -= send(&[word(shingle, key)], round, bins);
            }
            if empty == 0 {
                return;
            }
        }
        for (bin, &key) in bins.iter_mut().zip(own).filter(|(bin, _)| **bin == EMPTY) {
            *bin = shingles.iter().map(|&shingle| word(shingle, key) & LOWER).fold(EMPTY, u64::min);
        }
    }
}

const LOWER: u64 = 0xffff_ffff;

#[inline(always)]
fn word(shingle: u64, key: u64) -> u64 {
    SplitMix64(shingle ^ key).next()
}

/// Puts the hashes of a round into their bins. Returns the number of empty bins that this call filled.
#[inline(always)]
fn send(words: &[u64], round: u64, bins: &mut [u64]) -> usize {
    let (count, mut filled) = (bins.len() as u64, 0);
    for word in words {
        let bin = &mut bins[(((word >> 32) * count) >> 32) as usize];
        filled += usize::from(*bin == EMPTY);
        // A bin that an earlier round filled is smaller than any value of this round.
        *bin = (*bin).min((round << 32) | (word & LOWER));
    }
    filled
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    fn signature(shingles: &[u64], bins: usize, seed: u64) -> Vec<u32> {
        let (mut scratch, mut out) = (vec![7; 3], Vec::new());
        one_permutation(shingles, &Rounds::new(bins, seed), &mut scratch, &mut out);
        out
    }

    /// Computes a signature by the definition at the top of this file, bin by bin and round by round.
    fn by_definition(shingles: &[u64], bins: usize, seed: u64) -> Vec<u32> {
        let mut random = SplitMix64(seed);
        let keys: Vec<u64> = (0..2 * bins).map(|_| random.next()).collect();
        let of_round = |bin: usize, round: usize| {
            let words = shingles.iter().map(|shingle| SplitMix64(shingle ^ keys[round]).next());
            let falls = |word: &u64| match round.checked_sub(bins) {
                Some(own) => own == bin,
                None => u128::from(word >> 32) * bins as u128 / (1 << 32) == bin as u128,
            };
            words.filter(falls).map(|word| (word % (1 << 32)) as u32).min()
        };
        (0..bins).map(|bin| (0..2 * bins).find_map(|round| of_round(bin, round)).unwrap()).collect()
    }

    /// The expected values were computed with Python's integers from the definition at the top of this file.
    #[test]
    fn known_signatures() {
        assert_eq!(Rounds::new(1, 42).keys, [13679457532755275413, 2949826092126892291]);
        assert!(signature(&[], 8, 1).is_empty());
        for (shingles, seed, expected) in [
            (vec![5], 9, vec![3644641217]),
            (vec![1], 7, vec![1557333855, 3010892742, 544338710, 4084367622]),
            // The third bin is empty until the round for this bin alone.
            (vec![1], 42, vec![3558495407, 3433739376, 2030328408, 2358461157]),
            (vec![u64::MAX, 0, 1 << 63], u64::MAX, vec![2171555560, 1738832182, 3153440585, 1787436966]),
            (vec![1, 2, 3], 42, vec![3558495407, 2257628742, 2735623570, 2358461157]),
            ((1..=100).collect(), 0, vec![285107271, 575882477, 40707086, 303640726, 294770081, 42205488]),
        ] {
            assert_eq!(signature(&shingles, expected.len(), seed), expected, "{shingles:?}");
        }
    }

    /// The kinds of elements that shingle hashes produce: 64 bits, 32 bits, consecutive numbers, and numbers in the upper half.
    const ELEMENTS: [fn(u64) -> u64; 4] =
        [|n| SplitMix64(n).next(), |n| SplitMix64(n).next() >> 32, |n| n, |n| n << 32];

    /// The variance is at most `J (1 - J) / t`, as with independent permutations (Dahlgaard, Knudsen and Thorup).
    #[test]
    fn the_estimate_is_unbiased() {
        const BINS: usize = 128;
        const SEEDS: u64 = 2_000;
        const ROWS: usize = 4;
        let cases: [(Range<u64>, Range<u64>); 10] = [
            (0..1, 0..2),
            (0..2, 1..3),
            (0..3, 2..5),
            (0..3, 0..15),
            (0..9, 1..10),
            (0..30, 20..50),
            (0..100, 0..200),
            (0..150, 100..250),
            (0..300, 100..400),
            (0..500, 56..556),
        ];
        let mut scratch = Vec::new();
        for (i, (a, b)) in cases.into_iter().enumerate() {
            let shared = a.end.min(b.end) - a.start.max(b.start);
            let jaccard = shared as f64 / (a.end.max(b.end) - a.start.min(b.start)) as f64;
            let element = ELEMENTS[i % ELEMENTS.len()];
            let (a, b): (Vec<u64>, Vec<u64>) = (a.map(element).collect(), b.map(element).collect());
            let (mut estimates, mut met) = (Vec::new(), 0);
            for seed in 0..SEEDS {
                let rounds = Rounds::new(BINS, seed);
                let mut signature = |set: &[u64]| {
                    let mut out = Vec::with_capacity(BINS);
                    one_permutation(set, &rounds, &mut scratch, &mut out);
                    out
                };
                let (a, b) = (signature(&a), signature(&b));
                let agree = a.iter().zip(&b).filter(|(a, b)| a == b).count();
                estimates.push(agree as f64 / BINS as f64);
                met += a.chunks(ROWS).zip(b.chunks(ROWS)).filter(|(a, b)| a == b).count();
            }
            let said = format!("{} and {} elements, J {jaccard}", a.len(), b.len());
            let mean = |of: &dyn Fn(&f64) -> f64| estimates.iter().map(of).sum::<f64>() / SEEDS as f64;
            let bias = mean(&|estimate| estimate - jaccard);
            let variance = mean(&|estimate| (estimate - jaccard).powi(2)) - bias * bias;
            assert!(bias.abs() <= 4.0 * (variance / SEEDS as f64).sqrt(), "{said}: bias {bias}");
            // A variance estimated from 2,000 seeds has a standard error of 3%.
            let independent = jaccard * (1.0 - jaccard) / BINS as f64;
            assert!(variance <= 1.1 * independent, "{said}: {variance}, independent {independent}");
            let met = met as f64 / (SEEDS as usize * BINS / ROWS) as f64;
            assert!((met - jaccard.powi(ROWS as i32)).abs() <= 0.02, "{said}: {met} of the bands meet");
        }
    }

    #[test]
    fn sets_without_a_common_element_agree_nowhere() {
        for element in ELEMENTS {
            let of = |numbers: Range<u64>| signature(&numbers.map(element).collect::<Vec<_>>(), 4_096, 3);
            let (a, b) = (of(0..200), of(200..20_000));
            assert!(a.iter().zip(&b).all(|(a, b)| a != b));
        }
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_definition(
            shingles in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..60], 1..100),
            bins in 1usize..70,
            seed in any::<u64>(),
        ) {
            let expected = by_definition(&shingles, bins, seed);
            prop_assert_eq!(&signature(&shingles, bins, seed), &expected);
            let keys = Rounds::new(bins, seed).keys;
            let (shared, own) = keys.split_at(bins);
            for run in 0..3 {
                let mut filled = vec![EMPTY; bins];
                let fill = Fill { shingles: &shingles, shared, own, bins: &mut filled };
                match run {
                    0 => fill.run(),
                    1 => vector::narrower(fill),
                    _ => vector::widest(fill),
                }
                let values: Vec<u32> = filled.iter().map(|&bin| bin as u32).collect();
                prop_assert_eq!(&values, &expected);
            }
        }
    }
}
