//! The function `shingle_samples` for plans.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeStringBuilder, ListBuilder};
use arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments::{self, Column, Rows, list_of};
use super::shingles::settings;
use super::windows::text_list_and_settings;
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingle_texts::shingles_numbered;

/// The shingles of a text that have the given numbers, as texts: `shingle_samples(text, numbers, ..)`, with the settings of `shingles`
/// behind the numbers. The list is as long as that of the numbers, with null for those that the text does not have.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShingleSamples {
    signature: Signature,
}

impl Default for ShingleSamples {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ShingleSamples {
    fn name(&self) -> &str {
        "shingle_samples"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(list_of(DataType::LargeUtf8))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        text_list_and_settings(self.name(), given, list_of(DataType::UInt64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let by = settings(&arguments::scalars(args.args.get(2..).unwrap_or_default()))?;
        let arrays = ColumnarValue::values_to_arrays(args.args.get(..2).unwrap_or_default())?;
        let [texts, wanted] = <[ArrayRef; 2]>::try_from(arrays)
            .map_err(|_| internal_datafusion_err!("shingle_samples takes a text and a list"))?;
        let wanted = Rows::<UInt64Type>::new(self.name(), &wanted, false)?;
        let mut scratch = CutScratch::default();
        let item = Arc::new(Field::new_list_field(DataType::LargeUtf8, true));
        let mut lists = ListBuilder::with_capacity(LargeStringBuilder::new(), texts.len()).with_field(item);
        for (row, text) in arguments::texts(self.name(), &texts)?.enumerate() {
            let samples = text.zip(wanted.row(row));
            let samples = samples.map(|(text, wanted)| shingles_numbered(text, wanted, &by, &mut scratch));
            lists.append_option(samples.transpose()?);
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}
