//! The interface of the functions that map the rows of their first arguments.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs};

use super::arguments;
use super::function::{Function, Udf};

/// A function of its first `N` arguments, row by row. All other arguments are settings, which must be literals.
pub(crate) trait RowFunction<const N: usize = 1>: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    type Settings;

    /// The type of the result.
    fn result() -> DataType;

    /// The types to which arguments of `given` types are coerced.
    ///
    /// # Errors
    /// When the function does not take them.
    fn coerce(given: &[DataType]) -> Result<Vec<DataType>>;

    /// The settings, from the arguments behind the columns. Checked when a query is planned.
    ///
    /// # Errors
    /// When one of them is not a literal, or out of its range.
    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings>;

    /// A row of the result for each row of the columns.
    ///
    /// # Errors
    /// When a row cannot be mapped.
    fn rows(columns: [&ArrayRef; N], settings: &Self::Settings) -> Result<ArrayRef>;

    /// The documentation of the function; `None` for those that SQL sessions do not have.
    fn documentation() -> Option<Documentation> {
        None
    }
}

/// A [`RowFunction`] for DataFusion.
pub(crate) type RowUdf<F, const N: usize = 1> = Udf<OfRows<F, N>>;

/// A [`RowFunction`] as a [`Function`].
#[derive(Debug)]
pub(crate) struct OfRows<F, const N: usize>(PhantomData<F>);

impl<F: RowFunction<N>, const N: usize> Function for OfRows<F, N> {
    const NAME: &'static str = F::NAME;

    fn result() -> DataType {
        F::result()
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        F::coerce(given)
    }

    fn check(literals: &[Option<&ScalarValue>]) -> Result<()> {
        F::settings(literals.get(N..).unwrap_or_default()).map(drop)
    }

    fn invoke(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((columns, rest)) = args.args.split_first_chunk::<N>() else {
            return Err(internal_datafusion_err!("{} was called with too few arguments", F::NAME));
        };
        let settings = F::settings(&arguments::scalars(rest))?;
        arguments::map(columns, |columns| F::rows(columns, &settings))
    }

    fn documentation() -> Option<Documentation> {
        F::documentation()
    }
}
