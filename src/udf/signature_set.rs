//! The function `signature_set` for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};

use super::arguments;
use super::row_function::RowFunction;
use crate::kernel::signature_set::signature_set;

/// The values of a signature as a set, each with its place; NULL for a NULL list.
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
        arguments::list_and_settings(Self::NAME, given, &DataType::UInt32)
    }

    fn settings(_: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows(signatures: &ArrayRef, (): &()) -> Result<ArrayRef> {
        arguments::map_lists::<UInt32Type, UInt64Type>(Self::NAME, signatures, 0, |signature, values| {
            signature_set(signature, values);
            Ok(true)
        })
    }
}
