//! The functions that cut texts into shingles.

use arrow::array::{ArrayRef, LargeStringBuilder};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, plan_err};

use super::arguments::{ListRows, Literals, Param, SettingNames, ValueColumn, list_of, lists, room, texts};
use super::function::{Doc, Function};
use crate::kernel::shingle::{MAX_SHINGLE_SIZE, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::normalize::parse_steps;
use crate::kernel::text::shingle_texts::{shingle_texts, shingles_numbered};
use crate::kernel::text::shingles::{MAX_MIN_WORDS, ShingleBuffers, shingles};

/// The units by their names.
pub(super) const UNITS: SettingNames<Unit> = &[("word", Unit::Word), ("char", Unit::Char)];

/// The hashes by their names.
pub(super) const HASHES: SettingNames<ShingleHash> =
    &[("xxh3", ShingleHash::Xxh3), ("crc32", ShingleHash::Crc32), ("sha256-31", ShingleHash::Sha256Mod31)];

/// The definitions of a word by their names.
pub(super) const WORDS: SettingNames<Words> = &[
    ("unicode", Words::Unicode),
    ("auto", Words::Auto),
    ("word-characters", Words::WordCharacters),
    ("spaces", Words::Spaces),
];

/// The treatments of texts with fewer units than a shingle.
const SHORT: SettingNames<Short> = &[("reject", Short::Reject), ("whole", Short::Whole)];

/// Reads the settings of `shingles`.
pub(super) fn shingle_settings(literals: Literals<'_>) -> Result<Shingle> {
    let unit = literals.one_of(0, "unit", UNITS)?;
    let size = literals.number(1, "size", 1..=MAX_SHINGLE_SIZE, Some(5))?;
    let hash = literals.one_of(2, "hash", HASHES)?;
    let normalize = match parse_steps(literals.string(3, "normalize", "")?) {
        Ok(steps) => steps,
        Err(error) => return plan_err!("{}: {error}", literals.function),
    };
    let min_words = literals.number(4, "min_words", 0..=MAX_MIN_WORDS, Some(0))?;
    let words = literals.one_of(5, "words", WORDS)?;
    let separator = literals.string(6, "separator", " ")?.to_owned();
    let short = literals.one_of(7, "short", SHORT)?;
    Ok(Shingle { normalize, unit, words, size, separator, hash, min_words, short })
}

/// The SQL function `shingles`.
pub(super) static SHINGLES: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    doc: Some(Doc {
        text: "Returns the sorted distinct hashes of the shingles of a text: of every run of `size` consecutive words or \
               characters. Returns NULL for a NULL text, and an empty list for a text of fewer units than `size` or, after \
               normalisation, of fewer words than `min_words`. The settings must be literals.",
        syntax: "shingles(text[, unit[, size[, hash[, normalize[, min_words[, words[, separator[, short]]]]]]]])",
        example: ["shingles('the quick brown fox', 'word', 3, 'crc32')", "[1272230570, 1834140213]"],
        arguments: &[
            ("text", "The text; any string type."),
            ("unit", "`'word'` (the default) or `'char'` (Unicode scalar values)."),
            ("size", "Units in a shingle, from 1 to 1000000; 5 by default."),
            (
                "hash",
                "`'xxh3'` (the default): XXH3-64 of the words' own XXH3-64 hashes, 8 bytes each, little endian, or of the \
                 characters' UTF-8 bytes. `'crc32'`: CRC-32 of the shingle's UTF-8 bytes, words joined by the separator. \
                 `'sha256-31'`: SHA-256 of the same bytes, as a big-endian number, modulo 2^31 - 1.",
            ),
            (
                "normalize",
                "Steps that the text goes through first, in order, separated by commas; none by default. Allowed: \
                 `lowercase`, `letters-only`, `remove-non-letters`, `remove-newlines`, `collapse-whitespace`, \
                 `collapse-whitespace:keep-ends`, `collapse-whitespace:spaces-only`, \
                 `collapse-whitespace:tabs-and-newlines`, `digits-out`, \
                 `stop-words:LANGUAGE` (ISO 639-1 code, or `scikit-learn-en`), `stop-words:list=WORDS` (with spaces \
                 between them), `spaces-to-underscores`, `spaces-to-underscores:spaces-only`, `nfkc`.",
            ),
            ("min_words", "Texts of fewer words than this have no shingles; 0 by default."),
            (
                "words",
                "What a word is, also for `digits-out`, `stop-words` and `min_words`: `'unicode'` (by Unicode word \
                 boundaries, UAX #29; the default), `'auto'` (so too, with emoji, and Chinese, Japanese, Thai, Lao, Khmer \
                 and Burmese by dictionaries), `'word-characters'` (as Python finds `\\b\\w+\\b`) or \
                 `'spaces'` (runs of characters without white space).",
            ),
            ("separator", "The separator of the words of a shingle that is hashed; a space by default."),
            (
                "short",
                "What a text of fewer units than `size` has: `'reject'` (no shingle; the default) or `'whole'` (all of it \
                 is one shingle).",
            ),
        ],
        related: &["minhash", "jaccard"],
    }),
    ..Function::new("shingles", &[Param::Text], |_| Ok(list_of(DataType::UInt64)), shingles_rows)
};

fn shingles_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    // A word and the space behind it take about six bytes of English.
    let bytes: usize = texts(literals.function, column)?.flatten().map(str::len).sum();
    let mut scratch = ShingleBuffers::default();
    lists(literals.function, texts(literals.function, column)?, room(bytes / 6), |text, hashes| {
        shingles(text, &by, &mut scratch, hashes)?;
        Ok(true)
    })
}

/// `shingle_texts(text, ..)`: the distinct shingles of a text as texts, with the arguments of `shingles`.
pub(super) static SHINGLE_TEXTS: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    ..Function::new("shingle_texts", &[Param::Text], |_| Ok(list_of(DataType::LargeUtf8)), shingle_texts_rows)
};

fn shingle_texts_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    // Shingles remain texts here, which needs another hash than `xxh3`.
    let by = Shingle { hash: ShingleHash::Dictionary, ..by };
    let mut scratch = CutScratch::default();
    lists(literals.function, texts(literals.function, column)?, LargeStringBuilder::new(), |text, values| {
        let set = shingle_texts(text, &by, &mut scratch)?;
        set.iter().for_each(|shingle| values.append_value(shingle));
        Ok(true)
    })
}

/// `shingle_samples(text, numbers, ..)`: the shingles of a text with the given numbers as texts, with the settings of `shingles`
/// after the numbers. The list is as long as the list of numbers, with null for shingles that the text does not have.
pub(super) static SHINGLE_SAMPLES: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    ..Function::new(
        "shingle_samples",
        &[Param::Text, Param::Set],
        |_| Ok(list_of(DataType::LargeUtf8)),
        shingle_samples_rows,
    )
};

fn shingle_samples_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column, numbers] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    let numbers = ListRows::<UInt64Type>::new(literals.function, numbers)?;
    let rows = texts(literals.function, column)?.zip(numbers.iter()).map(|(text, numbers)| text.zip(numbers));
    let mut scratch = CutScratch::default();
    lists(literals.function, rows, LargeStringBuilder::new(), |(text, numbers), values| {
        let samples = shingles_numbered(text, numbers, &by, &mut scratch)?;
        samples.into_iter().for_each(|sample| values.append_option(sample));
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ListArray, StringArray};
    use datafusion::common::ScalarValue;

    use super::super::arguments::downcast;
    use super::*;

    #[test]
    fn rows_keep_their_nulls() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), None, Some("")]));
        let (word, one) = (ScalarValue::from("word"), ScalarValue::from(1_u64));
        let literals = Literals { function: "shingle_texts", values: &[Some(&word), Some(&one)] };
        let rows = shingle_texts_rows(&[texts], literals).unwrap();
        let rows: &ListArray = downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
    }
}
