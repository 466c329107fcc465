//! The function `signature_set` for SQL and for plans.

use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments::{self, Lists, Rows};
use crate::kernel::signature_set::signature_set;

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SignatureSet {
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
