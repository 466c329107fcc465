//! Cuts CSV into records, for the reader of documents and the writer of rewritten files. Quoting follows RFC 4180: a field that starts with
//! a quote ends at the next quote that is not doubled. Records end at `\n`, `\r` or `\r\n` outside of quotes. Empty lines are skipped. RFC
//! 4180 has no rule for these cases:
//! - A quote in an unquoted field is an ordinary character.
//! - Text after a closing quote belongs to the field, and quotes in it are ordinary characters.
//! - An escape character, if the job sets one, makes the next character an ordinary character.
//!
//! A stray quote can swallow many lines. A record of several lines is therefore accepted only if:
//! - it has as many fields as the first record,
//! - no field spans more than `MAX_LINES` lines,
//! - every closing quote on a later line also ends its field.
//!
//! Otherwise the first line becomes a malformed record, and the next record starts on the line after it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr, memchr2, memchr3};

use crate::job;
use crate::source::format::{FilePiece, Row, RowCutter};
use crate::source::reading::bytes::BYTE_ORDER_MARK;
use crate::source::reading::documents::RowPlace;

/// The maximum number of lines in a quoted field.
const MAX_LINES: usize = 1000;

#[derive(Debug)]
pub(super) struct RecordCutter {
    csv: job::Csv,
    /// The bytes that were fed. The current piece begins at `start`.
    bytes: Vec<u8>,
    start: usize,
    /// The length of the current piece.
    taken: usize,
    scan: RecordScan,
    /// The number of fields of the first valid record.
    columns: Option<usize>,
    lines: LineCounter,
    /// The length of the current record without its line end.
    body: usize,
    defect: Option<Defect>,
    /// Whether the next record is the header.
    header: bool,
    rows: u64,
}

/// The state of scanning a record. Positions are relative to the start of the record.
#[derive(Debug, Default)]
struct RecordScan {
    at: usize,
    state: CsvState,
    /// Whether quotes are ordinary characters.
    is_literal: bool,
    /// The ends of the fields that were already scanned.
    ends: Vec<usize>,
    /// The number of line ends in the current field.
    lines: usize,
    /// The end of the first line, if the record continues after it.
    first_line: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CsvState {
    #[default]
    Start,
    /// The scan is in an unquoted field, or after the closing quote.
    Plain,
    Quoted,
    /// The scan is after a quote in a quoted field.
    AfterQuote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// The record has the first number of fields, and the first record has the second number of fields.
    Fields(usize, usize),
    /// The record opens a quote, but the lines up to the closing quote do not form a valid record.
    Quotes,
    /// The record opens a quote that the file does not close.
    NeverClosed,
}

impl Defect {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NeverClosed => "truncated",
            Self::Fields(..) | Self::Quotes => "malformed",
        }
    }

    /// Returns a description of the defect that follows the path and the line in a message.
    pub(super) fn complaint(self) -> String {
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

#[derive(Debug, Clone, Copy)]
enum RecordEnd {
    /// The end of the fed bytes.
    Bytes,
    /// A line end of this number of bytes.
    Line(usize),
    /// A quote that must be closed on its line but is not.
    OpenQuote,
    Defect(Defect),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CsvRecord<'a> {
    /// The syntax. The quote character is unset if quotes are ordinary characters.
    pub csv: job::Csv,
    ends: &'a [usize],
    /// The line in which the record starts, from 1.
    pub line: u64,
    /// The bytes of the record without its line end.
    pub body: &'a [u8],
    pub end: &'a [u8],
    pub defect: Option<Defect>,
}

impl<'a> CsvRecord<'a> {
    /// Returns the byte range of a field in the record.
    pub(super) fn place(&self, field: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(field)?;
        let start = field.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| end + 1);
        Some(start..end)
    }

    pub(super) fn value(&self, field: usize) -> Option<Cow<'a, [u8]>> {
        self.body.get(self.place(field)?).map(|raw| unquoted(self.csv, raw))
    }

    pub(super) fn values(self) -> impl Iterator<Item = Cow<'a, [u8]>> {
        (0..self.ends.len()).map(move |field| self.value(field).unwrap_or_default())
    }
}

impl RecordCutter {
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
            header: csv.header,
            rows: 0,
        }
    }

    /// Returns a cutter whose current record is `bytes`.
    pub(super) fn from_record(csv: job::Csv, bytes: &[u8]) -> Self {
        let mut records = Self { bytes: bytes.to_vec(), ..Self::new(csv) };
        records.advance(true);
        records
    }

    /// The number of bytes in an incomplete record.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.start - self.taken
    }

    /// The line in which the next piece starts, from 1.
    pub(super) fn line(&self) -> u64 {
        self.lines.line()
    }

    fn piece(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.taken]
    }

    pub(super) fn record(&self) -> CsvRecord<'_> {
        let (body, end) = self.piece().split_at(self.body);
        let quote = self.csv.quote.filter(|_| !self.scan.is_literal);
        let csv = job::Csv { quote, ..self.csv };
        let (ends, line, defect) = (self.scan.ends.as_slice(), self.lines.line(), self.defect);
        CsvRecord { csv, ends, line, body, end, defect }
    }

    /// Finds the next piece. Returns true for a record, false for other bytes, and `None` if more bytes are needed.
    fn advance(&mut self, is_end: bool) -> Option<bool> {
        self.take();
        let bytes = &self.bytes[self.start..];
        if self.scan.at == 0 {
            // Concatenated files have byte order marks between records.
            let is_mark = bytes.starts_with(BYTE_ORDER_MARK);
            if !is_mark && !is_end && BYTE_ORDER_MARK.starts_with(bytes) {
                return None;
            }
            let line_ends = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.taken = if is_mark { BYTE_ORDER_MARK.len() } else { line_ends };
            if self.taken > 0 {
                self.body = 0;
                return Some(false);
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
        Some(true)
    }

    /// Drops the current piece.
    fn take(&mut self) {
        if self.taken > 0 {
            self.lines.count(&self.bytes[self.start..self.start + self.taken]);
            self.start += std::mem::take(&mut self.taken);
            self.scan = RecordScan { ends: std::mem::take(&mut self.scan.ends), ..RecordScan::default() };
            self.scan.ends.clear();
        }
    }
}

impl RowCutter for RecordCutter {
    fn feed(&mut self, chunk: Bytes) {
        self.take();
        self.bytes.drain(..std::mem::take(&mut self.start));
        self.bytes.extend_from_slice(&chunk);
    }

    fn next_piece(&mut self, is_end: bool) -> Option<FilePiece<'_>> {
        if !self.advance(is_end)? {
            return Some(FilePiece::Other(self.piece()));
        }
        let is_header = std::mem::take(&mut self.header);
        let position = self.rows;
        self.rows += u64::from(!is_header);
        let CsvRecord { line, body, end, defect, .. } = self.record();
        if is_header {
            return Some(FilePiece::Header(body, end));
        }
        Some(FilePiece::Row(Row {
            position,
            place: RowPlace::Line(line),
            before: b"",
            body,
            end,
            whole: defect.is_none(),
        }))
    }
}

impl RecordScan {
    /// Continues the scan in `bytes`, which start with the record.
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

    /// Advances to `to` inside a field, and counts the line ends up to this position.
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

fn count_line_ends(bytes: &[u8], range: Range<usize>) -> usize {
    let before = |at: usize| at.checked_sub(1).map(|before| bytes[before]);
    let is_end = |at: &usize| bytes[*at] == b'\r' || bytes[*at] == b'\n' && before(*at) != Some(b'\r');
    range.filter(is_end).count()
}

/// Counts lines, which end at `\n`, `\r` or `\r\n`.
#[derive(Debug, Default)]
struct LineCounter {
    ended: u64,
    /// Whether the last byte was `\r`. A `\n` after it belongs to the same line end.
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

fn unquoted(csv: job::Csv, raw: &[u8]) -> Cow<'_, [u8]> {
    let (mut in_quotes, inside) = match raw.split_first() {
        Some((first, rest)) if Some(*first) == csv.quote => (true, rest),
        _ => (false, raw),
    };
    let is_plain = |bytes: &[u8]| csv.escape.is_none_or(|escape| memchr(escape, bytes).is_none());
    if !in_quotes && is_plain(raw) {
        return Cow::Borrowed(raw);
    }
    if let (Some(quote), Some((_, text))) = (csv.quote.filter(|_| in_quotes), inside.split_last())
        && memchr(quote, inside) == Some(text.len())
        && is_plain(text)
    {
        return Cow::Borrowed(text);
    }
    let (mut value, mut bytes) = (Vec::with_capacity(inside.len()), inside.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        let is_quote = |byte: &u8| Some(*byte) == csv.quote;
        match byte {
            byte if Some(byte) == csv.escape => value.extend(bytes.next()),
            byte if in_quotes && is_quote(&byte) => match bytes.next_if(is_quote) {
                Some(doubled) => value.push(doubled),
                None => in_quotes = false,
            },
            byte => value.push(byte),
        }
    }
    Cow::Owned(value)
}

/// Appends a field to `to`, quoted if necessary. Returns `None` if the field needs quotes but the syntax has neither quotes nor an escape.
pub(super) fn append_field(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let is_end = |byte: &u8| [csv.delimiter, b'\n', b'\r'].contains(byte);
    let needs_quotes = |byte: &u8| is_end(byte) || [csv.quote, csv.escape].contains(&Some(*byte));
    if !value.iter().any(needs_quotes) {
        to.extend_from_slice(value);
        return Some(());
    }
    if csv.quote.is_some() {
        append_quoted(csv, value, to);
        return Some(());
    }
    for byte in value {
        if needs_quotes(byte) {
            to.push(csv.escape?);
        }
        to.push(*byte);
    }
    Some(())
}

/// Appends a quoted field to `to` if the syntax has quotes.
pub(super) fn append_quoted(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) {
    to.extend(csv.quote);
    for byte in value.iter().copied() {
        if [csv.quote, csv.escape].contains(&Some(byte)) {
            to.push(byte);
        }
        to.push(byte);
    }
    to.extend(csv.quote);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CSV: job::Csv = job::Csv::new(b',');

    /// Returns the line and the fields of each record. For a record that cannot be read, returns its bytes and its defect.
    fn records(csv: job::Csv, chunks: &[&[u8]]) -> Vec<(u64, Vec<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut records, mut found) = (RecordCutter::new(csv), Vec::new());
        for (chunk, is_end) in chunks.iter().map(|chunk| (*chunk, false)).chain([(&b""[..], true)]) {
            records.feed(Bytes::copy_from_slice(chunk));
            while let Some(piece) = records.next_piece(is_end) {
                if matches!(piece, FilePiece::Other(_)) {
                    continue;
                }
                let record = records.record();
                found.push(match record.defect {
                    Some(defect) => (record.line, vec![text(record.body), format!("{defect:?}")]),
                    None => (record.line, record.values().map(|value| text(&value)).collect()),
                });
            }
        }
        found
    }

    fn record(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(|f| f.to_string()).collect())
    }

    #[test]
    fn records_follow_rfc_4180() {
        for (text, expected) in [
            ("id,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n", "1 id|a \"b\",\nc|d; 3 1|2|3"),
            ("a,\rb,\r\nc,\n\n\r\nd,\n,", "1 a|; 2 b|; 3 c|; 6 d|; 7 |"),
            ("\"\"\n", "1 "),
            ("a\"b,\"c\"d\"\n", "1 a\"b|cd\""),
            ("\u{feff}a\n", "1 a"),
            ("a,b\n1\n2,\"3\"", "1 a|b; 2 1|Fields(1, 2); 3 2|3"),
        ] {
            let found = records(CSV, &[text.as_bytes()]).into_iter();
            let found: Vec<_> = found.map(|(line, fields)| format!("{line} {}", fields.join("|"))).collect();
            assert_eq!(found.join("; "), expected, "{text:?}");
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
        let found = records(job::Csv { quote: None, ..escaped }, &[b"1,\"a\\\nb\n2,c\n"]);
        assert_eq!(found, [record(1, &["1", "\"a\nb"]), record(3, &["2", "c"])]);
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_records(
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

        #[test]
        fn written_fields_are_read_back(
            rows in prop::collection::vec(prop::collection::vec("[a,\"\r\n é]{0,6}", 3..=3), 0..6),
        ) {
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let lines = rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n");
            let found = records(CSV, &[lines.collect::<String>().as_bytes()]);
            prop_assert_eq!(found.into_iter().map(|(_, fields)| fields).collect::<Vec<_>>(), rows);
        }

        /// The pieces add up to the file, and chunk boundaries do not change them.
        #[test]
        fn pieces_are_the_file(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "bc", ",", "\"", "\"\"", "\n", "\r", "\r\n", "é", "\u{feff}", " "]), 0..40),
            size in 1usize..9,
            header: bool,
        ) {
            let text = parts.concat().into_bytes();
            let (found, whole) = cut(header, &text, size);
            prop_assert_eq!(&whole, &text);
            prop_assert_eq!(&found, &cut(header, &text, text.len()).0);
        }

        #[test]
        fn a_field_that_is_written_is_read(text in "[a;\"\\\\\n é]{0,9}", quote in prop::option::of(Just(b'"')), is_escaped: bool) {
            let csv = job::Csv { quote, escape: is_escaped.then_some(b'\\'), ..job::Csv::new(b';') };
            let mut to = Vec::new();
            if append_field(csv, text.as_bytes(), &mut to).is_some() {
                prop_assert_eq!(&*unquoted(csv, &to), text.as_bytes());
            }
        }
    }

    /// Returns descriptions of the pieces of a text, and their bytes.
    fn cut(header: bool, text: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
        let csv = job::Csv { header, ..CSV };
        let (mut cutter, mut found, mut whole) = (RecordCutter::new(csv), Vec::new(), Vec::new());
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
        for chunk in text.chunks(size.max(1)).chain([&b""[..]]) {
            cutter.feed(Bytes::copy_from_slice(chunk));
            while let Some(piece) = cutter.next_piece(chunk.is_empty()) {
                let (description, parts) = match piece {
                    FilePiece::Header(body, end) => (Some(format!("header {}", shown(body))), [body, end]),
                    FilePiece::Other(bytes) => (None, [bytes, b""]),
                    FilePiece::Row(Row { position, place, body, end, whole, .. }) => {
                        let broken = if whole { "" } else { " broken" };
                        (Some(format!("{position} in{place}: {}{broken}", shown(body))), [body, end])
                    }
                };
                found.extend(description);
                parts.iter().for_each(|part| whole.extend_from_slice(part));
            }
        }
        (found, whole)
    }

    #[test]
    fn a_record_has_its_quotes_and_the_end_of_its_line() {
        let text = b"\n\nid,text\r\n1,\"a\nb\"\r\n\r\n2,\"c \"\"d\"\"\"\r3\n4,\"open\n5,more\n";
        let expected = [
            "header id,text",
            "0 in line 4: 1,\\\"a\\nb\\\"",
            "1 in line 7: 2,\\\"c \\\"\\\"d\\\"\\\"\\\"",
            "2 in line 8: 3 broken",
            "3 in line 9: 4,\\\"open broken",
            "4 in line 10: 5,more",
        ];
        for size in [1, 2, 3, 100] {
            assert_eq!(cut(true, text, size), (expected.map(str::to_owned).to_vec(), text.to_vec()));
        }
    }

    #[test]
    fn added_fields_are_quoted_where_they_need_it() {
        let csv = job::Csv::new(b';');
        let unquoted = job::Csv { quote: None, ..csv };
        let escaped = job::Csv { escape: Some(b'\\'), ..unquoted };
        for (csv, value, expected) in [
            (csv, "k", Some("k")),
            (csv, "x;\"y\"", Some("\"x;\"\"y\"\"\"")),
            (csv, "a\rb", Some("\"a\rb\"")),
            (csv, "", Some("")),
            (unquoted, "\"k", Some("\"k")),
            (unquoted, "x;y", None),
            (escaped, "x;\\y", Some("x\\;\\\\y")),
        ] {
            let mut to = Vec::new();
            let written =
                append_field(csv, value.as_bytes(), &mut to).map(|()| String::from_utf8(to).unwrap());
            assert_eq!(written.as_deref(), expected);
        }
    }
}
