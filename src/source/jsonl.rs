//! JSON lines: the types of the needed values first, from the first rows, then the engine's reader.
//!
//! A later value of another type is an error, but for one: the reader takes a string of digits for a number, so that where
//! the first rows have ids like `7`, a later `"007"` is `7` too.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::execution::context::SessionContext;
use datafusion::functions::core::expr_fn::get_field;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::bytes::stream;
use super::columns::{Values, column, missing, needed};
use super::csv::scans;
use super::listing::File;
use super::number_rows::value_name;
use super::scan::{FileTable, Reader};
use crate::error::{Context, Error, Result};
use crate::job;

/// Files whose first rows are read at the same time; each holds up to [`SAMPLE_BYTES`].
const CONCURRENT_SAMPLES: usize = 4;
/// Rows of each file that types are taken from.
const SAMPLE_ROWS: usize = 1000;
/// Bytes after which a sample ends with the row that it is in.
const SAMPLE_BYTES: usize = 8 * 1024 * 1024;

/// The table of `files`, and the job's columns in it.
///
/// A name `a.b` is the column of that name, or else field `b` of column `a`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) for lines that are no JSON objects;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that no sampled row has or whose type cannot be used.
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<File>],
) -> Result<(FileTable, Values)> {
    let samples: Vec<Sample> = stream::iter(files.iter().cloned())
        .map(|file| sample(ctx, file))
        .buffered(CONCURRENT_SAMPLES)
        .try_collect()
        .await?;
    let mut shape = Shape::default();
    for sample in &samples {
        shape.merge(&sample.shape);
    }
    let first = files.first().map_or("the input", |file| &file.path);
    if shape.fields.is_empty() {
        return Err(Error::input(format!("{first} and all other files of the input are without a row")));
    }

    let mut tree = Tree::default();
    let mut paths = Vec::new();
    for name in needed(source) {
        let path = path(&shape, name)
            .ok_or_else(|| missing(name, &format!("the first rows of {first}"), shape.names()))?;
        let is_text = source.text.iter().any(|text| text == name);
        tree.insert(&path, data_type(&shape, &path, name, is_text)?);
        paths.push((name, path));
    }

    let file_schema = Schema::new(tree.fields());
    let values = paths
        .into_iter()
        .map(|(name, path)| {
            let root = file_schema.index_of(path[0])?;
            let value =
                path[1..].iter().fold(column(value_name(root)), |parent, field| get_field(parent, *field));
            Ok((name.to_owned(), value))
        })
        .collect::<Result<Values>>()?;
    let columns = (0..file_schema.fields().len()).collect();
    let full = samples.iter().filter(|sample| sample.rows > 0).map(|sample| (&sample.file, sample.row_bytes));
    Ok((FileTable::new(Reader::Jsonl, Arc::new(file_schema), columns, scans(full)?), values))
}

/// What the first rows of a file tell.
struct Sample {
    file: Arc<File>,
    shape: Shape,
    rows: usize,
    /// Bytes of a row, on average.
    row_bytes: u64,
}

async fn sample(ctx: &SessionContext, file: Arc<File>) -> Result<Sample> {
    let store = ctx.runtime_env().object_store(&file.store)?;
    let mut bytes = stream(store.as_ref(), &file).await?;
    let mut lines = Lines { shape: Shape::default(), rows: 0, line: 0, bytes: 0, path: &file.path };
    let mut pending: Vec<u8> = Vec::new();
    let mut read = 0;
    while lines.rows < SAMPLE_ROWS && (read < SAMPLE_BYTES || lines.rows == 0) {
        let next = bytes.try_next().await.context(|| format!("the start of {} cannot be read", file.path))?;
        let Some(chunk) = next else {
            lines.take(&pending)?;
            break;
        };
        read += chunk.len();
        let mut rest = chunk.as_ref();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            pending.extend_from_slice(&rest[..end]);
            lines.take(&pending)?;
            pending.clear();
            rest = &rest[end + 1..];
            if lines.rows == SAMPLE_ROWS {
                break;
            }
        }
        pending.extend_from_slice(rest);
    }
    let Lines { shape, rows, bytes, .. } = lines;
    if rows == 0 {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(Sample { file, shape, rows, row_bytes: bytes / (rows as u64).max(1) })
}

struct Lines<'a> {
    shape: Shape,
    rows: usize,
    line: usize,
    bytes: u64,
    path: &'a str,
}

impl Lines<'_> {
    fn take(&mut self, line: &[u8]) -> Result<()> {
        self.line += 1;
        self.bytes += line.len() as u64;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let at = || format!("{} line {}", self.path, self.line);
        let value: Value = serde_json::from_slice(line).map_err(|e| {
            let whole = if self.line == 1 {
                "; one JSON object a line is expected, not one document a file"
            } else {
                ""
            };
            Error::input(format!("{} is no JSON{whole}", at())).because(e)
        })?;
        if !value.is_object() {
            return Err(Error::input(format!("{} is no JSON object: each line must be one", at())));
        }
        self.shape.see(&value);
        self.rows += 1;
        Ok(())
    }
}

/// The kinds of values seen in one place.
#[derive(Debug, Default, Clone)]
struct Shape {
    string: bool,
    integer: bool,
    /// An integer beyond `i64`.
    unsigned: bool,
    float: bool,
    boolean: bool,
    array: bool,
    /// The fields of the objects.
    fields: BTreeMap<String, Shape>,
}

impl Shape {
    fn see(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) => self.boolean = true,
            Value::Number(n) if n.is_i64() => self.integer = true,
            Value::Number(n) if n.is_u64() => self.unsigned = true,
            Value::Number(_) => self.float = true,
            Value::String(_) => self.string = true,
            Value::Array(_) => self.array = true,
            Value::Object(fields) => {
                for (name, value) in fields {
                    // Not `entry`: it wants an owned name, and most are there.
                    if let Some(shape) = self.fields.get_mut(name) {
                        shape.see(value);
                    } else {
                        self.fields.entry(name.clone()).or_default().see(value);
                    }
                }
            }
        }
    }

    fn merge(&mut self, other: &Shape) {
        self.string |= other.string;
        self.integer |= other.integer;
        self.unsigned |= other.unsigned;
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
            (self.integer || self.unsigned, "integers"),
            (self.float, "fractions"),
            (self.boolean, "booleans"),
            (self.array, "arrays"),
            (!self.fields.is_empty(), "objects"),
        ];
        let seen: Vec<&str> = kinds.into_iter().filter(|(seen, _)| *seen).map(|(_, kind)| kind).collect();
        seen.join(" and ")
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

/// The type in which the value at `path` is read.
fn data_type(shape: &Shape, path: &[&str], name: &str, is_text: bool) -> Result<DataType> {
    let Some(shape) = at(shape, path) else {
        return Err(Error::bug(format!("the path of `{name}` was lost")));
    };
    let Shape { string, integer, unsigned, float, boolean, array, fields } = shape;
    let kinds = || shape.kinds();
    if *array || !fields.is_empty() {
        let role = if is_text { "text" } else { "id" };
        return Err(Error::job(format!(
            "{role} column `{name}` holds {}: name one of their fields, or another column",
            kinds()
        )));
    }
    let number = *integer || *unsigned || *float;
    match (*string, number, *boolean) {
        // Nothing but nulls in the sample: the column is there, and strings are the likeliest.
        (_, false, false) => Ok(DataType::Utf8View),
        _ if is_text => Err(Error::job(format!("text column `{name}` holds {}, not strings alone", kinds()))),
        (false, false, true) => Ok(DataType::Boolean),
        (false, true, false) if *float => Ok(DataType::Float64),
        (false, true, false) if *unsigned => Ok(DataType::UInt64),
        (false, true, false) => Ok(DataType::Int64),
        _ => Err(Error::job(format!("id column `{name}` holds {}: ids must be of one type", kinds()))),
    }
}

/// The needed columns, with those of their fields that are needed.
#[derive(Default)]
struct Tree {
    /// In the order of the job.
    children: Vec<(String, Tree)>,
    leaf: Option<DataType>,
}

impl Tree {
    fn insert(&mut self, path: &[&str], data_type: DataType) {
        let Some((name, rest)) = path.split_first() else {
            self.leaf = Some(data_type);
            return;
        };
        let at = self.children.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.children.push(((*name).to_owned(), Tree::default()));
            self.children.len() - 1
        });
        self.children[at].1.insert(rest, data_type);
    }

    fn fields(self) -> Fields {
        self.children
            .into_iter()
            .map(|(name, tree)| {
                let data_type = match tree.leaf.clone() {
                    Some(leaf) => leaf,
                    None => DataType::Struct(tree.fields()),
                };
                Field::new(name, data_type, true)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(rows: &[Value]) -> Shape {
        let mut shape = Shape::default();
        rows.iter().for_each(|row| shape.see(row));
        shape
    }

    #[test]
    fn a_column_with_a_dot_wins_over_a_field() {
        let both = shape(&[json!({"a.b": "flat", "a": {"b": "deep"}})]);
        assert_eq!(path(&both, "a.b"), Some(vec!["a.b"]));
        let deep = shape(&[json!({"a": {"b": "deep"}})]);
        assert_eq!(path(&deep, "a.b"), Some(vec!["a", "b"]));
        assert_eq!(path(&deep, "a.c"), None);
        assert_eq!(both.names(), ["a.b", "a.b"]);
    }

    #[test]
    fn types_are_those_of_all_rows() {
        let rows =
            shape(&[json!({"n": 1, "m": 1, "x": null}), json!({"n": 18446744073709551615u64, "m": "one"})]);
        assert_eq!(data_type(&rows, &["n"], "n", false).unwrap(), DataType::UInt64);
        assert_eq!(data_type(&rows, &["x"], "x", true).unwrap(), DataType::Utf8View);
        let error = data_type(&rows, &["m"], "m", false).unwrap_err();
        assert!(error.to_string().contains("strings and integers"), "{error}");
        assert!(data_type(&rows, &["n"], "n", true).is_err());
    }
}
