//! The function `passages` for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};

use super::arguments;
use super::row_function::RowFunction;
use crate::kernel::text::passage::longest_passage;

/// The longest common passage of two texts, in the spelling of each text; both are NULL without one.
#[derive(Debug)]
pub(crate) enum Passages {}

/// The fields of the result: the passage of the first text, and that of the second.
fn fields() -> Fields {
    ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)).into_iter().collect()
}

impl RowFunction<2> for Passages {
    const NAME: &'static str = "passages";

    type Settings = ();

    fn result() -> DataType {
        DataType::Struct(fields())
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(Self::NAME, given)?;
        Ok(vec![DataType::Utf8View; 2])
    }

    fn settings(_: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows([a, b]: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        let (a, b): (&StringViewArray, &StringViewArray) = (arguments::downcast(a)?, arguments::downcast(b)?);
        let (of_a, of_b): (Vec<_>, Vec<_>) = a
            .iter()
            .zip(b.iter())
            .map(|texts| {
                let (Some(a), Some(b)) = texts else { return (None, None) };
                longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b])).unzip()
            })
            .unzip();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(of_a)), Arc::new(StringArray::from(of_b))];
        Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
    }
}
