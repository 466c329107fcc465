//! CSV: the first record of each file contains the column names, and each of the other records is a document.

mod records;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use self::records::{CsvRecord, RecordCutter, append_field, append_quoted};
use crate::error::counts::counted;
use crate::error::{Error, Result};
use crate::job::{self, Encoding};
use crate::kernel::text::common_passages::without_spans;
use crate::source::file::{SourceFile, without_rows};
use crate::source::format::{
    AddedColumn, AddedValue, CannotAppend, DocumentReader, FilePiece, ParsePlan, ParseRequest, ParsedFormat,
    Parser, Reading, Rewriting, Row, RowCutter, RowFormat, SourceFormat, TextCut, TextPlace, WantedValues,
};
use crate::source::reading::documents::{DocumentSink, RowPlace};
use crate::source::rows::columns::{column, missing, value_name};

pub(super) const CSV: SourceFormat = SourceFormat {
    title: "CSV",
    endings: job::Format::Csv.rules().endings,
    reading: Reading::Parser(&CsvFormat),
    rewriting: Rewriting::Rows(&CsvFormat),
};

/// The number of files whose first record is read at the same time.
const CONCURRENT_HEADS: usize = 32;
/// The maximum length of a header, in bytes.
const HEADER_BYTES: usize = 1024 * 1024;
/// The maximum number of files that a warning names, and of columns for each file.
const SHOWN: usize = 5;

struct CsvFormat;

#[async_trait]
impl ParsedFormat for CsvFormat {
    async fn plan(
        &self,
        ParseRequest { ctx, source, columns, files }: ParseRequest<'_>,
    ) -> Result<ParsePlan> {
        let heads: Vec<CsvHead> = stream::iter(files.iter().cloned())
            .map(|file| head(ctx, file, source))
            .buffered(CONCURRENT_HEADS)
            .try_collect()
            .await?;
        let with_columns: Vec<&CsvHead> = heads.iter().filter(|head| !head.columns.is_empty()).collect();
        let Some(first) = with_columns.first() else {
            return Err(without_rows(files.iter().map(|file| file.path()), ["is", "are"], "empty"));
        };
        let is_other = |head: &&&CsvHead| head.columns.iter().all(|name| first.count(name) == 0);
        if let Some(other) = with_columns.iter().find(is_other) {
            return Err(Error::input(format!(
                "{} has none of the columns of {}: check that both are of one table, with one encoding and delimiter, and a header",
                other.file.path, first.file.path
            )));
        }
        for name in columns {
            if let Some(head) = with_columns.iter().find(|head| head.count(name) > 1) {
                return Err(Error::job(format!("{} has more than one column `{name}`", head.file.path)));
            }
            if with_columns.iter().all(|head| head.count(name) == 0) {
                return Err(missing(source, name, &first.file.path, first.columns.iter().cloned()));
            }
        }
        let warning = other_columns(columns, &with_columns);
        warning.iter().for_each(|warning| tracing::warn!("{warning}"));
        let wanted: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let values = wanted.iter().enumerate().map(|(at, name)| (name.clone(), column(value_name(at))));
        let values = values.collect();
        let files = heads.into_iter().filter(|head| head.has_rows).map(|head| head.file).collect();
        Ok(ParsePlan { warning, ..ParsePlan::new(WantedValues::Columns(wanted), values, files) })
    }

    fn reader(&self, parser: &Parser, _: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        let WantedValues::Columns(wanted) = &parser.wanted else {
            return Err(Error::bug("a plan to parse CSV names no columns"));
        };
        let job::Source { csv, encoding, max_text, .. } = parser.source;
        let places = wanted.iter().map(|name| place_without_header(name)).collect();
        let (records, wanted) = (RecordCutter::new(csv), wanted.clone());
        Ok(Box::new(CsvReader { records, wanted, encoding, max_text, places }))
    }
}

struct CsvReader {
    records: RecordCutter,
    wanted: Vec<String>,
    encoding: Encoding,
    max_text: u64,
    /// The index of the field of each wanted column, or `None` if the file has no such column.
    places: Vec<Option<usize>>,
}

impl DocumentReader for CsvReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.records.feed(std::mem::take(chunk));
        self.read_records(false, documents)
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.read_records(true, documents)
    }
}

impl CsvReader {
    /// Reads records until the sink is full. At the end of the file, reads all remaining records.
    fn read_records(&mut self, is_end: bool, documents: &mut DocumentSink<'_>) -> Result<()> {
        while is_end || !documents.is_full() {
            match self.records.next_piece(is_end) {
                Some(FilePiece::Row(_)) => self.row(documents)?,
                Some(FilePiece::Header(..)) => {
                    let names = names(self.records.record(), documents.path(), self.encoding)?;
                    let place = |name: &String| names.iter().position(|other| other == name);
                    self.places = self.wanted.iter().map(place).collect();
                }
                Some(FilePiece::Other(_)) => {}
                None => return self.check_length(documents),
            }
        }
        Ok(())
    }

    /// Checks the length of a record that is still incomplete.
    fn check_length(&self, documents: &DocumentSink<'_>) -> Result<()> {
        let bytes = self.records.waiting() as u64;
        if bytes <= self.max_text {
            return Ok(());
        }
        let (path, line) = (documents.path(), self.records.line());
        Err(Error::input(format!(
            "{path} line {line} begins a record of {bytes} bytes or more, which source.max_text does not allow: set it to more, or \
             source.quote to what the file uses"
        )))
    }

    fn row(&self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let record = self.records.record();
        if let Some(defect) = record.defect {
            return documents.reject(defect.reason(), RowPlace::Line(record.line), &defect.complaint());
        }
        let value = |place: &Option<usize>| record.value((*place)?).filter(|value| !value.is_empty());
        let values: Vec<Option<Cow<'_, [u8]>>> = self.places.iter().map(value).collect();
        let texts = values.iter().map(|value| value.as_deref().map(std::str::from_utf8).transpose());
        match texts.collect::<Result<Vec<_>, _>>() {
            Ok(texts) => documents.push(&texts, None),
            Err(_) => documents.reject_bytes(RowPlace::Line(record.line)),
        }
    }
}

fn names(header: CsvRecord<'_>, path: &str, encoding: Encoding) -> Result<Vec<String>> {
    if let Some(defect) = header.defect {
        return Err(Error::input(format!("{path} line {} {}", header.line, defect.complaint())));
    }
    let names: Result<_, _> = header.values().map(|name| String::from_utf8(name.into_owned())).collect();
    names.map_err(|_| Error::input(format!("the header of {path} {}", encoding.complaint())))
}

fn place_without_header(name: &str) -> Option<usize> {
    name.strip_prefix("column_")?.parse::<usize>().ok()?.checked_sub(1)
}

/// Returns the fields of at most `most` records at the start of a text. If `whole` is false, the last record is skipped.
pub(crate) fn first_records(text: &str, whole: bool, csv: job::Csv, most: usize) -> Vec<Vec<String>> {
    let (mut records, mut found) = (RecordCutter::new(csv), Vec::new());
    records.feed(Bytes::copy_from_slice(text.as_bytes()));
    while found.len() < most
        && let Some(piece) = records.next_piece(whole)
    {
        if !matches!(piece, FilePiece::Other(_)) {
            let values = records.record().values();
            found.push(values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect());
        }
    }
    found
}

impl RowFormat for CsvFormat {
    fn separators(&self, source: &job::Source) -> Vec<u8> {
        let job::Csv { delimiter, quote, escape, .. } = source.csv;
        [delimiter].into_iter().chain(quote).chain(escape).collect()
    }

    fn cutter(&self, source: &job::Source) -> Box<dyn RowCutter> {
        Box::new(RecordCutter::new(source.csv))
    }

    fn has_header(&self, source: &job::Source) -> bool {
        source.csv.header
    }

    fn with_names(
        &self,
        source: &job::Source,
        header: &[u8],
        names: &[&'static str],
    ) -> Result<Vec<u8>, &'static str> {
        let records = RecordCutter::from_record(source.csv, header);
        let mut to = header.to_vec();
        for name in names {
            if records.record().values().any(|value| *value == *name.as_bytes()) {
                return Err(name);
            }
            to.push(source.csv.delimiter);
            to.extend_from_slice(name.as_bytes());
        }
        Ok(to)
    }

    fn with_values(
        &self,
        source: &job::Source,
        row: &[u8],
        columns: &[AddedColumn],
    ) -> Result<Vec<u8>, CannotAppend> {
        let mut csv = source.csv;
        if csv.quotes_end_in_line {
            csv = RecordCutter::from_record(csv, row).record().csv;
        }
        let mut to = row.to_vec();
        for (name, value) in columns {
            to.push(csv.delimiter);
            if let AddedValue::Literal(value) | AddedValue::Text(value) = value {
                append_field(csv, value.as_bytes(), &mut to).ok_or(CannotAppend::NeedsQuotes(name))?;
            }
        }
        Ok(to)
    }

    fn text_place(&self, source: &job::Source, place: &TextPlace, header: &[u8]) -> Option<TextPlace> {
        let TextPlace::Column(text) = place else { return None };
        let field = if source.csv.header {
            let records = RecordCutter::from_record(source.csv, header);
            records.record().values().position(|value| *value == *text.as_bytes())
        } else {
            place_without_header(text)
        };
        field.map(TextPlace::Field)
    }

    fn cut_text(&self, source: &job::Source, TextCut { row, place, spans }: TextCut<'_>) -> Option<Vec<u8>> {
        let TextPlace::Field(field) = place else { return None };
        cut_field(source.csv, row, *field, spans)
    }
}

/// Returns a record without `spans` of a field's value. A quoted field stays quoted, and other bytes do not change. Returns `None`
/// if the record lacks the field, or if the spans do not fit its value.
fn cut_field(csv: job::Csv, record: &[u8], field: usize, spans: &[Range<usize>]) -> Option<Vec<u8>> {
    let records = RecordCutter::from_record(csv, record);
    let read = records.record();
    let (place, csv) = (read.place(field)?, read.csv);
    let value = read.value(field)?;
    let value = without_spans(std::str::from_utf8(&value).ok()?, spans)?;
    let mut to = Vec::with_capacity(record.len());
    to.extend_from_slice(&record[..place.start]);
    let is_quoted = csv.quote.is_some() && record.get(place.start).copied() == csv.quote;
    // An empty value gets quotes, because the record must not become an empty line.
    if is_quoted || value.is_empty() {
        append_quoted(csv, value.as_bytes(), &mut to);
    } else {
        append_field(csv, value.as_bytes(), &mut to)?;
    }
    to.extend_from_slice(&record[place.end..]);
    Some(to)
}

struct CsvHead {
    file: Arc<SourceFile>,
    /// The names of the columns. An empty file has no columns.
    columns: Vec<String>,
    has_rows: bool,
}

impl CsvHead {
    fn count(&self, name: &str) -> usize {
        self.columns.iter().filter(|column| *column == name).count()
    }
}

async fn head(ctx: &SessionContext, file: Arc<SourceFile>, source: &job::Source) -> Result<CsvHead> {
    let mut reader = HeadReader::new(source, &file.path);
    file.read_start(ctx, source.encoding, |chunk| reader.take(chunk)).await?;
    let HeadReader { columns, has_rows, .. } = reader;
    if !has_rows {
        tracing::warn!(file = file.path(), "this file has no rows");
    }
    Ok(CsvHead { columns: columns.unwrap_or_default(), has_rows, file })
}

/// Reads the column names and determines whether the file contains a row.
struct HeadReader<'a> {
    records: RecordCutter,
    source: &'a job::Source,
    path: Arc<str>,
    columns: Option<Vec<String>>,
    has_rows: bool,
}

impl<'a> HeadReader<'a> {
    fn new(source: &'a job::Source, path: &Arc<str>) -> Self {
        let (records, path) = (RecordCutter::new(source.csv), Arc::clone(path));
        Self { records, source, path, columns: None, has_rows: false }
    }

    /// Reads the next bytes of the file. `chunk` is empty at the end of the file. Returns true if no more bytes are needed.
    fn take(&mut self, chunk: Bytes) -> Result<bool> {
        let is_end = chunk.is_empty();
        self.records.feed(chunk);
        while let Some(piece) = self.records.next_piece(is_end) {
            match piece {
                FilePiece::Other(_) => {}
                FilePiece::Header(..) => {
                    self.columns = Some(names(self.records.record(), &self.path, self.source.encoding)?);
                }
                FilePiece::Row(Row { whole, .. }) => {
                    self.has_rows = true;
                    if whole && self.columns.is_none() {
                        let fields = self.records.record().values().count();
                        self.columns = Some((1..=fields).map(|number| format!("column_{number}")).collect());
                    }
                }
            }
            if self.columns.is_some() && self.has_rows {
                return Ok(true);
            }
        }
        let waiting = self.records.waiting();
        if is_end || self.columns.is_some() && waiting > 0 {
            // The first row counts even if it is incomplete.
            self.has_rows |= waiting > 0;
            return Ok(true);
        }
        if self.source.csv.header && waiting > HEADER_BYTES {
            return Err(Error::input(format!(
                "{}: the header is longer than {HEADER_BYTES} bytes: are source.quote and source.delimiter right, and is there a \
                 header?",
                self.path
            )));
        }
        Ok(false)
    }
}

/// Returns a sentence about files that lack wanted columns, and about files with columns that the first file lacks.
fn other_columns(wanted: &[&str], heads: &[&CsvHead]) -> Option<String> {
    let first: HashSet<&String> = heads.first().into_iter().flat_map(|head| &head.columns).collect();
    let difference = |head: &&CsvHead| {
        let missing = wanted.iter().filter(|name| head.count(name) == 0);
        let missing = missing.map(|name| format!("has no column `{name}`, which is null in its rows"));
        let is_new = |name: &&String| !first.contains(name) && !wanted.contains(&name.as_str());
        let new = head.columns.iter().filter(is_new);
        let new = new.map(|name| format!("has a column `{name}`, which is ignored"));
        let parts: Vec<String> = missing.chain(new).take(SHOWN).collect();
        (!parts.is_empty()).then(|| format!("{} {}", head.file.path, parts.join(", ")))
    };
    let mut others: Vec<String> = heads.iter().filter_map(difference).collect();
    let more = others.split_off(others.len().min(SHOWN)).len();
    let more = if more > 0 { format!("; and {}", counted(more as u64, "more file")) } else { String::new() };
    (!others.is_empty()).then(|| format!("not all files have the same columns: {}{more}", others.join("; ")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(header: bool) -> job::Source {
        let text =
            format!("source = {{ url = 'a.csv', text = 'text', header = {header} }}\noutput.url = 'o'");
        job::resolve(job::file::read(&text, "a", &[]).unwrap()).unwrap().source
    }

    fn read(chunks: &[&[u8]], header: bool) -> Result<(Vec<String>, bool)> {
        let source = source(header);
        let mut reader = HeadReader::new(&source, &"a.csv".into());
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()).chain([&&b""[..]]) {
            if reader.take(Bytes::copy_from_slice(chunk))? {
                break;
            }
        }
        Ok((reader.columns.unwrap_or_default(), reader.has_rows))
    }

    #[test]
    fn a_header_ends_where_its_record_ends_and_rows_may_follow() {
        let text: &[u8] = b"\xEF\xBB\xBFid,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n";
        let expected = vec!["id".to_owned(), "a \"b\",\nc".to_owned(), "d".to_owned()];
        assert_eq!(read(&[text], true).unwrap(), (expected.clone(), true));
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single, true).unwrap(), (expected, true));
        let has_rows = |chunks: &[&[u8]]| read(chunks, true).unwrap().1;
        assert!(!has_rows(&[b"id,text"]));
        assert!(!has_rows(&[b"id,text\r\n\n"]));
        assert!(has_rows(&[b"id,text\n1"]));
        assert!(has_rows(&[b"id,text\n\n", b"\n", b"1,2\n"]));
        let columns = vec!["column_1".to_owned(), "column_2".to_owned()];
        assert_eq!(read(&[b"1,2"], false).unwrap(), (columns, true));
        assert_eq!(read(&[b""], false).unwrap(), (vec![], false));
        let long = "x".repeat(2 * HEADER_BYTES);
        assert!(read(&[b"id,text\n", long.as_bytes(), b",2\n"], true).unwrap().1);
        let found = read(&[long.as_bytes(), b",", long.as_bytes(), b"\n3,4\n"], false).unwrap();
        assert_eq!(found.0.len(), 2);
        let error = read(&[long.as_bytes(), b",b\n"], true).unwrap_err();
        assert!(error.to_string().contains("the header is longer"), "{error}");
    }

    const COMMA: job::Csv = job::Csv::new(b',');

    fn cut(record: &str, field: usize, spans: &[Range<usize>]) -> Option<String> {
        Some(String::from_utf8(cut_field(COMMA, record.as_bytes(), field, spans)?).unwrap())
    }

    #[test]
    fn only_the_field_changes() {
        for (record, field, span, wanted) in [
            ("1,abcd,3", 1, 1..3, Some("1,ad,3")),
            ("1,\"a\"\"b,\nc\",3", 1, 0..2, Some("1,\"b,\nc\",3")),
            ("1,\"a\"\"b\"", 1, 0..1, Some("1,\"\"\"b\"")),
            // A quote inside a field is an ordinary character, but a quote at its start would open a quoted field.
            ("ab\"c\",2", 0, 0..2, Some("\"\"\"c\"\"\",2")),
            ("abc", 0, 0..3, Some("\"\"")),
            ("\"abc\",", 0, 0..3, Some("\"\",")),
            (",é", 1, 0..1, None),
            (",é", 1, 0..2, Some(",\"\"")),
            ("1,2", 2, 0..1, None),
            ("1,2", 1, 0..2, None),
        ] {
            assert_eq!(cut(record, field, &[span]).as_deref(), wanted, "{record}");
        }
    }

    proptest! {
        #[test]
        fn other_fields_keep_their_bytes(
            fields in prop::collection::vec("[aé,\"\r\n ]{0,8}", 1..4),
            quoted in prop::collection::vec(any::<bool>(), 4),
            (field, start, length) in (0_usize..4, 0_usize..9, 0_usize..9),
        ) {
            let field = field % fields.len();
            let written: Vec<Vec<u8>> = fields.iter().zip(&quoted).map(|(value, is_quoted)| {
                let mut to = Vec::new();
                if *is_quoted || value.is_empty() {
                    append_quoted(COMMA, value.as_bytes(), &mut to);
                } else {
                    append_field(COMMA, value.as_bytes(), &mut to).unwrap();
                }
                to
            }).collect();
            let record = written.join(&b","[..]);
            let text = &fields[field];
            let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let span = boundary(start)..boundary(start + length);
            let value = format!("{}{}", &text[..span.start], &text[span.end..]);
            let cut = cut_field(COMMA, &record, field, &[span]).unwrap();
            let records = RecordCutter::from_record(COMMA, &cut);
            let read = records.record();
            prop_assert_eq!(read.values().count(), fields.len());
            for other in 0..fields.len() {
                let wanted = if other == field { &value } else { &fields[other] };
                prop_assert_eq!(&*read.value(other).unwrap(), wanted.as_bytes());
                if other != field {
                    prop_assert_eq!(&cut[read.place(other).unwrap()], &written[other][..]);
                }
            }
        }
    }
}
