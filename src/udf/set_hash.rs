//! The function `set_hash` for SQL and for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments::{self, Rows};
use crate::kernel::set_hash::set_hash;

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetHash {
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
