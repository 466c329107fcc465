//! JSON lines: the places and kinds of the wanted values from the first lines of each file, then a document from each line.

mod append;
mod cut;
mod lenient;
pub(in crate::source) mod line;
mod shape;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use self::lenient::with_whole_pairs;
use self::line::{JsonValue, UnusableLine, ValueKind, WantedFields};
use self::shape::{JsonShape, Role, kind_of};
use crate::error::{Context, Error, Result};
use crate::job::{self, Encoding, OnError, SourceId};
use crate::source::bytes::{decompressed, start};
use crate::source::columns::{NamedExpressions, column, missing, value_name};
use crate::source::decode::decoded;
use crate::source::documents::DocumentSink;
use crate::source::file::{SourceFile, without_rows};
use crate::source::format::{
    AddedValue, CannotAppend, DocumentReader, EmptyFile, Listing, ParsePlan, ParsedFormat, Reading,
    Rewriting, RowFormat, SourceFormat,
};
use crate::source::lines::{LineCutter, Lines, without_mark};
use crate::source::parser::{FileToParse, Parser, WantedValues};
use crate::source::rows::RowCutter;
use crate::source::rows::TextPlace;

pub(crate) use self::lenient::readable;

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "JSON lines",
    listing: Listing::Files,
    endings: &[".jsonl", ".jsonlines", ".ndjson", ".json"],
    empty_file: EmptyFile::NoDocuments,
    reading: Reading::Parser(&JsonLines),
    rewriting: Rewriting::Rows(&JsonLines),
};

/// Files whose first rows are read at the same time; each holds up to [`SAMPLE_BYTES`].
const CONCURRENT_SAMPLES: usize = 4;
/// Rows of each file from which the kinds of values are taken.
const SAMPLE_ROWS: usize = 1000;
/// Bytes after which a sample ends with the current row.
const SAMPLE_BYTES: usize = 8 * 1024 * 1024;

struct JsonLines;

impl ParsedFormat for JsonLines {
    /// A name `a.b` is the column of that name, or else field `b` of column `a`.
    fn plan<'a>(
        &'a self,
        ctx: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>> {
        Box::pin(async move {
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
                let path = shape.path(name).ok_or_else(|| {
                    missing(source, name, &format!("the first rows of {first}"), shape.names())
                })?;
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
            let files =
                samples.into_iter().filter(|sample| sample.has_rows).map(|sample| sample.file).collect();
            Ok(ParsePlan { wanted: WantedValues::Fields(wanted), values, files })
        })
    }

    fn reader(&self, parser: &Parser, _: &FileToParse) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Fields(wanted) = &parser.wanted else {
            return Err(Error::bug("a plan to parse JSON lines names no fields"));
        };
        let (wanted, encoding) = (WantedFields::new(wanted), parser.source.encoding);
        let lines = Lines::of_at_most(parser.source.max_text);
        Ok(Box::new(JsonReader { lines, wanted, encoding }))
    }

    fn may_be_compressed(&self) -> bool {
        true
    }
}

/// Reads lines as documents.
struct JsonReader {
    lines: Lines,
    wanted: WantedFields,
    encoding: Encoding,
}

/// A line as it is read in an encoding.
fn in_encoding(line: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    match encoding {
        Encoding::Utf8Lossy => with_whole_pairs(line),
        _ => Cow::Borrowed(line),
    }
}

impl DocumentReader for JsonReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        while !documents.is_full()
            && let Some(line) = self.lines.next(chunk)
        {
            self.line(&line, documents)?;
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        match self.lines.end() {
            Some(line) => self.line(&line, documents),
            None => Ok(()),
        }
    }
}

impl JsonReader {
    fn line(&self, line: &[u8], documents: &mut DocumentSink<'_>) -> Result<()> {
        if let Some(bytes) = self.lines.too_long() {
            return documents.push_too_long(self.lines.line(), bytes);
        }
        match self.wanted.read(&in_encoding(without_mark(line), self.encoding)) {
            Ok(None) => Ok(()),
            Ok(Some(values)) => {
                let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
                documents.push(&values, None)
            }
            Err(UnusableLine::Malformed(why)) => documents.reject("malformed", self.lines.line(), &why),
            Err(UnusableLine::NotUtf8) => documents.reject_bytes(self.lines.line()),
        }
    }
}

impl RowFormat for JsonLines {
    fn separators(&self, _: &job::Source) -> Vec<u8> {
        Vec::new()
    }

    fn cutter(&self, _: &job::Source) -> Box<dyn RowCutter> {
        Box::new(LineCutter::default())
    }

    /// A line that is not an object stays as it is.
    fn append_values(
        &self,
        _: &job::Source,
        row: &[u8],
        columns: &[(&'static str, AddedValue)],
        to: &mut Vec<u8>,
    ) -> Result<(), CannotAppend> {
        append::append_fields(row, columns, to).map_err(CannotAppend::Exists)
    }

    fn cut_text(
        &self,
        _: &job::Source,
        place: &TextPlace,
        row: &[u8],
        spans: &[Range<usize>],
        to: &mut Vec<u8>,
    ) -> Option<()> {
        let TextPlace::Path(path) = place else { return None };
        cut::cut_string(row, path, spans, to)
    }
}

/// The kinds of values in the first rows of a file.
struct JsonSample {
    file: Arc<SourceFile>,
    shape: JsonShape,
    has_rows: bool,
}

async fn sample(ctx: &SessionContext, file: Arc<SourceFile>, source: &job::Source) -> Result<JsonSample> {
    let failed = || format!("the start of {} cannot be read", file.path);
    let chunks = decompressed(&ctx.runtime_env(), &file.to_parse()).await?;
    let mut chunks = decoded(chunks, source.encoding);
    let mut chunk = start(&mut chunks).await.context(failed)?;
    let mut rows = SampledRows { shape: JsonShape::default(), count: 0, path: &file.path, source };
    let mut lines = Lines::of_at_most(source.max_text);
    let mut read = chunk.len();
    while rows.count < SAMPLE_ROWS && (read < SAMPLE_BYTES || rows.count == 0) {
        if let Some(line) = lines.next(&mut chunk) {
            // A line that is too long is empty, and says nothing about the others.
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
    let SampledRows { shape, count, .. } = rows;
    if count == 0 {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(JsonSample { file, shape, has_rows: count > 0 })
}

struct SampledRows<'a> {
    shape: JsonShape,
    count: usize,
    path: &'a str,
    source: &'a job::Source,
}

impl SampledRows<'_> {
    fn take(&mut self, line: &[u8], number: u64) -> Result<()> {
        let line = without_mark(line);
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.count += 1;
        let line = in_encoding(line, self.source.encoding);
        let text = std::str::from_utf8(&line).map_err(|_| self.source.encoding.complaint());
        let why = match text.map(|text| self.shape.add_row(text)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_data() => "is not a JSON object: each line must be one".to_owned(),
            Ok(Err(error)) if number == 1 => {
                format!("is not JSON ({error}); expected one JSON object per line, not one document per file")
            }
            Ok(Err(error)) => format!("is not JSON ({error})"),
            Err(why) => why,
        };
        match self.source.on_error {
            OnError::Error => Err(Error::input(format!("{} line {number} {why}", self.path))),
            // The reader puts it into the rejects.
            OnError::Reject => Ok(()),
        }
    }
}
