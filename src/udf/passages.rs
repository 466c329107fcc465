//! The function `passages` for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments;
use crate::kernel::text::passage::longest_passage;

/// The longest common passage of two texts, in the spelling of each text; both are NULL without one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Passages {
    signature: Signature,
}

impl Default for Passages {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The fields of the result: the passage of the first text, and that of the second.
fn fields() -> Fields {
    ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)).into_iter().collect()
}

impl ScalarUDFImpl for Passages {
    fn name(&self) -> &str {
        "passages"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(self.name(), types)?;
        Ok(vec![DataType::Utf8View; 2])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [a, b] = take_function_args(self.name(), arrays)?;
        let (a, b): (&StringViewArray, &StringViewArray) =
            (arguments::downcast(&a)?, arguments::downcast(&b)?);
        let (of_a, of_b): (Vec<_>, Vec<_>) = a
            .iter()
            .zip(b.iter())
            .map(|texts| {
                let (Some(a), Some(b)) = texts else { return (None, None) };
                longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b])).unzip()
            })
            .unzip();
        let (of_a, of_b) = (StringArray::from(of_a), StringArray::from(of_b));
        let columns: Vec<ArrayRef> = vec![Arc::new(of_a), Arc::new(of_b)];
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields(), columns, None)?)))
    }
}
