//! CSV: bytes -> records, as they come.
//!
//! The rules are those of RFC 4180 as spreadsheets and other readers take it: a field that starts with a quote ends at
//! the next quote that is not one of two; a quote inside another field is a character like any other; a record ends
//! at `\n`, `\r` or `\r\n` outside of quotes; an empty line is no record.

use crate::job;

/// Cuts bytes into records and keeps the fields that are wanted. Holds those of one record, and nothing else.
#[derive(Debug)]
pub(super) struct Records {
    delimiter: u8,
    quote: u8,
    keep: Keep,
    state: State,
    /// Fields of the record that have ended.
    fields: usize,
    /// The kept fields; what is not used has been cleared, so that its memory serves the next record.
    values: Vec<Vec<u8>>,
    /// Bytes of the kept fields.
    kept: usize,
    /// The line that is being read, from 1.
    line: u64,
    /// Whether the last byte was a `\r`, whose `\n` does not start another line.
    after_return: bool,
    /// The line in which the record started.
    record_line: u64,
    /// The line in which the last quote was opened.
    quote_line: u64,
}

/// The fields of a record that are kept.
#[derive(Debug)]
pub(super) enum Keep {
    /// All of them.
    All,
    /// For each column of the file its place among the values, if it is wanted.
    Columns(Vec<Option<usize>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// After its last record, or without one.
    Nothing,
    /// In a record, which is whole.
    Record,
    /// Inside of quotes that were opened in this line.
    Quoted(u64),
}

impl Records {
    /// Records of a file that is written as `csv` says.
    pub(crate) fn new(csv: job::Csv, keep: Keep) -> Self {
        let values = match &keep {
            Keep::All => 0,
            Keep::Columns(places) => places.iter().flatten().count(),
        };
        Self {
            delimiter: csv.delimiter,
            quote: csv.quote,
            keep,
            state: State::Before,
            fields: 0,
            values: vec![Vec::new(); values],
            kept: 0,
            line: 1,
            after_return: false,
            record_line: 1,
            quote_line: 1,
        }
    }

    /// Reads to the end of the record, or of `bytes`; the number of bytes that were read.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while self.state != State::Done {
            let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { break };
            at += match self.state {
                State::Plain => self.plain(rest),
                State::Quoted => self.quoted(rest),
                _ => self.one(rest),
            };
        }
        at
    }

    /// Whether a record has ended, whose fields can be had until [`Records::next`].
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether a record has started.
    pub(crate) fn has_started(&self) -> bool {
        self.state != State::Before
    }

    /// How many fields the record has.
    pub(crate) fn fields(&self) -> usize {
        self.fields
    }

    /// The kept fields, without their quotes.
    pub(crate) fn values(&self) -> &[Vec<u8>] {
        &self.values
    }

    /// Bytes of the kept fields so far.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// The line in which the record started, from 1.
    pub(crate) fn record_line(&self) -> u64 {
        self.record_line
    }

    /// Forgets the record that is done.
    pub(crate) fn next(&mut self) {
        match self.keep {
            Keep::All => self.values.clear(),
            Keep::Columns(_) => self.values.iter_mut().for_each(Vec::clear),
        }
        self.fields = 0;
        self.kept = 0;
        self.state = State::Before;
    }

    /// The file has ended; a record that it ended in is done.
    pub(crate) fn end(&mut self) -> End {
        match self.state {
            State::Before | State::Done => End::Nothing,
            State::Quoted => {
                self.state = State::Done;
                End::Quoted(self.quote_line)
            }
            State::FieldStart | State::Plain | State::Quote => {
                self.close(State::Done);
                End::Record
            }
        }
    }

    /// A byte that can change the state.
    fn one(&mut self, bytes: &[u8]) -> usize {
        let Some(&byte) = bytes.first() else { return 0 };
        let starts = matches!(self.state, State::Before | State::FieldStart);
        if matches!(byte, b'\n' | b'\r') {
            if self.state != State::Before {
                self.close(State::Done);
            }
            if byte == b'\r' || !self.after_return {
                self.line += 1;
            }
            self.after_return = byte == b'\r';
            return 1;
        }
        self.after_return = false;
        if self.state == State::Before {
            self.record_line = self.line;
        }
        if byte == self.quote && starts {
            self.quote_line = self.line;
            self.state = State::Quoted;
        } else if byte == self.quote && self.state == State::Quote {
            self.add(&[byte]);
            self.state = State::Quoted;
        } else if byte == self.delimiter {
            self.close(State::FieldStart);
        } else {
            self.state = State::Plain;
            return self.plain(bytes);
        }
        1
    }

    /// Bytes of a field without quotes, or after them.
    fn plain(&mut self, bytes: &[u8]) -> usize {
        let delimiter = self.delimiter;
        match bytes.iter().position(|&byte| byte == delimiter || byte == b'\n' || byte == b'\r') {
            Some(0) => self.one(bytes),
            Some(end) => {
                let (field, rest) = bytes.split_at(end);
                self.add(field);
                end + self.one(rest)
            }
            None => {
                self.add(bytes);
                bytes.len()
            }
        }
    }

    /// Bytes inside of quotes.
    fn quoted(&mut self, bytes: &[u8]) -> usize {
        let quote = self.quote;
        let end = bytes.iter().position(|&byte| byte == quote);
        let (field, _) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.line += field.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.add(field);
        match end {
            Some(end) => {
                self.state = State::Quote;
                end + 1
            }
            None => bytes.len(),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let place = match &self.keep {
            Keep::Columns(places) => match places.get(self.fields).copied().flatten() {
                Some(place) => place,
                None => return,
            },
            Keep::All => {
                if self.values.len() <= self.fields {
                    self.values.resize_with(self.fields + 1, Vec::new);
                }
                self.fields
            }
        };
        if let Some(value) = self.values.get_mut(place) {
            value.extend_from_slice(bytes);
            self.kept += bytes.len();
        }
    }

    fn close(&mut self, next: State) {
        // An empty field is one too.
        self.add(&[]);
        self.fields += 1;
        self.state = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CSV: job::Csv = job::Csv { delimiter: b',', header: false, quote: b'"' };

    /// Line and fields of each record, and how the file ended.
    fn records(chunks: &[&[u8]]) -> (Vec<(u64, Vec<String>)>, End) {
        let mut records = Records::new(CSV, Keep::All);
        let mut found = Vec::new();
        let mut take = |records: &mut Records| {
            let fields = records.values().iter().map(|f| String::from_utf8_lossy(f).into_owned()).collect();
            found.push((records.record_line(), fields));
            records.next();
        };
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let read = records.read(rest);
                rest = &rest[read..];
                if records.is_done() {
                    take(&mut records);
                }
            }
        }
        let end = records.end();
        if end == End::Record {
            take(&mut records);
        }
        (found, end)
    }

    fn of(text: &str) -> Vec<(u64, Vec<String>)> {
        records(&[text.as_bytes()]).0
    }

    fn record(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(|f| f.to_string()).collect())
    }

    #[test]
    fn quotes_hold_delimiters_quotes_and_lines() {
        let text = "id,\"a \"\"b\"\",\nc\",d\r\n1,2,3\n";
        let expected = vec![record(1, &["id", "a \"b\",\nc", "d"]), record(3, &["1", "2", "3"])];
        assert_eq!(of(text), expected);
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(records(&single).0, expected);
    }

    #[test]
    fn every_end_of_line_ends_a_record_and_empty_lines_are_none() {
        assert_eq!(
            of("a\rb\r\nc\n\n\r\nd,\n,"),
            [
                record(1, &["a"]),
                record(2, &["b"]),
                record(3, &["c"]),
                record(6, &["d", ""]),
                record(7, &["", ""]),
            ]
        );
        assert_eq!(of("\"\"\n"), [record(1, &[""])]);
    }

    #[test]
    fn a_quote_inside_a_field_is_a_character() {
        assert_eq!(of("a\"b,\"c\"d\"\n"), [record(1, &["a\"b", "cd\""])]);
    }

    #[test]
    fn a_file_that_ends_inside_quotes_names_the_line_of_the_quote() {
        let (found, end) = records(&[b"a,b\n1,\"x\ny\"\n2,\"open\n3,z\n"]);
        assert_eq!(found.len(), 2);
        assert_eq!(end, End::Quoted(4));
        assert_eq!(records(&[b"a\n\"b\""]).1, End::Record);
        assert_eq!(records(&[b"a\n"]).1, End::Nothing);
    }

    #[test]
    fn only_wanted_columns_are_kept_and_all_are_counted() {
        let mut records = Records::new(CSV, Keep::Columns(vec![None, Some(1), Some(0)]));
        assert_eq!(records.read(b"long,\"b\",c,d\n1"), 13);
        assert!(records.is_done());
        assert_eq!((records.fields(), records.kept()), (4, 2));
        assert_eq!(records.values(), [b"c".to_vec(), b"b".to_vec()]);
    }

    proptest! {
        /// However the bytes come, the records are the same.
        #[test]
        fn the_cut_changes_nothing(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "bc", ",", "\"", "\"\"", "\n", "\r", "\r\n", "é"]), 0..40),
            size in 1usize..9,
        ) {
            let text = parts.concat();
            let cut: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(records(&cut), records(&[text.as_bytes()]));
        }

        /// What is written by the rules is read back.
        #[test]
        fn written_fields_are_read_back(
            rows in prop::collection::vec(prop::collection::vec("[a,\"\r\n é]{0,6}", 2..4), 0..6),
        ) {
            let mut text = String::new();
            for row in &rows {
                let fields: Vec<String> = row.iter().map(|f| format!("\"{}\"", f.replace('"', "\"\""))).collect();
                text.push_str(&fields.join(","));
                text.push_str("\r\n");
            }
            let (found, end) = records(&[text.as_bytes()]);
            prop_assert_eq!(end, End::Nothing);
            prop_assert_eq!(found.into_iter().map(|(_, fields)| fields).collect::<Vec<_>>(), rows);
        }
    }
}
