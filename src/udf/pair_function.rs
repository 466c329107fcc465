//! The interface of the functions that compare two columns.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs};

use super::arguments::Column;
use super::function::{Function, Udf};

/// A similarity of the values of two columns.
pub(crate) trait PairFunction: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// Either column.
    type Column<'a>: Column<'a>;

    /// The similarity; `None` where it has no value, which becomes NULL.
    ///
    /// # Errors
    /// When the values cannot be compared.
    fn compare<'a>(a: Row<'a, Self>, b: Row<'a, Self>) -> Result<Option<f64>>;

    /// The documentation of the function.
    fn documentation() -> Documentation;
}

/// A value that the function `F` compares.
type Row<'a, F> = <<F as PairFunction>::Column<'a> as Column<'a>>::Row;

/// A [`PairFunction`] for DataFusion.
pub(crate) type PairUdf<F> = Udf<OfPairs<F>>;

/// A [`PairFunction`] as a [`Function`].
#[derive(Debug)]
pub(crate) struct OfPairs<F>(PhantomData<F>);

impl<F: PairFunction> Function for OfPairs<F> {
    const NAME: &'static str = F::NAME;

    fn result() -> DataType {
        DataType::Float64
    }

    fn coerce(types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(F::NAME, types)?;
        types.iter().map(|given| F::Column::coerce(F::NAME, given)).collect()
    }

    fn invoke(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [a, b] = take_function_args(F::NAME, &args.args)?;
        let literals = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        // A literal is not repeated for every row.
        let ((a, a_repeats), (b, b_repeats)) = (as_array(a)?, as_array(b)?);
        let (a, b) = (F::Column::new(F::NAME, &a, a_repeats)?, F::Column::new(F::NAME, &b, b_repeats)?);
        let rows = if literals { 1 } else { args.number_rows };
        let numbers = (0..rows)
            .map(|row| match (a.row(row), b.row(row)) {
                (Some(a), Some(b)) => F::compare(a, b),
                _ => Ok(None),
            })
            .collect::<Result<Float64Array>>()?;
        match literals {
            true => ScalarValue::try_from_array(&numbers, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(Arc::new(numbers))),
        }
    }

    fn documentation() -> Option<Documentation> {
        Some(F::documentation())
    }
}

/// The argument as an array, and whether its only row is repeated.
fn as_array(arg: &ColumnarValue) -> Result<(ArrayRef, bool)> {
    match arg {
        ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
        ColumnarValue::Scalar(scalar) => Ok((scalar.to_array()?, true)),
    }
}
