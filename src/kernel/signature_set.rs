//! `signature_set(signature)`: a signature as a set, so that a search for similar sets finds similar signatures.

/// Appends the elements `i * 2^32 + signature[i]`, which are sorted. Two signatures share as many elements as they have
/// equal values.
pub(crate) fn signature_set(signature: &[u32], out: &mut Vec<u64>) {
    out.extend((0_u64..).zip(signature).map(|(at, &value)| at << 32 | u64::from(value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_in_one_place_are_one_element() {
        let set = |signature: &[u32]| {
            let mut set = Vec::new();
            signature_set(signature, &mut set);
            set
        };
        assert_eq!(set(&[7, 7, u32::MAX]), [7, (1 << 32) + 7, (3 << 32) - 1]);
        assert_eq!(set(&[]), [0_u64; 0]);
    }
}
