//! `minhash_similarity(a, b)`: the Jaccard similarity of two sets, estimated from their signatures.

use crate::kernel::signature::{Bits, Signature};

/// The share, in [0, 1], of equal values at equal index (Broder 1997; *Mining of Massive Datasets*, section 3.3.3). Its
/// standard deviation around the Jaccard similarity J is `sqrt(J (1 - J) / n)`.
///
/// Different minima give the same 16 bits once in 2^16, so the expected share of equal values of 16 bits is `J + (1 - J) / 2^16`.
/// The share s becomes `(s - 2^-16) / (1 - 2^-16)`, or 0 if that is negative (Li and Koenig 2010).
///
/// `None` if the signatures differ in length or in the width of their values, or are empty: then they cannot be compared.
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

/// The estimate from two signatures of `length` values that have `equal` values of this width in common.
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
    use super::Signature::{Of16, Of32};
    use super::*;

    #[test]
    fn the_share_of_equal_values() {
        assert_eq!(minhash_similarity(Of32(&[1, 2, 3, 4]), Of32(&[1, 9, 3, 8])), Some(0.5));
        assert_eq!(minhash_similarity(Of32(&[1, 2]), Of32(&[2, 1])), Some(0.0));
    }

    #[test]
    fn chance_is_taken_out_of_16_bits() {
        let (a, b) = ([[1, 0], [2, 0], [3, 0], [4, 0]], [[1, 0], [2, 1], [3, 0], [0, 4]]);
        // (1/2 - 1/65536) / (1 - 1/65536)
        assert_eq!(minhash_similarity(Of16(&a), Of16(&b)), Some(32_767.0 / 65_535.0));
        assert_eq!(minhash_similarity(Of16(&a), Of16(&a)), Some(1.0));
        assert_eq!(minhash_similarity(Of16(&[[1, 2]]), Of16(&[[2, 1]])), Some(0.0));
    }

    #[test]
    fn what_cannot_be_compared() {
        assert_eq!(minhash_similarity(Of32(&[]), Of32(&[])), None);
        assert_eq!(minhash_similarity(Of32(&[1]), Of32(&[1, 2])), None);
        assert_eq!(minhash_similarity(Of32(&[1]), Of16(&[[1, 0]])), None);
    }
}
