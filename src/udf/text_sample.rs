//! The function `text_sample` for plans.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};

use super::arguments;
use super::row_function::RowFunction;

/// The first characters of a part of a text: `text_sample(text, byte_start, byte_end, characters)`.
///
/// It begins at a byte, unlike SQL's `substr`, which reads a text from its beginning for every part of it.
#[derive(Debug)]
pub(crate) enum TextSample {}

impl RowFunction<3> for TextSample {
    const NAME: &'static str = "text_sample";

    /// The most characters.
    type Settings = usize;

    fn result() -> DataType {
        DataType::Utf8
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _, _, characters] = take_function_args(Self::NAME, given)?;
        Ok(vec![DataType::Utf8View, DataType::UInt64, DataType::UInt64, characters.clone()])
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<usize> {
        arguments::number(Self::NAME, "characters", literals.first().copied(), 1..=usize::MAX, None)
    }

    fn rows([texts, starts, ends]: [&ArrayRef; 3], characters: &usize) -> Result<ArrayRef> {
        let (starts, ends): (&UInt64Array, &UInt64Array) =
            (arguments::downcast(starts)?, arguments::downcast(ends)?);
        let mut samples = StringBuilder::new();
        for ((text, start), end) in arguments::texts(Self::NAME, texts)?.zip(starts).zip(ends) {
            let sample = text.zip(start.zip(end)).map(|(text, (start, end))| {
                sample(text, start as usize..end as usize, *characters).ok_or_else(|| {
                    exec_datafusion_err!(
                        "{}: bytes {start} to {end} are no part of a text of {} bytes",
                        Self::NAME,
                        text.len()
                    )
                })
            });
            samples.append_option(sample.transpose()?);
        }
        Ok(Arc::new(samples.finish()))
    }
}

/// The first `characters` of these bytes; `None` unless they are whole characters of the text.
fn sample(text: &str, bytes: Range<usize>, characters: usize) -> Option<&str> {
    let part = text.get(bytes)?;
    let end = part.char_indices().nth(characters).map_or(part.len(), |(end, _)| end);
    part.get(..end)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, StringViewArray};

    use super::*;

    fn samples(text: Option<&str>, start: u64, end: u64) -> Result<Option<String>> {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        let [start, end] = [start, end].map(|at| Arc::new(UInt64Array::from(vec![at])) as ArrayRef);
        let found = TextSample::rows([&texts, &start, &end], &3)?;
        let found = found.as_string::<i32>();
        Ok(found.iter().next().flatten().map(str::to_owned))
    }

    #[test]
    fn samples_begin_at_a_byte_and_have_whole_characters() {
        assert_eq!(samples(Some("ab日本語xy"), 2, 12).unwrap().as_deref(), Some("日本語"));
        assert_eq!(samples(Some("ab日本語xy"), 8, 12).unwrap().as_deref(), Some("語x"));
        assert_eq!(samples(Some("ab"), 2, 2).unwrap().as_deref(), Some(""));
        assert_eq!(samples(None, 0, 1).unwrap(), None);
    }

    #[test]
    fn places_that_a_text_does_not_have_are_errors() {
        for (start, end) in [(3, 5), (0, 3), (2, 1)] {
            let error = samples(Some("a日"), start, end).unwrap_err().to_string();
            assert!(error.contains("are no part of a text of 4 bytes"), "{error}");
        }
    }
}
