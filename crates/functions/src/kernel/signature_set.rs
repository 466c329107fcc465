//! `signature_set(signature)`: a signature as a set, so that a search for similar sets finds similar signatures.

use crate::kernel::signature::Signature;

/// Appends the elements `i * 2^32 + signature[i]`, which are sorted. Two signatures share as many elements as they have
/// equal values.
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

#[cfg(test)]
mod tests {
    use super::*;

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
