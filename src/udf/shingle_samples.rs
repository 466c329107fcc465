//! The function `shingle_samples` for plans.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeStringBuilder, ListBuilder};
use arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{Result, ScalarValue};

use super::arguments::{self, Column, Rows, list_of};
use super::row_function::RowFunction;
use super::shingles::{self, text_list_and_settings};
use crate::job::Shingle;
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingle_texts::shingles_numbered;

/// The shingles of a text that have the given numbers, as texts: `shingle_samples(text, numbers, ..)`, with the settings of
/// `shingles` behind the numbers. The list is as long as that of the numbers, with null for those that the text does not have.
#[derive(Debug)]
pub(crate) enum ShingleSamples {}

impl RowFunction<2> for ShingleSamples {
    const NAME: &'static str = "shingle_samples";

    type Settings = Shingle;

    fn result() -> DataType {
        list_of(DataType::LargeUtf8)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_list_and_settings(Self::NAME, given, |_| list_of(DataType::UInt64))
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Shingle> {
        shingles::settings(literals)
    }

    fn rows([texts, wanted]: [&ArrayRef; 2], by: &Shingle) -> Result<ArrayRef> {
        let wanted = Rows::<UInt64Type>::new(Self::NAME, wanted, false)?;
        let mut scratch = CutScratch::default();
        let item = Arc::new(Field::new_list_field(DataType::LargeUtf8, true));
        let mut lists = ListBuilder::with_capacity(LargeStringBuilder::new(), texts.len()).with_field(item);
        for (row, text) in arguments::texts(Self::NAME, texts)?.enumerate() {
            let samples = text.zip(wanted.row(row));
            let samples = samples.map(|(text, wanted)| shingles_numbered(text, wanted, by, &mut scratch));
            lists.append_option(samples.transpose()?);
        }
        Ok(Arc::new(lists.finish()))
    }
}
