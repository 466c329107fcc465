//! `minhash(shingles, permutations, seed, ...)`: the minima of a shingle set under each permutation. Under a random permutation, the
//! probability that two sets have the same minimum is their Jaccard similarity (Broder, *On the resemblance and containment of documents*,
//! SEQUENCES 1997; Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, section 3.3).
//!
//! Permutations are replaced by hash functions of the family multiply-shift (Dietzfelbinger, Hagerup, Katajainen and Penttonen, *A reliable
//! randomized algorithm for the closest-pair problem*, Journal of Algorithms 25, 1997, section 2), on 32-bit words with all bits kept. So
//! each function is a permutation of the 32-bit numbers:
//!
//! ```text
//! h_i(x) = (a_i * fold(x) + b_i) mod 2^32        a_i odd,  fold(x) = upper half of x XOR lower half
//! ```
//!
//! A vector register holds sixteen 32-bit products but only eight 64-bit products, and a 64-bit product takes three times as long. Folding
//! loses little: in a set of n shingles, about n^2 / 2^33 shingles coincide, which is one in a set of 100,000.
//!
//! The generator splitmix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014) starts with the seed as
//! its state. The upper halves of its outputs are a_0, b_0, a_1, b_1, ... in this order, and the lowest bit of each `a_i` is set to 1. So a
//! signature of n minima equals the first n minima of every longer signature with the same seed. The definition never changes, because
//! stored signatures are compared with later signatures.
//!
//! The elements must be hashes: the minima of other elements, such as consecutive numbers, agree too rarely.

use std::ops::RangeInclusive;

use crate::kernel::hash::SplitMix64;
use crate::kernel::vector::{self, Kernel, padded};

/// The hash functions that approximate random permutations. `a[i]` and `b[i]` are the coefficients of function `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutations {
    a: Vec<u32>,
    b: Vec<u32>,
}

impl Permutations {
    /// Derives the first `count` functions from `seed`.
    pub fn new(count: usize, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let (a, b) = (0..count).map(|_| (random.upper_half() | 1, random.upper_half())).unzip();
        Self { a, b }
    }

    pub(crate) fn len(&self) -> usize {
        self.a.len()
    }
}

/// Folds the hash of a shingle to 32 bits. A 32-bit hash does not change.
#[inline(always)]
fn fold(shingle: u64) -> u32 {
    ((shingle >> 32) ^ shingle) as u32
}

/// Appends the signature of `shingles` to `out`: the minimum value over the set under each permutation, in order. An empty set has no
/// minima.
pub fn minhash(shingles: &[u64], permutations: &Permutations, out: &mut Vec<u32>) {
    if shingles.is_empty() {
        return;
    }
    let start = out.len();
    out.resize(start + permutations.len(), u32::MAX);
    vector::widest(Minima { shingles, permutations, out: &mut out[start..] });
}

/// The number of permutations that are computed together: `a`, `b` and the minima take two AVX-512 registers each. More are not faster.
const LANES: usize = 32;

struct Minima<'a> {
    shingles: &'a [u64],
    permutations: &'a Permutations,
    out: &'a mut [u32],
}

impl Kernel for Minima<'_> {
    /// Keeps a block of permutations in registers while all shingles are processed.
    #[inline(always)]
    fn run(self) {
        let Self { shingles, permutations, out } = self;
        let blocks = permutations.a.chunks(LANES).zip(permutations.b.chunks(LANES));
        for ((a, b), out) in blocks.zip(out.chunks_mut(LANES)) {
            // The last block is padded with functions whose minima are dropped.
            let (a, b) = (padded::<_, LANES>(a), padded::<_, LANES>(b));
            let mut least = [u32::MAX; LANES];
            for &shingle in shingles {
                let x = fold(shingle);
                for lane in 0..LANES {
                    let hash = a[lane].wrapping_mul(x).wrapping_add(b[lane]);
                    least[lane] = least[lane].min(hash);
                }
            }
            let kept = out.len();
            out.copy_from_slice(&least[..kept]);
        }
    }
}

/// The maximum number of permutations, and so of bands. Stages count bands in the UInt16 column `shared_bands`.
pub const MAX_PERMUTATIONS: usize = u16::MAX as usize;

/// The numbers of permutations that SQL and job files allow. The maximum refuses a mistyped number, which would take all memory.
pub(crate) const PERMUTATIONS: RangeInclusive<usize> = 1..=MAX_PERMUTATIONS;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signature(shingles: &[u64], count: usize, seed: u64) -> Vec<u32> {
        let mut out = Vec::new();
        minhash(shingles, &Permutations::new(count, seed), &mut out);
        out
    }

    /// The expected values were computed with Python's integers from the definition at the top of this file.
    #[test]
    fn known_permutations() {
        let first = Permutations::new(3, 42);
        assert_eq!(first.a, [3184996903, 1196582743, 163338331]);
        assert_eq!(first.b, [686809907, 1478287871, 3729011194]);
        let first = Permutations::new(2, 0);
        assert_eq!(first.a, [3793791033, 113532185]);
        assert_eq!(first.b, [1853398634, 4169906344]);
    }

    /// Returns two sets with `shared + only` elements each, of which `shared` elements are in both sets.
    pub(crate) fn overlapping(shared: usize, only: usize, random: &mut SplitMix64) -> [Vec<u64>; 2] {
        let mut draw = |n| (0..n).map(|_| random.next()).collect::<Vec<_>>();
        let (both, a, b) = (draw(shared), draw(only), draw(only));
        [a, b].map(|own| [both.as_slice(), &own].concat())
    }

    #[test]
    fn agreement_estimates_jaccard() {
        const N: usize = 4096;
        for seed in 0..8 {
            for (shared, only) in [(1, 99), (50, 100), (200, 50), (500, 10), (30, 3), (2000, 500)] {
                let sets = overlapping(shared, only, &mut SplitMix64(1000 + seed));
                let jaccard = shared as f64 / (shared + 2 * only) as f64;
                let [a, b] = sets.map(|set| signature(&set, N, seed));
                let estimate = a.iter().zip(&b).filter(|(a, b)| a == b).count() as f64 / N as f64;
                let sigma = (jaccard * (1.0 - jaccard) / N as f64).sqrt();
                assert!((estimate - jaccard).abs() <= 5.0 * sigma, "{seed}: {jaccard}, {estimate}");
            }
        }
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_definition(
            shingles in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..20], 1..50),
            count in 1usize..70,
            seed in any::<u64>(),
        ) {
            let permutations = Permutations::new(count, seed);
            let expected: Vec<u32> = permutations.a.iter().zip(&permutations.b)
                .filter_map(|(&a, &b)| {
                    let fold = |x: u64| u128::from((x >> 32) ^ (x & 0xffff_ffff));
                    let hash = |x: u64| (u128::from(a) * fold(x) + u128::from(b)) % (1 << 32);
                    shingles.iter().map(|&x| hash(x) as u32).min()
                })
                .collect();
            for run in 0..3 {
                let mut out = vec![0; count];
                let minima = Minima { shingles: &shingles, permutations: &permutations, out: &mut out };
                match run {
                    0 => minima.run(),
                    1 => vector::narrower(minima),
                    _ => vector::widest(minima),
                }
                prop_assert_eq!(&out, &expected);
            }
            prop_assert_eq!(signature(&shingles, count, seed), expected);
        }
    }
}
