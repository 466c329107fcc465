//! CSV: bytes -> records, as they come.
//!
//! The states are those of `csv-core`, which follows RFC 4180 as spreadsheets do: a field that starts with a quote ends at the
//! next quote that is not doubled; a quote inside another field is an ordinary character; a record ends at `\n`, `\r` or `\r\n`
//! outside of quotes; empty lines are skipped.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};

use crate::job;

/// Bytes of a field that are taken from the reader at once.
const OUTPUT_BYTES: usize = 8 * 1024;

/// Cuts bytes into records and keeps the wanted fields of one record at a time.
#[derive(Debug)]
pub(super) struct Records {
    reader: Reader,
    output: Vec<u8>,
    keep: Keep,
    state: State,
    /// Fields of the record that have ended.
    fields: usize,
    /// The kept fields. Cleared values keep their memory for the next record.
    values: Vec<Vec<u8>>,
    /// Bytes of the kept fields.
    kept: usize,
    lines: LineCounter,
    /// The line in which the record started.
    record_line: u64,
    /// The line in which the last field started.
    field_line: u64,
}

/// The fields of a record that are kept.
#[derive(Debug)]
pub(super) enum Keep {
    /// All of them.
    All,
    /// The place among the values of each column of the file; `None` for columns that are not wanted.
    Columns(Vec<Option<usize>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a record.
    Before,
    /// In a record.
    Inside,
    /// After the last byte of a record.
    Done,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Between records.
    Nothing,
    /// In a record, which is complete.
    Record,
    /// Inside of quotes that were opened in this line.
    Quoted(u64),
}

impl Records {
    /// A reader of files in the dialect `csv`.
    pub(super) fn new(csv: job::Csv, keep: Keep) -> Self {
        let values = match &keep {
            Keep::All => 0,
            Keep::Columns(places) => places.iter().flatten().count(),
        };
        let mut reader = ReaderBuilder::new().delimiter(csv.delimiter).quote(csv.quote).build();
        // The reader drops a byte order mark before the first byte that it sees. It was dropped before.
        reader.read_field(b"\n", &mut [0]);
        Self {
            reader,
            output: vec![0; OUTPUT_BYTES],
            keep,
            state: State::Before,
            fields: 0,
            values: vec![Vec::new(); values],
            kept: 0,
            lines: LineCounter::default(),
            record_line: 1,
            field_line: 1,
        }
    }

    /// Reads to the end of the record or of `bytes`. Returns the number of bytes read.
    pub(super) fn read(&mut self, bytes: &[u8]) -> usize {
        let mut at = self.skip_line_ends(bytes);
        while self.state != State::Done
            && let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty())
        {
            if self.state == State::Before {
                (self.record_line, self.field_line) = (self.lines.line(), self.lines.line());
                self.state = State::Inside;
            }
            let (result, read, written) = self.reader.read_field(rest, &mut self.output);
            self.lines.count(&rest[..read]);
            self.keep_output(written);
            if let ReadFieldResult::Field { record_end } = result {
                self.end_field(record_end);
            }
            at += read;
        }
        at
    }

    /// Skips the ends of lines before a record. Returns the number of bytes skipped.
    pub(super) fn skip_line_ends(&mut self, bytes: &[u8]) -> usize {
        if self.state != State::Before {
            return 0;
        }
        let ends = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        self.lines.count(&bytes[..ends]);
        ends
    }

    /// Whether a record has ended. Its fields are available until [`Records::next`].
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether a record has started.
    pub(super) fn has_started(&self) -> bool {
        self.state != State::Before
    }

    /// The number of fields of the record.
    pub(super) fn fields(&self) -> usize {
        self.fields
    }

    /// The kept fields, without their quotes.
    pub(super) fn values(&self) -> &[Vec<u8>] {
        &self.values
    }

    /// Bytes of the kept fields so far.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// The line in which the record started, from 1.
    pub(super) fn record_line(&self) -> u64 {
        self.record_line
    }

    /// Drops the record that has ended.
    pub(super) fn next(&mut self) {
        match self.keep {
            Keep::All => self.values.clear(),
            Keep::Columns(_) => self.values.iter_mut().for_each(Vec::clear),
        }
        (self.fields, self.kept, self.state) = (0, 0, State::Before);
    }

    /// Ends the file, and with it a record that it ends in.
    pub(super) fn end(&mut self) -> End {
        if self.state != State::Inside {
            return End::Nothing;
        }
        // Only inside of quotes the end of a line is part of a field. A clone of the reader would not do: it loses its states.
        let (after_newline, ..) = self.reader.read_field(b"\n", &mut self.output);
        let end = match after_newline {
            ReadFieldResult::Field { .. } => End::Record,
            _ => End::Quoted(self.field_line),
        };
        self.end_field(true);
        end
    }

    /// Keeps the first bytes of the output, where the field is wanted.
    fn keep_output(&mut self, bytes: usize) {
        let place = match &self.keep {
            Keep::Columns(places) => places.get(self.fields).copied().flatten(),
            Keep::All => {
                self.values.resize_with(self.values.len().max(self.fields + 1), Vec::new);
                Some(self.fields)
            }
        };
        if let Some(value) = place.and_then(|place| self.values.get_mut(place)) {
            value.extend_from_slice(&self.output[..bytes]);
            self.kept += bytes;
        }
    }

    fn end_field(&mut self, record_end: bool) {
        // An empty field is kept too.
        self.keep_output(0);
        self.fields += 1;
        self.field_line = self.lines.line();
        if record_end {
            self.state = State::Done;
        }
    }
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
                "a\rb\r\nc\n\n\r\nd,\n,",
                vec![
                    record(1, &["a"]),
                    record(2, &["b"]),
                    record(3, &["c"]),
                    record(6, &["d", ""]),
                    record(7, &["", ""]),
                ],
            ),
            ("\"\"\n", vec![record(1, &[""])]),
            ("a\"b,\"c\"d\"\n", vec![record(1, &["a\"b", "cd\""])]),
            ("\u{feff}a\n", vec![record(1, &["\u{feff}a"])]),
        ] {
            assert_eq!(records(&[text.as_bytes()]).0, expected, "{text:?}");
        }
    }

    #[test]
    fn a_file_that_ends_inside_quotes_names_the_line_of_the_quote() {
        let (found, end) = records(&[b"a,b\n1,\"x\ny\"\n2,\"open\n3,z\n"]);
        assert_eq!(found.len(), 2);
        assert_eq!(end, End::Quoted(4));
        assert_eq!(records(&[b"a\n\"b\""]).1, End::Record);
        assert_eq!(records(&[b"a\nb,"]).1, End::Record);
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
