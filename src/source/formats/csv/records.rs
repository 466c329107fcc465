//! Splits CSV bytes into records. The reader of documents and the writer of rewritten files both use it.
//!
//! Quoting follows RFC 4180: a field that starts with a quote ends at the next quote that is not doubled. Records end at `\n`, `\r`
//! or `\r\n` outside of quotes. Empty lines are skipped.
//!
//! Where RFC 4180 has no rule:
//! - A quote in an unquoted field is an ordinary character.
//! - Text after a closing quote belongs to the field, and quotes in it are ordinary characters.
//! - An escape character, if the job sets one, makes the next character an ordinary one.
//!
//! A stray quote can swallow many lines. A record of several lines is therefore accepted only if:
//! - it has as many fields as the first record,
//! - no field spans more than `MAX_LINES` lines,
//! - every quote that closes on a later line also ends its field.
//!
//! Otherwise the first line becomes a malformed record, and the next record starts on the line after it.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2, memchr3};

use super::field;
use crate::job;
use crate::source::bytes::BYTE_ORDER_MARK;

/// The most lines of a field in quotes.
const MAX_LINES: usize = 1000;

/// Cuts bytes into records.
#[derive(Debug)]
pub(super) struct RecordCutter {
    csv: job::Csv,
    /// The bytes that were fed, from `start` on those of the next piece.
    bytes: Vec<u8>,
    start: usize,
    /// The end of the piece that was found last, from `start` on.
    taken: usize,
    scan: RecordScan,
    /// The number of fields of the first record that could be read.
    columns: Option<usize>,
    lines: LineCounter,
    /// The record that was found last.
    body: usize,
    defect: Option<Defect>,
}

/// How far the next record was read. Places are bytes of the record.
#[derive(Debug, Default)]
struct RecordScan {
    at: usize,
    state: CsvState,
    /// Whether quotes are characters.
    is_literal: bool,
    /// The ends of the fields so far.
    ends: Vec<usize>,
    /// The line ends inside of the current field.
    lines: usize,
    /// The end of the first line, where the record continues behind it.
    first_line: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CsvState {
    /// Before the first byte of a field.
    #[default]
    Start,
    /// In a field without quotes, or behind its quotes.
    Plain,
    Quoted,
    /// Behind a quote inside of quotes.
    AfterQuote,
}

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CsvPiece {
    /// The ends of empty lines, or a byte order mark.
    LineEnds,
    Record,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// It has these many fields, and the first record has so many.
    Fields(usize, usize),
    /// It opens quotes, and the lines up to their end are no record.
    Quotes,
    /// It opens quotes that the file does not close.
    NeverClosed,
}

/// What ends the reading of a record.
#[derive(Debug, Clone, Copy)]
enum RecordEnd {
    /// The bytes that were fed.
    Bytes,
    /// The end of its line, of these many bytes.
    Line(usize),
    /// A quote that is not closed in its line, where it has to be.
    OpenQuote,
    Defect(Defect),
}

/// A record.
#[derive(Debug, Clone, Copy)]
pub(super) struct CsvRecord<'a> {
    csv: job::Csv,
    ends: &'a [usize],
    /// The line in which it starts, from 1.
    pub line: u64,
    /// Its bytes without the end of its line.
    pub body: &'a [u8],
    /// The end of its line.
    pub end: &'a [u8],
    /// Why it cannot be read.
    pub defect: Option<Defect>,
}

impl<'a> CsvRecord<'a> {
    /// Its syntax, without a quote where quotes are characters.
    pub(super) fn csv(&self) -> job::Csv {
        self.csv
    }

    /// The number of its fields.
    pub(super) fn fields(&self) -> usize {
        self.ends.len()
    }

    /// The place of a field in its bytes.
    pub(super) fn place(&self, field: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(field)?;
        let start = field.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| end + 1);
        Some(start..end)
    }

    /// The value of a field.
    pub(super) fn value(&self, field: usize) -> Option<Cow<'a, [u8]>> {
        self.body.get(self.place(field)?).map(|raw| field::value(self.csv, raw))
    }
}

impl RecordCutter {
    /// A reader of one file.
    pub(super) fn new(csv: job::Csv) -> Self {
        Self {
            csv,
            bytes: Vec::new(),
            start: 0,
            taken: 0,
            scan: RecordScan::default(),
            columns: None,
            lines: LineCounter::default(),
            body: 0,
            defect: None,
        }
    }

    /// The record that `bytes` are.
    pub(super) fn of_row(csv: job::Csv, bytes: &[u8]) -> Self {
        let mut records = Self::new(csv);
        records.feed(bytes);
        records.advance(true);
        records
    }

    /// Adds the next bytes of the file.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.take();
        self.bytes.drain(..std::mem::take(&mut self.start));
        self.bytes.extend_from_slice(bytes);
    }

    /// The number of bytes that wait for their record to end.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.start - self.taken
    }

    /// The line in which the next piece starts, from 1.
    pub(super) fn line(&self) -> u64 {
        self.lines.line()
    }

    /// The empty lines that were found.
    pub(super) fn line_ends(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.taken]
    }

    /// The record that was found.
    pub(super) fn record(&self) -> CsvRecord<'_> {
        let (body, end) = self.line_ends().split_at(self.body);
        let quote = self.csv.quote.filter(|_| !self.scan.is_literal);
        let csv = job::Csv { quote, ..self.csv };
        let (ends, line, defect) = (self.scan.ends.as_slice(), self.lines.line(), self.defect);
        CsvRecord { csv, ends, line, body, end, defect }
    }

    /// Moves on to the next piece. `None` if more bytes are needed; `is_end` if there are no more.
    pub(super) fn advance(&mut self, is_end: bool) -> Option<CsvPiece> {
        self.take();
        let bytes = &self.bytes[self.start..];
        if self.scan.at == 0 {
            // Where files were concatenated, a record may follow a byte order mark.
            let is_mark = bytes.starts_with(BYTE_ORDER_MARK);
            if !is_mark && !is_end && BYTE_ORDER_MARK.starts_with(bytes) {
                return None;
            }
            let line_ends = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.taken = if is_mark { BYTE_ORDER_MARK.len() } else { line_ends };
            if self.taken > 0 {
                self.body = 0;
                return Some(CsvPiece::LineEnds);
            }
        }
        if bytes.is_empty() {
            return None;
        }
        let end = loop {
            match self.scan.read(self.csv, bytes, is_end) {
                RecordEnd::OpenQuote => self.scan = RecordScan { is_literal: true, ..RecordScan::default() },
                end => break end,
            }
        };
        let (fields, first_line) = (self.scan.ends.len(), self.scan.first_line);
        let columns = self.columns.unwrap_or(fields);
        self.defect = match end {
            RecordEnd::Bytes if !is_end => return None,
            RecordEnd::Defect(defect) => Some(defect),
            _ if fields == columns => None,
            _ => Some(Defect::Fields(fields, columns)),
        };
        (self.body, self.taken) = match (self.defect, first_line, end) {
            (Some(defect), Some(at), _) => {
                let is_open = defect == Defect::NeverClosed;
                self.defect = Some(if is_open { defect } else { Defect::Quotes });
                (at, at + if bytes[at..].starts_with(b"\r\n") { 2 } else { 1 })
            }
            (_, _, RecordEnd::Line(length)) => (self.scan.at, self.scan.at + length),
            _ => (bytes.len(), bytes.len()),
        };
        if self.defect.is_none() {
            self.columns = Some(columns);
        }
        Some(CsvPiece::Record)
    }

    /// Drops the piece that was found last.
    fn take(&mut self) {
        if self.taken > 0 {
            self.lines.count(&self.bytes[self.start..self.start + self.taken]);
            self.start += std::mem::take(&mut self.taken);
            self.scan = RecordScan { ends: std::mem::take(&mut self.scan.ends), ..RecordScan::default() };
            self.scan.ends.clear();
        }
    }
}

impl RecordScan {
    /// Reads on in the `bytes` from the start of the record on.
    fn read(&mut self, csv: job::Csv, bytes: &[u8], is_end: bool) -> RecordEnd {
        let quote = csv.quote.filter(|_| !self.is_literal);
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            let byte = rest[0];
            match self.state {
                CsvState::Start if Some(byte) == quote => {
                    (self.state, self.at, self.lines) = (CsvState::Quoted, self.at + 1, 0)
                }
                CsvState::Start => self.state = CsvState::Plain,
                CsvState::Quoted => {
                    let quote = quote.unwrap_or_default();
                    let found = match csv.escape {
                        Some(escape) => memchr2(quote, escape, rest),
                        None => memchr(quote, rest),
                    };
                    let to = found.map_or(bytes.len(), |found| self.at + found);
                    let is_escape = found.is_some_and(|found| rest[found] != quote);
                    if is_escape && to + 1 == bytes.len() && !is_end {
                        return self.pass(csv, bytes, to).unwrap_or(RecordEnd::Bytes);
                    }
                    let to = if is_escape { bytes.len().min(to + 2) } else { to };
                    if let Some(end) = self.pass(csv, bytes, to) {
                        return end;
                    }
                    if found.is_some() && !is_escape {
                        (self.state, self.at) = (CsvState::AfterQuote, to + 1);
                    }
                }
                CsvState::AfterQuote if Some(byte) == quote => {
                    (self.state, self.at) = (CsvState::Quoted, self.at + 1)
                }
                CsvState::AfterQuote if [csv.delimiter, b'\n', b'\r'].contains(&byte) => {
                    self.state = CsvState::Plain
                }
                CsvState::AfterQuote if csv.quotes_end_in_line => return RecordEnd::OpenQuote,
                CsvState::AfterQuote if self.lines > 0 => return RecordEnd::Defect(Defect::Quotes),
                CsvState::AfterQuote => self.state = CsvState::Plain,
                CsvState::Plain => {
                    let is_mark =
                        |byte: &u8| [csv.delimiter, b'\n', b'\r'].contains(byte) || Some(*byte) == csv.escape;
                    let found = match csv.escape {
                        Some(_) => rest.iter().position(is_mark),
                        None => memchr3(csv.delimiter, b'\n', b'\r', rest),
                    };
                    let Some(found) = found else {
                        self.at = bytes.len();
                        break;
                    };
                    self.at += found;
                    let next = bytes.get(self.at + 1);
                    match rest[found] {
                        byte if byte == csv.delimiter => {
                            self.ends.push(self.at);
                            (self.state, self.at) = (CsvState::Start, self.at + 1);
                        }
                        b'\r' if next.is_none() && !is_end => return RecordEnd::Bytes,
                        byte @ (b'\n' | b'\r') => {
                            self.ends.push(self.at);
                            return RecordEnd::Line(if byte == b'\r' && next == Some(&b'\n') {
                                2
                            } else {
                                1
                            });
                        }
                        _ if next.is_none() && !is_end => return RecordEnd::Bytes,
                        _ => {
                            self.lines = 0;
                            if let Some(end) = self.pass(csv, bytes, bytes.len().min(self.at + 2)) {
                                return end;
                            }
                        }
                    }
                }
            }
        }
        if !is_end {
            return RecordEnd::Bytes;
        }
        match self.state {
            CsvState::Quoted if csv.quotes_end_in_line => return RecordEnd::OpenQuote,
            CsvState::Quoted => return RecordEnd::Defect(Defect::NeverClosed),
            _ => self.ends.push(bytes.len()),
        }
        RecordEnd::Bytes
    }

    /// Passes the bytes up to `to`, which are characters of a field, and counts the ends of lines among them.
    fn pass(&mut self, csv: job::Csv, bytes: &[u8], to: usize) -> Option<RecordEnd> {
        let passed = std::mem::replace(&mut self.at, to)..to;
        let first = memchr2(b'\n', b'\r', &bytes[passed.clone()])?;
        if csv.quotes_end_in_line && self.state == CsvState::Quoted {
            return Some(RecordEnd::OpenQuote);
        }
        self.first_line.get_or_insert(passed.start + first);
        self.lines += count_line_ends(bytes, passed);
        (self.lines >= MAX_LINES).then_some(RecordEnd::Defect(Defect::Quotes))
    }
}

/// The number of line ends in a range of `bytes`.
fn count_line_ends(bytes: &[u8], range: Range<usize>) -> usize {
    let before = |at: usize| at.checked_sub(1).map(|before| bytes[before]);
    let is_end = |at: &usize| bytes[*at] == b'\r' || bytes[*at] == b'\n' && before(*at) != Some(b'\r');
    range.filter(is_end).count()
}

/// The number of the line that is being read. A line ends at `\n`, `\r` or `\r\n`.
#[derive(Debug, Default)]
struct LineCounter {
    ended: u64,
    /// Whether the last byte was a `\r`, which a `\n` would complete.
    after_return: bool,
}

impl LineCounter {
    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().copied() {
            self.ended += u64::from(byte == b'\r' || byte == b'\n' && !self.after_return);
            self.after_return = byte == b'\r';
        }
    }

    fn line(&self) -> u64 {
        self.ended + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CSV: job::Csv = job::Csv::new(b',');

    /// Line and fields of each record; a record with a defect has this after its bytes.
    fn records(csv: job::Csv, chunks: &[&[u8]]) -> Vec<(u64, Vec<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut records, mut found) = (RecordCutter::new(csv), Vec::new());
        for (chunk, is_end) in chunks.iter().map(|chunk| (*chunk, false)).chain([(&b""[..], true)]) {
            records.feed(chunk);
            while let Some(piece) = records.advance(is_end) {
                let record = records.record();
                let fields = (0..record.fields()).map(|at| text(&record.value(at).unwrap_or_default()));
                found.extend((piece == CsvPiece::Record).then(|| match record.defect {
                    Some(defect) => (record.line, vec![text(record.body), format!("{defect:?}")]),
                    None => (record.line, fields.collect()),
                }));
            }
        }
        found
    }

    fn record(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(|f| f.to_string()).collect())
    }

    #[test]
    fn records_are_those_of_rfc_4180() {
        for (text, expected) in [
            (
                "id,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n",
                vec![record(1, &["id", "a \"b\",\nc", "d"]), record(3, &["1", "2", "3"])],
            ),
            (
                "a,\rb,\r\nc,\n\n\r\nd,\n,",
                vec![
                    record(1, &["a", ""]),
                    record(2, &["b", ""]),
                    record(3, &["c", ""]),
                    record(6, &["d", ""]),
                    record(7, &["", ""]),
                ],
            ),
            ("\"\"\n", vec![record(1, &[""])]),
            ("a\"b,\"c\"d\"\n", vec![record(1, &["a\"b", "cd\""])]),
            ("\u{feff}a\n", vec![record(1, &["a"])]),
            (
                "a,b\n1\n2,\"3\"",
                vec![record(1, &["a", "b"]), record(2, &["1", "Fields(1, 2)"]), record(3, &["2", "3"])],
            ),
        ] {
            assert_eq!(records(CSV, &[text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn a_quote_that_swallows_rows_spoils_only_its_line() {
        let header = record(1, &["id", "text"]);
        for (text, defect) in [
            ("id,text\n1,\"a\n2,b\n3,c\n", "NeverClosed"),
            ("id,text\n1,\"a\n2,b\n3,c\n4,\"d\n", "Quotes"),
            ("id,text\n1,\"a\n2,b\n3,c\n4,\",d\n", "Quotes"),
        ] {
            let found = records(CSV, &[text.as_bytes()]);
            assert_eq!(found[..2], [header.clone(), record(2, &["1,\"a", defect])], "{text:?}");
            assert_eq!(found[2..4], [record(3, &["2", "b"]), record(4, &["3", "c"])], "{text:?}");
        }
        let lines = |lines: usize| format!("id,text\n1,\"{}x\"\n", "x\n".repeat(lines - 1));
        assert_eq!(records(CSV, &[lines(MAX_LINES).as_bytes()]).len(), 2);
        assert_eq!(records(CSV, &[lines(MAX_LINES + 1).as_bytes()]).len(), MAX_LINES + 2);
    }

    #[test]
    fn quotes_may_have_to_end_in_their_line() {
        let tsv = job::Csv::new(b'\t');
        for (text, fields) in [
            ("\"a\tb\"\tc", &["a\tb", "c"][..]),
            ("\"a\"\t\"b\"\"\"", &["a", "b\""]),
            ("\"a\tb", &["\"a", "b"]),
            ("\"a\"\t\"b\" c", &["\"a\"", "\"b\" c"]),
        ] {
            let text = format!("{text}\nend\tof file\"\n");
            let expected = [record(1, fields), record(2, &["end", "of file\""])];
            assert_eq!(records(tsv, &[text.as_bytes()]), expected, "{text:?}");
        }
        let tsv = job::Csv { quotes_end_in_line: false, ..tsv };
        assert_eq!(records(tsv, &[b"1\t\"a\nb\""]), [record(1, &["1", "a\nb"])]);
    }

    #[test]
    fn an_escape_takes_the_meaning_of_the_next_character() {
        let escaped = job::Csv { escape: Some(b'\\'), ..CSV };
        let text = r#"1,"a \"b, \\",c\,d"#;
        assert_eq!(records(escaped, &[text.as_bytes()]), [record(1, &["1", r#"a "b, \"#, "c,d"])]);
        let unquoted = job::Csv { quote: None, ..escaped };
        assert_eq!(
            records(unquoted, &[b"1,\"a\\\nb\n2,c\n"]),
            [record(1, &["1", "\"a\nb"]), record(3, &["2", "c"])]
        );
    }

    proptest! {
        /// However the bytes come, the records are the same, and their bytes are the file.
        #[test]
        fn the_cut_changes_nothing(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "bc", ",", "\"", "\"\"", "\n", "\r", "\r\n", "é", "\\"]), 0..60),
            size in 1usize..9,
            (quotes_end_in_line, is_escaped) in any::<(bool, bool)>(),
        ) {
            let csv = job::Csv { quotes_end_in_line, escape: is_escaped.then_some(b'\\'), ..CSV };
            let text = parts.concat();
            let cut: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(records(csv, &cut), records(csv, &[text.as_bytes()]));
        }

        /// What is written by the rules is read back.
        #[test]
        fn written_fields_are_read_back(
            rows in prop::collection::vec(prop::collection::vec("[a,\"\r\n é]{0,6}", 3..=3), 0..6),
        ) {
            let mut text = String::new();
            for row in &rows {
                let fields: Vec<String> = row.iter().map(|f| format!("\"{}\"", f.replace('"', "\"\""))).collect();
                text.push_str(&fields.join(","));
                text.push_str("\r\n");
            }
            let found: Vec<_> = records(CSV, &[text.as_bytes()]).into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(found, rows);
        }
    }
}
