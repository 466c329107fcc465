//! CSV files -> their header, their rows and the bytes between them.

use bytes::Bytes;

use super::records::{End, Keep, Records};
use crate::error::Result;
use crate::job;
use crate::source::rows::{Piece, Row, RowCutter, TakePiece};

/// Cuts CSV into pieces.
pub(super) struct CsvCutter {
    records: Records,
    /// Whether the next record names the columns.
    header: bool,
    /// The fields of the first record.
    columns: Option<usize>,
    rows: u64,
    /// The bytes of the record that has started.
    pending: Vec<u8>,
    /// The record in `pending` has ended, and a `\n` may follow its `\r`.
    waiting: Option<EndedRecord>,
}

#[derive(Clone, Copy)]
struct EndedRecord {
    fields: usize,
    line: u64,
    /// The bytes at its end that end its line; `None` if the file ends inside of its quotes.
    line_end: Option<usize>,
}

impl CsvCutter {
    pub(super) fn new(csv: job::Csv) -> Self {
        let records = Records::new(csv, Keep::Columns(Vec::new()));
        Self { records, header: csv.header, columns: None, rows: 0, pending: Vec::new(), waiting: None }
    }

    fn ended(&mut self, line_end: Option<usize>) -> EndedRecord {
        let (fields, line) = (self.records.fields(), self.records.record_line());
        self.records.next();
        EndedRecord { fields, line, line_end }
    }

    fn give(&mut self, ended: EndedRecord, take: &mut TakePiece<'_>) -> Result<()> {
        let EndedRecord { fields, line, line_end } = ended;
        let columns = *self.columns.get_or_insert(fields);
        let (body, end) = self.pending.split_at(self.pending.len() - line_end.unwrap_or(0));
        if std::mem::take(&mut self.header) {
            take(Piece::Header(body, end))?;
        } else {
            let (position, whole) = (self.rows, line_end.is_some() && fields == columns);
            self.rows += 1;
            take(Piece::Row(Row { position, line, body, end, whole }))?;
        }
        self.pending.clear();
        Ok(())
    }
}

impl RowCutter for CsvCutter {
    fn feed(&mut self, chunk: Bytes, take: &mut TakePiece<'_>) -> Result<()> {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if let Some(mut ended) = self.waiting.take() {
                if let Some(more) = rest.strip_prefix(b"\n") {
                    self.records.skip_line_ends(b"\n");
                    self.pending.push(b'\n');
                    ended.line_end = Some(2);
                    rest = more;
                }
                self.give(ended, take)?;
                continue;
            }
            let (line_ends, more) = rest.split_at(self.records.skip_line_ends(rest));
            if !line_ends.is_empty() {
                take(Piece::Other(line_ends))?;
            }
            let (read, more) = more.split_at(self.records.read(more));
            self.pending.extend_from_slice(read);
            rest = more;
            if self.records.is_done() {
                let ended = self.ended(Some(1));
                match self.pending.last() {
                    Some(b'\r') => self.waiting = Some(ended),
                    _ => self.give(ended, take)?,
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, take: &mut TakePiece<'_>) -> Result<()> {
        let ended = match self.waiting.take() {
            Some(ended) => ended,
            None => match self.records.end() {
                End::Nothing => return Ok(()),
                End::Record => self.ended(Some(0)),
                End::Quoted(_) => self.ended(None),
            },
        };
        self.give(ended, take)
    }

    fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn csv(header: bool) -> job::Csv {
        job::Csv { delimiter: b',', header, quote: b'"' }
    }

    /// The pieces of a text as words, and the text that they are together.
    fn cut(header: bool, text: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
        let mut cutter = CsvCutter::new(csv(header));
        let (mut found, mut whole) = (Vec::new(), Vec::new());
        let mut take = |piece: Piece<'_>| {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
            let (word, parts) = match piece {
                Piece::Header(body, end) => (format!("header {}", shown(body)), [body, end]),
                Piece::Other(bytes) => (String::new(), [bytes, b""]),
                Piece::Row(Row { position, line, body, end, whole }) => {
                    let broken = if whole { "" } else { " broken" };
                    (format!("{position} in {line}: {}{broken}", shown(body)), [body, end])
                }
            };
            found.extend((!word.is_empty()).then_some(word));
            parts.iter().for_each(|part| whole.extend_from_slice(part));
            Ok(())
        };
        for chunk in text.chunks(size.max(1)) {
            cutter.feed(Bytes::copy_from_slice(chunk), &mut take).unwrap();
        }
        cutter.end(&mut take).unwrap();
        (found, whole)
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
            assert_eq!(cut(true, text, size), (expected.map(str::to_owned).to_vec(), text.to_vec()));
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
            let (found, whole) = cut(header, &text, size);
            prop_assert_eq!(&whole, &text);
            prop_assert_eq!(&found, &cut(header, &text, text.len()).0);
            let mut records = Records::new(csv(header), Keep::All);
            let (mut rest, mut count) = (&text[..], 0);
            while !rest.is_empty() {
                rest = &rest[records.read(rest)..];
                if records.is_done() {
                    count += 1;
                    records.next();
                }
            }
            count += usize::from(records.end() != End::Nothing);
            prop_assert_eq!(found.len(), count);
        }
    }
}
