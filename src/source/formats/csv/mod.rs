//! Delimited text: the columns from the first record of each file, then a document from each further record.

mod cut;
mod cutter;
mod field;
mod records;

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use self::cutter::CsvCutter;
use self::field::append_field;
use self::records::{End, Keep, Records};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::source::bytes::{Chunks, decompressed, start};
use crate::source::columns::{column, missing, value_name};
use crate::source::decode::decoded;
use crate::source::documents::DocumentSink;
use crate::source::file::SourceFile;
use crate::source::format::{
    AddedValue, DocumentReader, EmptyFile, Listing, ParsePlan, ParsedFormat, Reading, Rewriting, RowFormat,
    SourceFormat,
};
use crate::source::parser::{FileToParse, Parser, WantedValues};
use crate::source::rows::RowCutter;
use crate::source::text_place::TextPlace;

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "CSV",
    listing: Listing::Files,
    endings: &[".csv", ".tsv", ".txt"],
    empty_file: EmptyFile::NoDocuments,
    reading: Reading::Parser(&Csv),
    rewriting: Rewriting::Rows(&Csv),
};

/// Files whose first record is read at the same time.
const CONCURRENT_HEADS: usize = 32;
/// Bytes of a header beyond which the file is not CSV.
const HEADER_BYTES: usize = 1024 * 1024;

struct Csv;

impl ParsedFormat for Csv {
    fn plan<'a>(
        &'a self,
        ctx: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>> {
        Box::pin(async move {
            let heads: Vec<Head> = stream::iter(files.iter().cloned())
                .map(|file| head(ctx, file, source))
                .buffered(CONCURRENT_HEADS)
                .try_collect()
                .await?;
            let with_columns: Vec<&Head> = heads.iter().filter(|head| !head.columns.is_empty()).collect();
            let Some(first) = with_columns.first() else {
                let path = files.first().map_or("the input", |file| &file.path);
                return Err(Error::input(format!("{path} and all other files of the input are empty")));
            };
            for other in &with_columns[1..] {
                same_columns(first, other, source.csv.header)?;
            }

            let (mut wanted, mut values) = (Vec::new(), Vec::new());
            for (at, name) in columns.iter().copied().enumerate() {
                let mut places = first.columns.iter().enumerate().filter(|(_, c)| *c == name).map(|(i, _)| i);
                let Some(place) = places.next() else {
                    return Err(missing(source, name, &first.file.path, first.columns.iter().cloned()));
                };
                if places.next().is_some() {
                    return Err(Error::job(format!("{} has more than one column `{name}`", first.file.path)));
                }
                wanted.push(place);
                values.push((name.to_owned(), column(value_name(at))));
            }
            let wanted = WantedValues::Columns { columns: first.columns.len(), wanted };
            let files = heads.into_iter().filter(|head| head.has_rows).map(|head| head.file).collect();
            Ok(ParsePlan { wanted, values, files })
        })
    }

    fn reader(&self, parser: &Parser, _: &FileToParse) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Columns { columns, wanted } = &parser.wanted else {
            return Err(Error::bug("a plan to parse CSV names no columns"));
        };
        let mut places = vec![None; *columns];
        for (value, column) in wanted.iter().enumerate() {
            if let Some(place) = places.get_mut(*column) {
                *place = Some(value);
            }
        }
        let csv = parser.source.csv;
        let records = Records::new(csv, Keep::Columns(places));
        Ok(Box::new(CsvReader { records, header: csv.header, columns: *columns }))
    }

    fn may_be_compressed(&self) -> bool {
        true
    }
}

/// Reads records as documents.
struct CsvReader {
    records: Records,
    /// Whether the next record names the columns.
    header: bool,
    columns: usize,
}

impl DocumentReader for CsvReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        while !chunk.is_empty() && !documents.is_full() {
            chunk.advance(self.records.read(chunk));
            if self.records.is_done() {
                self.record(End::Record, documents)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        match self.records.end() {
            End::Nothing => Ok(()),
            end => self.record(end, documents),
        }
    }
}

impl CsvReader {
    /// Reads the record that has ended.
    fn record(&mut self, end: End, documents: &mut DocumentSink<'_>) -> Result<()> {
        let is_header = std::mem::take(&mut self.header);
        let (line, fields, columns) = (self.records.record_line(), self.records.fields(), self.columns);
        let values = self.records.values().iter().map(|value| match value.is_empty() {
            true => Ok(None),
            false => std::str::from_utf8(value).map(Some),
        });
        let read = match end {
            End::Quoted(quote) => documents.reject(
                "truncated",
                quote,
                "has a quote that is never closed, so that the rest of the file is one field: close it, or set \
                 [source] quote to what the file uses",
            ),
            _ if fields != columns => {
                documents.reject("malformed", line, &format!("has {fields} fields, but the others have {columns}"))
            }
            _ if is_header => Ok(()),
            _ => match values.collect::<Result<Vec<_>, _>>() {
                Ok(values) => documents.push(&values, None),
                Err(_) => documents.reject_bytes(line),
            },
        };
        self.records.next();
        read
    }
}

impl RowFormat for Csv {
    fn separators(&self, source: &job::Source) -> Vec<u8> {
        vec![source.csv.delimiter, source.csv.quote]
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
        let mut records = Records::new(source.csv, Keep::All);
        records.read(header);
        records.end();
        to.extend_from_slice(header);
        for name in names {
            if records.values().iter().any(|column| column == name.as_bytes()) {
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
    ) -> Result<(), &'static str> {
        to.extend_from_slice(row);
        for (_, value) in columns {
            to.push(source.csv.delimiter);
            match value {
                AddedValue::Null => {}
                AddedValue::Literal(value) | AddedValue::Text(value) => {
                    append_field(source.csv, value.as_bytes(), to);
                }
            }
        }
        Ok(())
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
struct Head {
    file: Arc<SourceFile>,
    /// The names of the columns; none in an empty file.
    columns: Vec<String>,
    has_rows: bool,
}

async fn head(ctx: &SessionContext, file: Arc<SourceFile>, source: &job::Source) -> Result<Head> {
    let csv = source.csv;
    let store = ctx.runtime_env().object_store(&file.store)?;
    let chunks = decompressed(store.as_ref(), &file.to_parse()).await?;
    let mut chunks = decoded(chunks, source.encoding);
    let (fields, has_rows) =
        first(&mut chunks, csv).await.context(|| format!("the start of {} cannot be read", file.path))?;
    let columns = if csv.header {
        fields
            .into_iter()
            .map(|name| {
                String::from_utf8(name).map_err(|_| {
                    Error::input(format!("the header of {} {}", file.path, source.encoding.complaint()))
                })
            })
            .collect::<Result<_>>()?
    } else {
        (1..=fields.len()).map(|i| format!("column_{i}")).collect()
    };
    if !has_rows {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(Head { file, columns, has_rows })
}

/// The fields of the first record, and whether there is a row. Without a header the fields are empty: only their number
/// matters.
async fn first(chunks: &mut Chunks, csv: job::Csv) -> Result<(Vec<Vec<u8>>, bool)> {
    let keep = if csv.header { Keep::All } else { Keep::Columns(Vec::new()) };
    let mut records = Records::new(csv, keep);
    let mut chunk = start(chunks).await?;
    if !read_until(Records::is_done, chunks, &mut chunk, &mut records).await? && records.end() == End::Nothing
    {
        return Ok((Vec::new(), false));
    }
    if !csv.header {
        return Ok((vec![Vec::new(); records.fields()], true));
    }
    let fields = records.values().to_vec();
    // Of the first row only its existence matters.
    let mut records = Records::new(csv, Keep::Columns(Vec::new()));
    let has_rows = read_until(Records::has_started, chunks, &mut chunk, &mut records).await?;
    Ok((fields, has_rows))
}

/// Reads until `reached` holds. Returns false where the file ends first.
async fn read_until(
    reached: fn(&Records) -> bool,
    chunks: &mut Chunks,
    chunk: &mut Bytes,
    records: &mut Records,
) -> Result<bool> {
    loop {
        chunk.advance(records.read(chunk));
        if reached(records) {
            return Ok(true);
        }
        if records.kept() > HEADER_BYTES {
            return Err(Error::input(format!(
                "the header is longer than {HEADER_BYTES} bytes: are source.quote and source.delimiter right, and is \
                 there a header?"
            )));
        }
        match chunks.try_next().await? {
            Some(more) => *chunk = more,
            None => return Ok(false),
        }
    }
}

fn same_columns(first: &Head, other: &Head, header: bool) -> Result<()> {
    if first.columns == other.columns {
        return Ok(());
    }
    let (a, b) = (&first.file.path, &other.file.path);
    let (n, m) = (first.columns.len(), other.columns.len());
    let difference = first
        .columns
        .iter()
        .zip(&other.columns)
        .enumerate()
        .find(|(_, (x, y))| x != y)
        .map(|(i, (x, y))| format!("column {} is `{y}` there and `{x}` here", i + 1));
    let difference = match difference {
        Some(difference) if header => difference,
        _ => format!("{m} columns there and {n} here"),
    };
    Err(Error::input(format!("the columns of {b} are not those of {a}: {difference}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: &[&[u8]], header: bool) -> (Vec<String>, bool) {
        let chunks: Vec<_> = chunks.iter().map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let csv = job::Csv { delimiter: b',', header, quote: b'"' };
        let (fields, has_rows) = first(&mut stream::iter(chunks).boxed(), csv).await.unwrap();
        (fields.into_iter().map(|f| String::from_utf8(f).unwrap()).collect(), has_rows)
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
        assert_eq!(read(&[b"1,2"], false).await, (vec![String::new(), String::new()], true));
        assert_eq!(read(&[b""], false).await, (vec![], false));
    }

    #[tokio::test]
    async fn a_first_record_may_be_long_and_a_header_may_not() {
        let long = "x".repeat(2 * HEADER_BYTES);
        assert!(read(&[b"id,text\n", long.as_bytes(), b",2\n"], true).await.1);
        assert_eq!(read(&[long.as_bytes(), b",", long.as_bytes(), b"\n3,4\n"], false).await.0.len(), 2);
        let csv = job::Csv { delimiter: b',', header: true, quote: b'"' };
        let chunks = vec![Ok(Bytes::from(long)), Ok(Bytes::from_static(b",b\n"))];
        let error = first(&mut stream::iter(chunks).boxed(), csv).await.unwrap_err();
        assert!(error.to_string().contains("the header is longer"), "{error}");
    }
}
