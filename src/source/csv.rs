//! Delimited text: the columns of every file first; the records are read by [`super::reading`].

use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::bytes::{Chunks, decompressed, start};
use super::columns::{Values, column, missing, needed};
use super::decode::decoded;
use super::listing::File;
use super::number_rows::value_name;
use super::parse_files::ParsedTable;
use super::records::{End, Keep, Records};
use super::to_parse::Parser;
use crate::error::{Context, Error, Result};
use crate::job;

/// Files whose first record is read at the same time.
const CONCURRENT_HEADS: usize = 32;
/// Bytes of a header beyond which the file is not CSV.
const HEADER_BYTES: usize = 1024 * 1024;

/// The table of `files`, and the job's columns in it.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when the files differ in their columns;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that they do not have, or have twice.
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<File>],
) -> Result<(ParsedTable, Values)> {
    let heads: Vec<Head> = stream::iter(files.iter().cloned())
        .map(|file| head(ctx, file, source))
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

    let mut wanted = Vec::new();
    for name in needed(source) {
        let mut places = first.columns.iter().enumerate().filter(|(_, c)| *c == name).map(|(i, _)| i);
        let Some(place) = places.next() else {
            return Err(missing(name, &first.file.path, first.columns.iter().cloned()));
        };
        if places.next().is_some() {
            return Err(Error::job(format!("{} has more than one column `{name}`", first.file.path)));
        }
        wanted.push(place);
    }
    let names = needed(source).into_iter().enumerate();
    let values = names.map(|(i, name)| (name.to_owned(), column(value_name(i)))).collect();
    let parser = Parser::Csv {
        encoding: source.encoding,
        csv: source.csv,
        columns: first.columns.len(),
        wanted,
        on_error: source.on_error,
    };
    let full = heads.into_iter().filter(|head| head.has_rows).map(|head| head.file).collect();
    Ok((ParsedTable::new(parser, full), values))
}

fn first_path(files: &[Arc<File>]) -> &str {
    files.first().map_or("the input", |file| &file.path)
}

/// What a file's start tells.
struct Head {
    file: Arc<File>,
    /// The names of the columns; none in an empty file.
    columns: Vec<String>,
    has_rows: bool,
}

async fn head(ctx: &SessionContext, file: Arc<File>, source: &job::Source) -> Result<Head> {
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
/// counts.
async fn first(chunks: &mut Chunks, csv: job::Csv) -> Result<(Vec<Vec<u8>>, bool)> {
    let keep = if csv.header { Keep::All } else { Keep::Columns(Vec::new()) };
    let mut records = Records::new(csv, keep);
    let mut chunk = start(chunks).await?;
    while !next(chunks, &mut chunk, &mut records).await? {
        if records.end() == End::Nothing {
            return Ok((Vec::new(), false));
        }
    }
    if !csv.header {
        return Ok((vec![Vec::new(); records.fields()], true));
    }
    let fields = records.values().to_vec();
    // Nothing of the first row counts but that there is one.
    let mut records = Records::new(csv, Keep::Columns(Vec::new()));
    next_start(chunks, &mut chunk, &mut records).await.map(|has_rows| (fields, has_rows))
}

/// Reads to the end of a record; false where the file ends first.
async fn next(chunks: &mut Chunks, chunk: &mut Bytes, records: &mut Records) -> Result<bool> {
    loop {
        let read = records.read(chunk);
        chunk.advance(read);
        if records.is_done() {
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

/// Reads to where a record has started; false where the file ends first.
async fn next_start(chunks: &mut Chunks, chunk: &mut Bytes, records: &mut Records) -> Result<bool> {
    loop {
        let read = records.read(chunk);
        chunk.advance(read);
        if records.has_started() {
            return Ok(true);
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
