//! The function `document_key` for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};

use super::arguments;
use super::row_function::RowFunction;
use crate::kernel::document_key::document_key;

/// The key of a document with this id; NULL for a NULL id.
#[derive(Debug)]
pub(crate) enum DocumentKey {}

impl RowFunction for DocumentKey {
    const NAME: &'static str = "document_key";

    type Settings = ();

    fn result() -> DataType {
        DataType::UInt64
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_] = take_function_args(Self::NAME, given)?;
        Ok(vec![DataType::Utf8View])
    }

    fn settings(_: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows([ids]: [&ArrayRef; 1], (): &()) -> Result<ArrayRef> {
        let keys = arguments::texts(Self::NAME, ids)?.map(|id| id.map(document_key));
        Ok(Arc::new(keys.collect::<UInt64Array>()))
    }
}
