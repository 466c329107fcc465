//! `set_hash(shingles, half)`: what tells one shingle set from another.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, ToByteSlice, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::arguments::{self, Rows};

/// One half of a 128-bit hash of a sorted set: XXH3 seeded with `half` over the little-endian bytes.
///
/// Two different sets agree in both halves with a chance of 2^-128.
pub fn set_hash(shingles: &[u64], half: u64) -> u64 {
    if cfg!(target_endian = "little") {
        // As they lie in memory.
        return xxh3_64_with_seed(shingles.to_byte_slice(), half);
    }
    let mut hasher = Xxh3::with_seed(half);
    for shingle in shingles {
        hasher.update(&shingle.to_le_bytes());
    }
    hasher.digest()
}

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SetHash {
    signature: Signature,
}

impl Default for SetHash {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SetHash {
    fn name(&self) -> &str {
        "set_hash"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [shingles, half] = take_function_args(self.name(), types)?;
        Ok(vec![arguments::list_type(self.name(), shingles, &DataType::UInt64)?, half.clone()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [_, half] = take_function_args(self.name(), arguments::scalars(&args.args))?;
        let half = arguments::integer(self.name(), "half", Some(half), 0, None)?;
        arguments::map_first(&args, |sets| {
            let rows = Rows::<UInt64Type>::new("set_hash", sets, false)?;
            let hashes: UInt64Array =
                (0..rows.len()).map(|row| rows.row(row).map(|set| set_hash(set, half))).collect();
            Ok(Arc::new(hashes) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_two_hashes_of_the_bytes() {
        let bytes: Vec<u8> = [1_u64, 2, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
        for half in [0, 1] {
            assert_eq!(set_hash(&[1, 2, u64::MAX], half), xxh3_64_with_seed(&bytes, half));
        }
        assert_ne!(set_hash(&[1, 2], 0), set_hash(&[1, 2], 1));
    }
}
