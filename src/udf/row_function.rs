//! The interface and the adapter of the functions that map each row of their first argument.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::LazyLock;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;

/// A function of its first argument, row by row. All other arguments are settings, which must be literals.
pub(crate) trait RowFunction: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    type Settings;

    /// The type of the result.
    fn result() -> DataType;

    /// The types to which arguments of `given` types are coerced.
    ///
    /// # Errors
    /// When the function does not take them.
    fn coerce(given: &[DataType]) -> Result<Vec<DataType>>;

    /// The settings, from the arguments behind the first one. Checked when a query is planned.
    ///
    /// # Errors
    /// When one of them is not a literal, or out of its range.
    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings>;

    /// A row of the result for each row of the first argument.
    ///
    /// # Errors
    /// When a row cannot be mapped.
    fn rows(first: &ArrayRef, settings: &Self::Settings) -> Result<ArrayRef>;

    /// The documentation of the function; `None` for those that SQL sessions do not have.
    fn documentation() -> Option<Documentation> {
        None
    }
}

/// Adapts a [`RowFunction`] to DataFusion.
#[derive(Debug)]
pub(crate) struct RowUdf<F> {
    signature: Signature,
    documentation: LazyLock<Option<Documentation>>,
    function: PhantomData<F>,
}

impl<F: RowFunction> Default for RowUdf<F> {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: LazyLock::new(F::documentation),
            function: PhantomData,
        }
    }
}

impl<F> PartialEq for RowUdf<F> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for RowUdf<F> {}

impl<F: RowFunction> Hash for RowUdf<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        F::NAME.hash(state);
    }
}

impl<F: RowFunction> ScalarUDFImpl for RowUdf<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(F::result())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        F::settings(args.scalar_arguments.get(1..).unwrap_or_default())?;
        arguments::field(F::NAME, F::result())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        F::coerce(given)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((first, rest)) = args.args.split_first() else {
            return Err(internal_datafusion_err!("{} was called without arguments", F::NAME));
        };
        let settings = F::settings(&arguments::scalars(rest))?;
        arguments::map(first, |first| F::rows(first, &settings))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.documentation.as_ref()
    }
}
