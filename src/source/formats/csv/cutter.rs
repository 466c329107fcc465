//! CSV files -> their header, their rows and the bytes between them.

use bytes::Bytes;

use super::records::{CsvPiece, RecordCutter};
use crate::error::Result;
use crate::job;
use crate::source::rows::{FilePiece, Row, RowCutter, TakePiece};

/// Cuts CSV into pieces.
pub(super) struct CsvCutter {
    records: RecordCutter,
    /// Whether the next record names the columns.
    header: bool,
    rows: u64,
}

impl CsvCutter {
    pub(super) fn new(csv: job::Csv) -> Self {
        Self { records: RecordCutter::new(csv), header: csv.header, rows: 0 }
    }

    fn give(&mut self, is_end: bool, take: &mut TakePiece<'_>) -> Result<()> {
        while let Some(found) = self.records.advance(is_end) {
            if found == CsvPiece::LineEnds {
                take(FilePiece::Other(self.records.line_ends()))?;
                continue;
            }
            let record = self.records.record();
            if std::mem::take(&mut self.header) {
                take(FilePiece::Header(record.body, record.end))?;
                continue;
            }
            let (position, whole) = (self.rows, record.defect.is_none());
            self.rows += 1;
            take(FilePiece::Row(Row {
                position,
                line: record.line,
                body: record.body,
                end: record.end,
                whole,
            }))?;
        }
        Ok(())
    }
}

impl RowCutter for CsvCutter {
    fn feed(&mut self, chunk: Bytes, take: &mut TakePiece<'_>) -> Result<()> {
        self.records.feed(&chunk);
        self.give(false, take)
    }

    fn end(&mut self, take: &mut TakePiece<'_>) -> Result<()> {
        self.give(true, take)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn csv(header: bool) -> job::Csv {
        job::Csv { header, ..job::Csv::new(b',') }
    }

    /// The pieces of a text as words, and the text that they are together.
    fn cut(header: bool, text: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
        let mut cutter = CsvCutter::new(csv(header));
        let (mut found, mut whole) = (Vec::new(), Vec::new());
        let mut take = |piece: FilePiece<'_>| {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
            let (word, parts) = match piece {
                FilePiece::Header(body, end) => (format!("header {}", shown(body)), [body, end]),
                FilePiece::Other(bytes) => (String::new(), [bytes, b""]),
                FilePiece::Row(Row { position, line, body, end, whole }) => {
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
        let text = b"\n\nid,text\r\n1,\"a\nb\"\r\n\r\n2,\"c \"\"d\"\"\"\r3\n4,\"open\n5,more\n";
        let expected = [
            "header id,text",
            "0 in 4: 1,\\\"a\\nb\\\"",
            "1 in 7: 2,\\\"c \\\"\\\"d\\\"\\\"\\\"",
            "2 in 8: 3 broken",
            "3 in 9: 4,\\\"open broken",
            "4 in 10: 5,more",
        ];
        for size in [1, 2, 3, 100] {
            assert_eq!(cut(true, text, size), (expected.map(str::to_owned).to_vec(), text.to_vec()));
        }
    }

    proptest! {
        /// The pieces are the file, and the same ones however its bytes come.
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
    }
}
