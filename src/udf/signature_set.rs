//! `signature_set(signature)`: a signature as a set, so that what finds similar sets finds similar signatures.

use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments::{self, Lists, Rows};

/// Appends the elements `i * 2^32 + signature[i]`, which are sorted. Two signatures share as many elements as they have
/// equal values.
pub fn signature_set(signature: &[u32], out: &mut Vec<u64>) {
    out.extend((0_u64..).zip(signature).map(|(at, &value)| at << 32 | u64::from(value)));
}

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SignatureSet {
    signature: Signature,
}

impl Default for SignatureSet {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SignatureSet {
    fn name(&self) -> &str {
        "signature_set"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(arguments::list_of(DataType::UInt64))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [list] = take_function_args(self.name(), types)?;
        Ok(vec![arguments::list_type(self.name(), list, &DataType::UInt32)?])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments::map_first(&args, |signatures| {
            let rows = Rows::<UInt32Type>::new("signature_set", signatures, false)?;
            let mut lists = Lists::<UInt64Type>::with_capacity("signature_set", rows.len(), 0);
            for row in 0..rows.len() {
                match rows.row(row) {
                    Some(signature) => {
                        signature_set(signature, &mut lists.values);
                        lists.end_row()?;
                    }
                    None => lists.push_null(),
                }
            }
            lists.finish()
        })
    }
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
