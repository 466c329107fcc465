//! The function `windows` for plans.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::arguments::{self, Column, Rows, list_of};
use super::fingerprints::Fingerprints;
use super::row_function::RowFunction;
use super::struct_lists::{StructLists, type_of};
use crate::kernel::text::winnow::{run_of, windows_around, winnow};
use crate::kernel::text::written_words::WrittenWords;

/// The windows of `length` words of a text that hold one of the given fingerprints: `windows(text, fingerprints, length, ..)`, with the
/// settings of `shingles` behind the length.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Windows {
    signature: Signature,
}

/// The columns of a window: the hash of its words, the first of its words, and the characters before that.
pub(crate) const WINDOW: [&str; 4] = ["hash_0", "hash_1", "at", "char_start"];

impl Default for Windows {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The types of a text, a list and the settings behind them, the list with the type `list`.
pub(super) fn text_list_and_settings(
    function: &str,
    given: &[DataType],
    list: DataType,
) -> Result<Vec<DataType>> {
    match given {
        [_, _, rest @ ..] => Ok([vec![DataType::Utf8View, list], rest.to_vec()].concat()),
        _ => Err(internal_datafusion_err!("{function} takes a text, a list and settings")),
    }
}

impl ScalarUDFImpl for Windows {
    fn name(&self) -> &str {
        "windows"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(type_of(WINDOW))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        text_list_and_settings(self.name(), given, list_of(DataType::UInt64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (length, by) =
            Fingerprints::settings(&arguments::scalars(args.args.get(2..).unwrap_or_default()))?;
        let arrays = ColumnarValue::values_to_arrays(args.args.get(..2).unwrap_or_default())?;
        let [texts, wanted] = <[ArrayRef; 2]>::try_from(arrays)
            .map_err(|_| internal_datafusion_err!("windows takes a text and a list"))?;
        let wanted = Rows::<UInt64Type>::new(self.name(), &wanted, false)?;
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut lists = StructLists::with_capacity(texts.len());
        let (run, mut hashes) = (run_of(length), Vec::new());
        for (row, text) in arguments::texts(self.name(), &texts)?.enumerate() {
            let Some((text, wanted)) = text.zip(wanted.row(row)) else {
                lists.push_null();
                continue;
            };
            let wanted: HashSet<u64> = wanted.iter().copied().collect();
            words.cut(text);
            words.hashes_of_runs(run, &mut hashes);
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
        lists.finish(WINDOW).map(ColumnarValue::Array)
    }
}
