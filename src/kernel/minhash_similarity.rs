//! `minhash_similarity(a, b)`: the Jaccard similarity of two sets, estimated from their signatures.

use crate::kernel::vector::{self, Kernel};

/// The share, in [0, 1], of equal values at equal index (Broder 1997; *Mining of Massive Datasets*, section 3.3.3). Its
/// standard deviation around the Jaccard similarity J is `sqrt(J (1 - J) / n)`.
///
/// `None` if the signatures differ in length or are empty: then they cannot be compared.
pub fn minhash_similarity(a: &[u32], b: &[u32]) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let mut equal = 0;
    vector::widest(Equal { a, b, equal: &mut equal });
    Some(f64::from(equal) / a.len() as f64)
}

/// Counts equal values at equal index.
struct Equal<'a> {
    a: &'a [u32],
    b: &'a [u32],
    equal: &'a mut u32,
}

impl Kernel for Equal<'_> {
    #[inline(always)]
    fn run(self) {
        // Counted in lanes as wide as the values are. No signature has 2^32 of them.
        *self.equal = self.a.iter().zip(self.b).map(|(a, b)| u32::from(a == b)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_equal_values() {
        assert_eq!(minhash_similarity(&[1, 2, 3, 4], &[1, 9, 3, 8]), Some(0.5));
        assert_eq!(minhash_similarity(&[1, 2], &[2, 1]), Some(0.0));
    }

    #[test]
    fn what_cannot_be_compared() {
        assert_eq!(minhash_similarity(&[], &[]), None);
        assert_eq!(minhash_similarity(&[1], &[1, 2]), None);
    }
}
