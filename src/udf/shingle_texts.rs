//! The function `shingle_texts` for plans.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeStringBuilder, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result as DfResult, ScalarValue, exec_err};

use super::arguments;
use super::row_function::RowFunction;
use super::shingles::{settings, text_and_settings};
use crate::job::{Shingle, ShingleHash};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingle_texts::shingle_texts;

/// The distinct shingles of a text, as texts, with the arguments of `shingles`.
#[derive(Debug)]
pub(crate) enum ShingleTexts {}

impl RowFunction for ShingleTexts {
    const NAME: &'static str = "shingle_texts";

    type Settings = Shingle;

    fn result() -> DataType {
        // Offsets of 64 bits: the shingles of a text take several times its bytes.
        arguments::list_of(DataType::LargeUtf8)
    }

    fn coerce(given: &[DataType]) -> DfResult<Vec<DataType>> {
        text_and_settings(Self::NAME, given, 8)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> DfResult<Shingle> {
        // Shingles remain texts here, which needs another hash than `xxh3`.
        Ok(Shingle { hash: ShingleHash::Dictionary, ..settings(literals)? })
    }

    fn rows([texts]: [&ArrayRef; 1], by: &Shingle) -> DfResult<ArrayRef> {
        let mut values = LargeStringBuilder::new();
        let mut lengths = Vec::with_capacity(texts.len());
        let mut scratch = CutScratch::default();
        let mut total = 0;
        for text in arguments::texts(Self::NAME, texts)? {
            let set = text.map(|text| shingle_texts(text, by, &mut scratch)).transpose()?.unwrap_or_default();
            total += set.len();
            if i32::try_from(total).is_err() {
                return exec_err!("shingle_texts: the texts of one batch have 2^31 shingles or more");
            }
            lengths.push(set.len());
            set.iter().for_each(|shingle| values.append_value(shingle));
        }
        let nulls = NullBuffer::from_iter((0..texts.len()).map(|row| texts.is_valid(row)));
        let item = Arc::new(Field::new_list_field(DataType::LargeUtf8, true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(values.finish()), Some(nulls))?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn rows_keep_their_nulls() {
        let by = Shingle { hash: ShingleHash::Dictionary, ..settings(&[]).unwrap() };
        let by = Shingle { size: 1, ..by };
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), None, Some("")]));
        let rows = ShingleTexts::rows([&texts], &by).unwrap();
        let rows: &ListArray = arguments::downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
    }
}
