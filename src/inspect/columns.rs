//! Detects the columns of a dataset from its first rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::ident;
use futures::TryStreamExt;
use serde::Serialize;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::sniff::{self, is_number};
use crate::error::visible::{shortened, visible};
use crate::error::{Error, Result};
use crate::job::{Csv, Encoding, Format, Source};
use crate::schema;
use crate::source::{
    self, Listed, ParquetFile, ReadRequest, Reading, SourceFile, first_json_rows, first_records, is_string,
    named_fields, readable_json,
};

/// The number of stored bytes that are inspected at the beginning of a file.
pub(super) const SAMPLED_BYTES: usize = 1024 * 1024;
/// Columns are detected from this number of rows.
const SAMPLED_ROWS: usize = 1000;
const SHOWN: usize = 40;
/// The maximum depth of nested JSON objects whose fields become columns.
const MAX_DEPTH: usize = 32;
/// The maximum number of columns in one plan. Planning time grows with its square, but each plan reads the names of all columns again.
const PLANNED_COLUMNS: usize = 768;
const JSON_KINDS: [&str; 4] = ["text", "number", "boolean", "array"];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct InspectedColumn {
    pub name: String,
    /// An Arrow type in Parquet files, and a word such as `text` in other files.
    #[serde(rename = "values")]
    pub kind: String,
    /// Whether the column can contain texts.
    #[serde(skip)]
    pub is_text: bool,
    /// Whether every inspected row has a value, and all values are different.
    #[serde(skip)]
    pub is_unique: bool,
    #[serde(skip)]
    pub hashes: BTreeSet<u64>,
    /// The beginning of the first non-blank value, with control characters escaped.
    pub example: Option<String>,
    #[serde(skip)]
    pub mean_characters: f64,
}

/// Statistics of a column in the first rows.
#[derive(Debug, Default)]
struct ColumnSample {
    values: usize,
    /// Whether a value of each kind in [`JSON_KINDS`] occurs.
    kinds: [bool; JSON_KINDS.len()],
    strings: usize,
    characters: usize,
    other_than_numbers: bool,
    hashes: BTreeSet<u64>,
    example: Option<String>,
}

impl ColumnSample {
    fn add(&mut self, value: &str) {
        self.values += 1;
        self.characters += value.chars().count();
        self.other_than_numbers |= !is_number(value);
        self.hashes.insert(xxh3_64(value.as_bytes()));
        if self.example.is_none() && !value.trim().is_empty() {
            self.example = Some(beginning(value));
        }
    }

    fn add_json(&mut self, value: &Value) {
        let kind = match value {
            Value::Null => return,
            Value::String(_) => 0,
            Value::Number(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) | Value::Object(_) => 3,
        };
        self.kinds[kind] = true;
        self.strings += usize::from(kind == 0);
        match value {
            Value::String(text) => self.add(text),
            other => self.add(&other.to_string()),
        }
    }

    /// Describes the column with these values in `rows` inspected rows.
    fn column(self, name: &str, kind: &str, is_text: bool, rows: usize) -> InspectedColumn {
        InspectedColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_text,
            is_unique: rows > 0 && self.hashes.len() == rows,
            hashes: self.hashes,
            example: self.example,
            mean_characters: self.characters as f64 / self.values.max(1) as f64,
        }
    }
}

/// Returns the first characters of a value, with control characters escaped.
pub(crate) fn beginning(value: &str) -> String {
    visible(&shortened(value, SHOWN)).into_owned()
}

/// The beginning of a file with rows: CSV, JSON lines or lines of text.
pub(super) struct RecordFile {
    format: Format,
    text: String,
    /// Whether `text` is the whole file.
    pub whole: bool,
    pub stored: u64,
    pub encoding: Encoding,
    pub csv: Csv,
}

impl RecordFile {
    /// Reads the beginning of `file`, and detects its encoding and dialect unless they are given.
    pub(super) async fn open(
        ctx: &SessionContext,
        file: &SourceFile,
        format: Format,
        encoding: Option<Encoding>,
        csv: Option<Csv>,
    ) -> Result<Self> {
        let head = file.head(ctx, SAMPLED_BYTES).await?;
        let encoding = match encoding {
            Some(encoding) => encoding,
            None => Encoding::detected(&head.bytes, head.whole),
        };
        let text = sniff::decode(&head.bytes, encoding).into_owned();
        let csv = match format {
            Format::Csv => csv.unwrap_or_else(|| sniff::dialect(&text, head.whole).csv),
            Format::Jsonl | Format::Lines => csv.unwrap_or(Csv::new(b',')),
            other => return Err(Error::bug(format!("no inspection reads the rows of {}", other.name()))),
        };
        Ok(Self { format, text, whole: head.whole, stored: head.stored, encoding, csv })
    }

    pub(super) fn columns(&self) -> Vec<InspectedColumn> {
        match self.format {
            Format::Csv => csv_columns(&self.text, self.whole, self.csv),
            Format::Lines => line_columns(&self.text, self.whole),
            _ => json_columns(&self.text, self.whole),
        }
    }

    /// Returns whether the text contains HTML tags.
    pub(super) fn has_tags(&self) -> bool {
        regex::Regex::new("</[a-zA-Z][a-zA-Z0-9]{0,9}>|<(br|p|hr) ?/?>")
            .is_ok_and(|tag| tag.is_match(&self.text))
    }

    /// Returns the number of rows in the text.
    pub(super) fn rows(&self) -> u64 {
        (match self.format {
            Format::Csv => csv_rows(&self.text, self.whole, self.csv),
            Format::Lines => sniff::lines(&self.text, self.whole).count(),
            _ => first_json_rows(&self.text, self.whole).len(),
        }) as u64
    }
}

fn csv_columns(text: &str, whole: bool, csv: Csv) -> Vec<InspectedColumn> {
    let records = first_records(text, whole, csv, SAMPLED_ROWS);
    let Some(first) = records.first() else { return Vec::new() };
    let names: Vec<String> =
        if csv.header { first.clone() } else { (1..=first.len()).map(|at| format!("column_{at}")).collect() };
    let rows = records[usize::from(csv.header)..].iter().filter(|row| row.len() == names.len());
    let column = |(at, name): (usize, &String)| {
        let mut sample = ColumnSample::default();
        rows.clone()
            .map(|row| &row[at])
            .filter(|field| !field.is_empty())
            .for_each(|field| sample.add(field));
        let rows = rows.clone().count();
        let is_text = rows == 0 || sample.other_than_numbers;
        sample.column(name, if is_text { "text" } else { "number" }, is_text, rows)
    };
    names.iter().enumerate().map(column).collect()
}

fn csv_rows(text: &str, whole: bool, csv: Csv) -> usize {
    first_records(text, whole, csv, usize::MAX).len().saturating_sub(usize::from(csv.header))
}

/// Returns the columns of JSON lines or of a JSON array. A field `b` of the object `a` is the column `a.b`. Skips rows that are not
/// objects.
fn json_columns(text: &str, whole: bool) -> Vec<InspectedColumn> {
    let object =
        |row: &Bytes| -> Option<Map<String, Value>> { serde_json::from_slice(&readable_json(row)).ok() };
    let mut columns: BTreeMap<String, ColumnSample> = BTreeMap::new();
    let mut rows = 0;
    for object in first_json_rows(text, whole).iter().filter_map(object).take(SAMPLED_ROWS) {
        flatten("", object, MAX_DEPTH, &mut columns);
        rows += 1;
    }
    let column = |(name, sample): (String, ColumnSample)| {
        // A column of texts may contain some other values, because their rows become rejects.
        let is_text = 2 * sample.strings > sample.values && sample.other_than_numbers;
        let kinds: Vec<&str> =
            JSON_KINDS.into_iter().zip(sample.kinds).filter_map(|(kind, met)| met.then_some(kind)).collect();
        let kind = if kinds.is_empty() { "null".to_owned() } else { kinds.join(" or ") };
        sample.column(&name, &kind, is_text, rows)
    };
    columns.into_iter().map(column).collect()
}

/// Returns the columns of lines: the number and the text of a line.
fn line_columns(text: &str, whole: bool) -> Vec<InspectedColumn> {
    let (mut numbers, mut texts, mut rows) = (ColumnSample::default(), ColumnSample::default(), 0);
    for line in sniff::lines(text, whole).take(SAMPLED_ROWS) {
        rows += 1;
        numbers.add(&rows.to_string());
        texts.add(line);
    }
    vec![numbers.column("line", "number", false, rows), texts.column("text", "text", true, rows)]
}

fn flatten(
    above: &str,
    object: Map<String, Value>,
    depth: usize,
    columns: &mut BTreeMap<String, ColumnSample>,
) {
    for (name, value) in object {
        let name = if above.is_empty() { name } else { format!("{above}.{name}") };
        match (value, depth.checked_sub(1)) {
            (Value::Object(inner), Some(depth)) => flatten(&name, inner, depth, columns),
            (value, _) => columns.entry(name).or_default().add_json(&value),
        }
    }
}

/// Returns the columns of a Parquet file of `source`. A field `b` of the struct `a` is the column `a.b`.
pub(super) async fn parquet_columns(
    ctx: &SessionContext,
    source: &Source,
    file: &SourceFile,
) -> Result<Vec<InspectedColumn>> {
    let schema = ParquetFile::open(ctx, file).await?.schema(None)?;
    let fields = named_fields(schema.fields());
    let names = readable(&fields);
    let text = fields.iter().find(|(name, field)| is_string(field.data_type()) && names.contains(name));
    let (mut samples, mut rows) = (BTreeMap::new(), 0);
    if let Some((text, _)) = text {
        for names in names.chunks(PLANNED_COLUMNS) {
            let columns;
            (columns, rows) = sample(ctx, source, file, text, names).await?;
            samples.extend(names.iter().zip(columns));
        }
    }
    let column = |(name, field): &(String, &Field)| {
        let (rows, sample) = samples.remove(name).map_or_else(Default::default, |sample| (rows, sample));
        sample.column(name, &field.data_type().to_string(), is_string(field.data_type()), rows)
    };
    Ok(fields.iter().map(column).collect())
}

/// Returns the columns of a file of `source` that is neither one document nor a sequence of rows.
pub(super) async fn table_columns(
    ctx: &SessionContext,
    source: &Source,
    file: &SourceFile,
) -> Result<Vec<InspectedColumn>> {
    let Reading::Parser(parser) = source::format_of(source.format).reading else {
        return parquet_columns(ctx, source, file).await;
    };
    let names = parser.columns(ctx, file).await?;
    let Some(text) = names.first() else { return Ok(Vec::new()) };
    let (samples, rows) = sample(ctx, source, file, text, &names).await?;
    Ok(names.iter().zip(samples).map(|(name, sample)| sample.column(name, "text", true, rows)).collect())
}

/// Returns the names of columns that can be a text or an id: unique names of strings or integers.
fn readable(fields: &[(String, &Field)]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    fields.iter().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
    let is_readable = |data_type: &DataType| data_type.is_integer() || is_string(data_type);
    let readable = fields
        .iter()
        .filter(|(name, field)| is_readable(field.data_type()) && counts.get(name.as_str()) == Some(&1));
    readable.map(|(name, _)| name.clone()).collect()
}

/// Reads the columns `names` in the first rows of `file`. Returns their values and the number of rows.
async fn sample(
    ctx: &SessionContext,
    source: &Source,
    file: &SourceFile,
    text: &str,
    names: &[String],
) -> Result<(Vec<ColumnSample>, usize)> {
    let source = Source { text: vec![text.to_owned()], columns: names.to_vec(), ..source.clone() };
    let ctx = in_order(ctx);
    let listed = Listed::from_files(std::slice::from_ref(file));
    let frame = source::read(&ctx, &source, &listed, ReadRequest::all()).await?.frame;
    let columns: Vec<_> = (0..names.len()).map(|at| ident(schema::carried(at))).collect();
    let mut batches = frame.select(columns)?.limit(0, Some(SAMPLED_ROWS))?.execute_stream().await?;
    let mut samples: Vec<ColumnSample> = names.iter().map(|_| ColumnSample::default()).collect();
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows();
        for (column, sample) in batch.columns().iter().zip(&mut samples) {
            let texts = cast(column, &DataType::Utf8View)?;
            texts.as_string_view().iter().flatten().for_each(|value| sample.add(value));
        }
    }
    Ok((samples, rows))
}

/// Returns a session with the object stores of `ctx` that reads one partition after the other.
pub(super) fn in_order(ctx: &SessionContext) -> SessionContext {
    let state = ctx.state();
    let config = state.config().clone().with_target_partitions(1);
    SessionContext::new_with_config_rt(config, Arc::clone(state.runtime_env()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn csv_columns_have_the_kinds_of_their_values() {
        let column = |values: &str| csv_columns(&format!("a,b\n{values}"), true, Csv::new(b',')).remove(0);
        let words = column("one\ttwo,x\nthree,x\n");
        assert!(words.is_text && words.is_unique && words.mean_characters == 6.0);
        assert_eq!(words.example.as_deref(), Some("one\\ttwo"));
        assert!(!column("one,x\none,x\n").is_unique);
        assert!(!column("one,x\n,x\n").is_unique);
        let numbers = column("1,x\n-2.5e3,x\n,x\n");
        assert!(!numbers.is_text && !numbers.is_unique);
        let none = column("");
        assert!(none.is_text && !none.is_unique && none.example.is_none());
        assert_eq!(beginning(&"é".repeat(41)), format!("{}…", "é".repeat(40)));
        let csv = Csv::new(b',');
        let text = "id,text\n1,one\n2,tw";
        assert_eq!((csv_rows(text, true, csv), csv_rows(text, false, csv)), (2, 1));
        let columns = csv_columns(text, false, csv);
        let found: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.kind.as_str(), c.is_unique)).collect();
        assert_eq!(found, [("id", "number", true), ("text", "text", true)]);
    }

    #[test]
    fn json_fields_are_columns() {
        let text = "{\"id\": 1, \"meta\": {\"title\": \"one\"}, \"n\": \"5\"}\n\n[1]\n{\"id\": 2, \"tags\": []}\n{\"id\": 3";
        let found: Vec<_> =
            json_columns(text, false).into_iter().map(|c| (c.name, c.kind, c.is_text, c.is_unique)).collect();
        let expected = [
            ("id", "number", false, true),
            ("meta.title", "text", true, false),
            ("n", "text", false, false),
            ("tags", "array", false, false),
        ];
        let expected = expected.map(|(name, kind, text, unique)| (name.into(), kind.into(), text, unique));
        assert_eq!(found, expected);
        assert_eq!((first_json_rows(text, false).len(), first_json_rows(text, true).len()), (3, 4));
        let array = json_columns("[{\"a\":\n[1, {\"c\": 2}]}, {\"b\": \"x\"}, {\"d", false);
        assert_eq!(array.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    proptest! {
        #[test]
        fn any_text_has_columns(text in "(?s)[{}\\[\\]\":;,|\t\r a1é\n]{0,80}", whole: bool) {
            json_columns(&text, whole);
            csv_columns(&text, whole, sniff::dialect(&text, whole).csv);
        }
    }
}
