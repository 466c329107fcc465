//! The linear family of hash functions: h_i(x) = (a_i * x + b_i) mod c (Carter and Wegman, *Universal classes of hash functions*, Journal
//! of Computer and System Sciences 18, 1979; the modulus of their class H1 is a prime).
//!
//! The modulus c is below 2^32. The value x is first reduced modulo c, so that a * x + b is below 2^64. The generator splitmix64 starts
//! with the seed as its state and draws the coefficients in the order a_0, b_0, a_1, b_1, ... Each output z becomes 1 + floor(z * `draws` /
//! 2^64), a number from 1 to `draws`. An a that equals an earlier a is drawn again, and so is a b that equals an earlier b. So a signature
//! of n minima equals the first n minima of every longer signature with the same settings. The definition never changes, because stored
//! signatures are compared with later signatures.

use std::collections::BTreeSet;

use crate::kernel::hash::SplitMix64;
use crate::kernel::vector::{self, Kernel, padded};

/// Functions of the linear family. `a[i]` and `b[i]` are the coefficients of function `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    a: Vec<u64>,
    b: Vec<u64>,
    modulus: u64,
}

impl Linear {
    /// Draws the first `count` functions modulo `modulus` with a generator that starts with `seed`. The coefficients are drawn from 1 to
    /// `draws` without replacement. Returns `None` unless `count <= draws < modulus < 2^32`.
    pub fn new(count: usize, seed: u64, modulus: u64, draws: u64) -> Option<Self> {
        if !allowed(count, modulus, draws) {
            return None;
        }
        let mut random = SplitMix64(seed);
        let mut draw = |drawn: &mut BTreeSet<u64>| {
            loop {
                let number = 1 + ((u128::from(random.next()) * u128::from(draws)) >> 64) as u64;
                if drawn.insert(number) {
                    return number;
                }
            }
        };
        let (mut as_drawn, mut bs_drawn) = (BTreeSet::new(), BTreeSet::new());
        let (a, b) = (0..count).map(|_| (draw(&mut as_drawn), draw(&mut bs_drawn))).unzip();
        Some(Self { a, b, modulus })
    }

    /// Returns the functions with these coefficients and this modulus; `None` unless `modulus` is in [2, 2^32).
    pub fn from_coefficients(coefficients: &[(u64, u64)], modulus: u64) -> Option<Self> {
        if !(2..1 << 32).contains(&modulus) {
            return None;
        }
        let (a, b) = coefficients.iter().map(|&(a, b)| (a % modulus, b % modulus)).unzip();
        Some(Self { a, b, modulus })
    }
}

/// Returns whether `count` functions modulo `modulus` can be drawn from 1 to `draws`.
pub(crate) fn allowed(count: usize, modulus: u64, draws: u64) -> bool {
    count as u64 <= draws && draws < modulus && modulus < 1 << 32
}

/// Appends the signature of `shingles` to `out`: the minimum value over the set under each function, in order. An empty set has no minima.
pub fn minhash(shingles: &[u64], linear: &Linear, out: &mut Vec<u32>) {
    if shingles.is_empty() {
        return;
    }
    let start = out.len();
    out.resize(start + linear.a.len(), u32::MAX);
    let out = &mut out[start..];
    match linear.modulus {
        MERSENNE_31 => vector::widest(LinearMinima { shingles, linear, modulo: Ones::<31>, out }),
        ONES_32 => vector::widest(LinearMinima { shingles, linear, modulo: Ones::<32>, out }),
        modulus => LinearMinima { shingles, linear, modulo: Reciprocal::new(modulus), out }.run(),
    }
}

const MERSENNE_31: u64 = (1 << 31) - 1;
const ONES_32: u64 = (1 << 32) - 1;

/// Reduces numbers modulo c without a division.
trait Modulo: Copy {
    /// Returns `v` mod c, for v up to (c - 1)^2 + c - 1.
    fn reduce(self, v: u64) -> u64;
}

/// c = 2^BITS - 1. Modulo c, 2^BITS is 1, so the upper bits are added to the lower bits.
#[derive(Clone, Copy)]
struct Ones<const BITS: u32>;

impl<const BITS: u32> Modulo for Ones<BITS> {
    #[inline(always)]
    fn reduce(self, v: u64) -> u64 {
        let modulus = (1 << BITS) - 1;
        let v = (v & modulus) + (v >> BITS);
        let v = (v & modulus) + (v >> BITS);
        if v >= modulus { v - modulus } else { v }
    }
}

/// Any c. The product with the reciprocal gives a quotient that is at most 2 too small (Barrett, CRYPTO 1986).
#[derive(Clone, Copy)]
struct Reciprocal {
    modulus: u64,
    /// floor((2^64 - 1) / c)
    reciprocal: u64,
}

impl Reciprocal {
    fn new(modulus: u64) -> Self {
        Self { modulus, reciprocal: u64::MAX / modulus }
    }
}

impl Modulo for Reciprocal {
    #[inline(always)]
    fn reduce(self, v: u64) -> u64 {
        let quotient = ((u128::from(v) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut rest = v - quotient * self.modulus;
        for _ in 0..2 {
            rest = if rest >= self.modulus { rest - self.modulus } else { rest };
        }
        rest
    }
}

/// The number of functions that are computed together.
const LANES: usize = 16;

struct LinearMinima<'a, M> {
    shingles: &'a [u64],
    linear: &'a Linear,
    modulo: M,
    out: &'a mut [u32],
}

impl<M: Modulo> Kernel for LinearMinima<'_, M> {
    #[inline(always)]
    fn run(self) {
        let Self { shingles, linear, modulo, out } = self;
        let blocks = linear.a.chunks(LANES).zip(linear.b.chunks(LANES));
        for ((a, b), out) in blocks.zip(out.chunks_mut(LANES)) {
            // The last block is padded with functions whose minima are dropped.
            let (a, b) = (padded::<_, LANES>(a), padded::<_, LANES>(b));
            let mut least = [u64::MAX; LANES];
            for &shingle in shingles {
                let x = shingle % linear.modulus;
                for lane in 0..LANES {
                    least[lane] = least[lane].min(modulo.reduce(a[lane] * x + b[lane]));
                }
            }
            // The values are below the modulus, and so below 2^32.
            out.iter_mut().zip(least).for_each(|(out, least)| *out = least as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::minhash::tests::overlapping;

    fn signature(shingles: &[u64], linear: &Linear) -> Vec<u32> {
        let mut out = Vec::new();
        minhash(shingles, linear, &mut out);
        out
    }

    const SET: [u64; 6] = [0, 1, 1 << 31, (1 << 32) - 1, 12_345_678_901_234_567_890, u64::MAX];

    /// The expected values were computed with Python's integers, which do not overflow.
    #[test]
    fn known_signatures() {
        for (modulus, draws, expected) in [
            (2147483647, 2147483646, [343404954, 386534401, 509867257, 40881797, 1328180123]),
            (4294967295, 4294967294, [131824711, 1348070426, 1663196711, 81763595, 1238872947]),
            (4294967291, 4294967290, [59367570, 131502640, 87397219, 81763594, 2011374689]),
            (1009, 1000, [75, 248, 632, 11, 144]),
        ] {
            let linear = Linear::new(5, 42, modulus, draws).unwrap();
            assert_eq!(signature(&SET, &linear), expected, "{modulus} {draws}");
        }
    }

    #[test]
    fn draws_are_without_replacement() {
        let linear = Linear::new(50, 7, 53, 50).unwrap();
        for drawn in [&linear.a, &linear.b] {
            assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>(), (1..=50).collect());
        }
        assert_eq!(Linear::new(20, 7, 53, 50).unwrap().a, linear.a[..20], "the start of a longer one");
        assert_eq!(Linear::new(5, 1, 7, 4), None, "five of four");
        assert_eq!(Linear::new(5, 1, 7, 7), None, "zero modulo 7 is among them");
        assert_eq!(Linear::new(5, 1, 1 << 32, 5), None);
        assert!(signature(&[], &Linear::new(5, 1, 7, 6).unwrap()).is_empty());
    }

    /// The expected values were computed with Python: `min((a * (x % c) + b) % c for x in set)`.
    #[test]
    fn functions_may_have_given_coefficients() {
        let given = [(1, 0), (4_294_967_295, 4_294_967_295), (7, 1008), (12_345, 67_890)];
        for (modulus, expected) in
            [(2147483647, [0, 1, 1008, 67890]), (4294967291, [0, 4, 1008, 67890]), (1009, [0, 1, 6, 11])]
        {
            let found = signature(&SET, &Linear::from_coefficients(&given, modulus).unwrap());
            assert_eq!(found, expected, "{modulus}");
        }
        let drawn = Linear::new(5, 42, 1009, 1000).unwrap();
        let pairs: Vec<(u64, u64)> = drawn.a.iter().copied().zip(drawn.b.iter().copied()).collect();
        assert_eq!(Linear::from_coefficients(&pairs, 1009).unwrap(), drawn);
        assert_eq!(Linear::from_coefficients(&pairs, 1 << 32), None);
    }

    #[test]
    fn agreement_estimates_jaccard() {
        const N: usize = 4096;
        let mut random = SplitMix64(5);
        for (shared, only) in [(1, 99), (50, 100), (200, 50), (2000, 500)] {
            let sets = overlapping(shared, only, &mut random);
            let [a, b] = sets.map(|set| set.into_iter().map(|n| n >> 32).collect::<Vec<_>>());
            let jaccard = shared as f64 / (shared + 2 * only) as f64;
            let sigma = (jaccard * (1.0 - jaccard) / N as f64).sqrt();
            for modulus in [MERSENNE_31, ONES_32, 4_294_967_291] {
                let linear = Linear::new(N, 9, modulus, modulus - 1).unwrap();
                let (a, b) = (signature(&a, &linear), signature(&b, &linear));
                let estimate = a.iter().zip(&b).filter(|(a, b)| a == b).count() as f64 / N as f64;
                assert!((estimate - jaccard).abs() <= 5.0 * sigma, "{modulus}: {jaccard}, {estimate}");
            }
        }
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_definition(
            shingles in proptest::collection::vec(
                prop_oneof![any::<u64>(), (0u64..3).prop_map(|n| u64::MAX - n), 0u64..3], 1..40),
            count in 1usize..40,
            seed in any::<u64>(),
            modulus in prop_oneof![Just(MERSENNE_31), Just(ONES_32), Just(4_294_967_291), 41u64..1 << 32],
        ) {
            let linear = Linear::new(count, seed, modulus, modulus - 1).unwrap();
            let expected: Vec<u32> = linear.a.iter().zip(&linear.b)
                .filter_map(|(&a, &b)| {
                    let hash = |x: u64| (u128::from(a) * u128::from(x) + u128::from(b)) % u128::from(modulus);
                    shingles.iter().map(|&x| hash(x) as u32).min()
                })
                .collect();
            prop_assert_eq!(signature(&shingles, &linear), expected.clone());
            let (shingles, linear) = (shingles.as_slice(), &linear);
            let mut general = vec![0; count];
            LinearMinima { shingles, linear, modulo: Reciprocal::new(modulus), out: &mut general }.run();
            prop_assert_eq!(&general, &expected);
            if modulus == MERSENNE_31 {
                let mut out = vec![0; count];
                vector::narrower(LinearMinima { shingles, linear, modulo: Ones::<31>, out: &mut out });
                prop_assert_eq!(&out, &expected);
                LinearMinima { shingles, linear, modulo: Ones::<31>, out: &mut out }.run();
                prop_assert_eq!(&out, &expected);
            }
        }
    }
}
