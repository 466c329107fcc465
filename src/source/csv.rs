//! Delimited text: headers first, then the engine's reader, every column a string.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::bytes::{compression, stream};
use super::chunks::{Piece, batch_rows};
use super::columns::{Values, column, missing, needed};
use super::listing::File;
use super::number_rows::value_name;
use super::scan::{FileTable, Reader, Scan};
use crate::error::{Context, Error, Result};
use crate::job;

/// Files whose first record is read at the same time.
const CONCURRENT_HEADS: usize = 32;
/// Bytes of a header beyond which the file is no CSV.
const HEADER_BYTES: usize = 1024 * 1024;
/// The URL of the local disk's store.
const LOCAL: &str = "file:///";
/// Bytes of rows from which the length of a row is taken.
const SAMPLE_BYTES: u64 = 256 * 1024;
/// Rows that a batch holds at most.
const BATCH_ROWS: usize = 1024;

/// The table of `files`, and the job's columns in it.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when the files differ in their columns;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that they do not have.
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<File>],
) -> Result<(FileTable, Values)> {
    let heads: Vec<Head> = stream::iter(files.iter().cloned())
        .map(|file| head(ctx, file, &source.csv))
        .buffered(CONCURRENT_HEADS)
        .try_collect()
        .await?;
    let with_columns: Vec<&Head> = heads.iter().filter(|head| !head.columns.is_empty()).collect();
    let Some(first) = with_columns.first() else {
        return Err(Error::input(format!(
            "{} and all other files of the input are empty",
            first_path(files)
        )));
    };
    for other in &with_columns[1..] {
        same_columns(first, other, source.csv.header)?;
    }

    let mut columns = Vec::new();
    for name in needed(source) {
        let mut places = first.columns.iter().enumerate().filter(|(_, c)| *c == name).map(|(i, _)| i);
        let Some(place) = places.next() else {
            return Err(missing(name, &first.file.path, first.columns.iter().cloned()));
        };
        if places.next().is_some() {
            return Err(Error::job(format!("{} has more than one column `{name}`", first.file.path)));
        }
        columns.push(place);
    }
    // The reader goes by places; names would have to be distinct.
    let fields: Vec<Field> =
        (0..first.columns.len()).map(|i| Field::new(value_name(i), DataType::Utf8View, true)).collect();

    let full = heads.iter().filter(|head| head.rows > 0).map(|head| (&head.file, head.bytes / head.rows));
    let values = needed(source)
        .iter()
        .enumerate()
        .map(|(i, name)| (name.to_string(), column(value_name(i))))
        .collect();
    let table = FileTable::new(Reader::Csv(source.csv), Arc::new(Schema::new(fields)), columns, scans(full)?);
    Ok((table, values))
}

fn first_path(files: &[Arc<File>]) -> &str {
    files.first().map_or("the input", |file| &file.path)
}

/// Whole files, each with the bytes of a row, by store and compression, which a scan has one of.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) for zstd that is not on a local disk: there the engine would read its first
/// frame and take that for the file.
pub(super) fn scans<'a>(files: impl Iterator<Item = (&'a Arc<File>, u64)>) -> Result<Vec<Scan>> {
    let mut scans: Vec<Scan> = Vec::new();
    for (file, row_bytes) in files {
        let compression = compression(file);
        if compression == FileCompressionType::ZSTD && file.store.as_str() != LOCAL {
            return Err(Error::input(format!(
                "{} is zstd in an object store, which cannot be read safely: copy it to a local disk, or store it as gzip",
                file.path
            )));
        }
        let batch_rows = batch_rows(row_bytes, BATCH_ROWS);
        let piece = Piece::whole(file);
        match scans.iter_mut().find(|scan| scan.store == file.store && scan.compression == compression) {
            Some(scan) => {
                scan.batch_rows = scan.batch_rows.min(batch_rows);
                scan.pieces.push(piece);
            }
            None => {
                scans.push(Scan { store: file.store.clone(), compression, batch_rows, pieces: vec![piece] })
            }
        }
    }
    Ok(scans)
}

/// What a file's start tells.
struct Head {
    file: Arc<File>,
    /// The names of the columns; none in an empty file.
    columns: Vec<String>,
    /// Rows of the sample; none only where the file has none.
    rows: u64,
    /// Bytes of those rows.
    bytes: u64,
}

async fn head(ctx: &SessionContext, file: Arc<File>, csv: &job::Csv) -> Result<Head> {
    let store = ctx.runtime_env().object_store(&file.store)?;
    let mut bytes = stream(store.as_ref(), &file).await?;
    let Start { fields, rows, bytes } =
        start(&mut bytes, csv).await.context(|| format!("the start of {} cannot be read", file.path))?;
    let columns = if csv.header {
        fields
            .into_iter()
            .map(|name| {
                String::from_utf8(name).map_err(|_| {
                    Error::input(format!("the header of {} is not UTF-8: convert the file", file.path))
                })
            })
            .collect::<Result<_>>()?
    } else {
        (1..=fields.len()).map(|i| format!("column_{i}")).collect()
    };
    if rows == 0 {
        tracing::warn!(file = file.path, "this file has no rows");
    }
    Ok(Head { file, columns, rows, bytes })
}

/// What the start of a file holds.
struct Start {
    /// The fields of the first record; without a header only their number counts.
    fields: Vec<Vec<u8>>,
    /// Rows that are whole in the sample, or 1 where the first is longer. The header is none.
    rows: u64,
    /// Bytes of those rows.
    bytes: u64,
}

/// Reads the first record and about [`SAMPLE_BYTES`] of rows. Without a header a first record of any length is read to its
/// end, since nothing else tells the number of columns.
async fn start(
    bytes: &mut BoxStream<'static, Result<Bytes, DataFusionError>>,
    csv: &job::Csv,
) -> Result<Start> {
    // A byte order mark is no part of the first name. It may come in pieces.
    let mut first = Vec::new();
    while first.len() < 3 {
        match bytes.try_next().await? {
            Some(more) => first.extend_from_slice(&more),
            None => break,
        }
    }
    let mut chunk = Bytes::from(first);
    if chunk.starts_with(b"\xEF\xBB\xBF") {
        chunk = chunk.slice(3..);
    }

    let mut record = Record::new(csv);
    let mut start = Start { fields: Vec::new(), rows: 0, bytes: 0 };
    let mut header = csv.header;
    // Bytes since the last record ended.
    let mut pending = 0;
    loop {
        for byte in &chunk {
            pending += 1;
            record.push(*byte)?;
            if record.done() {
                start.take(&mut record, &mut pending, &mut header);
            }
        }
        let first = !start.fields.is_empty() && (start.rows > 0 || record.started());
        let sampled = first && start.bytes + pending >= SAMPLE_BYTES;
        if sampled && start.rows > 0 {
            return Ok(start);
        }
        match bytes.try_next().await? {
            Some(more) if !sampled => chunk = more,
            // The end of the file ends its last record, and a first row longer than the sample is a row.
            _ => break,
        }
    }
    record.end();
    if record.done() {
        start.take(&mut record, &mut pending, &mut header);
    }
    Ok(start)
}

impl Start {
    /// A record has ended: the header, or a row of `bytes` bytes.
    fn take(&mut self, record: &mut Record, bytes: &mut u64, header: &mut bool) {
        let fields = record.take();
        if self.fields.is_empty() {
            self.fields = fields;
        }
        let bytes = std::mem::take(bytes);
        if !std::mem::take(header) {
            self.rows += 1;
            self.bytes += bytes;
        }
    }
}

/// Takes a record apart byte by byte, as RFC 4180 and the engine's reader do.
struct Record {
    delimiter: u8,
    quote: u8,
    keep: bool,
    state: State,
    field: Vec<u8>,
    fields: Vec<Vec<u8>>,
    kept: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the record's first byte.
    Before,
    FieldStart,
    Plain,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two.
    Quote,
    Done,
}

impl Record {
    fn new(csv: &job::Csv) -> Self {
        Self {
            delimiter: csv.delimiter,
            quote: csv.quote,
            keep: csv.header,
            state: State::Before,
            field: Vec::new(),
            fields: Vec::new(),
            kept: 0,
        }
    }

    /// The fields of the record that is done. After it nothing but the number of records is of interest.
    fn take(&mut self) -> Vec<Vec<u8>> {
        self.keep = false;
        self.state = State::Before;
        std::mem::take(&mut self.fields)
    }

    fn started(&self) -> bool {
        self.state != State::Before
    }

    fn done(&self) -> bool {
        self.state == State::Done
    }

    fn push(&mut self, byte: u8) -> Result<()> {
        let starts = matches!(self.state, State::Before | State::FieldStart);
        self.state = match self.state {
            State::Done => return Ok(()),
            State::Before if matches!(byte, b'\n' | b'\r') => State::Before,
            State::Quoted if byte == self.quote => State::Quote,
            State::Quoted => self.add(byte, State::Quoted)?,
            State::Quote if byte == self.quote => self.add(byte, State::Quoted)?,
            _ if starts && byte == self.quote => State::Quoted,
            _ if byte == self.delimiter => {
                self.close();
                State::FieldStart
            }
            _ if matches!(byte, b'\n' | b'\r') => {
                self.close();
                State::Done
            }
            _ => self.add(byte, State::Plain)?,
        };
        Ok(())
    }

    fn add(&mut self, byte: u8, next: State) -> Result<State> {
        if self.keep {
            self.kept += 1;
            if self.kept > HEADER_BYTES {
                return Err(Error::input(format!(
                    "the header is longer than {HEADER_BYTES} bytes: is the quote or the delimiter another one, or is there no header?"
                )));
            }
            self.field.push(byte);
        }
        Ok(next)
    }

    fn close(&mut self) {
        self.fields.push(std::mem::take(&mut self.field));
    }

    /// The file ended.
    fn end(&mut self) {
        if !matches!(self.state, State::Before | State::Done) {
            self.close();
            self.state = State::Done;
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

    async fn read(chunks: &[&[u8]], header: bool) -> (Vec<String>, u64) {
        let chunks: Vec<_> = chunks.iter().map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let csv = job::Csv { delimiter: b',', header, quote: b'"' };
        let start = start(&mut stream::iter(chunks).boxed(), &csv).await.unwrap();
        (start.fields.into_iter().map(|f| String::from_utf8(f).unwrap()).collect(), start.rows)
    }

    #[tokio::test]
    async fn a_header_ends_where_its_record_ends() {
        let text: &[u8] = b"\xEF\xBB\xBFid,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n";
        let expected = vec!["id".to_owned(), "a \"b\",\nc".to_owned(), "d".to_owned()];
        assert_eq!(read(&[text], true).await, (expected.clone(), 1));
        // However the bytes come.
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single, true).await, (expected, 1));
    }

    #[tokio::test]
    async fn rows_are_seen_only_where_there_are_some() {
        assert_eq!(read(&[b"id,text"], true).await.1, 0);
        assert_eq!(read(&[b"id,text\r\n\n"], true).await.1, 0);
        assert_eq!(read(&[b"id,text\n1"], true).await.1, 1);
        assert_eq!(read(&[b"id,text\n1,\"a\nb\"\n\n2,c\n"], true).await.1, 2);
        assert_eq!(read(&[b"1,2"], false).await, (vec![String::new(), String::new()], 1));
        assert_eq!(read(&[b""], false).await, (vec![], 0));
        let blank = "\n".repeat(2 * SAMPLE_BYTES as usize);
        assert_eq!(read(&[b"id,text\n", blank.as_bytes(), b"1,2"], true).await.1, 1);
    }

    #[tokio::test]
    async fn rows_longer_than_the_sample_count() {
        let long = "x".repeat(2 * SAMPLE_BYTES as usize);
        assert_eq!(read(&[b"id,text\n", long.as_bytes(), b",2\n"], true).await.1, 1);
        assert_eq!(read(&[long.as_bytes(), b",", long.as_bytes(), b"\n3,4\n"], false).await.0.len(), 2);
    }
}
