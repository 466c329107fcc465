//! The function `fingerprints` for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, ScalarValue};

use super::arguments::{self, Lists};
use super::row_function::RowFunction;
use super::shingles::{settings, text_and_settings};
use crate::job::Shingle;
use crate::kernel::text::winnow::{hash_runs, run_of, winnow};
use crate::kernel::text::written_words::WrittenWords;

/// The winnowed hashes of a text, at least one for every window of `length` words: `fingerprints(text, length, ..)`, with the
/// settings of `shingles` behind the length.
#[derive(Debug)]
pub(crate) enum Fingerprints {}

/// The most words of a window.
pub(crate) const MAX_LENGTH: usize = 1_000_000;

impl RowFunction for Fingerprints {
    const NAME: &'static str = "fingerprints";

    type Settings = (usize, Shingle);

    fn result() -> DataType {
        arguments::list_of(DataType::UInt64)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_and_settings(Self::NAME, given, 9)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings> {
        let length =
            arguments::number(Self::NAME, "length", literals.first().copied(), 2..=MAX_LENGTH, None)?;
        Ok((length, settings(literals.get(1..).unwrap_or_default())?))
    }

    fn rows([texts]: [&ArrayRef; 1], (length, by): &Self::Settings) -> Result<ArrayRef> {
        let (length, run) = (*length, run_of(*length));
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut lists = Lists::<UInt64Type>::with_capacity(Self::NAME, texts.len(), 0);
        let mut hashes = Vec::new();
        for text in arguments::texts(Self::NAME, texts)? {
            let Some(text) = text else {
                lists.push_null();
                continue;
            };
            words.hashes_of(text, &mut hashes);
            hash_runs(&mut hashes, run);
            winnow(&hashes, length - run + 1, |at| lists.values.push(hashes[at]));
            lists.end_row()?;
        }
        lists.finish()
    }
}
