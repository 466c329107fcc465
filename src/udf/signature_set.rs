//! The function `signature_set` for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};

use super::arguments;
use super::row_function::RowFunction;
use super::signatures::Signatures;
use crate::kernel::signature_set::signature_set;

/// The values of a signature as a set, each with its place; NULL for a NULL signature.
#[derive(Debug)]
pub(crate) enum SignatureSet {}

impl RowFunction for SignatureSet {
    const NAME: &'static str = "signature_set";

    type Settings = ();

    fn result() -> DataType {
        arguments::list_of(DataType::UInt64)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_] = take_function_args(Self::NAME, given)?;
        arguments::column_and_settings::<Signatures>(Self::NAME, given)
    }

    fn settings(_: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows([signatures]: [&ArrayRef; 1], (): &()) -> Result<ArrayRef> {
        arguments::map_lists::<Signatures, UInt64Type>(Self::NAME, signatures, 0, |signature, values| {
            signature_set(signature, values);
            Ok(true)
        })
    }
}
