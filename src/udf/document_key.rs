//! The function `document_key` for SQL and for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments;
use crate::kernel::document_key::document_key;

/// The function that the pipeline calls; SQL sessions do not have it. NULL for a NULL id.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DocumentKey {
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
