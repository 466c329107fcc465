//! The function `shingle_texts` for SQL and for plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, LargeStringArray, LargeStringBuilder, ListArray, StringArray, StringArrayType,
    StringViewArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use super::shingles::{settings, text_and_settings};
use crate::job::{Shingle, ShingleHash};
use crate::kernel::text::cut::Scratch;
use crate::kernel::text::shingle_texts::shingle_texts;

/// The function that the pipeline calls, with the arguments of `shingles`; SQL sessions do not have it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShingleTexts {
    signature: Signature,
}

impl Default for ShingleTexts {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ShingleTexts {
    fn name(&self) -> &str {
        "shingle_texts"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        // Offsets of 64 bits: the shingles of a text take several times its room.
        Ok(arguments::list_of(DataType::LargeUtf8))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        joined(&args.scalar_arguments[1..])?;
        arguments::field(self.name(), arguments::list_of(DataType::LargeUtf8))
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        text_and_settings(self.name(), types, 8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let by = joined(&arguments::scalars(&args.args[1..]))?;
        arguments::map_first(&args, |texts| match texts.data_type() {
            DataType::Utf8 => text_rows(arguments::downcast::<StringArray>(texts)?, &by),
            DataType::LargeUtf8 => text_rows(arguments::downcast::<LargeStringArray>(texts)?, &by),
            DataType::Utf8View => text_rows(arguments::downcast::<StringViewArray>(texts)?, &by),
            other => internal_err!("shingle_texts got {other} after coercion"),
        })
    }
}

/// The settings, whatever the hash among them: here shingles stay texts, which only `xxh3` would not ask for.
fn joined(literals: &[Option<&ScalarValue>]) -> DfResult<Shingle> {
    Ok(Shingle { hash: ShingleHash::Dictionary, ..settings(literals)? })
}

fn text_rows<'a>(texts: impl StringArrayType<'a>, by: &Shingle) -> DfResult<ArrayRef> {
    let mut values = LargeStringBuilder::new();
    let mut lengths = Vec::with_capacity(texts.len());
    let mut scratch = Scratch::default();
    let mut total = 0;
    for row in 0..texts.len() {
        let set = match texts.is_null(row) {
            true => BTreeSet::new(),
            false => shingle_texts(texts.value(row), by, &mut scratch)?,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_nulls() {
        let by = Shingle { hash: ShingleHash::Dictionary, ..settings(&[]).unwrap() };
        let by = Shingle { size: 1, ..by };
        let rows = text_rows(&StringArray::from(vec![Some("a b"), None, Some("")]), &by).unwrap();
        let rows: &ListArray = arguments::downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
    }
}
