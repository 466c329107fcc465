//! Cuts bytes into lines, and reads lines as documents.

use bytes::{Buf, Bytes, BytesMut};

use super::bytes::BYTE_ORDER_MARK;
use super::documents::DocumentSink;
use crate::error::Result;
use crate::source::format::{DocumentReader, FilePiece, Row, RowCutter};

/// Cuts bytes into lines, which end in `\n`, `\r\n` or `\r`. Holds at most the longest accepted line and one chunk in memory.
#[derive(Debug, Default)]
pub(in crate::source) struct Lines {
    pending: BytesMut,
    /// Whether the pending line ended in `\r`. A following `\n` belongs to the same line end.
    after_return: bool,
    /// The number of lines that were returned.
    count: u64,
    /// The line end of the line that was returned last.
    end: &'static [u8],
    /// The maximum number of bytes in a line, or `None` if there is no limit.
    most: Option<u64>,
    /// The number of bytes that were dropped from a pending line because the line is too long.
    dropped: u64,
    /// The number of bytes in the line that was returned last, if that line was too long.
    too_long: Option<u64>,
}

impl Lines {
    /// Returns a cutter that replaces a line of more than `most` bytes with an empty line.
    pub(in crate::source) fn limited(most: u64) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// The number of the line that was returned last, from 1.
    pub(in crate::source) fn line(&self) -> u64 {
        self.count
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
    fn finish(&mut self, end: &'static [u8]) -> Bytes {
        self.count += 1;
        self.end = end;
        let dropped = std::mem::take(&mut self.dropped);
        self.too_long = (dropped > 0).then_some(dropped);
        self.pending.split().freeze()
    }

    /// Returns the next line that ends in `chunk`, without its line end. Removes the bytes that were read from `chunk`.
    pub(in crate::source) fn next(&mut self, chunk: &mut Bytes) -> Option<Bytes> {
        let end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let length = if self.after_return { 0 } else { chunk.iter().position(end).unwrap_or(chunk.len()) };
        let line = chunk.split_to(length);
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
        self.after_return = false;
        let is_pending = !self.pending.is_empty() || self.dropped > 0;
        if is_pending || self.most.is_some_and(|most| line.len() as u64 > most) {
            self.add(&line);
            return Some(self.finish(end));
        }
        // A line that is complete within a chunk is not copied.
        self.finish(end);
        Some(line)
    }

    /// Returns the last line if the file ends without a line end.
    pub(in crate::source) fn end(&mut self) -> Option<Bytes> {
        let after_return = std::mem::take(&mut self.after_return);
        if self.pending.is_empty() && self.dropped == 0 && !after_return {
            return None;
        }
        Some(self.finish(if after_return { b"\r" } else { b"" }))
    }
}

/// Removes the byte order mark from a line. Concatenated files also contain byte order marks after the start.
pub(in crate::source) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

/// Reads the lines of a file as documents. A closure takes each line, and the number of the line, from 1.
pub(in crate::source) struct LineReader<F> {
    lines: Lines,
    read_line: F,
}

impl<F: Fn(&[u8], u64, &mut DocumentSink<'_>) -> Result<()>> LineReader<F> {
    /// Returns a reader that rejects lines of more than `most` bytes.
    pub(in crate::source) fn new(most: u64, read_line: F) -> Self {
        Self { lines: Lines::limited(most), read_line }
    }

    fn line(&self, line: &[u8], documents: &mut DocumentSink<'_>) -> Result<()> {
        match self.lines.too_long {
            Some(bytes) => documents.push_too_long(self.lines.line(), bytes),
            None => (self.read_line)(line, self.lines.line(), documents),
        }
    }
}

impl<F: Fn(&[u8], u64, &mut DocumentSink<'_>) -> Result<()> + Send> DocumentReader for LineReader<F> {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        while !documents.is_full()
            && let Some(line) = self.lines.next(chunk)
        {
            self.line(&line, documents)?;
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        let last = self.lines.end();
        last.map_or(Ok(()), |line| self.line(&line, documents))
    }
}

/// Cuts a file into lines. Every line that is not blank is a row.
#[derive(Debug, Default)]
pub(in crate::source) struct LineCutter {
    lines: Lines,
    chunk: Bytes,
    /// The current line.
    line: Bytes,
    /// The next piece of the current line.
    next: NextPiece,
    rows: u64,
}

#[derive(Debug, Default, Clone, Copy)]
enum NextPiece {
    #[default]
    Line,
    /// The row after a byte order mark.
    Row,
    /// The line end after a blank line.
    End,
}

impl RowCutter for LineCutter {
    fn feed(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    fn next_piece(&mut self, is_end: bool) -> Option<FilePiece<'_>> {
        match std::mem::take(&mut self.next) {
            NextPiece::Line => {
                let line = self.lines.next(&mut self.chunk);
                self.line = if is_end { line.or_else(|| self.lines.end())? } else { line? };
                let body = without_mark(&self.line);
                if body.trim_ascii().is_empty() {
                    self.next = NextPiece::End;
                    return Some(FilePiece::Other(&self.line));
                }
                if body.len() < self.line.len() {
                    self.line.advance(BYTE_ORDER_MARK.len());
                    self.next = NextPiece::Row;
                    return Some(FilePiece::Other(BYTE_ORDER_MARK));
                }
            }
            NextPiece::End => return Some(FilePiece::Other(self.lines.end)),
            NextPiece::Row => {}
        }
        let (position, line) = (self.rows, self.lines.line());
        self.rows += 1;
        Some(FilePiece::Row(Row { position, line, body: &self.line, end: self.lines.end, whole: true }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_do_not_change_the_lines() {
        let text = "a\n\nlong line\r\n  \r\n\u{feff}\n\u{feff}mac\r\u{feff}\r\rlast\r";
        for size in [1, 2, 3, 5, 100] {
            let (mut lines, mut cutter) = (Lines::default(), LineCutter::default());
            let (mut found, mut rows, mut whole) = (Vec::new(), Vec::new(), Vec::new());
            let mut take = |cutter: &mut LineCutter, is_end: bool| {
                while let Some(piece) = cutter.next_piece(is_end) {
                    let parts = match piece {
                        FilePiece::Row(Row { position, line, body, end, .. }) => {
                            rows.push((position, line, String::from_utf8(body.to_vec()).unwrap()));
                            [body, end]
                        }
                        FilePiece::Header(body, end) => [body, end],
                        FilePiece::Other(bytes) => [bytes, b""],
                    };
                    parts.iter().for_each(|part| whole.extend_from_slice(part));
                }
            };
            for chunk in text.as_bytes().chunks(size) {
                let mut chunk = Bytes::copy_from_slice(chunk);
                cutter.feed(chunk.clone());
                take(&mut cutter, false);
                while !chunk.is_empty() {
                    found.extend(lines.next(&mut chunk));
                }
            }
            found.extend(lines.end());
            take(&mut cutter, true);
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
