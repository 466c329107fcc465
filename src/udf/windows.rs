//! The function `windows` for plans.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, ScalarValue};

use super::arguments::{self, Column, Rows, list_of};
use super::fingerprints::Fingerprints;
use super::row_function::RowFunction;
use super::shingles::text_list_and_settings;
use super::struct_lists::{StructLists, type_of};
use crate::job::Shingle;
use crate::kernel::text::winnow::{hash_runs, run_of, windows_around, winnow};
use crate::kernel::text::written_words::WrittenWords;

/// The windows of `length` words of a text that hold one of the given fingerprints: `windows(text, fingerprints, length, ..)`,
/// with the settings of `shingles` behind the length.
#[derive(Debug)]
pub(crate) enum Windows {}

/// The columns of a window: the hash of its words, the first of its words, and the characters before that.
pub(crate) const WINDOW: [&str; 4] = ["hash_0", "hash_1", "at", "char_start"];

impl RowFunction<2> for Windows {
    const NAME: &'static str = "windows";

    type Settings = (usize, Shingle);

    fn result() -> DataType {
        type_of(WINDOW)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_list_and_settings(Self::NAME, given, |_| list_of(DataType::UInt64))
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings> {
        Fingerprints::settings(literals)
    }

    fn rows([texts, wanted]: [&ArrayRef; 2], (length, by): &Self::Settings) -> Result<ArrayRef> {
        let length = *length;
        let wanted = Rows::<UInt64Type>::new(Self::NAME, wanted, false)?;
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut lists = StructLists::with_capacity(texts.len());
        let (run, mut hashes) = (run_of(length), Vec::new());
        for (row, text) in arguments::texts(Self::NAME, texts)?.enumerate() {
            let Some((text, wanted)) = text.zip(wanted.row(row)) else {
                lists.push_null();
                continue;
            };
            let wanted: HashSet<u64> = wanted.iter().copied().collect();
            words.cut(text);
            words.hashes(&mut hashes);
            hash_runs(&mut hashes, run);
            let mut found = Vec::new();
            winnow(&hashes, length - run + 1, |at| {
                if wanted.contains(&hashes[at]) {
                    found.push(at);
                }
            });
            let mut places = words.places(text);
            for at in windows_around(found, length, words.len()).into_iter().flatten() {
                let hash = words.hash(at..at + length);
                let chars = places.of(at..at + 1).chars.start;
                lists.push([(hash >> 64) as u64, hash as u64, at as u64, chars as u64]);
            }
            lists.end_row()?;
        }
        lists.finish(WINDOW)
    }
}
