//! The SQL functions on texts. They find shingles, units, windows, runs of words and passages, and remove spans.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, LargeStringBuilder, ListArray, StringArray, StringBuilder, StructArray,
    UInt64Array, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Fields, UInt64Type};
use datafusion::common::{Result, exec_datafusion_err, plan_err};

use super::arguments::{
    ListRows, Literals, Param, SettingNames, Structs, ValueColumn, downcast, list_of, lists, numbers, room,
    structs_of, texts,
};
use super::function::{Doc, Function};
use crate::kernel::shingle::{MAX_SHINGLE_SIZE, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::common_passages::{longest_passage, without_spans};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::normalize::parse_steps;
use crate::kernel::text::repeated_passages::{
    RepeatedWindow, hash_runs, run_length, runs, windows_around, winnow,
};
use crate::kernel::text::shingles::{
    MAX_MIN_WORDS, ShingleBuffers, shingle_texts, shingles, shingles_numbered,
};
use crate::kernel::text::written_words::{TextUnit, WordPlace, WrittenWords, units};

pub(super) const SHINGLE_UNITS: SettingNames<Unit> = &[("word", Unit::Word), ("char", Unit::Char)];

pub(super) const SHINGLE_HASHES: SettingNames<ShingleHash> =
    &[("xxh3", ShingleHash::Xxh3), ("crc32", ShingleHash::Crc32), ("sha256-31", ShingleHash::Sha256Mod31)];

pub(super) const WORD_RULES: SettingNames<Words> = &[
    ("unicode", Words::Unicode),
    ("auto", Words::Auto),
    ("word-characters", Words::WordCharacters),
    ("spaces", Words::Spaces),
];

const SHORT: SettingNames<Short> = &[("reject", Short::Reject), ("whole", Short::Whole)];

pub(super) fn shingle_settings(literals: Literals<'_>) -> Result<Shingle> {
    let unit = literals.one_of(0, "unit", SHINGLE_UNITS)?;
    let size = literals.number(1, "size", 1..=MAX_SHINGLE_SIZE, Some(5))?;
    let hash = literals.one_of(2, "hash", SHINGLE_HASHES)?;
    let normalize = match parse_steps(literals.string(3, "normalize", "")?) {
        Ok(steps) => steps,
        Err(error) => return plan_err!("{}: {error}", literals.function),
    };
    let min_words = literals.number(4, "min_words", 0..=MAX_MIN_WORDS, Some(0))?;
    let words = literals.one_of(5, "words", WORD_RULES)?;
    let separator = literals.string(6, "separator", " ")?.to_owned();
    let short = literals.one_of(7, "short", SHORT)?;
    Ok(Shingle { normalize, unit, words, size, separator, hash, min_words, short })
}

pub(super) static SHINGLES: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    doc: Some(Doc {
        text: "Returns the sorted distinct hashes of the shingles of a text: of every run of `size` consecutive words or characters. \
               Returns NULL for a NULL text. Returns an empty list for a text of fewer units than `size` or, after normalisation, of fewer \
               words than `min_words`. The settings must be literals.",
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
    // Estimates the number of shingles: in English, a word and the space after it take about six bytes.
    let bytes: usize = texts(literals.function, column)?.flatten().map(str::len).sum();
    let mut scratch = ShingleBuffers::default();
    lists(literals.function, texts(literals.function, column)?, room(bytes / 6), |text, hashes| {
        shingles(text, &by, &mut scratch, hashes)?;
        Ok(true)
    })
}

pub(super) static SHINGLE_TEXTS: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    ..Function::new("shingle_texts", &[Param::Text], |_| Ok(list_of(DataType::LargeUtf8)), shingle_texts_rows)
};

fn shingle_texts_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    // With the hash `xxh3`, shingles would consist of the hashes of words instead of the words.
    let by = Shingle { hash: ShingleHash::Dictionary, ..by };
    let mut scratch = CutScratch::default();
    lists(literals.function, texts(literals.function, column)?, LargeStringBuilder::new(), |text, values| {
        let set = shingle_texts(text, &by, &mut scratch)?;
        set.iter().for_each(|shingle| values.append_value(shingle));
        Ok(true)
    })
}

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

pub(super) static WORD_COUNT: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    ..Function::new("word_count", &[Param::Text], |_| Ok(DataType::UInt64), word_count_rows)
};

fn word_count_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    let mut words = WrittenWords::new(&by.normalize, by.words)?;
    let mut counts = UInt64Builder::with_capacity(column.len());
    for text in texts(literals.function, column)? {
        counts.append_option(text.map(|text| {
            words.cut(text);
            words.len() as u64
        }));
    }
    Ok(Arc::new(counts.finish()))
}

/// The columns of a unit: the hash of its words, its position in the text and its number of words.
pub const UNIT: [&str; 7] = ["hash_0", "hash_1", "char_start", "char_end", "byte_start", "byte_end", "words"];

fn unit_settings(literals: Literals<'_>) -> Result<(TextUnit, Shingle)> {
    let all = [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph].map(|unit| (unit.name(), unit));
    Ok((literals.one_of(0, "unit", &all)?, shingle_settings(literals.after(1))?))
}

pub(super) static UNITS: Function = Function {
    settings: 0..=9,
    check: |literals| unit_settings(literals).map(drop),
    ..Function::new("units", &[Param::Text], |_| Ok(structs_of(UNIT)), units_rows)
};

fn units_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let (unit, by) = unit_settings(literals)?;
    let mut words = WrittenWords::new(&by.normalize, by.words)?;
    lists(literals.function, texts(literals.function, column)?, Structs::new(UNIT), |text, list| {
        units(text, unit, by.min_words, &mut words, |found| {
            let (hash_0, hash_1) = ((found.hash >> 64) as u64, found.hash as u64);
            let (chars, bytes) = (found.chars, found.bytes);
            let places = [chars.start, chars.end, bytes.start, bytes.end, found.words];
            let [a, b, c, d, e] = places.map(|place| place as u64);
            list.push([hash_0, hash_1, a, b, c, d, e]);
        });
        Ok(true)
    })
}

/// The maximum number of words in a window.
const MAX_LENGTH: usize = 1_000_000;

fn window_settings(literals: Literals<'_>) -> Result<(usize, Shingle)> {
    let length = literals.number(0, "length", 2..=MAX_LENGTH, None)?;
    Ok((length, shingle_settings(literals.after(1))?))
}

pub(super) static FINGERPRINTS: Function = Function {
    settings: 1..=9,
    check: |literals| window_settings(literals).map(drop),
    ..Function::new("fingerprints", &[Param::Text], |_| Ok(list_of(DataType::UInt64)), fingerprints_rows)
};

fn fingerprints_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column] = columns else { return literals.wrong_columns() };
    let (length, by) = window_settings(literals)?;
    let mut words = WrittenWords::new(&by.normalize, by.words)?;
    let (run, mut hashes) = (run_length(length), Vec::new());
    lists(literals.function, texts(literals.function, column)?, Vec::new(), |text, list| {
        words.hashes_of(text, &mut hashes);
        hash_runs(&mut hashes, run);
        winnow(&hashes, length - run + 1, |at| list.push(hashes[at]));
        Ok(true)
    })
}

/// The columns of a window: the hash of its words, the index of its first word, and the number of characters before that word.
pub const WINDOW: [&str; 4] = ["hash_0", "hash_1", "at", "char_start"];

pub(super) static WINDOWS: Function = Function {
    settings: 1..=9,
    check: |literals| window_settings(literals).map(drop),
    ..Function::new("windows", &[Param::Text, Param::Set], |_| Ok(structs_of(WINDOW)), windows_rows)
};

fn windows_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column, fingerprints] = columns else { return literals.wrong_columns() };
    let (length, by) = window_settings(literals)?;
    let fingerprints = ListRows::<UInt64Type>::new(literals.function, fingerprints)?;
    let rows = texts(literals.function, column)?.zip(fingerprints.iter()).map(|(text, list)| text.zip(list));
    let mut words = WrittenWords::new(&by.normalize, by.words)?;
    let (run, mut hashes) = (run_length(length), Vec::new());
    lists(literals.function, rows, Structs::new(WINDOW), |(text, fingerprints), list| {
        let fingerprints: HashSet<u64> = fingerprints.iter().copied().collect();
        words.cut(text);
        words.hashes(&mut hashes);
        hash_runs(&mut hashes, run);
        let mut found = Vec::new();
        winnow(&hashes, length - run + 1, |at| {
            if fingerprints.contains(&hashes[at]) {
                found.push(at);
            }
        });
        let mut places = words.places(text);
        for at in windows_around(found, length, words.len()).into_iter().flatten() {
            let hash = words.hash(at..at + length);
            let chars = places.locate(at..at + 1).chars.start;
            list.push([(hash >> 64) as u64, hash as u64, at as u64, chars as u64]);
        }
        Ok(true)
    })
}

/// The columns of a repeated window. `at` is the index of its first word, and `is_first` says whether this is the first occurrence.
/// `kept_doc`, `kept_at` and `kept_char_start` are the document, the word and the character at which the first occurrence begins.
pub const REPEATED: [&str; 7] =
    ["at", "is_first", "occurrences", "reference_documents", "kept_doc", "kept_at", "kept_char_start"];

/// The columns of a run: its first word's index, its number of words, and where it is kept. A run that is cut out has two rows: one with
/// `is_span` = 1, and one with 0 for the place that keeps its words. Other runs have only the second row.
pub const RUN: [&str; 9] = [
    "at",
    "words",
    "occurrences",
    "reference_documents",
    "kept_doc",
    "kept_at",
    "kept_words",
    "kept_char_start",
    "is_span",
];

/// The columns of a run of words with its hash and its position in the text.
pub const PLACED_RUN: [&str; 12] = [
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

/// Reads the gap and the length of `word_runs`.
fn run_settings(literals: Literals<'_>) -> Result<(usize, usize)> {
    let gap = literals.integer(0, "gap", 0, None)? as usize;
    Ok((gap, literals.number(1, "length", 2..=MAX_LENGTH, None)?))
}

/// `word_runs(windows, gap, length)` returns the runs of words in the repeated windows of a text that are not first occurrences.
pub(super) static WORD_RUNS: Function = Function {
    settings: 2..=2,
    check: |literals| run_settings(literals).map(drop),
    ..Function::new("word_runs", &[Param::Any], |_| Ok(structs_of(RUN)), word_runs_rows)
};

fn word_runs_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [windows] = columns else { return literals.wrong_columns() };
    let (gap, length) = run_settings(literals)?;
    let windows: &ListArray = downcast(windows)?;
    lists(literals.function, windows.iter(), Structs::new(RUN), |windows, list| {
        let [at, is_first, occurrences, reference_documents, kept_doc, kept_at, kept_char_start] =
            numbers(windows.as_struct(), REPEATED)?;
        let window = |row: usize| RepeatedWindow {
            at: at[row] as usize,
            is_first: is_first[row] != 0,
            occurrences: occurrences[row],
            reference_documents: reference_documents[row],
            kept_doc: kept_doc[row],
            kept_at: kept_at[row] as usize,
            kept_char_start: kept_char_start[row],
        };
        let mut windows: Vec<RepeatedWindow> = (0..at.len()).map(window).collect();
        windows.sort_unstable_by_key(|window| window.at);
        for run in runs(&windows, length, gap) {
            for is_span in 0..=u64::from(run.is_span) {
                list.push([
                    run.words.start as u64,
                    run.words.len() as u64,
                    run.occurrences,
                    run.reference_documents,
                    run.kept_doc,
                    run.kept_at as u64,
                    run.kept_words as u64,
                    run.kept_char_start,
                    is_span,
                ]);
            }
        }
        Ok(true)
    })
}

/// `placed_runs(text, runs, ..)` returns the runs of words of a text with their hashes and positions. Runs with `is_span` = 0 do not
/// change. Another run ends where the next run starts if no words separate them. The settings of `shingles` follow.
pub(super) static PLACED_RUNS: Function = Function {
    settings: 0..=8,
    check: |literals| shingle_settings(literals).map(drop),
    ..Function::new(
        "placed_runs",
        &[Param::Text, Param::Any],
        |_| Ok(structs_of(PLACED_RUN)),
        placed_runs_rows,
    )
};

fn placed_runs_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column, runs] = columns else { return literals.wrong_columns() };
    let by = shingle_settings(literals)?;
    let runs: &ListArray = downcast(runs)?;
    let rows = texts(literals.function, column)?.zip(runs.iter()).map(|(text, runs)| text.zip(runs));
    let mut words = WrittenWords::new(&by.normalize, by.words)?;
    lists(literals.function, rows, Structs::new(PLACED_RUN), |(text, runs), list| {
        let [at, count, occurrences, reference_documents, kept_doc, _, _, kept_char_start, is_span] =
            numbers(runs.as_struct(), RUN)?;
        let mut order: Vec<usize> = (0..at.len()).collect();
        order.sort_unstable_by_key(|&row| (is_span[row], at[row], count[row]));
        words.cut(text);
        let mut places = words.places(text);
        for (place, &row) in order.iter().enumerate() {
            let (start, is_kept) = (at[row] as usize, is_span[row] == 0);
            let run = start..start + count[row] as usize;
            let (hash, WordPlace { mut bytes, mut chars }) =
                (words.hash(run.clone()), places.locate(run.clone()));
            let next = order.get(place + 1).map(|&next| at[next] as usize);
            if !is_kept && next == Some(run.end) {
                let next = places.locate(run.end..run.end + 1);
                (bytes.end, chars.end) = (next.bytes.start, next.chars.start);
            }
            list.push([
                (hash >> 64) as u64,
                hash as u64,
                chars.start as u64,
                chars.end as u64,
                bytes.start as u64,
                bytes.end as u64,
                run.len() as u64,
                occurrences[row],
                reference_documents[row],
                u64::from(is_kept),
                kept_doc[row],
                if is_kept { chars.start as u64 } else { kept_char_start[row] },
            ]);
        }
        Ok(true)
    })
}

fn passage_fields() -> Fields {
    ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)).into_iter().collect()
}

pub(super) static PASSAGES: Function = Function::new(
    "passages",
    &[Param::Text, Param::Text],
    |_| Ok(DataType::Struct(passage_fields())),
    passages_rows,
);

fn passages_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [a, b] = columns else { return literals.wrong_columns() };
    let passages = texts(literals.function, a)?.zip(texts(literals.function, b)?).map(|both| {
        let (Some(a), Some(b)) = both else { return (None, None) };
        longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b])).unzip()
    });
    let (of_a, of_b): (Vec<_>, Vec<_>) = passages.unzip();
    let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(of_a)), Arc::new(StringArray::from(of_b))];
    Ok(Arc::new(StructArray::try_new(passage_fields(), columns, None)?))
}

fn characters(literals: Literals<'_>) -> Result<usize> {
    literals.number(0, "characters", 1..=usize::MAX, None)
}

/// Takes positions in bytes. SQL's `substr` takes positions in characters, so it would read each text from its beginning.
pub(super) static TEXT_SAMPLE: Function = Function {
    settings: 1..=1,
    check: |literals| characters(literals).map(drop),
    ..Function::new(
        "text_sample",
        &[Param::Text, Param::Number, Param::Number],
        |_| Ok(DataType::Utf8),
        text_sample_rows,
    )
};

fn text_sample_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column, starts, ends] = columns else { return literals.wrong_columns() };
    let characters = characters(literals)?;
    let (starts, ends): (&UInt64Array, &UInt64Array) = (downcast(starts)?, downcast(ends)?);
    let mut samples = StringBuilder::new();
    for ((text, start), end) in texts(literals.function, column)?.zip(starts).zip(ends) {
        let part = text.zip(start.zip(end)).map(|(text, (start, end))| {
            sample(text, start as usize..end as usize, characters).ok_or_else(|| {
                let (name, bytes) = (literals.function, text.len());
                exec_datafusion_err!("{name}: bytes {start} to {end} are no part of a text of {bytes} bytes")
            })
        });
        samples.append_option(part.transpose()?);
    }
    Ok(Arc::new(samples.finish()))
}

/// Returns the first `characters` characters in a range of bytes; `None` if the range divides a character or is outside the text.
fn sample(text: &str, bytes: Range<usize>, characters: usize) -> Option<&str> {
    let part = text.get(bytes)?;
    let end = part.char_indices().nth(characters).map_or(part.len(), |(end, _)| end);
    part.get(..end)
}

/// The columns of a span: the offsets of its first UTF-8 byte and of the first byte after it.
pub const CUT_SPAN: [&str; 2] = ["byte_start", "byte_end"];

pub(super) static TEXT_WITHOUT: Function =
    Function::new("text_without", &[Param::Text, Param::Any], |_| Ok(DataType::Utf8), text_without_rows);

fn text_without_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [column, lists] = columns else { return literals.wrong_columns() };
    let lists: &ListArray = downcast(lists)?;
    let mut rest = StringBuilder::new();
    for (text, list) in texts(literals.function, column)?.zip(lists.iter()) {
        let Some((text, list)) = text.zip(list) else {
            rest.append_option(text);
            continue;
        };
        rest.append_value(without_spans(text, &spans(list.as_struct())?).ok_or_else(|| {
            exec_datafusion_err!(
                "{}: the spans are no parts of a text of {} bytes, which is not the one that was cut",
                literals.function,
                text.len()
            )
        })?);
    }
    Ok(Arc::new(rest.finish()))
}

/// Returns the spans in ascending order.
fn spans(rows: &StructArray) -> Result<Vec<Range<usize>>> {
    let [starts, ends] = numbers(rows, CUT_SPAN)?;
    let mut spans: Vec<Range<usize>> =
        starts.iter().zip(ends).map(|(start, end)| *start as usize..*end as usize).collect();
    spans.sort_unstable_by_key(|span| span.start);
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ListArray, StringArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use datafusion::common::ScalarValue;
    use xxhash_rust::xxh3::xxh3_128;

    use super::super::arguments::downcast;
    use super::*;

    #[test]
    fn rows_keep_their_nulls() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), None, Some("")]));
        let (word, one) = (ScalarValue::from("word"), ScalarValue::from(1_u64));
        let rows = shingle_texts_rows(&[texts], literals(&[Some(&word), Some(&one)])).unwrap();
        let rows: &ListArray = downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
    }

    fn literals<'a>(values: &'a [Option<&'a ScalarValue>]) -> Literals<'a> {
        Literals { function: "a function", values }
    }

    #[test]
    fn words_are_counted_and_nulls_stay() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("Ä b, c\n--"), None, Some("")]));
        let counts = word_count_rows(&[texts], literals(&[])).unwrap();
        assert_eq!(counts.as_primitive::<UInt64Type>(), &UInt64Array::from(vec![Some(3), None, Some(0)]));
    }

    #[test]
    fn rows_of_units_keep_their_nulls_and_their_places() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ä b\nc"), None, Some("")]));
        let line = ScalarValue::from("line");
        let rows = units_rows(&[texts], literals(&[Some(&line)])).unwrap();
        let rows: &ListArray = downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
        let hash = xxh3_128("ä b".as_bytes());
        let columns = rows.values().as_struct().columns().iter();
        let first: Vec<u64> = columns.map(|c| c.as_primitive::<UInt64Type>().value(0)).collect();
        assert_eq!(first, [(hash >> 64) as u64, hash as u64, 0, 4, 0, 5, 2]);
        let wrong = ScalarValue::from("verse");
        let error = unit_settings(literals(&[Some(&wrong)])).err().unwrap();
        assert!(error.to_string().contains("verse"));
    }

    fn samples(text: Option<&str>, start: u64, end: u64) -> Result<Option<String>> {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        let [start, end] = [start, end].map(|at| Arc::new(UInt64Array::from(vec![at])) as ArrayRef);
        let found = text_sample_rows(&[texts, start, end], literals(&[Some(&ScalarValue::from(3_u64))]))?;
        let found = found.as_string::<i32>();
        Ok(found.iter().next().flatten().map(str::to_owned))
    }

    #[test]
    fn samples_begin_at_a_byte_and_have_whole_characters() {
        assert_eq!(samples(Some("ab日本語xy"), 2, 12).unwrap().as_deref(), Some("日本語"));
        assert_eq!(samples(Some("ab日本語xy"), 8, 12).unwrap().as_deref(), Some("語x"));
        assert_eq!(samples(Some("ab"), 2, 2).unwrap().as_deref(), Some(""));
        assert_eq!(samples(None, 0, 1).unwrap(), None);
        for (start, end) in [(3, 5), (0, 3), (2, 1)] {
            let error = samples(Some("a日"), start, end).unwrap_err().to_string();
            assert!(error.contains("are no part of a text of 4 bytes"), "{error}");
        }
    }

    fn without(text: &str, spans: &[[u64; 2]]) -> Result<String> {
        let column = |at: usize| {
            Arc::new(UInt64Array::from_iter_values(spans.iter().map(|span| span[at]))) as ArrayRef
        };
        let fields: Fields = CUT_SPAN.map(|name| Field::new(name, DataType::UInt64, false)).to_vec().into();
        let rows = StructArray::new(fields.clone(), vec![column(0), column(1)], None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([spans.len()]), Arc::new(rows), None);
        let (texts, lists): (ArrayRef, ArrayRef) =
            (Arc::new(StringViewArray::from(vec![text])), Arc::new(lists));
        Ok(text_without_rows(&[texts, lists], literals(&[]))?.as_string::<i32>().value(0).to_owned())
    }

    #[test]
    fn spans_are_cut_in_any_order_and_whole_characters_stay() {
        assert_eq!(without("ab日本語xy", &[[8, 11], [0, 1]]).unwrap(), "b日本xy");
        assert_eq!(without("ab", &[]).unwrap(), "ab");
        for span in [[1, 3], [3, 9]] {
            let error = without("a日", &[span]).unwrap_err().to_string();
            assert!(error.contains("a text of 4 bytes"), "{error}");
        }
    }
}
