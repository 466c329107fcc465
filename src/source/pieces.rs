//! The bytes of a CSV or JSON lines file -> its rows and what stands between them, byte for byte.
//!
//! ```text
//! id,text\r\n      header
//! 1,"a\nb"\r\n     row 0
//! \r\n             other bytes: an empty line
//! 2,c              row 1, which the file ends
//! ```
//!
//! Rows are counted as [`super::reading`] counts them, so that their numbers are the positions of documents. The pieces of a
//! file, put one behind the other, are the file.

use bytes::Bytes;

use super::json_line::Lines;
use super::records::{End, Keep, Records};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, Format};

/// A part of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    /// The record that names the columns, without the end of its line, and that end.
    Header(&'a [u8], &'a [u8]),
    /// A row.
    Row(Row<'a>),
    /// Bytes that are of no row.
    Other(&'a [u8]),
}

/// A row of a file: a record or a line.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// Its number among the rows of the file, from 0.
    pub position: u64,
    /// The line in which it starts, from 1.
    pub line: u64,
    /// Its bytes without the end of its line.
    pub body: &'a [u8],
    /// The end of its line; empty where the file ends first.
    pub end: &'a [u8],
    /// Whether it has the fields that it should have. Of a JSON line nobody has looked.
    pub whole: bool,
}

/// Cuts bytes into pieces. Holds one row at most, and nothing else.
pub(crate) struct Pieces {
    cutter: Cutter,
    rows: u64,
}

enum Cutter {
    Csv(CsvCutter),
    Lines(Lines),
}

/// Whoever takes the pieces.
type Take<'a> = dyn FnMut(Piece<'_>) -> Result<()> + Send + 'a;

impl Pieces {
    /// Pieces of a file of `source`.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where the format has no rows in this sense, or the encoding has characters whose
    /// bytes look like the end of a line, a delimiter or a quote.
    pub(crate) fn new(source: &job::Source) -> Result<Self> {
        let encoding = source.encoding;
        let (cutter, signs) = match source.format {
            Format::Csv => {
                let signs = vec![source.csv.delimiter, source.csv.quote];
                (Cutter::Csv(CsvCutter::new(source.csv)), signs)
            }
            Format::Jsonl => (Cutter::Lines(Lines::default()), Vec::new()),
            format => return Err(Error::bug(format!("{format:?} files have no rows of bytes"))),
        };
        if !signs_are_bytes(encoding, &signs) {
            return Err(Error::job(format!(
                "source.encoding is {encoding}, in which parts of characters look like the signs between records: convert \
                 the files to UTF-8 and run the job again"
            )));
        }
        Ok(Self { cutter, rows: 0 })
    }

    /// The rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the next bytes of the file apart.
    ///
    /// # Errors
    /// What `take` says.
    pub(crate) fn feed(&mut self, mut chunk: Bytes, take: &mut Take<'_>) -> Result<()> {
        let rows = &mut self.rows;
        match &mut self.cutter {
            Cutter::Csv(csv) => csv.feed(&chunk, rows, take),
            Cutter::Lines(lines) => {
                while let Some(line) = lines.next(&mut chunk) {
                    give_line(&line, b"\n", lines.line(), rows, take)?;
                }
                Ok(())
            }
        }
    }

    /// The file has ended.
    ///
    /// # Errors
    /// What `take` says.
    pub(crate) fn end(&mut self, take: &mut Take<'_>) -> Result<()> {
        let rows = &mut self.rows;
        match &mut self.cutter {
            Cutter::Csv(csv) => csv.end(rows, take),
            Cutter::Lines(lines) => match lines.end() {
                Some(line) => give_line(&line, b"", lines.line(), rows, take),
                None => Ok(()),
            },
        }
    }
}

/// Whether the end of a line and each of `signs` stand for themselves wherever their bytes are.
fn signs_are_bytes(encoding: Encoding, signs: &[u8]) -> bool {
    let Encoding::Standard(label) = encoding else { return true };
    let encoding = label.encoding();
    // The second bytes of characters are digits in GB18030, and from 0x40 on in others.
    let never_second = |sign: &u8| matches!(sign, 0..0x30 | 0x3a..0x40);
    encoding.is_ascii_compatible() && (encoding.is_single_byte() || signs.iter().all(never_second))
}

fn give_line(line: &[u8], end: &[u8], number: u64, rows: &mut u64, take: &mut Take<'_>) -> Result<()> {
    if line.trim_ascii().is_empty() {
        take(Piece::Other(line))?;
        return take(Piece::Other(end));
    }
    let position = *rows;
    *rows += 1;
    take(Piece::Row(Row { position, line: number, body: line, end, whole: true }))
}

/// Cuts CSV into pieces.
struct CsvCutter {
    records: Records,
    /// Whether the next record names the columns.
    header: bool,
    /// The fields of the first record.
    columns: Option<usize>,
    /// The bytes of the record that has begun.
    pending: Vec<u8>,
    /// The record in `pending` is done but for a `\n` that may follow its `\r`.
    waiting: Option<Done>,
}

/// What is known of a record that is done.
#[derive(Clone, Copy)]
struct Done {
    fields: usize,
    line: u64,
    /// The bytes at its end that end its line; `None` if the file ends inside of its quotes.
    ended: Option<usize>,
}

impl CsvCutter {
    fn new(csv: job::Csv) -> Self {
        let records = Records::new(csv, Keep::Columns(Vec::new()));
        Self { records, header: csv.header, columns: None, pending: Vec::new(), waiting: None }
    }

    fn feed(&mut self, mut rest: &[u8], rows: &mut u64, take: &mut Take<'_>) -> Result<()> {
        while !rest.is_empty() {
            if let Some(mut done) = self.waiting.take() {
                if rest.starts_with(b"\n") {
                    rest = self.newline(rest);
                    done.ended = Some(2);
                }
                self.give(done, rows, take)?;
                continue;
            }
            if !self.records.has_started() {
                let blank = rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
                if blank > 0 {
                    let (lines, more) = rest.split_at(blank);
                    self.records.read(lines);
                    take(Piece::Other(lines))?;
                    rest = more;
                    continue;
                }
            }
            let (read, more) = rest.split_at(self.records.read(rest));
            self.pending.extend_from_slice(read);
            rest = more;
            if self.records.is_done() {
                let done = self.done(Some(1));
                match self.pending.last() {
                    Some(b'\r') => self.waiting = Some(done),
                    _ => self.give(done, rows, take)?,
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, rows: &mut u64, take: &mut Take<'_>) -> Result<()> {
        let done = match self.waiting.take() {
            Some(done) => done,
            None => match self.records.end() {
                End::Nothing => return Ok(()),
                End::Record => self.done(Some(0)),
                End::Quoted(_) => self.done(None),
            },
        };
        self.give(done, rows, take)
    }

    /// Reads a `\n` that ends the line of the record in `pending`.
    fn newline<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let (newline, rest) = rest.split_at(1);
        self.records.read(newline);
        self.pending.extend_from_slice(newline);
        rest
    }

    fn done(&mut self, ended: Option<usize>) -> Done {
        let done = Done { fields: self.records.fields(), line: self.records.record_line(), ended };
        self.records.next();
        done
    }

    fn give(&mut self, done: Done, rows: &mut u64, take: &mut Take<'_>) -> Result<()> {
        let columns = *self.columns.get_or_insert(done.fields);
        let (body, end) = self.pending.split_at(self.pending.len() - done.ended.unwrap_or(0));
        if std::mem::take(&mut self.header) {
            take(Piece::Header(body, end))?;
        } else {
            let whole = done.ended.is_some() && done.fields == columns;
            let position = *rows;
            *rows += 1;
            take(Piece::Row(Row { position, line: done.line, body, end, whole }))?;
        }
        self.pending.clear();
        Ok(())
    }
}

/// The fields of a record, without their quotes.
pub(crate) fn fields(csv: job::Csv, record: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Records::new(csv, Keep::All);
    records.read(record);
    records.end();
    records.values().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the pieces of a text are, and the text that they are together.
    fn cut(mut pieces: Pieces, text: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
        let (mut found, mut whole) = (Vec::new(), Vec::new());
        let mut take = |piece: Piece<'_>| {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
            let (said, parts) = match piece {
                Piece::Header(body, end) => (format!("header {}", shown(body)), [body, end]),
                Piece::Other(bytes) => (String::new(), [bytes, b""]),
                Piece::Row(Row { position, line, body, end, whole }) => {
                    let broken = if whole { "" } else { " broken" };
                    (format!("{position} in {line}: {}{broken}", shown(body)), [body, end])
                }
            };
            found.extend((!said.is_empty()).then_some(said));
            parts.iter().for_each(|part| whole.extend_from_slice(part));
            Ok(())
        };
        for chunk in text.chunks(size.max(1)) {
            pieces.feed(Bytes::copy_from_slice(chunk), &mut take).unwrap();
        }
        pieces.end(&mut take).unwrap();
        (found, whole)
    }

    fn csv(header: bool) -> Pieces {
        let csv = job::Csv { delimiter: b',', header, quote: b'"' };
        Pieces { cutter: Cutter::Csv(CsvCutter::new(csv)), rows: 0 }
    }

    fn lines() -> Pieces {
        Pieces { cutter: Cutter::Lines(Lines::default()), rows: 0 }
    }

    #[test]
    fn a_record_has_its_quotes_and_the_end_of_its_line() {
        let text = b"\n\nid,text\r\n1,\"a\nb\"\r\n\r\n2,\"c \"\"d\"\"\"\r3\n4,\"open\n";
        let expected = [
            "header id,text",
            "0 in 4: 1,\\\"a\\nb\\\"",
            "1 in 7: 2,\\\"c \\\"\\\"d\\\"\\\"\\\"",
            "2 in 8: 3 broken",
            "3 in 9: 4,\\\"open\\n broken",
        ];
        for size in [1, 2, 3, 100] {
            assert_eq!(cut(csv(true), text, size), (expected.map(str::to_owned).to_vec(), text.to_vec()));
        }
    }

    #[test]
    fn a_line_is_a_row_where_something_is_in_it() {
        let text = b"{\"a\": 1}\r\n  \r\n\n{}";
        let (found, whole) = cut(lines(), text, 4);
        assert_eq!(found, ["0 in 1: {\\\"a\\\": 1}\\r", "1 in 4: {}"]);
        assert_eq!(whole, text);
    }

    #[test]
    fn encodings_are_cut_where_their_signs_are_bytes() {
        let encoding = |name: &str| name.parse::<Encoding>().unwrap();
        for (name, signs, can) in [
            ("utf-8", &b",\""[..], true),
            ("latin-1", b"|\"", true),
            ("windows-1252", b"|\"", true),
            ("gbk", b",\"", true),
            ("gbk", b"|\"", false),
            ("gb18030", b";\"", true),
            ("shift_jis", b"", true),
            ("utf-16le", b"", false),
            ("iso-2022-jp", b"", false),
        ] {
            assert_eq!(signs_are_bytes(encoding(name), signs), can, "{name}");
        }
    }

    proptest! {
        /// The pieces are the file, and the same ones however its bytes come; its rows are those that are read as documents.
        #[test]
        fn pieces_are_the_file(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "bc", ",", "\"", "\"\"", "\n", "\r", "\r\n", "é", " "]), 0..40),
            size in 1usize..9,
            header: bool,
        ) {
            let text = parts.concat().into_bytes();
            for pieces in [|_| lines(), csv] {
                let (found, whole) = cut(pieces(header), &text, size);
                prop_assert_eq!(&whole, &text);
                prop_assert_eq!(found, cut(pieces(header), &text, text.len()).0);
            }
            let mut records = Records::new(job::Csv { delimiter: b',', header, quote: b'"' }, Keep::All);
            let (mut rest, mut count) = (&text[..], 0);
            while !rest.is_empty() {
                rest = &rest[records.read(rest)..];
                if records.is_done() {
                    count += 1;
                    records.next();
                }
            }
            count += usize::from(records.end() != End::Nothing);
            prop_assert_eq!(cut(csv(header), &text, size).0.len(), count);
        }
    }
}
