//! JSON lines and JSON arrays: each line, or each element of an array, is a document. The first documents of each file determine the paths
//! and kinds of values.

pub(in crate::source) mod line;
mod shape;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::de::IgnoredAny;

use self::line::{JsonValue, UnusableLine, ValueKind, WantedFields, raw_value, readable, with_whole_pairs};
use self::shape::{JsonShape, Role, kind_of};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, OnError, SourceId};
use crate::source::file::{SourceFile, without_rows};
use crate::source::format::{
    AddedColumn, AddedValue, CannotAppend, DocumentReader, ParsePlan, ParseRequest, ParsedFormat, Parser,
    Reading, Rewriting, RowCutter, RowFormat, SourceFormat, TextCut, TextPlace, WantedValues,
};
use crate::source::reading::documents::{DocumentSink, RowPlace};
use crate::source::reading::lines::{LineCutter, LineReader, Lines, without_mark};
use crate::source::rows::columns::{NamedExpressions, column, missing, value_name};

pub(super) const JSONL: SourceFormat = SourceFormat {
    title: "JSON lines",
    endings: job::Format::Jsonl.rules().endings,
    reading: Reading::Parser(&JsonLines),
    rewriting: Rewriting::Rows(&JsonLines),
};

/// The number of files whose first rows are read at the same time. Each sample takes up to [`SAMPLE_BYTES`].
const CONCURRENT_SAMPLES: usize = 4;
/// The number of rows per file from which the kinds of values are determined.
const SAMPLE_ROWS: usize = 1000;
/// The size in bytes after which a sample ends with the current row.
const SAMPLE_BYTES: usize = 8 * 1024 * 1024;

struct JsonLines;

#[async_trait]
impl ParsedFormat for JsonLines {
    /// A name `a.b` refers to the column `a.b` if it exists, and otherwise to the field `b` of column `a`.
    async fn plan(
        &self,
        ParseRequest { ctx, source, columns, files }: ParseRequest<'_>,
    ) -> Result<ParsePlan> {
        let samples: Vec<JsonSample> = stream::iter(files.iter().cloned())
            .map(|file| sample(ctx, file, source))
            .buffered(CONCURRENT_SAMPLES)
            .try_collect()
            .await?;
        let mut shape = JsonShape::default();
        for sample in &samples {
            shape.merge(&sample.shape);
        }
        if shape.is_empty() {
            return Err(without_rows(files.iter().map(|file| file.path()), ["has", "have"], "no rows"));
        }
        let first = files.first().map_or("the input", |file| file.path());
        let (mut wanted, mut values) = (Vec::new(), NamedExpressions::new());
        for (at, name) in columns.iter().copied().enumerate() {
            values.push((name.to_owned(), column(value_name(at))));
            let is_text = source.text.iter().any(|text| text == name);
            if let Some((path, inside)) = shape.texts_in_list(name).filter(|_| is_text) {
                let (name, kind) = (name.to_owned(), ValueKind::String);
                wanted.push(JsonValue { name, path, inside: Some(inside), kind });
                continue;
            }
            let path = shape
                .path(name)
                .ok_or_else(|| missing(source, name, &format!("the first rows of {first}"), shape.names()))?;
            let role = match &source.id {
                _ if is_text => Role::Text,
                SourceId::Columns(ids) if ids.iter().any(|id| id == name) => Role::Id,
                _ if source.columns.iter().any(|column| column == name) => Role::Carried,
                _ => Role::Compared,
            };
            let kind = kind_of(&shape, &path, name, role)?;
            let path = path.into_iter().map(str::to_owned).collect();
            wanted.push(JsonValue { name: name.to_owned(), path, inside: None, kind });
        }
        let files = samples.into_iter().filter(|sample| sample.rows > 0).map(|sample| sample.file);
        Ok(ParsePlan::new(WantedValues::Fields(wanted), values, files.collect()))
    }

    fn reader(&self, parser: &Parser, _: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Fields(wanted) = &parser.wanted else {
            return Err(Error::bug("a plan to parse JSON lines names no fields"));
        };
        let (wanted, encoding) = (WantedFields::new(wanted), parser.source.encoding);
        let read_row = move |row: &[u8], place, documents: &mut DocumentSink<'_>| match wanted
            .read(&prepared(row, encoding))
        {
            Ok(None) => Ok(()),
            Ok(Some(values)) => {
                let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
                documents.push(&values, None)
            }
            Err(UnusableLine::Malformed(why)) => documents.reject("malformed", place, &why),
            Err(UnusableLine::NotUtf8) => documents.reject_bytes(place),
        };
        Ok(Box::new(LineReader::new(parser.source.max_text, read_row).with_arrays()))
    }
}

fn prepared(line: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    match encoding {
        Encoding::Utf8Lossy => with_whole_pairs(without_mark(line)),
        _ => Cow::Borrowed(without_mark(line)),
    }
}

impl RowFormat for JsonLines {
    fn cutter(&self, _: &job::Source) -> Box<dyn RowCutter> {
        Box::new(LineCutter::with_arrays())
    }

    /// A line that is not an object does not change.
    fn with_values(
        &self,
        _: &job::Source,
        row: &[u8],
        columns: &[AddedColumn],
    ) -> Result<Vec<u8>, CannotAppend> {
        with_fields(row, columns).map_err(CannotAppend::Exists)
    }

    fn cut_text(&self, _: &job::Source, TextCut { row, place, spans }: TextCut<'_>) -> Option<Vec<u8>> {
        let TextPlace::Path(path) = place else { return None };
        cut_string(row, path, spans)
    }
}

/// Returns the object in `row` with additional fields. Its bytes do not change. Any other row is returned unchanged.
fn with_fields(row: &[u8], columns: &[AddedColumn]) -> Result<Vec<u8>, &'static str> {
    let object = serde_json::from_slice::<HashMap<String, IgnoredAny>>(row);
    let object = object.or_else(|_| serde_json::from_slice(&readable(row))).ok();
    let end = row.iter().rposition(|byte| *byte == b'}');
    let (Some(fields), Some(end)) = (object, end) else { return Ok(row.to_vec()) };
    if let Some((taken, _)) = columns.iter().find(|(column, _)| fields.contains_key(*column)) {
        return Err(taken);
    }
    let (object, close) = row.split_at(end);
    let mut to = object.to_vec();
    for (at, (name, value)) in columns.iter().enumerate() {
        if at > 0 || !fields.is_empty() {
            to.push(b',');
        }
        let value = match value {
            AddedValue::Null => "null".to_owned(),
            AddedValue::Literal(literal) => literal.clone(),
            AddedValue::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        };
        to.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
    }
    to.extend_from_slice(close);
    Ok(to)
}

/// Returns a row without `spans` of the string at `path`. Other bytes, including escapes, do not change. Returns `None` if there is
/// no string at `path`, or if the spans do not fit the string.
fn cut_string(row: &[u8], path: &[String], spans: &[Range<usize>]) -> Option<Vec<u8>> {
    let row = std::str::from_utf8(row).ok()?;
    let raw = raw_value(row, path)?;
    let start = (raw.as_ptr() as usize).checked_sub(row.as_ptr() as usize)?;
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    let mut to = Vec::with_capacity(row.len());
    to.extend_from_slice(row.get(..start + 1)?.as_bytes());
    let (mut at, mut from, mut spans) = (0, 0, spans.iter().peekable());
    while from < inside.len() {
        let (written, bytes) = character(inside.get(from..)?)?;
        let span = spans.peek().copied().filter(|span| span.start < at + bytes);
        let is_cut = span.is_some_and(|span| span.start <= at && at + bytes <= span.end);
        if span.is_some() && !is_cut {
            return None;
        }
        if !is_cut {
            to.extend_from_slice(inside.get(from..from + written)?.as_bytes());
        }
        (at, from) = (at + bytes, from + written);
        spans.next_if(|span| span.end == at);
    }
    to.extend_from_slice(row.get(start + 1 + inside.len()..)?.as_bytes());
    spans.next().is_none().then_some(to)
}

/// Returns two lengths of the first character, in bytes: as written in the JSON string, and in UTF-8.
fn character(text: &str) -> Option<(usize, usize)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return Some((first.len_utf8(), first.len_utf8()));
    }
    if chars.next()? != 'u' {
        return Some((2, 1));
    }
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let first = unit(2)?;
    let second = text.get(6..).filter(|rest| rest.starts_with("\\u")).and_then(|_| unit(8));
    let decoded = char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?;
    Some((6 * decoded.len_utf16(), decoded.len_utf8()))
}

/// Returns the rows at the start of a text. If `whole` is false, the last row is skipped.
pub(crate) fn first_json_rows(text: &str, whole: bool) -> Vec<Bytes> {
    let (mut lines, mut rest) = (Lines::default().with_arrays(), Bytes::copy_from_slice(text.as_bytes()));
    let mut rows: Vec<Bytes> = std::iter::from_fn(|| lines.next(&mut rest)).collect();
    rows.extend(lines.end().filter(|_| whole));
    rows.retain(|row| !without_mark(row).trim_ascii().is_empty());
    rows
}

/// The kinds of values in the first rows of a file.
struct JsonSample {
    file: Arc<SourceFile>,
    shape: JsonShape,
    /// The number of rows. Blank lines are not counted.
    rows: usize,
}

async fn sample(ctx: &SessionContext, file: Arc<SourceFile>, source: &job::Source) -> Result<JsonSample> {
    let mut sample = JsonSample { file: Arc::clone(&file), shape: JsonShape::default(), rows: 0 };
    let (mut lines, mut read) = (Lines::limited(source.max_text).with_arrays(), 0);
    let take = |mut chunk: Bytes| -> Result<bool> {
        read += chunk.len();
        let is_end = chunk.is_empty();
        while sample.rows < SAMPLE_ROWS && (read < SAMPLE_BYTES || sample.rows == 0) {
            // A line that exceeds the limit is returned as an empty line.
            match lines.next(&mut chunk) {
                Some(line) => sample.add_line(&line, lines.place(), source)?,
                None if is_end => {
                    let last = lines.end();
                    last.map_or(Ok(()), |line| sample.add_line(&line, lines.place(), source))?;
                    return Ok(true);
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    };
    file.read_start(ctx, source.encoding, take).await?;
    if sample.rows == 0 {
        tracing::warn!(file = file.path(), "this file has no rows");
    }
    Ok(sample)
}

impl JsonSample {
    fn add_line(&mut self, line: &[u8], place: RowPlace, source: &job::Source) -> Result<()> {
        let line = prepared(line, source.encoding);
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.rows += 1;
        let why = match std::str::from_utf8(&line).map(|text| self.shape.add_row(text)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_data() => "is not a JSON object: each document must be one".to_owned(),
            Ok(Err(error)) if place == RowPlace::Line(1) => {
                format!("is not JSON ({error}); expected one JSON object per line, or an array of objects")
            }
            Ok(Err(error)) => format!("is not JSON ({error})"),
            Err(_) => source.encoding.complaint(),
        };
        match source.on_error {
            OnError::Error => Err(Error::input(format!("{}{place} {why}", self.file.path))),
            // The reader rejects this row later.
            OnError::Reject => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn appended(row: &str, values: [AddedValue; 2]) -> Result<String, &'static str> {
        let [a, b] = values;
        Ok(String::from_utf8(with_fields(row.as_bytes(), &[("kept_id", a), ("flag", b)])?).unwrap())
    }

    #[test]
    fn objects_stay_objects() {
        let values = || [AddedValue::Text("\"".into()), AddedValue::Literal("false".into())];
        for (row, expected) in [
            ("{}", r#"{"kept_id":"\"","flag":false}"#),
            (" {\"a\": {}} \r", " {\"a\": {},\"kept_id\":\"\\\"\",\"flag\":false} \r"),
            ("[1]", "[1]"),
            ("{\"a\"", "{\"a\""),
        ] {
            assert_eq!(appended(row, values()).unwrap(), expected);
        }
        let nothing = appended("{\"a\":1}", [AddedValue::Null, AddedValue::Null]).unwrap();
        assert_eq!(nothing, r#"{"a":1,"kept_id":null,"flag":null}"#);
        assert_eq!(appended("{\"kept_id\":1}", values()), Err("kept_id"));
    }

    fn cut(row: &str, path: &[&str], spans: &[Range<usize>]) -> Option<String> {
        let path: Vec<String> = path.iter().map(|name| name.to_string()).collect();
        Some(String::from_utf8(cut_string(row.as_bytes(), &path, spans)?).unwrap())
    }

    #[test]
    fn other_bytes_stay() {
        for (row, path, spans, wanted) in [
            (
                r#" {"a": 1e2, "t" : "abcd" , "b":[ ]} "#,
                &["t"][..],
                &[(1, 3)][..],
                Some(r#" {"a": 1e2, "t" : "ad" , "b":[ ]} "#),
            ),
            (r#"{"t":"\u00e9\/\"x\n"}"#, &["t"], &[(2, 3), (4, 5)], Some(r#"{"t":"\u00e9\"\n"}"#)),
            (r#"{"t":"\ud83d\ude00\ud83d\ude00"}"#, &["t"], &[(0, 4)], Some(r#"{"t":"\ud83d\ude00"}"#)),
            (r#"{"t":"\ud83d\ude00"}"#, &["t"], &[(0, 2)], None),
            (r#"{"t":"é"}"#, &["t"], &[(0, 1)], None),
            (r#"{"t":"é"}"#, &["t"], &[(0, 3)], None),
            (r#"{"a.b":"xy","a":{"b":"xy"}}"#, &["a", "b"], &[(0, 1)], Some(r#"{"a.b":"xy","a":{"b":"y"}}"#)),
            (r#"{"a.b":"xy","a":{"b":"xy"}}"#, &["a.b"], &[(0, 1)], Some(r#"{"a.b":"y","a":{"b":"xy"}}"#)),
            (r#"{"t":1}"#, &["t"], &[(0, 1)], None),
            ("[]", &["t"], &[(0, 1)], None),
        ] {
            let spans: Vec<_> = spans.iter().map(|(start, end)| *start..*end).collect();
            assert_eq!(cut(row, path, &spans).as_deref(), wanted, "{row}");
        }
    }

    proptest! {
        #[test]
        fn the_string_lacks_only_the_span(
            parts in prop::collection::vec((any::<char>(), any::<bool>()), 0..20),
            start in 0_usize..20,
            length in 1_usize..9,
        ) {
            let (mut written, mut wanted, mut span, mut at) = (String::new(), String::new(), 0..0, 0);
            for (number, (char, is_escaped)) in parts.iter().enumerate() {
                if *is_escaped {
                    char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| written += &format!("\\u{unit:04X}"));
                } else {
                    let quoted = serde_json::to_string(&char).unwrap();
                    written.push_str(&quoted[1..quoted.len() - 1]);
                }
                if number < start {
                    span = at + char.len_utf8()..at + char.len_utf8();
                }
                if (start..start + length).contains(&number) {
                    span.end = at + char.len_utf8();
                } else {
                    wanted.push(*char);
                }
                at += char.len_utf8();
            }
            if span.is_empty() {
                return Ok(());
            }
            let row = format!("{{\"a\":\"{written}\",\"t\":\"{written}\"}}");
            let found = cut(&row, &["t"], &[span]).unwrap();
            let value: serde_json::Value = serde_json::from_str(&found).unwrap();
            prop_assert_eq!(&value["t"], &wanted);
            let start = format!("{{\"a\":\"{written}\",\"t\":\"");
            prop_assert!(found.starts_with(&start));
        }
    }
}
