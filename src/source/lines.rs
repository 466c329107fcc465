//! Lines of a file whose bytes come in chunks.

use bytes::{Buf, Bytes, BytesMut};

use super::bytes::BYTE_ORDER_MARK;
use super::rows::{FilePiece, Row, RowCutter, TakePiece};
use crate::error::Result;

/// Cuts bytes into lines, which end in `\n`, `\r\n` or `\r`. Holds no more than the longest line, or the most bytes of one, and one chunk.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: BytesMut,
    /// Whether the pending line ended in a `\r`, and a `\n` may follow.
    after_return: bool,
    /// Lines that were returned.
    count: u64,
    /// The end of the line that was returned last.
    end: &'static [u8],
    /// The most bytes of a line that are kept; `None` if all are.
    most: Option<u64>,
    /// The bytes of a longer line that were dropped.
    dropped: u64,
    /// The bytes of the line that was returned last, if it was longer.
    too_long: Option<u64>,
}

impl Lines {
    /// Keeps nothing of lines that have more bytes than `most`, and returns them empty.
    pub(super) fn of_at_most(most: u64) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// The bytes of the line that was returned last, if it has more than the most.
    pub(super) fn too_long(&self) -> Option<u64> {
        self.too_long
    }

    /// Adds bytes to the pending line.
    fn add(&mut self, bytes: &[u8]) {
        let length = self.dropped + (self.pending.len() + bytes.len()) as u64;
        if self.most.is_some_and(|most| length > most) {
            self.dropped = length;
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Ends the pending line.
    fn finish(&mut self) -> Bytes {
        self.count += 1;
        let dropped = std::mem::take(&mut self.dropped);
        self.too_long = (dropped > 0).then_some(dropped);
        self.pending.split().freeze()
    }

    /// The next line that ends in `chunk`, without its end. Removes the bytes that were read from `chunk`.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Option<Bytes> {
        let more = match self.after_return {
            true => 0,
            false => chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(chunk.len()),
        };
        let line = chunk.split_to(more);
        let (end, bytes): (&'static [u8], usize) = match (self.after_return, &chunk[..]) {
            (_, []) | (false, [b'\r']) => {
                self.add(&line);
                self.after_return |= !std::mem::take(chunk).is_empty();
                return None;
            }
            (true, [b'\n', ..]) => (b"\r\n", 1),
            (true, _) => (b"\r", 0),
            (false, [b'\r', b'\n', ..]) => (b"\r\n", 2),
            (false, [b'\r', ..]) => (b"\r", 1),
            (false, _) => (b"\n", 1),
        };
        chunk.advance(bytes);
        (self.after_return, self.end) = (false, end);
        if self.pending.is_empty()
            && self.dropped == 0
            && self.most.is_none_or(|most| line.len() as u64 <= most)
        {
            self.count += 1;
            self.too_long = None;
            return Some(line);
        }
        self.add(&line);
        Some(self.finish())
    }

    /// The last line, where the file does not end with the end of a line.
    pub(super) fn end(&mut self) -> Option<Bytes> {
        let after_return = std::mem::take(&mut self.after_return);
        if self.pending.is_empty() && self.dropped == 0 && !after_return {
            return None;
        }
        self.end = if after_return { b"\r" } else { b"" };
        Some(self.finish())
    }

    /// The number of the line that was returned last, from 1.
    pub(super) fn line(&self) -> u64 {
        self.count
    }
}

/// A line without the byte order mark that it begins with where files were concatenated.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

/// Cuts a file into lines; each is a row unless it is blank.
#[derive(Debug, Default)]
pub(super) struct LineCutter {
    lines: Lines,
    rows: u64,
}

impl LineCutter {
    fn give(&mut self, line: &[u8], take: &mut TakePiece<'_>) -> Result<()> {
        let (body, end) = (without_mark(line), self.lines.end);
        if body.trim_ascii().is_empty() {
            take(FilePiece::Other(line))?;
            return take(FilePiece::Other(end));
        }
        if body.len() < line.len() {
            take(FilePiece::Other(BYTE_ORDER_MARK))?;
        }
        let position = self.rows;
        self.rows += 1;
        take(FilePiece::Row(Row { position, line: self.lines.line(), body, end, whole: true }))
    }
}

impl RowCutter for LineCutter {
    fn feed(&mut self, mut chunk: Bytes, take: &mut TakePiece<'_>) -> Result<()> {
        while let Some(line) = self.lines.next(&mut chunk) {
            self.give(&line, take)?;
        }
        Ok(())
    }

    fn end(&mut self, take: &mut TakePiece<'_>) -> Result<()> {
        match self.lines.end() {
            Some(line) => self.give(&line, take),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = "a\n\nlong line\r\n  \r\n\u{feff}\n\u{feff}mac\r\u{feff}\r\rlast\r";
        for size in [1, 2, 3, 5, 100] {
            let (mut lines, mut cutter) = (Lines::default(), LineCutter::default());
            let (mut found, mut rows, mut whole) = (Vec::new(), Vec::new(), Vec::new());
            let mut take = |piece: FilePiece<'_>| {
                let parts = match piece {
                    FilePiece::Row(Row { position, line, body, end, .. }) => {
                        rows.push((position, line, String::from_utf8(body.to_vec()).unwrap()));
                        [body, end]
                    }
                    FilePiece::Header(body, end) => [body, end],
                    FilePiece::Other(bytes) => [bytes, b""],
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
            let mark = "\u{feff}";
            let expected = ["a", "", "long line", "  ", mark, "\u{feff}mac", mark, "", "last"];
            assert_eq!(found, expected, "chunks of {size}");
            assert_eq!(lines.line(), 9);
            let expected = [(0, 1, "a"), (1, 3, "long line"), (2, 6, "mac"), (3, 9, "last")];
            assert_eq!(rows, expected.map(|(position, line, body)| (position, line, body.to_owned())));
            assert_eq!(whole, text.as_bytes());
        }
    }
}
