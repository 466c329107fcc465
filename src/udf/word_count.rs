//! The function `word_count` for plans.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Builder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};

use super::arguments;
use super::row_function::RowFunction;
use super::shingles::{settings, text_and_settings};
use crate::job::Shingle;
use crate::kernel::text::written_words::WrittenWords;

/// The number of words of a text: `word_count(text, ..)`, with the settings of `shingles`.
#[derive(Debug)]
pub(crate) enum WordCount {}

impl RowFunction for WordCount {
    const NAME: &'static str = "word_count";

    type Settings = Shingle;

    fn result() -> DataType {
        DataType::UInt64
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_and_settings(Self::NAME, given, 8)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Shingle> {
        settings(literals)
    }

    fn rows([texts]: [&ArrayRef; 1], by: &Shingle) -> Result<ArrayRef> {
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut counts = UInt64Builder::with_capacity(texts.len());
        for text in arguments::texts(Self::NAME, texts)? {
            counts.append_option(text.map(|text| {
                words.cut(text);
                words.len() as u64
            }));
        }
        Ok(Arc::new(counts.finish()))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn words_are_counted_and_nulls_stay() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("Ä b, c\n--"), None, Some("")]));
        let counts = WordCount::rows([&texts], &WordCount::settings(&[]).unwrap()).unwrap();
        let mut wanted = UInt64Builder::new();
        [Some(3), None, Some(0)].into_iter().for_each(|count| wanted.append_option(count));
        assert_eq!(counts.as_ref(), &wanted.finish() as &dyn arrow::array::Array);
    }
}
