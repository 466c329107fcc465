//! The function `shingles` for SQL and for plans.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err, plan_err};
use datafusion::logical_expr::Documentation;

use super::arguments::{self, Lists, Names};
use super::row_function::RowFunction;
use super::section::DOC_SECTION;
use crate::job::{MAX_SHINGLE_SIZE, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::normalize::parse_steps;
use crate::kernel::text::shingles::{MAX_MIN_WORDS, Scratch, shingles};

/// The SQL function `shingles`.
#[derive(Debug)]
pub(crate) enum Shingles {}

/// The units by their names.
pub(super) const UNITS: Names<Unit> = &[("word", Unit::Word), ("char", Unit::Char)];

/// The hashes.
pub(super) const HASHES: Names<ShingleHash> =
    &[("xxh3", ShingleHash::Xxh3), ("crc32", ShingleHash::Crc32), ("sha256-31", ShingleHash::Sha256Mod31)];

/// What a word is.
pub(super) const WORDS: Names<Words> = &[
    ("unicode", Words::Unicode),
    ("auto", Words::Auto),
    ("word-characters", Words::WordCharacters),
    ("spaces", Words::Spaces),
];

/// What a text of fewer units than a shingle has.
const SHORT: Names<Short> = &[("reject", Short::Reject), ("whole", Short::Whole)];

impl RowFunction for Shingles {
    const NAME: &'static str = "shingles";

    type Settings = Shingle;

    fn result() -> DataType {
        arguments::list_of(DataType::UInt64)
    }

    fn coerce(given: &[DataType]) -> DfResult<Vec<DataType>> {
        text_and_settings(Self::NAME, given, 8)
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> DfResult<Shingle> {
        settings(literals)
    }

    fn rows([texts]: [&ArrayRef; 1], by: &Shingle) -> DfResult<ArrayRef> {
        // A word and the space behind it take about six bytes of English.
        let bytes: usize = arguments::texts(Self::NAME, texts)?.flatten().map(str::len).sum();
        let mut lists = Lists::<UInt64Type>::with_capacity(Self::NAME, texts.len(), bytes / 6);
        let mut scratch = Scratch::default();
        for text in arguments::texts(Self::NAME, texts)? {
            match text {
                Some(text) => {
                    shingles(text, by, &mut scratch, &mut lists.values)?;
                    lists.end_row()?;
                }
                None => lists.push_null(),
            }
        }
        lists.finish()
    }

    fn documentation() -> Option<Documentation> {
        let documentation =
        Documentation::builder(
            DOC_SECTION,
            "Returns the sorted distinct hashes of the shingles of a text: of every run of `size` consecutive words \
             or characters. Returns NULL for a NULL text, and an empty list for a text of fewer units than `size` \
             or, after normalisation, of fewer words than `min_words`. The settings must be literals.",
            "shingles(text[, unit[, size[, hash[, normalize[, min_words[, words[, separator[, short]]]]]]]])",
        )
        .with_sql_example(
            "```sql\n\
             > select shingles('the quick brown fox', 'word', 3, 'crc32');\n\
             [1272230570, 1834140213]\n\
             ```",
        )
        .with_argument("text", "The text; any string type.")
        .with_argument(
            "unit",
            "`'word'` (the default) or `'char'` (Unicode scalar values).",
        )
        .with_argument("size", "Units in a shingle, from 1 to 1000000; 5 by default.")
        .with_argument(
            "hash",
            "`'xxh3'` (the default): XXH3-64 of the words' own XXH3-64 hashes, 8 bytes each, little endian, or of the \
             characters' UTF-8 bytes. `'crc32'`: CRC-32 of the shingle's UTF-8 bytes, words joined by the separator. \
             `'sha256-31'`: SHA-256 of the same bytes, as a big-endian number, modulo 2^31 - 1.",
        )
        .with_argument(
            "normalize",
            "Steps that the text goes through first, in order, separated by commas; none by default. Allowed: \
             `lowercase`, `letters-only`, `remove-non-letters`, `remove-newlines`, `collapse-whitespace`, \
             `collapse-whitespace:keep-ends`, `collapse-whitespace:spaces-only`, \
             `collapse-whitespace:tabs-and-newlines`, `digits-out`, \
             `stop-words:LANGUAGE` (ISO 639-1 code, or `scikit-learn-en`), `stop-words:list=WORDS` (with spaces \
             between them), `spaces-to-underscores`, `spaces-to-underscores:spaces-only`, `nfkc`.",
        )
        .with_argument("min_words", "Texts of fewer words than this have no shingles; 0 by default.")
        .with_argument(
            "words",
            "What a word is, also for `digits-out`, `stop-words` and `min_words`: `'unicode'` (by Unicode word \
             boundaries, UAX #29; the default), `'auto'` (so too, with emoji, and Chinese, Japanese, Thai, Lao, Khmer and \
             Burmese by dictionaries), `'word-characters'` (as Python finds `\\b\\w+\\b`) or \
             `'spaces'` (runs of characters without white space).",
        )
        .with_argument("separator", "The separator of the words of a shingle that is hashed; a space by default.")
        .with_argument(
            "short",
            "What a text of fewer units than `size` has: `'reject'` (no shingle; the default) or `'whole'` (all of it is \
             one shingle).",
        )
        .with_related_udf("minhash")
        .with_related_udf("jaccard")
        .build();
        Some(documentation)
    }
}

/// The types to which a text and up to `settings` literals behind it are coerced.
pub(super) fn text_and_settings(
    function: &str,
    types: &[DataType],
    settings: usize,
) -> DfResult<Vec<DataType>> {
    match types {
        [text, rest @ ..] if rest.len() <= settings => {
            let mut types = types.to_vec();
            types[0] = text_type(function, text)?;
            Ok(types)
        }
        _ => plan_err!(
            "{function} takes a text and up to {settings} settings, and got {} arguments",
            types.len()
        ),
    }
}

/// The types to which a text, a list and the settings behind them are coerced: the list to a list of the type `list`.
pub(super) fn text_list_and_settings(
    function: &str,
    types: &[DataType],
    list: impl FnOnce(&DataType) -> DataType,
) -> DfResult<Vec<DataType>> {
    match types {
        [_, given, settings @ ..] => Ok([vec![DataType::Utf8View, list(given)], settings.to_vec()].concat()),
        _ => Err(internal_datafusion_err!("{function} takes a text, a list and settings")),
    }
}

/// The string type to which a text argument is coerced.
fn text_type(function: &str, given: &DataType) -> DfResult<DataType> {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(given.clone()),
        DataType::Null => Ok(DataType::Utf8),
        DataType::Dictionary(_, values) => text_type(function, values),
        other => plan_err!("{function} takes a string as its text, and got {other}"),
    }
}

/// The settings from the literal arguments behind the text.
pub(super) fn settings(literals: &[Option<&ScalarValue>]) -> DfResult<Shingle> {
    const NAME: &str = "shingles";
    let literal = |at: usize| literals.get(at).copied();
    let unit = arguments::one_of(NAME, "unit", literal(0), UNITS)?;
    let size = arguments::number(NAME, "size", literal(1), 1..=MAX_SHINGLE_SIZE, Some(5))?;
    let hash = arguments::one_of(NAME, "hash", literal(2), HASHES)?;
    let normalize = match parse_steps(arguments::string(NAME, "normalize", literal(3), "")?) {
        Ok(steps) => steps,
        Err(error) => return plan_err!("shingles: {error}"),
    };
    let min_words = arguments::number(NAME, "min_words", literal(4), 0..=MAX_MIN_WORDS, Some(0))?;
    let words = arguments::one_of(NAME, "words", literal(5), WORDS)?;
    let separator = arguments::string(NAME, "separator", literal(6), " ")?.to_owned();
    let short = arguments::one_of(NAME, "short", literal(7), SHORT)?;
    Ok(Shingle { normalize, unit, words, size, separator, hash, min_words, short })
}
