//! The function `word_runs` for plans.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};

use super::arguments;
use super::fingerprints::Fingerprints;
use super::row_function::RowFunction;
use super::shingles::text_list_and_settings;
use super::struct_lists::{StructLists, type_of};
use crate::job::Shingle;
use crate::kernel::text::runs::{RepeatedWindow, runs};
use crate::kernel::text::written_words::WrittenWords;

/// The runs of words of a text that are in repeated windows: `word_runs(text, windows, gap, length, ..)`, with the settings of
/// `shingles` behind the length.
#[derive(Debug)]
pub(crate) enum WordRuns {}

/// The columns of a repeated window: its first word, whether it is its first occurrence, how often it occurs, how many reference
/// documents have it, and the document and the character in which its first occurrence begins.
pub(crate) const REPEATED: [&str; 6] =
    ["at", "is_first", "occurrences", "reference_documents", "kept_doc", "kept_char_start"];

/// The columns of a run of words.
pub(crate) const RUN: [&str; 12] = [
    "hash_0",
    "hash_1",
    "char_start",
    "char_end",
    "byte_start",
    "byte_end",
    "words",
    "occurrences",
    "reference_documents",
    "kept",
    "kept_doc",
    "kept_char_start",
];

impl RowFunction<2> for WordRuns {
    const NAME: &'static str = "word_runs";

    /// (length, gap, how words are cut).
    type Settings = (usize, usize, Shingle);

    fn result() -> DataType {
        type_of(RUN)
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        text_list_and_settings(Self::NAME, given, DataType::clone)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Self::Settings> {
        let gap = arguments::integer(Self::NAME, "gap", literals.first().copied(), 0, None)? as usize;
        let (length, by) = Fingerprints::settings(literals.get(1..).unwrap_or_default())?;
        Ok((length, gap, by))
    }

    fn rows([texts, lists]: [&ArrayRef; 2], (length, gap, by): &Self::Settings) -> Result<ArrayRef> {
        let lists: &ListArray = arguments::downcast(lists)?;
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut found = StructLists::with_capacity(texts.len());
        for (row, text) in arguments::texts(Self::NAME, texts)?.enumerate() {
            let Some(text) = text.filter(|_| lists.is_valid(row)) else {
                found.push_null();
                continue;
            };
            let (windows, kept_at) = repeated(lists.value(row).as_struct())?;
            words.cut(text);
            let mut places = words.places(text);
            for run in runs(&windows, *length, *gap) {
                let (place, hash) = (places.of(run.words.clone()), words.hash(run.words.clone()));
                let [kept_doc, window_start] = kept_at.get(run.window).copied().unwrap_or_default();
                let kept_char_start = if run.kept { place.chars.start as u64 } else { window_start };
                found.push([
                    (hash >> 64) as u64,
                    hash as u64,
                    place.chars.start as u64,
                    place.chars.end as u64,
                    place.bytes.start as u64,
                    place.bytes.end as u64,
                    run.words.len() as u64,
                    run.occurrences,
                    run.reference_documents,
                    u64::from(run.kept),
                    kept_doc,
                    kept_char_start,
                ]);
            }
            found.end_row()?;
        }
        found.finish(RUN)
    }
}

/// The windows of a text by their first words, and where the first occurrence of each is: its document and character.
fn repeated(rows: &StructArray) -> Result<(Vec<RepeatedWindow>, Vec<[u64; 2]>)> {
    let mut columns = Vec::with_capacity(REPEATED.len());
    for name in REPEATED {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        columns
            .push(column.ok_or_else(|| internal_datafusion_err!("a window has no number {name}"))?.values());
    }
    let [at, is_first, occurrences, reference_documents, kept_doc, kept_char_start] =
        <[_; 6]>::try_from(columns).map_err(|_| internal_datafusion_err!("a window has other columns"))?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|&row| at[row]);
    let window = |&row: &usize| RepeatedWindow {
        at: at[row] as usize,
        is_first: is_first[row] != 0,
        occurrences: occurrences[row],
        reference_documents: reference_documents[row],
    };
    let kept = |&row: &usize| [kept_doc[row], kept_char_start[row]];
    Ok((order.iter().map(window).collect(), order.iter().map(kept).collect()))
}
