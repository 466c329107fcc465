//! The adapter of a function to DataFusion.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::LazyLock;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;

/// A function whose type does not depend on its arguments.
pub(crate) trait Function: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// The type of the result.
    fn result() -> DataType;

    /// The types to which arguments of `given` types are coerced.
    ///
    /// # Errors
    /// When the function does not take them.
    fn coerce(given: &[DataType]) -> Result<Vec<DataType>>;

    /// Checks the arguments that are literals, when a query is planned.
    ///
    /// # Errors
    /// When one of them is not allowed.
    fn check(_literals: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    /// The result of a call.
    ///
    /// # Errors
    /// When a row has no result.
    fn invoke(args: &ScalarFunctionArgs) -> Result<ColumnarValue>;

    /// The documentation; `None` for functions that SQL sessions do not have.
    fn documentation() -> Option<Documentation>;
}

/// Adapts a [`Function`] to DataFusion.
#[derive(Debug)]
pub(crate) struct Udf<F> {
    signature: Signature,
    documentation: LazyLock<Option<Documentation>>,
    function: PhantomData<F>,
}

impl<F: Function> Default for Udf<F> {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: LazyLock::new(F::documentation),
            function: PhantomData,
        }
    }
}

impl<F> PartialEq for Udf<F> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for Udf<F> {}

impl<F: Function> Hash for Udf<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        F::NAME.hash(state);
    }
}

impl<F: Function> ScalarUDFImpl for Udf<F> {
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
        F::check(args.scalar_arguments)?;
        arguments::field(F::NAME, F::result())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        F::coerce(given)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        F::invoke(&args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.documentation.as_ref()
    }
}
