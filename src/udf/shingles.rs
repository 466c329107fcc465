//! The functions that cut texts into shingles.

use std::ops::RangeInclusive;

use arrow::array::{ArrayRef, LargeStringBuilder};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, plan_err};

use super::arguments::{ListRows, Literals, Param, SettingNames, ValueColumn, list_of, lists, room, texts};
use super::function::{Doc, Function, Settings};
use crate::job::{MAX_SHINGLE_SIZE, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::normalize::parse_steps;
use crate::kernel::text::shingle_texts::{shingle_texts, shingles_numbered};
use crate::kernel::text::shingles::{MAX_MIN_WORDS, ShingleBuffers, shingles};

/// The units by their names.
pub(super) const UNITS: SettingNames<Unit> = &[("word", Unit::Word), ("char", Unit::Char)];

/// The hashes.
pub(super) const HASHES: SettingNames<ShingleHash> =
    &[("xxh3", ShingleHash::Xxh3), ("crc32", ShingleHash::Crc32), ("sha256-31", ShingleHash::Sha256Mod31)];

/// What a word is.
pub(super) const WORDS: SettingNames<Words> = &[
    ("unicode", Words::Unicode),
    ("auto", Words::Auto),
    ("word-characters", Words::WordCharacters),
    ("spaces", Words::Spaces),
];

/// What a text of fewer units than a shingle has.
const SHORT: SettingNames<Short> = &[("reject", Short::Reject), ("whole", Short::Whole)];

impl Settings for Shingle {
    fn read(literals: Literals<'_>) -> Result<Self> {
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
        Ok(Self { normalize, unit, words, size, separator, hash, min_words, short })
    }
}

/// The SQL function `shingles`.
#[derive(Debug)]
pub(crate) enum ShinglesFunction {}

impl Function for ShinglesFunction {
    const NAME: &'static str = "shingles";
    const COLUMNS: [Param; 1] = [Param::Text];
    const SETTINGS: RangeInclusive<usize> = 0..=8;
    const DOC: Option<Doc> = Some(Doc {
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
    });

    type Settings = Shingle;

    fn result() -> DataType {
        list_of(DataType::UInt64)
    }

    fn rows([column]: [&ArrayRef; 1], by: &Shingle) -> Result<ArrayRef> {
        // A word and the space behind it take about six bytes of English.
        let bytes: usize = texts(Self::NAME, column)?.flatten().map(str::len).sum();
        let mut scratch = ShingleBuffers::default();
        lists(Self::NAME, texts(Self::NAME, column)?, room(bytes / 6), |text, hashes| {
            shingles(text, by, &mut scratch, hashes)?;
            Ok(true)
        })
    }
}

/// The distinct shingles of a text, as texts, with the arguments of `shingles`.
#[derive(Debug)]
pub(crate) enum ShingleTexts {}

impl Function for ShingleTexts {
    const NAME: &'static str = "shingle_texts";
    const COLUMNS: [Param; 1] = [Param::Text];
    const SETTINGS: RangeInclusive<usize> = 0..=8;

    type Settings = Shingle;

    fn result() -> DataType {
        // Offsets of 64 bits: the shingles of a text take several times its bytes.
        list_of(DataType::LargeUtf8)
    }

    fn rows([column]: [&ArrayRef; 1], by: &Shingle) -> Result<ArrayRef> {
        // Shingles remain texts here, which needs another hash than `xxh3`.
        let by = Shingle { hash: ShingleHash::Dictionary, ..by.clone() };
        let mut scratch = CutScratch::default();
        lists(Self::NAME, texts(Self::NAME, column)?, LargeStringBuilder::new(), |text, values| {
            let set = shingle_texts(text, &by, &mut scratch)?;
            set.iter().for_each(|shingle| values.append_value(shingle));
            Ok(true)
        })
    }
}

/// The shingles of a text that have the given numbers, as texts: `shingle_samples(text, numbers, ..)`, with the settings of
/// `shingles` behind the numbers. The list is as long as that of the numbers, with null for those that the text does not have.
#[derive(Debug)]
pub(crate) enum ShingleSamples {}

impl Function<2> for ShingleSamples {
    const NAME: &'static str = "shingle_samples";
    const COLUMNS: [Param; 2] = [Param::Text, Param::Set];
    const SETTINGS: RangeInclusive<usize> = 0..=8;

    type Settings = Shingle;

    fn result() -> DataType {
        list_of(DataType::LargeUtf8)
    }

    fn rows([column, wanted]: [&ArrayRef; 2], by: &Shingle) -> Result<ArrayRef> {
        let wanted = ListRows::<UInt64Type>::new(Self::NAME, wanted)?;
        let rows = texts(Self::NAME, column)?.zip(wanted.iter()).map(|(text, wanted)| text.zip(wanted));
        let mut scratch = CutScratch::default();
        lists(Self::NAME, rows, LargeStringBuilder::new(), |(text, wanted), values| {
            let samples = shingles_numbered(text, wanted, by, &mut scratch)?;
            samples.into_iter().for_each(|sample| values.append_option(sample));
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ListArray, StringArray};

    use super::super::arguments::downcast;
    use super::*;

    #[test]
    fn rows_keep_their_nulls() {
        let by = Shingle::read(Literals { function: "shingle_texts", values: &[] }).unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), None, Some("")]));
        let rows = ShingleTexts::rows([&texts], &Shingle { size: 1, ..by }).unwrap();
        let rows: &ListArray = downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
    }
}
