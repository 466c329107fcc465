//! The function `units` for plans.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};

use super::arguments;
use super::row_function::RowFunction;
use super::shingles::{settings, text_and_settings};
use super::struct_lists::{StructLists, type_of};
use crate::job::{Shingle, TextUnit};
use crate::kernel::text::units::units;
use crate::kernel::text::written_words::WrittenWords;

/// The lines, sentences or paragraphs of a text that have enough words: `units(text, unit, ..)`, with the settings of `shingles`
/// behind the unit.
#[derive(Debug)]
pub(crate) enum Units {}

/// The columns of a unit: the hash of its words, its place in the text and the number of its words.
pub(crate) const UNIT: [&str; 7] =
    ["hash_0", "hash_1", "char_start", "char_end", "byte_start", "byte_end", "words"];

/// The units that there are.
const ALL: [TextUnit; 3] = [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph];

impl RowFunction for Units {
    const NAME: &'static str = "units";

    type Settings = (TextUnit, Shingle);

    fn result() -> DataType {
        type_of(UNIT)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_and_settings(Self::NAME, given, 9)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings> {
        let name = arguments::string(Self::NAME, "unit", literals.first().copied(), "line")?;
        match ALL.into_iter().find(|unit| unit.name() == name) {
            Some(unit) => Ok((unit, settings(literals.get(1..).unwrap_or_default())?)),
            None => plan_err!("units has no unit '{name}'"),
        }
    }

    fn rows([texts]: [&ArrayRef; 1], (unit, by): &Self::Settings) -> Result<ArrayRef> {
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut lists = StructLists::with_capacity(texts.len());
        for text in arguments::texts(Self::NAME, texts)? {
            let Some(text) = text else {
                lists.push_null();
                continue;
            };
            units(text, *unit, by.min_words, &mut words, |found| {
                let (hash_0, hash_1) = ((found.hash >> 64) as u64, found.hash as u64);
                let (chars, bytes) = (found.chars, found.bytes);
                let places = [chars.start, chars.end, bytes.start, bytes.end, found.words];
                let [a, b, c, d, e] = places.map(|place| place as u64);
                lists.push([hash_0, hash_1, a, b, c, d, e]);
            });
            lists.end_row()?;
        }
        lists.finish(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, ListArray, StringArray};
    use arrow::datatypes::UInt64Type;
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    #[test]
    fn rows_keep_their_nulls_and_their_places() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ä b\nc"), None, Some("")]));
        let line = ScalarValue::from("line");
        let by = Units::settings(&[Some(&line)]).unwrap();
        let rows = Units::rows([&texts], &by).unwrap();
        let rows: &ListArray = arguments::downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
        let hash = xxh3_128("ä b".as_bytes());
        let first: Vec<u64> = rows
            .values()
            .as_struct()
            .columns()
            .iter()
            .map(|c| c.as_primitive::<UInt64Type>().value(0))
            .collect();
        assert_eq!(first, [(hash >> 64) as u64, hash as u64, 0, 4, 0, 5, 2]);
        let wrong = ScalarValue::from("verse");
        assert!(Units::settings(&[Some(&wrong)]).unwrap_err().to_string().contains("verse"));
    }
}
