//! The values of a signature: 32-bit minima, or 16 bits of each minimum. Half of the bits are enough to compare signatures (Li and Koenig,
//! *b-Bit minwise hashing*, WWW 2010). Two different minima have the same 16 bits with a probability of 2^-16, and estimates are corrected
//! for such coincidences.
//!
//! ```text
//! short(x) = upper half of (0x9e3779b1 * x mod 2^32)
//! ```
//!
//! The product depends on all 32 bits. The upper half of a minimum contains little information, because the minimum of n values is about
//! 2^32 / n. The lower half depends only on the lower half of a shingle's number. Two shingles with the same lower half would coincide
//! under every permutation. The definition never changes, because stored signatures are compared with later signatures.

use serde::{Deserialize, Serialize};

use crate::kernel::vector::{self, Kernel};

/// The number of bits in each value of a signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum Bits {
    /// 16 bits, defined in the module's documentation.
    #[default]
    Of16,
    /// All 32 bits.
    Of32,
}

impl TryFrom<u32> for Bits {
    type Error = String;

    fn try_from(bits: u32) -> std::result::Result<Self, String> {
        match bits {
            16 => Ok(Self::Of16),
            32 => Ok(Self::Of32),
            _ => Err(format!("is {bits}: expected 16 or 32")),
        }
    }
}

impl From<Bits> for u32 {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Of16 => 16,
            Bits::Of32 => 32,
        }
    }
}

/// The values of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature<'a> {
    /// The minima.
    Of32(&'a [u32]),
    /// 16 bits of each minimum, little endian.
    Of16(&'a [[u8; 2]]),
}

impl Signature<'_> {
    /// Returns the number of values.
    pub fn len(self) -> usize {
        match self {
            Signature::Of32(values) => values.len(),
            Signature::Of16(values) => values.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the number of equal values at the same index; 0 for values of different widths.
    pub fn agreement(self, other: Self) -> usize {
        match (self, other) {
            (Signature::Of32(a), Signature::Of32(b)) => equal(a, b),
            (Signature::Of16(a), Signature::Of16(b)) => equal(a, b),
            _ => 0,
        }
    }

    /// Returns the number of equal bands among the first `bands` bands with `rows` values each.
    pub fn shared_bands(self, other: Self, bands: usize, rows: usize) -> usize {
        fn shared<T: PartialEq>(a: &[T], b: &[T], bands: usize, rows: usize) -> usize {
            let both = a.chunks_exact(rows.max(1)).zip(b.chunks_exact(rows.max(1)));
            both.take(bands).filter(|(a, b)| a == b).count()
        }
        match (self, other) {
            (Signature::Of32(a), Signature::Of32(b)) => shared(a, b, bands, rows),
            (Signature::Of16(a), Signature::Of16(b)) => shared(a, b, bands, rows),
            _ => 0,
        }
    }
}

fn equal<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut equal = 0;
    vector::widest(Equal { a, b, equal: &mut equal });
    equal as usize
}

struct Equal<'a, T> {
    a: &'a [T],
    b: &'a [T],
    equal: &'a mut u32,
}

impl<T: PartialEq> Kernel for Equal<'_, T> {
    #[inline(always)]
    fn run(self) {
        // The count is a `u32`, so that its lanes are as wide as the values. No signature has 2^32 values.
        *self.equal = self.a.iter().zip(self.b).map(|(a, b)| u32::from(a == b)).sum();
    }
}

/// The owned values of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureValues {
    /// See [`Signature::Of32`].
    Of32(Vec<u32>),
    /// See [`Signature::Of16`].
    Of16(Vec<[u8; 2]>),
}

impl SignatureValues {
    /// Keeps `bits` of each minimum.
    pub fn new(minima: Vec<u32>, bits: Bits) -> Self {
        match bits {
            Bits::Of32 => Self::Of32(minima),
            Bits::Of16 => Self::Of16(minima.into_iter().map(short).collect()),
        }
    }

    /// Borrows the values.
    pub fn signature(&self) -> Signature<'_> {
        match self {
            Self::Of32(values) => Signature::Of32(values),
            Self::Of16(values) => Signature::Of16(values),
        }
    }
}

impl From<Signature<'_>> for SignatureValues {
    fn from(signature: Signature<'_>) -> Self {
        match signature {
            Signature::Of32(values) => Self::Of32(values.to_vec()),
            Signature::Of16(values) => Self::Of16(values.to_vec()),
        }
    }
}

/// Appends 16 bits of each minimum to `out`, little endian.
pub fn shorten(minima: &[u32], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 2 * minima.len(), 0);
    let (out, _) = out[start..].as_chunks_mut();
    vector::widest(Shorten { minima, out });
}

struct Shorten<'a> {
    minima: &'a [u32],
    out: &'a mut [[u8; 2]],
}

impl Kernel for Shorten<'_> {
    #[inline(always)]
    fn run(self) {
        self.out.iter_mut().zip(self.minima).for_each(|(out, &minimum)| *out = short(minimum));
    }
}

/// Returns 16 bits of a minimum, little endian.
#[inline(always)]
fn short(minimum: u32) -> [u8; 2] {
    ((minimum.wrapping_mul(0x9e37_79b1) >> 16) as u16).to_le_bytes()
}

/// Appends the elements `i * 2^32 + signature[i]`, which are sorted. Two signatures have one common element for each index at which their
/// values are equal.
pub(crate) fn signature_set(signature: Signature<'_>, out: &mut Vec<u64>) {
    let element = |(at, value): (u64, u64)| at << 32 | value;
    match signature {
        Signature::Of32(values) => out.extend((0..).zip(values.iter().map(|&v| v.into())).map(element)),
        Signature::Of16(values) => {
            let values = values.iter().map(|&v| u16::from_le_bytes(v).into());
            out.extend((0..).zip(values).map(element));
        }
    }
}

/// Estimates the Jaccard similarity by the share, in [0, 1], of equal values at the same index (Broder 1997; *Mining of Massive Datasets*,
/// section 3.3.3). For n values, the standard deviation of the estimate is `sqrt(J (1 - J) / n)`, where J is the Jaccard similarity.
///
/// From a share s of equal 16-bit values, the estimate is `(s - 2^-16) / (1 - 2^-16)`, or 0 if this is negative. Different minima have the
/// same 16 bits with a probability of 2^-16 (Li and Koenig 2010). Returns `None` if the signatures are empty or differ in length or width.
pub fn minhash_similarity(a: Signature<'_>, b: Signature<'_>) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let bits = match (a, b) {
        (Signature::Of32(_), Signature::Of32(_)) => Bits::Of32,
        (Signature::Of16(_), Signature::Of16(_)) => Bits::Of16,
        _ => return None,
    };
    Some(estimate(a.agreement(b), a.len(), bits))
}

/// Estimates the Jaccard similarity from two signatures of `length` values with `bits` bits, `equal` of which are equal at the same index.
pub fn estimate(equal: usize, length: usize, bits: Bits) -> f64 {
    let share = equal as f64 / length as f64;
    match bits {
        Bits::Of32 => share,
        Bits::Of16 => ((share - CHANCE) / (1.0 - CHANCE)).max(0.0),
    }
}

/// The probability that different minima have the same 16 bits.
const CHANCE: f64 = 1.0 / 65_536.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Signature::{Of16, Of32};
    use super::*;
    use crate::kernel::hash::SplitMix64;
    use crate::kernel::minhash::{Permutations, minhash};

    /// The expected values were computed with Python's integers: `(0x9e3779b1 * x % 2**32 >> 16).to_bytes(2, "little")`.
    #[test]
    fn known_values() {
        let minima = [0, 1, 2, 65_535, 65_536, 3_871_806_810, 1 << 31, u32::MAX];
        let mut bytes = vec![9];
        shorten(&minima, &mut bytes);
        assert_eq!(bytes, [9, 0, 0, 55, 158, 110, 60, 121, 219, 177, 121, 19, 203, 0, 128, 200, 97]);
    }

    #[test]
    fn what_two_signatures_share() {
        let (a, b) = ([1, 2, 3, 4, 5], [1, 2, 9, 4, 5]);
        for bits in [Bits::Of16, Bits::Of32] {
            let (a, b) = (SignatureValues::new(a.to_vec(), bits), SignatureValues::new(b.to_vec(), bits));
            let (a, b) = (a.signature(), b.signature());
            assert_eq!((a.len(), a.agreement(b), a.agreement(a)), (5, 4, 5));
            assert_eq!(a.shared_bands(b, 2, 2), 1);
            assert_eq!(a.shared_bands(b, 1, 2), 1);
            assert_eq!(a.shared_bands(b, 5, 1), 4);
        }
        let (wide, short) =
            (SignatureValues::new(a.to_vec(), Bits::Of32), SignatureValues::new(a.to_vec(), Bits::Of16));
        assert_eq!(wide.signature().agreement(short.signature()), 0);
        assert_eq!(minhash_similarity(Of32(&[]), Of32(&[])), None);
        assert_eq!(minhash_similarity(Of32(&[1]), Of32(&[1, 2])), None);
        assert_eq!(minhash_similarity(Of32(&[1]), Of16(&[[1, 0]])), None);
    }

    /// Returns the share of unequal minima of random sets whose 16 bits are equal, and the number of unequal minima.
    fn coincidences(size: usize, seeds: u64, element: impl Fn(u64) -> u64) -> (f64, f64) {
        let mut random = SplitMix64(size as u64);
        let (mut different, mut equal) = (0, 0);
        for seed in 0..seeds {
            let permutations = Permutations::new(4_096, seed);
            let mut minima = || {
                let set: Vec<u64> = (0..size).map(|_| element(random.next())).collect();
                let mut minima = Vec::new();
                minhash(&set, &permutations, &mut minima);
                minima
            };
            for (a, b) in minima().into_iter().zip(minima()).filter(|(a, b)| a != b) {
                different += 1;
                equal += u32::from(short(a) == short(b));
            }
        }
        (f64::from(equal) / f64::from(different), f64::from(different))
    }

    #[test]
    fn different_minima_coincide_by_chance() {
        let chance = 1.0 / 65_536.0;
        for (size, seeds) in [(1, 1_000), (10, 500), (100, 100)] {
            let (share, different) = coincidences(size, seeds, |element| element);
            let sigma = (chance / different).sqrt();
            assert!((share - chance).abs() <= 5.0 * sigma, "{size}: {share} of {different}");
        }
        // The minima of these elements all have the same lower half.
        let (share, _) = coincidences(10, 20, |element| element & 0xffff_0000);
        assert!(share <= 2.0 * chance, "{share}");
    }

    proptest! {
        #[test]
        fn kernels_agree_with_the_definition(
            a in proptest::collection::vec(0_u32..9, 0..80),
            b in proptest::collection::vec(0_u32..9, 80),
        ) {
            let b = &b[..a.len()];
            let expected: Vec<u8> = a.iter().flat_map(|x| {
                let product = u64::from(*x) * 0x9e37_79b1 % (1 << 32);
                [(product >> 16 & 0xff) as u8, (product >> 24) as u8]
            }).collect();
            let equal = (0..a.len()).filter(|&i| a[i] == b[i]).count();
            let (short_a, short_b) = (SignatureValues::new(a.clone(), Bits::Of16), SignatureValues::new(b.to_vec(), Bits::Of16));
            prop_assert_eq!(short_a.signature().agreement(short_b.signature()), equal);
            prop_assert_eq!(Signature::Of32(&a).agreement(Signature::Of32(b)), equal);
            for run in 0..3 {
                let mut out = vec![[0; 2]; a.len()];
                let kernel = Shorten { minima: &a, out: &mut out };
                match run {
                    0 => kernel.run(),
                    1 => vector::narrower(kernel),
                    _ => vector::widest(kernel),
                }
                prop_assert_eq!(out.as_flattened(), &expected);
            }
        }
    }

    #[test]
    fn equal_values_in_one_place_are_one_element() {
        let set = |signature: Signature<'_>| {
            let mut set = Vec::new();
            signature_set(signature, &mut set);
            set
        };
        assert_eq!(set(Signature::Of32(&[7, 7, u32::MAX])), [7, (1 << 32) + 7, (3 << 32) - 1]);
        assert_eq!(set(Signature::Of16(&[[7, 0], [1, 2]])), [7, (1 << 32) + 513]);
        assert_eq!(set(Signature::Of32(&[])), [0_u64; 0]);
    }
}
