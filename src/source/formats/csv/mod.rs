//! Delimited text: the columns from the first record of each file, then a document from each further record.

mod cut;
mod cutter;
mod field;
mod records;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use self::cutter::CsvCutter;
use self::field::append_field;
use self::records::{CsvPiece, CsvRecord, Defect, RecordCutter};
use crate::error::{Context, Error, Result};
use crate::job::{self, Encoding};
use crate::source::bytes::Chunks;
use crate::source::bytes::{decompressed, start};
use crate::source::columns::{column, missing, value_name};
use crate::source::decode::decoded;
use crate::source::documents::DocumentSink;
use crate::source::file::{SourceFile, without_rows};
use crate::source::format::{
    AddedValue, CannotAppend, DocumentReader, EmptyFile, Listing, ParsePlan, ParsedFormat, Reading,
    Rewriting, RowFormat, SourceFormat,
};
use crate::source::parser::{FileToParse, Parser, WantedValues};
use crate::source::rows::RowCutter;
use crate::source::rows::TextPlace;

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "CSV",
    listing: Listing::Files,
    endings: &[".csv", ".tsv", ".txt"],
    empty_file: EmptyFile::NoDocuments,
    reading: Reading::Parser(&CsvFormat),
    rewriting: Rewriting::Rows(&CsvFormat),
};

/// Files whose first record is read at the same time.
const CONCURRENT_HEADS: usize = 32;
/// Bytes of a header beyond which the file is not CSV.
const HEADER_BYTES: usize = 1024 * 1024;

struct CsvFormat;

impl ParsedFormat for CsvFormat {
    fn plan<'a>(
        &'a self,
        ctx: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>> {
        Box::pin(async move {
            let heads: Vec<CsvHead> = stream::iter(files.iter().cloned())
                .map(|file| head(ctx, file, source))
                .buffered(CONCURRENT_HEADS)
                .try_collect()
                .await?;
            let with_columns: Vec<&CsvHead> = heads.iter().filter(|head| !head.columns.is_empty()).collect();
            let Some(first) = with_columns.first() else {
                return Err(without_rows(files.iter().map(|file| file.path()), ["is", "are"], "empty"));
            };
            let is_other = |head: &&&CsvHead| head.columns.iter().all(|name| first.times(name) == 0);
            if let Some(other) = with_columns.iter().find(is_other) {
                return Err(Error::input(format!(
                    "{} has no column of {}: if it is not another table, it has another encoding or delimiter, or no header",
                    other.file.path, first.file.path
                )));
            }
            let mut values = Vec::new();
            for (at, name) in columns.iter().copied().enumerate() {
                if let Some(head) = with_columns.iter().find(|head| head.times(name) > 1) {
                    return Err(Error::job(format!("{} has more than one column `{name}`", head.file.path)));
                }
                if with_columns.iter().all(|head| head.times(name) == 0) {
                    return Err(missing(source, name, &first.file.path, first.columns.iter().cloned()));
                }
                values.push((name.to_owned(), column(value_name(at))));
            }
            warn_of_other_columns(columns, &with_columns);
            let wanted = WantedValues::Columns(columns.iter().map(|name| (*name).to_owned()).collect());
            let files = heads.into_iter().filter(|head| head.has_rows).map(|head| head.file).collect();
            Ok(ParsePlan { wanted, values, files })
        })
    }

    fn reader(&self, parser: &Parser, _: &FileToParse) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Columns(wanted) = &parser.wanted else {
            return Err(Error::bug("a plan to parse CSV names no columns"));
        };
        let job::Source { csv, encoding, .. } = parser.source;
        let places = wanted.iter().map(|name| place_without_header(name)).collect();
        let wanted = wanted.clone();
        let most = parser.source.max_text;
        Ok(Box::new(CsvReader {
            records: RecordCutter::new(csv),
            header: csv.header,
            wanted,
            encoding,
            places,
            most,
        }))
    }

    fn may_be_compressed(&self) -> bool {
        true
    }
}

/// Reads records as documents.
struct CsvReader {
    records: RecordCutter,
    /// Whether the next record names the columns.
    header: bool,
    wanted: Vec<String>,
    encoding: Encoding,
    /// The most bytes of a record.
    most: u64,
    /// The field of each wanted column; `None` if the file has no such column.
    places: Vec<Option<usize>>,
}

impl DocumentReader for CsvReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.records.feed(&std::mem::take(chunk));
        self.records_so_far(false, documents)
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.records_so_far(true, documents)
    }
}

impl CsvReader {
    /// Reads records until the sink is full, or at the end of the file all that are left.
    fn records_so_far(&mut self, is_end: bool, documents: &mut DocumentSink<'_>) -> Result<()> {
        while is_end || !documents.is_full() {
            match self.records.advance(is_end) {
                Some(CsvPiece::Record) => self.record(documents)?,
                Some(CsvPiece::LineEnds) => {}
                None => return self.check_length(documents),
            }
        }
        Ok(())
    }

    /// Checks the length of a record that has not ended.
    fn check_length(&self, documents: &DocumentSink<'_>) -> Result<()> {
        let bytes = self.records.waiting() as u64;
        if bytes <= self.most {
            return Ok(());
        }
        let (source, line) = (documents.source(), self.records.line());
        Err(Error::input(format!(
            "{source} line {line} begins a record of {bytes} bytes or more, which source.max_text does not allow: set it to more, or \
             source.quote to what the file uses"
        )))
    }

    /// Reads the record that was found.
    fn record(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let record = self.records.record();
        if std::mem::take(&mut self.header) {
            let names = names(record, documents.source(), self.encoding)?;
            self.places =
                self.wanted.iter().map(|name| names.iter().position(|other| other == name)).collect();
            return Ok(());
        }
        if let Some(defect) = record.defect {
            return documents.reject(defect.reason(), record.line, &defect.complaint());
        }
        let values: Vec<Option<Cow<'_, [u8]>>> = self
            .places
            .iter()
            .map(|place| record.value((*place)?).filter(|value| !value.is_empty()))
            .collect();
        let texts = values.iter().map(|value| value.as_deref().map(std::str::from_utf8).transpose());
        match texts.collect::<Result<Vec<_>, _>>() {
            Ok(texts) => documents.push(&texts, None),
            Err(_) => documents.reject_bytes(record.line),
        }
    }
}

impl Defect {
    /// The reason, of those in `schemas/rejects.toml`.
    fn reason(self) -> &'static str {
        match self {
            Self::NeverClosed => "truncated",
            Self::Fields(..) | Self::Quotes => "malformed",
        }
    }

    /// The end of the message about a record, which begins with its place.
    fn complaint(self) -> String {
        let quote = match self {
            Self::Fields(fields, columns) => {
                return format!("has {fields} fields, but the others have {columns}");
            }
            Self::Quotes => "has a quote after which the next lines are not one record",
            Self::NeverClosed => "has a quote that is never closed",
        };
        format!(
            "{quote}: write quotes inside a field twice, or set source.quote (\"\" for none) and source.escape to what the file uses"
        )
    }
}

/// The names of the columns in the header of the file at `path`.
fn names(header: CsvRecord<'_>, path: &str, encoding: Encoding) -> Result<Vec<String>> {
    if let Some(defect) = header.defect {
        return Err(Error::input(format!("{path} line {} {}", header.line, defect.complaint())));
    }
    let name = |at| String::from_utf8(header.value(at).unwrap_or_default().into_owned());
    let names: Result<_, _> = (0..header.fields()).map(name).collect();
    names.map_err(|_| Error::input(format!("the header of {path} {}", encoding.complaint())))
}

/// The name of a column of a file without a header.
fn name_without_header(at: usize) -> String {
    format!("column_{}", at + 1)
}

/// The field of the column of this name in a file without a header.
fn place_without_header(name: &str) -> Option<usize> {
    name.strip_prefix("column_")?.parse::<usize>().ok()?.checked_sub(1)
}

/// The fields of the first records of a text, at most this many. Without its last record where the text is not `whole`.
pub(crate) fn first_records(text: &str, whole: bool, csv: job::Csv, most: usize) -> Vec<Vec<String>> {
    let (mut records, mut found) = (RecordCutter::new(csv), Vec::new());
    records.feed(text.as_bytes());
    while found.len() < most
        && let Some(piece) = records.advance(whole)
    {
        let record = records.record();
        let field = |at| String::from_utf8_lossy(&record.value(at).unwrap_or_default()).into_owned();
        found.extend((piece == CsvPiece::Record).then(|| (0..record.fields()).map(field).collect()));
    }
    found
}

impl RowFormat for CsvFormat {
    fn separators(&self, source: &job::Source) -> Vec<u8> {
        let job::Csv { delimiter, quote, escape, .. } = source.csv;
        [delimiter].into_iter().chain(quote).chain(escape).collect()
    }

    fn cutter(&self, source: &job::Source) -> Box<dyn RowCutter> {
        Box::new(CsvCutter::new(source.csv))
    }

    fn has_header(&self, source: &job::Source) -> bool {
        source.csv.header
    }

    fn append_names(
        &self,
        source: &job::Source,
        header: &[u8],
        names: &[&'static str],
        to: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        let records = RecordCutter::of_row(source.csv, header);
        let columns = records.record();
        to.extend_from_slice(header);
        for name in names {
            let is_named = |at| columns.value(at).as_deref() == Some(name.as_bytes());
            if (0..columns.fields()).any(is_named) {
                return Err(name);
            }
            to.push(source.csv.delimiter);
            to.extend_from_slice(name.as_bytes());
        }
        Ok(())
    }

    fn append_values(
        &self,
        source: &job::Source,
        row: &[u8],
        columns: &[(&'static str, AddedValue)],
        to: &mut Vec<u8>,
    ) -> Result<(), CannotAppend> {
        let csv = match source.csv.quotes_end_in_line {
            true => RecordCutter::of_row(source.csv, row).record().csv(),
            false => source.csv,
        };
        to.extend_from_slice(row);
        for (name, value) in columns {
            to.push(csv.delimiter);
            if let AddedValue::Literal(value) | AddedValue::Text(value) = value {
                append_field(csv, value.as_bytes(), to).ok_or(CannotAppend::NeedsQuotes(name))?;
            }
        }
        Ok(())
    }

    fn text_place(&self, source: &job::Source, place: &TextPlace, header: &[u8]) -> Option<TextPlace> {
        let TextPlace::Column(text) = place else { return None };
        let field = match source.csv.header {
            true => {
                let records = RecordCutter::of_row(source.csv, header);
                let columns = records.record();
                (0..columns.fields()).find(|at| columns.value(*at).as_deref() == Some(text.as_bytes()))
            }
            false => place_without_header(text),
        };
        field.map(TextPlace::Field)
    }

    fn cut_text(
        &self,
        source: &job::Source,
        place: &TextPlace,
        row: &[u8],
        spans: &[Range<usize>],
        to: &mut Vec<u8>,
    ) -> Option<()> {
        let TextPlace::Field(field) = place else { return None };
        cut::cut_field(source.csv, row, *field, spans, to)
    }
}

/// The first bytes of a file, read.
struct CsvHead {
    file: Arc<SourceFile>,
    /// The names of the columns; none in an empty file.
    columns: Vec<String>,
    has_rows: bool,
}

impl CsvHead {
    /// The number of columns of this name.
    fn times(&self, name: &str) -> usize {
        self.columns.iter().filter(|column| *column == name).count()
    }
}

async fn head(ctx: &SessionContext, file: Arc<SourceFile>, source: &job::Source) -> Result<CsvHead> {
    let chunks = decompressed(&ctx.runtime_env(), &file.to_parse()).await?;
    let mut chunks = decoded(chunks, source.encoding);
    let failed = || format!("the start of {} cannot be read", file.path);
    let (columns, has_rows) = first(&mut chunks, source, &file.path).await.context(failed)?;
    if !has_rows {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(CsvHead { file, columns, has_rows })
}

/// The names of the columns, and whether there is a row.
async fn first(chunks: &mut Chunks, source: &job::Source, path: &str) -> Result<(Vec<String>, bool)> {
    let csv = source.csv;
    let (mut records, mut columns, mut has_rows) = (RecordCutter::new(csv), None, false);
    let mut chunk = start(chunks).await?;
    // The first chunk may have been the byte order mark alone.
    if chunk.is_empty() {
        chunk = chunks.try_next().await?.unwrap_or_default();
    }
    loop {
        let is_end = chunk.is_empty();
        records.feed(&chunk);
        while let Some(found) = records.advance(is_end) {
            let record = records.record();
            match (found, &columns) {
                (CsvPiece::LineEnds, _) => {}
                (CsvPiece::Record, None) if csv.header => {
                    columns = Some(names(record, path, source.encoding)?)
                }
                (CsvPiece::Record, None) if record.defect.is_none() => {
                    columns = Some((0..record.fields()).map(name_without_header).collect());
                    has_rows = true;
                }
                (CsvPiece::Record, _) => has_rows = true,
            }
            if let (Some(columns), true) = (&columns, has_rows) {
                return Ok((columns.clone(), has_rows));
            }
        }
        // Of the first row only its existence matters.
        if is_end || columns.is_some() && records.waiting() > 0 {
            has_rows |= records.waiting() > 0;
            return Ok((columns.unwrap_or_default(), has_rows));
        }
        if csv.header && records.waiting() > HEADER_BYTES {
            return Err(Error::input(format!(
                "the header is longer than {HEADER_BYTES} bytes: are source.quote and source.delimiter right, and is \
                 there a header?"
            )));
        }
        chunk = chunks.try_next().await?.unwrap_or_default();
    }
}

/// Columns that a warning names.
const SHOWN: usize = 5;

/// Says in which files wanted columns are missing, and which have columns that the first one does not have.
fn warn_of_other_columns(wanted: &[&str], heads: &[&CsvHead]) {
    let first: HashSet<&String> = heads.first().into_iter().flat_map(|head| &head.columns).collect();
    let said = |head: &&CsvHead| {
        let missing = wanted.iter().filter(|name| head.times(name) == 0);
        let missing = missing.map(|name| format!("has no column `{name}`, which is null in its rows"));
        let is_new = |name: &&String| !first.contains(name) && !wanted.contains(&name.as_str());
        let new = head.columns.iter().filter(is_new);
        let new = new.map(|name| format!("has a column `{name}`, which is ignored"));
        let said: Vec<String> = missing.chain(new).take(SHOWN).collect();
        (!said.is_empty()).then(|| format!("{} {}", head.file.path, said.join(", ")))
    };
    let others: Vec<String> = heads.iter().filter_map(said).collect();
    if let Some(first) = others.first() {
        tracing::warn!(files = others.len(), "not all files have the same columns: {first}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(header: bool) -> job::Source {
        let text =
            format!("source = {{ url = 'a.csv', text = 'text', header = {header} }}\noutput.url = 'o'");
        job::resolve(job::file::read(&text, "a", &[]).unwrap()).unwrap().source
    }

    async fn read(chunks: &[&[u8]], header: bool) -> (Vec<String>, bool) {
        let chunks: Vec<_> = chunks.iter().map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        first(&mut stream::iter(chunks).boxed(), &source(header), "a.csv").await.unwrap()
    }

    #[tokio::test]
    async fn a_header_ends_where_its_record_ends() {
        let text: &[u8] = b"\xEF\xBB\xBFid,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n";
        let expected = vec!["id".to_owned(), "a \"b\",\nc".to_owned(), "d".to_owned()];
        assert_eq!(read(&[text], true).await, (expected.clone(), true));
        // However the bytes come.
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single, true).await, (expected, true));
    }

    #[tokio::test]
    async fn rows_are_seen_only_where_there_are_some() {
        assert!(!read(&[b"id,text"], true).await.1);
        assert!(!read(&[b"id,text\r\n\n"], true).await.1);
        assert!(read(&[b"id,text\n1"], true).await.1);
        assert!(read(&[b"id,text\n\n", b"\n", b"1,2\n"], true).await.1);
        assert_eq!(read(&[b"1,2"], false).await, (vec!["column_1".to_owned(), "column_2".to_owned()], true));
        assert_eq!(read(&[b""], false).await, (vec![], false));
    }

    #[tokio::test]
    async fn a_first_record_may_be_long_and_a_header_may_not() {
        let long = "x".repeat(2 * HEADER_BYTES);
        assert!(read(&[b"id,text\n", long.as_bytes(), b",2\n"], true).await.1);
        assert_eq!(read(&[long.as_bytes(), b",", long.as_bytes(), b"\n3,4\n"], false).await.0.len(), 2);
        let chunks = vec![Ok(Bytes::from(long)), Ok(Bytes::from_static(b",b\n"))];
        let error = first(&mut stream::iter(chunks).boxed(), &source(true), "a.csv").await.unwrap_err();
        assert!(error.to_string().contains("the header is longer"), "{error}");
    }
}
