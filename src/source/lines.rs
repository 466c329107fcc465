//! Lines of a file whose bytes come in chunks.

use bytes::{Buf, Bytes, BytesMut};

use super::rows::{Piece, Row, RowCutter, TakePiece};
use crate::error::Result;

/// Cuts bytes into lines. Holds no more than the longest line and one chunk.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: BytesMut,
    /// Lines that were returned.
    count: u64,
}

impl Lines {
    /// The next line that ends in `chunk`, without its end. Removes the bytes that were read from `chunk`.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Option<Bytes> {
        let Some(end) = chunk.iter().position(|byte| *byte == b'\n') else {
            self.pending.extend_from_slice(&std::mem::take(chunk));
            return None;
        };
        let line = chunk.split_to(end);
        chunk.advance(1);
        self.count += 1;
        if self.pending.is_empty() {
            return Some(line);
        }
        self.pending.extend_from_slice(&line);
        Some(self.pending.split().freeze())
    }

    /// The last line, where the file does not end with the end of a line.
    pub(super) fn end(&mut self) -> Option<Bytes> {
        if self.pending.is_empty() {
            return None;
        }
        self.count += 1;
        Some(self.pending.split().freeze())
    }

    /// The number of the line that was returned last, from 1.
    pub(super) fn line(&self) -> u64 {
        self.count
    }
}

/// Cuts a file into lines; each is a row unless it is blank.
#[derive(Debug, Default)]
pub(super) struct LineCutter {
    lines: Lines,
    rows: u64,
}

impl LineCutter {
    fn give(&mut self, line: &[u8], end: &[u8], take: &mut TakePiece<'_>) -> Result<()> {
        if line.trim_ascii().is_empty() {
            take(Piece::Other(line))?;
            return take(Piece::Other(end));
        }
        let position = self.rows;
        self.rows += 1;
        take(Piece::Row(Row { position, line: self.lines.line(), body: line, end, whole: true }))
    }
}

impl RowCutter for LineCutter {
    fn feed(&mut self, mut chunk: Bytes, take: &mut TakePiece<'_>) -> Result<()> {
        while let Some(line) = self.lines.next(&mut chunk) {
            self.give(&line, b"\n", take)?;
        }
        Ok(())
    }

    fn end(&mut self, take: &mut TakePiece<'_>) -> Result<()> {
        match self.lines.end() {
            Some(line) => self.give(&line, b"", take),
            None => Ok(()),
        }
    }

    fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = "a\n\nlong line\r\n  \r\nlast";
        for size in [1, 2, 3, 5, 100] {
            let (mut lines, mut cutter) = (Lines::default(), LineCutter::default());
            let (mut found, mut rows, mut whole) = (Vec::new(), Vec::new(), Vec::new());
            let mut take = |piece: Piece<'_>| {
                let parts = match piece {
                    Piece::Row(Row { position, line, body, end, .. }) => {
                        rows.push((position, line, String::from_utf8(body.to_vec()).unwrap()));
                        [body, end]
                    }
                    Piece::Header(body, end) => [body, end],
                    Piece::Other(bytes) => [bytes, b""],
                };
                parts.iter().for_each(|part| whole.extend_from_slice(part));
                Ok(())
            };
            for chunk in text.as_bytes().chunks(size) {
                let mut chunk = Bytes::copy_from_slice(chunk);
                cutter.feed(chunk.clone(), &mut take).unwrap();
                while !chunk.is_empty() {
                    found.extend(lines.next(&mut chunk));
                }
            }
            found.extend(lines.end());
            cutter.end(&mut take).unwrap();
            assert_eq!(found, ["a", "", "long line\r", "  \r", "last"], "chunks of {size}");
            assert_eq!(lines.line(), 5);
            let expected = [(0, 1, "a"), (1, 3, "long line\r"), (2, 5, "last")];
            assert_eq!(rows, expected.map(|(position, line, body)| (position, line, body.to_owned())));
            assert_eq!(whole, text.as_bytes());
        }
    }
}
