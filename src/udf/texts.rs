//! The functions of parts of texts: units, windows, runs of words, passages and spans.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder, StructArray, UInt64Array, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Fields, UInt64Type};
use datafusion::common::{Result, exec_datafusion_err};

use super::arguments::{
    ListRows, Literals, Param, Structs, ValueColumn, downcast, list_of, lists, numbers, structs_of, texts,
};
use super::function::{Function, Settings};
use crate::job::{Shingle, TextUnit};
use crate::kernel::text::passage::longest_passage;
use crate::kernel::text::runs::{RepeatedWindow, runs};
use crate::kernel::text::units::units;
use crate::kernel::text::winnow::{hash_runs, run_of, windows_around, winnow};
use crate::kernel::text::without_spans::without_spans;
use crate::kernel::text::written_words::WrittenWords;

/// The number of words of a text: `word_count(text, ..)`, with the settings of `shingles`.
#[derive(Debug)]
pub(crate) enum WordCount {}

impl Function for WordCount {
    const NAME: &'static str = "word_count";
    const COLUMNS: [Param; 1] = [Param::Text];
    const SETTINGS: RangeInclusive<usize> = 0..=8;

    type Settings = Shingle;

    fn result() -> DataType {
        DataType::UInt64
    }

    fn rows([column]: [&ArrayRef; 1], by: &Shingle) -> Result<ArrayRef> {
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let mut counts = UInt64Builder::with_capacity(column.len());
        for text in texts(Self::NAME, column)? {
            counts.append_option(text.map(|text| {
                words.cut(text);
                words.len() as u64
            }));
        }
        Ok(Arc::new(counts.finish()))
    }
}

/// The lines, sentences or paragraphs of a text that have enough words: `units(text, unit, ..)`, with the settings of `shingles`
/// behind the unit.
#[derive(Debug)]
pub(crate) enum Units {}

/// The columns of a unit: the hash of its words, its place in the text and the number of its words.
pub(crate) const UNIT: [&str; 7] =
    ["hash_0", "hash_1", "char_start", "char_end", "byte_start", "byte_end", "words"];

/// The settings of `units`.
pub(crate) struct UnitSettings {
    unit: TextUnit,
    by: Shingle,
}

impl Settings for UnitSettings {
    fn read(literals: Literals<'_>) -> Result<Self> {
        let all = [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph].map(|unit| (unit.name(), unit));
        Ok(Self { unit: literals.one_of(0, "unit", &all)?, by: Shingle::read(literals.after(1))? })
    }
}

impl Function for Units {
    const NAME: &'static str = "units";
    const COLUMNS: [Param; 1] = [Param::Text];
    const SETTINGS: RangeInclusive<usize> = 0..=9;

    type Settings = UnitSettings;

    fn result() -> DataType {
        structs_of(UNIT)
    }

    fn rows([column]: [&ArrayRef; 1], UnitSettings { unit, by }: &UnitSettings) -> Result<ArrayRef> {
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        lists(Self::NAME, texts(Self::NAME, column)?, Structs::new(UNIT), |text, list| {
            units(text, *unit, by.min_words, &mut words, |found| {
                let (hash_0, hash_1) = ((found.hash >> 64) as u64, found.hash as u64);
                let (chars, bytes) = (found.chars, found.bytes);
                let places = [chars.start, chars.end, bytes.start, bytes.end, found.words];
                let [a, b, c, d, e] = places.map(|place| place as u64);
                list.push([hash_0, hash_1, a, b, c, d, e]);
            });
            Ok(true)
        })
    }
}

/// The winnowed hashes of a text, at least one for every window of `length` words: `fingerprints(text, length, ..)`, with the
/// settings of `shingles` behind the length.
#[derive(Debug)]
pub(crate) enum Fingerprints {}

/// The most words of a window.
const MAX_LENGTH: usize = 1_000_000;

/// The words of a window, and how they are cut.
pub(crate) struct WindowSettings {
    length: usize,
    by: Shingle,
}

impl Settings for WindowSettings {
    fn read(literals: Literals<'_>) -> Result<Self> {
        let length = literals.number(0, "length", 2..=MAX_LENGTH, None)?;
        Ok(Self { length, by: Shingle::read(literals.after(1))? })
    }
}

impl Function for Fingerprints {
    const NAME: &'static str = "fingerprints";
    const COLUMNS: [Param; 1] = [Param::Text];
    const SETTINGS: RangeInclusive<usize> = 1..=9;

    type Settings = WindowSettings;

    fn result() -> DataType {
        list_of(DataType::UInt64)
    }

    fn rows(
        [column]: [&ArrayRef; 1],
        &WindowSettings { length, ref by }: &WindowSettings,
    ) -> Result<ArrayRef> {
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let (run, mut hashes) = (run_of(length), Vec::new());
        lists(Self::NAME, texts(Self::NAME, column)?, Vec::new(), |text, list| {
            words.hashes_of(text, &mut hashes);
            hash_runs(&mut hashes, run);
            winnow(&hashes, length - run + 1, |at| list.push(hashes[at]));
            Ok(true)
        })
    }
}

/// The windows of `length` words of a text that hold one of the given fingerprints: `windows(text, fingerprints, length, ..)`,
/// with the settings of `shingles` behind the length.
#[derive(Debug)]
pub(crate) enum Windows {}

/// The columns of a window: the hash of its words, the first of its words, and the characters before that.
pub(crate) const WINDOW: [&str; 4] = ["hash_0", "hash_1", "at", "char_start"];

impl Function<2> for Windows {
    const NAME: &'static str = "windows";
    const COLUMNS: [Param; 2] = [Param::Text, Param::Set];
    const SETTINGS: RangeInclusive<usize> = 1..=9;

    type Settings = WindowSettings;

    fn result() -> DataType {
        structs_of(WINDOW)
    }

    fn rows(
        [column, wanted]: [&ArrayRef; 2],
        &WindowSettings { length, ref by }: &WindowSettings,
    ) -> Result<ArrayRef> {
        let wanted = ListRows::<UInt64Type>::new(Self::NAME, wanted)?;
        let rows = texts(Self::NAME, column)?.zip(wanted.iter()).map(|(text, wanted)| text.zip(wanted));
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        let (run, mut hashes) = (run_of(length), Vec::new());
        lists(Self::NAME, rows, Structs::new(WINDOW), |(text, wanted), list| {
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
                list.push([(hash >> 64) as u64, hash as u64, at as u64, chars as u64]);
            }
            Ok(true)
        })
    }
}

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

/// The settings of `word_runs`.
pub(crate) struct RunSettings {
    gap: usize,
    windows: WindowSettings,
}

impl Settings for RunSettings {
    fn read(literals: Literals<'_>) -> Result<Self> {
        let gap = literals.integer(0, "gap", 0, None)? as usize;
        Ok(Self { gap, windows: WindowSettings::read(literals.after(1))? })
    }
}

impl Function<2> for WordRuns {
    const NAME: &'static str = "word_runs";
    const COLUMNS: [Param; 2] = [Param::Text, Param::Any];
    const SETTINGS: RangeInclusive<usize> = 2..=10;

    type Settings = RunSettings;

    fn result() -> DataType {
        structs_of(RUN)
    }

    fn rows([column, windows]: [&ArrayRef; 2], settings: &RunSettings) -> Result<ArrayRef> {
        let RunSettings { gap, windows: WindowSettings { length, by } } = settings;
        let windows: &ListArray = downcast(windows)?;
        let rows = texts(Self::NAME, column)?.zip(windows.iter()).map(|(text, windows)| text.zip(windows));
        let mut words = WrittenWords::new(&by.normalize, by.words)?;
        lists(Self::NAME, rows, Structs::new(RUN), |(text, windows), list| {
            let (windows, kept_at) = repeated(windows.as_struct())?;
            words.cut(text);
            let mut places = words.places(text);
            for run in runs(&windows, *length, *gap) {
                let (place, hash) = (places.of(run.words.clone()), words.hash(run.words.clone()));
                let [kept_doc, window_start] = kept_at.get(run.window).copied().unwrap_or_default();
                let kept_char_start = if run.kept { place.chars.start as u64 } else { window_start };
                list.push([
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
            Ok(true)
        })
    }
}

/// The windows of a text by their first words, and where the first occurrence of each is: its document and character.
fn repeated(rows: &StructArray) -> Result<(Vec<RepeatedWindow>, Vec<[u64; 2]>)> {
    let [at, is_first, occurrences, reference_documents, kept_doc, kept_char_start] =
        REPEATED.map(|name| numbers(rows, name));
    let (at, is_first, occurrences) = (at?, is_first?, occurrences?);
    let (reference_documents, kept_doc, kept_char_start) =
        (reference_documents?, kept_doc?, kept_char_start?);
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

/// The longest common passage of two texts, in the spelling of each text; both are NULL without one.
#[derive(Debug)]
pub(crate) enum PassagesFunction {}

/// The fields of the result: the passage of the first text, and that of the second.
fn passage_fields() -> Fields {
    ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)).into_iter().collect()
}

impl Function<2> for PassagesFunction {
    const NAME: &'static str = "passages";
    const COLUMNS: [Param; 2] = [Param::Text, Param::Text];

    type Settings = ();

    fn result() -> DataType {
        DataType::Struct(passage_fields())
    }

    fn rows([a, b]: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        let passages = texts(Self::NAME, a)?.zip(texts(Self::NAME, b)?).map(|both| {
            let (Some(a), Some(b)) = both else { return (None, None) };
            longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b])).unzip()
        });
        let (of_a, of_b): (Vec<_>, Vec<_>) = passages.unzip();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(of_a)), Arc::new(StringArray::from(of_b))];
        Ok(Arc::new(StructArray::try_new(passage_fields(), columns, None)?))
    }
}

/// The first characters of a part of a text: `text_sample(text, byte_start, byte_end, characters)`.
///
/// It begins at a byte, unlike SQL's `substr`, which reads a text from its beginning for every part of it.
#[derive(Debug)]
pub(crate) enum TextSample {}

/// The most characters of a sample.
pub(crate) struct Characters(usize);

impl Settings for Characters {
    fn read(literals: Literals<'_>) -> Result<Self> {
        literals.number(0, "characters", 1..=usize::MAX, None).map(Self)
    }
}

impl Function<3> for TextSample {
    const NAME: &'static str = "text_sample";
    const COLUMNS: [Param; 3] = [Param::Text, Param::Number, Param::Number];
    const SETTINGS: RangeInclusive<usize> = 1..=1;

    type Settings = Characters;

    fn result() -> DataType {
        DataType::Utf8
    }

    fn rows(
        [column, starts, ends]: [&ArrayRef; 3],
        &Characters(characters): &Characters,
    ) -> Result<ArrayRef> {
        let (starts, ends): (&UInt64Array, &UInt64Array) = (downcast(starts)?, downcast(ends)?);
        let mut samples = StringBuilder::new();
        for ((text, start), end) in texts(Self::NAME, column)?.zip(starts).zip(ends) {
            let sample = text.zip(start.zip(end)).map(|(text, (start, end))| {
                sample(text, start as usize..end as usize, characters).ok_or_else(|| {
                    let (name, bytes) = (Self::NAME, text.len());
                    exec_datafusion_err!(
                        "{name}: bytes {start} to {end} are no part of a text of {bytes} bytes"
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

/// A text without some of its bytes: `text_without(text, spans)`. A text without a list of spans stays as it is.
#[derive(Debug)]
pub(crate) enum TextWithout {}

/// The columns of a span: the first of its bytes in UTF-8, and the first one behind it.
pub(crate) const CUT_SPAN: [&str; 2] = ["byte_start", "byte_end"];

impl Function<2> for TextWithout {
    const NAME: &'static str = "text_without";
    const COLUMNS: [Param; 2] = [Param::Text, Param::Any];

    type Settings = ();

    fn result() -> DataType {
        DataType::Utf8
    }

    fn rows([column, lists]: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        let lists: &ListArray = downcast(lists)?;
        let mut rest = StringBuilder::new();
        for (text, list) in texts(Self::NAME, column)?.zip(lists.iter()) {
            let Some((text, list)) = text.zip(list) else {
                rest.append_option(text);
                continue;
            };
            rest.append_value(without_spans(text, &spans(list.as_struct())?).ok_or_else(|| {
                exec_datafusion_err!(
                    "{}: the spans are no parts of a text of {} bytes, which is not the one that was cut",
                    Self::NAME,
                    text.len()
                )
            })?);
        }
        Ok(Arc::new(rest.finish()))
    }
}

/// The spans, in ascending order.
fn spans(rows: &StructArray) -> Result<Vec<Range<usize>>> {
    let [starts, ends] = CUT_SPAN.map(|name| numbers(rows, name));
    let mut spans: Vec<Range<usize>> =
        starts?.iter().zip(ends?).map(|(start, end)| *start as usize..*end as usize).collect();
    spans.sort_unstable_by_key(|span| span.start);
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::buffer::OffsetBuffer;
    use datafusion::common::ScalarValue;
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    fn settings<S: Settings>(values: &[Option<&ScalarValue>]) -> Result<S> {
        S::read(Literals { function: "units", values })
    }

    #[test]
    fn words_are_counted_and_nulls_stay() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("Ä b, c\n--"), None, Some("")]));
        let counts = WordCount::rows([&texts], &settings(&[]).unwrap()).unwrap();
        assert_eq!(counts.as_primitive::<UInt64Type>(), &UInt64Array::from(vec![Some(3), None, Some(0)]));
    }

    #[test]
    fn rows_of_units_keep_their_nulls_and_their_places() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ä b\nc"), None, Some("")]));
        let line = ScalarValue::from("line");
        let rows = Units::rows([&texts], &settings(&[Some(&line)]).unwrap()).unwrap();
        let rows: &ListArray = downcast(&rows).unwrap();
        assert_eq!((rows.value_length(0), rows.is_null(1), rows.value_length(2)), (2, true, 0));
        let hash = xxh3_128("ä b".as_bytes());
        let columns = rows.values().as_struct().columns().iter();
        let first: Vec<u64> = columns.map(|c| c.as_primitive::<UInt64Type>().value(0)).collect();
        assert_eq!(first, [(hash >> 64) as u64, hash as u64, 0, 4, 0, 5, 2]);
        let wrong = ScalarValue::from("verse");
        let error = settings::<UnitSettings>(&[Some(&wrong)]).err().unwrap();
        assert!(error.to_string().contains("verse"));
    }

    fn samples(text: Option<&str>, start: u64, end: u64) -> Result<Option<String>> {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        let [start, end] = [start, end].map(|at| Arc::new(UInt64Array::from(vec![at])) as ArrayRef);
        let found = TextSample::rows([&texts, &start, &end], &Characters(3))?;
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
        Ok(TextWithout::rows([&texts, &lists], &())?.as_string::<i32>().value(0).to_owned())
    }

    #[test]
    fn spans_are_cut_in_any_order_and_whole_characters_stay() {
        assert_eq!(without("ab日本語xy", &[[8, 11], [0, 1]]).unwrap(), "b日本xy");
        assert_eq!(without("ab", &[]).unwrap(), "ab");
    }

    #[test]
    fn spans_that_a_text_does_not_have_are_errors() {
        for span in [[1, 3], [3, 9]] {
            let error = without("a日", &[span]).unwrap_err().to_string();
            assert!(error.contains("a text of 4 bytes"), "{error}");
        }
    }
}
