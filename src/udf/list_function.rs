//! The interface and the adapter of the functions of a text and a list.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments;

/// A function of a text and a list, row by row. All other arguments are settings, which must be literals.
pub(crate) trait ListFunction: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// The type to which a list of the type `given` is coerced.
    fn list(given: &DataType) -> DataType;

    /// The type of the result.
    fn result() -> DataType;

    /// A row of the result for each text and its list.
    ///
    /// # Errors
    /// When a setting is not a literal or out of its range, or a row cannot be mapped.
    fn rows(texts: &ArrayRef, lists: &ArrayRef, settings: &[Option<&ScalarValue>]) -> Result<ArrayRef>;
}

/// Adapts a [`ListFunction`] to DataFusion.
#[derive(Debug)]
pub(crate) struct ListUdf<F> {
    signature: Signature,
    function: PhantomData<F>,
}

impl<F> Default for ListUdf<F> {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), function: PhantomData }
    }
}

impl<F> PartialEq for ListUdf<F> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for ListUdf<F> {}

impl<F: ListFunction> Hash for ListUdf<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        F::NAME.hash(state);
    }
}

impl<F: ListFunction> ScalarUDFImpl for ListUdf<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(F::result())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [_, list, settings @ ..] => {
                Ok([vec![DataType::Utf8View, F::list(list)], settings.to_vec()].concat())
            }
            _ => Err(internal_datafusion_err!("{} takes a text, a list and settings", F::NAME)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(args.args.get(..2).unwrap_or_default())?;
        let [texts, lists] = <[ArrayRef; 2]>::try_from(arrays)
            .map_err(|_| internal_datafusion_err!("{} takes a text and a list", F::NAME))?;
        let settings = arguments::scalars(args.args.get(2..).unwrap_or_default());
        F::rows(&texts, &lists, &settings).map(ColumnarValue::Array)
    }
}
