//! JSON lines: where the wanted values are, and of which kinds, from the first rows; the lines are read by
//! [`super::reading`], which holds every row against what was found here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bytes::{decompressed, start};
use super::columns::{Values, column, missing, needed};
use super::decode::decoded;
use super::json_line::{JsonValue, Lines, ValueKind};
use super::listing::File;
use super::number_rows::value_name;
use super::parse_files::ParsedTable;
use super::to_parse::Parser;
use crate::error::{Context, Error, Result};
use crate::job::{self, Id, OnError};

/// Files whose first rows are read at the same time; each holds up to [`SAMPLE_BYTES`].
const CONCURRENT_SAMPLES: usize = 4;
/// Rows of each file that kinds are taken from.
const SAMPLE_ROWS: usize = 1000;
/// Bytes after which a sample ends with the row that it is in.
const SAMPLE_BYTES: usize = 8 * 1024 * 1024;
/// Objects in objects whose fields can be named.
const MAX_DEPTH: usize = 32;

/// The table of `files`, and the job's columns in it.
///
/// A name `a.b` is the column of that name, or else field `b` of column `a`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) for lines that are not JSON objects;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that no sampled row has or whose kind cannot be used.
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<File>],
) -> Result<(ParsedTable, Values)> {
    let samples: Vec<Sample> = stream::iter(files.iter().cloned())
        .map(|file| sample(ctx, file, source))
        .buffered(CONCURRENT_SAMPLES)
        .try_collect()
        .await?;
    let mut shape = Shape::default();
    for sample in &samples {
        shape.merge(&sample.shape);
    }
    let first = files.first().map_or("the input", |file| &file.path);
    if shape.fields.is_empty() {
        return Err(Error::input(format!("{first} and all other files of the input have no rows")));
    }

    let mut wanted = Vec::new();
    let mut values = Values::new();
    for (i, name) in needed(source).into_iter().enumerate() {
        let path = path(&shape, name)
            .ok_or_else(|| missing(name, &format!("the first rows of {first}"), shape.names()))?;
        let is_text = source.text.iter().any(|text| text == name);
        let is_id = matches!(&source.id, Id::Columns(ids) if ids.iter().any(|id| id == name));
        let kind = match is_text || is_id {
            true => kind(&shape, &path, name, is_text)?,
            // Whatever is carried goes nowhere but into a column of text.
            false => carried_kind(&shape, &path, name)?,
        };
        let path = path.into_iter().map(str::to_owned).collect();
        wanted.push(JsonValue { name: name.to_owned(), path, kind });
        values.push((name.to_owned(), column(value_name(i))));
    }
    let full = samples.into_iter().filter(|sample| sample.has_rows).map(|sample| sample.file).collect();
    Ok((
        ParsedTable::new(
            Parser::JsonLines { encoding: source.encoding, wanted, on_error: source.on_error },
            full,
        ),
        values,
    ))
}

/// What the first rows of a file tell.
struct Sample {
    file: Arc<File>,
    shape: Shape,
    has_rows: bool,
}

async fn sample(ctx: &SessionContext, file: Arc<File>, source: &job::Source) -> Result<Sample> {
    let store = ctx.runtime_env().object_store(&file.store)?;
    let failed = || format!("the start of {} cannot be read", file.path);
    let chunks = decompressed(store.as_ref(), &file.to_parse()).await?;
    let mut chunks = decoded(chunks, source.encoding);
    let mut chunk = start(&mut chunks).await.context(failed)?;
    let mut rows = Rows { shape: Shape::default(), count: 0, path: &file.path, source };
    let mut lines = Lines::default();
    let mut read = chunk.len();
    while rows.count < SAMPLE_ROWS && (read < SAMPLE_BYTES || rows.count == 0) {
        if let Some(line) = lines.next(&mut chunk) {
            rows.take(&line, lines.line())?;
            continue;
        }
        chunk = chunks.try_next().await.context(failed)?.unwrap_or_else(Bytes::new);
        read += chunk.len();
        if chunk.is_empty() {
            if let Some(line) = lines.end() {
                rows.take(&line, lines.line())?;
            }
            break;
        }
    }
    let Rows { shape, count, .. } = rows;
    if count == 0 {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(Sample { file, shape, has_rows: count > 0 })
}

struct Rows<'a> {
    shape: Shape,
    count: usize,
    path: &'a str,
    source: &'a job::Source,
}

impl Rows<'_> {
    fn take(&mut self, line: &[u8], number: u64) -> Result<()> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.count += 1;
        let text = std::str::from_utf8(line).map_err(|_| self.source.encoding.complaint());
        let wrong = match text.map(|text| self.shape.see_row(text)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_data() => "is not a JSON object: each line must be one".to_owned(),
            Ok(Err(error)) => {
                let whole = if number == 1 {
                    "; expected one JSON object per line, not one document per file"
                } else {
                    ""
                };
                format!("is not JSON ({error}){whole}")
            }
            Err(wrong) => wrong,
        };
        match self.source.on_error {
            OnError::Error => Err(Error::input(format!("{} line {number} {wrong}", self.path))),
            // The reading puts it into the rejects.
            OnError::Reject => Ok(()),
        }
    }
}

/// The kinds of values seen in one place.
#[derive(Debug, Default, Clone)]
struct Shape {
    string: bool,
    integer: bool,
    float: bool,
    boolean: bool,
    array: bool,
    /// The fields of the objects.
    fields: BTreeMap<String, Shape>,
}

impl Shape {
    /// Looks at a row, which must be an object.
    fn see_row(&mut self, text: &str) -> serde_json::Result<()> {
        self.see_object(text, MAX_DEPTH)
    }

    fn see_object(&mut self, text: &str, depth: usize) -> serde_json::Result<()> {
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.deserialize_map(Fields { shape: self, depth })?;
        reader.end()
    }

    fn see(&mut self, raw: &str, depth: usize) {
        match raw.as_bytes().first() {
            Some(b'n') => {}
            Some(b't' | b'f') => self.boolean = true,
            Some(b'"') => self.string = true,
            Some(b'[') => self.array = true,
            Some(b'{') => {
                if let Some(depth) = depth.checked_sub(1) {
                    // That it is JSON is known by now; a name in it that is no text can be nobody's wish.
                    let _ = self.see_object(raw, depth);
                }
            }
            _ if raw.contains(['.', 'e', 'E']) => self.float = true,
            _ => self.integer = true,
        }
    }

    fn merge(&mut self, other: &Shape) {
        self.string |= other.string;
        self.integer |= other.integer;
        self.float |= other.float;
        self.boolean |= other.boolean;
        self.array |= other.array;
        for (name, shape) in &other.fields {
            self.fields.entry(name.clone()).or_default().merge(shape);
        }
    }

    /// The names by which the job can ask for a value.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, shape) in &self.fields {
            if shape.fields.is_empty() {
                names.push(name.clone());
            }
            names.extend(shape.names().into_iter().map(|field| format!("{name}.{field}")));
        }
        names
    }

    fn kinds(&self) -> String {
        let kinds = [
            (self.string, "strings"),
            (self.integer, "integers"),
            (self.float, "fractions"),
            (self.boolean, "booleans"),
            (self.array, "arrays"),
            (!self.fields.is_empty(), "objects"),
        ];
        let seen: Vec<&str> = kinds.into_iter().filter(|(seen, _)| *seen).map(|(_, kind)| kind).collect();
        seen.join(" and ")
    }
}

/// Looks at the fields of an object.
struct Fields<'a> {
    shape: &'a mut Shape,
    depth: usize,
}

impl<'a> Visitor<'a> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some((name, raw)) = map.next_entry::<String, &'a RawValue>()? {
            self.shape.fields.entry(name).or_default().see(raw.get(), self.depth);
        }
        Ok(())
    }
}

/// Where the value called `name` is: a column of that name, or a field of a column.
fn path<'a>(shape: &Shape, name: &'a str) -> Option<Vec<&'a str>> {
    if shape.fields.contains_key(name) {
        return Some(vec![name]);
    }
    let path: Vec<&str> = name.split('.').collect();
    at(shape, &path).map(|_| path)
}

fn at<'a>(shape: &'a Shape, path: &[&str]) -> Option<&'a Shape> {
    path.iter().try_fold(shape, |shape, name| shape.fields.get(*name))
}

/// What the value at `path` must be in every row.
fn kind(shape: &Shape, path: &[&str], name: &str, is_text: bool) -> Result<ValueKind> {
    let Some(shape) = at(shape, path) else {
        return Err(Error::bug(format!("the path of `{name}` was lost")));
    };
    let Shape { string, integer, float, boolean, array, fields } = shape;
    let kinds = || shape.kinds();
    if *array || !fields.is_empty() {
        let role = if is_text { "text" } else { "id" };
        return Err(Error::job(format!(
            "{role} column `{name}` holds {}: name one of their fields, or another column",
            kinds()
        )));
    }
    match (*string, *integer || *float, *boolean) {
        // Nothing but nulls in the sample: the column is there.
        (false, false, false) if !is_text => Ok(ValueKind::Any),
        (_, false, false) => Ok(ValueKind::String),
        _ if is_text => Err(Error::job(format!("text column `{name}` holds {}, not only strings", kinds()))),
        (false, false, true) => Ok(ValueKind::Boolean),
        (false, true, false) if *float => Ok(ValueKind::Number),
        (false, true, false) => Ok(ValueKind::Integer),
        _ => Err(Error::job(format!("id column `{name}` holds {}: ids must be of one type", kinds()))),
    }
}

/// What the value at `path`, which is only carried, must be in every row.
fn carried_kind(shape: &Shape, path: &[&str], name: &str) -> Result<ValueKind> {
    match at(shape, path) {
        Some(shape) if shape.array || !shape.fields.is_empty() => Err(Error::job(format!(
            "the column `{name}` of `source.columns` holds {}: name one of their fields, or another column",
            shape.kinds()
        ))),
        _ => Ok(ValueKind::Any),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: &[&str]) -> Shape {
        let mut shape = Shape::default();
        rows.iter().for_each(|row| shape.see_row(row).unwrap());
        shape
    }

    #[test]
    fn a_column_with_a_dot_wins_over_a_field() {
        let both = shape(&[r#"{"a.b": "flat", "a": {"b": "deep"}}"#]);
        assert_eq!(path(&both, "a.b"), Some(vec!["a.b"]));
        let deep = shape(&[r#"{"a": {"b": "deep"}}"#]);
        assert_eq!(path(&deep, "a.b"), Some(vec!["a", "b"]));
        assert_eq!(path(&deep, "a.c"), None);
        assert_eq!(both.names(), ["a.b", "a.b"]);
    }

    #[test]
    fn kinds_are_those_of_all_rows() {
        let rows = shape(&[
            r#"{"n": 1, "m": 1, "x": null, "f": 1}"#,
            r#"{"n": 18446744073709551617, "m": "one", "f": 1e2}"#,
        ]);
        assert_eq!(kind(&rows, &["n"], "n", false).unwrap(), ValueKind::Integer);
        assert_eq!(kind(&rows, &["f"], "f", false).unwrap(), ValueKind::Number);
        assert_eq!(kind(&rows, &["x"], "x", true).unwrap(), ValueKind::String);
        assert_eq!(kind(&rows, &["x"], "x", false).unwrap(), ValueKind::Any);
        let error = kind(&rows, &["m"], "m", false).unwrap_err();
        assert!(error.to_string().contains("strings and integers"), "{error}");
        assert!(kind(&rows, &["n"], "n", true).is_err());
    }

    #[test]
    fn depth_is_no_error() {
        let deep = format!("{{\"x\":{}1{}, \"id\": 2}}", "{\"y\":".repeat(5_000), "}".repeat(5_000));
        let seen = shape(&[&deep]);
        assert_eq!(kind(&seen, &["id"], "id", false).unwrap(), ValueKind::Integer);
    }
}
