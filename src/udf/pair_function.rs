//! The interface and the adapter of the functions that compare two lists.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::LazyLock;

use arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;

/// A similarity of two lists.
pub(crate) trait PairFunction: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// The elements of both lists.
    type Item: ArrowPrimitiveType;

    /// The similarity; `None` where it has no value, which becomes NULL.
    ///
    /// # Errors
    /// When the lists cannot be compared.
    fn compare(
        a: &[<Self::Item as ArrowPrimitiveType>::Native],
        b: &[<Self::Item as ArrowPrimitiveType>::Native],
    ) -> Result<Option<f64>>;

    /// The documentation of the function.
    fn documentation() -> Documentation;
}

/// Adapts a [`PairFunction`] to DataFusion.
#[derive(Debug)]
pub(crate) struct PairUdf<F> {
    signature: Signature,
    documentation: LazyLock<Documentation>,
    function: PhantomData<F>,
}

impl<F: PairFunction> Default for PairUdf<F> {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: LazyLock::new(F::documentation),
            function: PhantomData,
        }
    }
}

impl<F> PartialEq for PairUdf<F> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for PairUdf<F> {}

impl<F: PairFunction> Hash for PairUdf<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        F::NAME.hash(state);
    }
}

impl<F: PairFunction> ScalarUDFImpl for PairUdf<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(F::NAME, types)?;
        types.iter().map(|given| arguments::list_type(F::NAME, given, &F::Item::DATA_TYPE)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments::map_two::<F::Item>(F::NAME, &args, F::compare)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
