//! `document_key(id)`: the 64-bit key by which a document is known after reading.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use xxhash_rust::xxh3::xxh3_64;

use super::arguments;

/// The XXH3 hash of the id's UTF-8 bytes. Two ids have one key with a chance of 2^-64; a run finds such a pair and
/// says so.
pub fn document_key(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL id.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DocumentKey {
    signature: Signature,
}

impl Default for DocumentKey {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DocumentKey {
    fn name(&self) -> &str {
        "document_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_] = take_function_args(self.name(), types)?;
        Ok(vec![DataType::Utf8View])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments::map_first(&args, |ids| {
            let ids = cast(ids, &DataType::Utf8View)?;
            let ids: &StringViewArray = arguments::downcast(&ids)?;
            let keys: UInt64Array = ids.iter().map(|id| id.map(document_key)).collect();
            Ok(Arc::new(keys) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn known_keys() {
        assert_eq!(document_key(""), 0x2d06_8005_38d3_94c2);
        assert_eq!(document_key("a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(document_key("5544"), 0x2351_4f7e_c7c3_59b8);
    }
}
