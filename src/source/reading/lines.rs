//! Cuts bytes into lines, or into the elements of a JSON array, and reads them as documents.

use bytes::{Buf, Bytes, BytesMut};

use super::bytes::BYTE_ORDER_MARK;
use super::documents::{DocumentSink, RowPlace};
use crate::error::Result;
use crate::source::format::{DocumentReader, FilePiece, Row, RowCutter};

/// Cuts bytes into lines, which end in `\n`, `\r\n` or `\r`. Holds at most the longest accepted line and one chunk in memory. In a JSON
/// array, each element with the white space around it counts as a line, which ends in `,` or `]`. The first line ends in `[`.
#[derive(Debug, Default)]
pub(in crate::source) struct Lines {
    pending: BytesMut,
    /// Whether the pending line ended in `\r`. A following `\n` belongs to the same line end.
    after_return: bool,
    form: RowForm,
    /// The number of lines that were returned, or of elements in the current array.
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

    /// Returns a cutter that cuts a file into elements if the file contains a JSON array.
    pub(in crate::source) fn with_arrays(self) -> Self {
        Self { form: RowForm::Undecided, ..self }
    }

    /// The place of the line that was returned last.
    pub(in crate::source) fn place(&self) -> RowPlace {
        match self.form {
            RowForm::Elements(_) => RowPlace::Element(self.count),
            RowForm::Lines | RowForm::Undecided => RowPlace::Line(self.count),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let length = self.dropped + (self.pending.len() + bytes.len()) as u64;
        if self.most.is_some_and(|most| length > most) {
            self.dropped = length;
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self, end: &'static [u8]) -> Bytes {
        self.count = if end == b"[" { 0 } else { self.count + 1 };
        self.end = end;
        let dropped = std::mem::take(&mut self.dropped);
        self.too_long = (dropped > 0).then_some(dropped);
        self.pending.split().freeze()
    }

    /// Returns the next line that ends in `chunk`, without its line end. Removes the bytes that were read from `chunk`.
    pub(in crate::source) fn next(&mut self, chunk: &mut Bytes) -> Option<Bytes> {
        let length = if self.after_return { 0 } else { self.form.end_of_row(chunk).unwrap_or(chunk.len()) };
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
            (false, [b'[', ..]) => (b"[", 1),
            (false, [b',', ..]) => (b",", 1),
            (false, [b']', ..]) => (b"]", 1),
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

/// Reads the lines or the elements of a file as documents. A closure takes each of them with its place.
pub(in crate::source) struct LineReader<F> {
    lines: Lines,
    read_line: F,
}

impl<F: Fn(&[u8], RowPlace, &mut DocumentSink<'_>) -> Result<()>> LineReader<F> {
    /// Returns a reader that rejects lines of more than `most` bytes.
    pub(in crate::source) fn new(most: u64, read_line: F) -> Self {
        Self { lines: Lines::limited(most), read_line }
    }

    pub(in crate::source) fn with_arrays(self) -> Self {
        Self { lines: self.lines.with_arrays(), ..self }
    }

    fn line(&self, line: &[u8], documents: &mut DocumentSink<'_>) -> Result<()> {
        match self.lines.too_long {
            Some(bytes) => documents.push_too_long(self.lines.place(), bytes),
            None => (self.read_line)(line, self.lines.place(), documents),
        }
    }
}

impl<F: Fn(&[u8], RowPlace, &mut DocumentSink<'_>) -> Result<()> + Send> DocumentReader for LineReader<F> {
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
        last.map_or(Ok(()), |line| self.line(&line, documents))?;
        if self.lines.form.is_open() { documents.open_array() } else { Ok(()) }
    }
}

/// Cuts a file into lines or elements. Each of them is a row if it is not blank.
#[derive(Debug, Default)]
pub(in crate::source) struct LineCutter {
    lines: Lines,
    chunk: Bytes,
    line: Bytes,
    next: NextPiece,
    /// The comma after the previous element of an array.
    comma: &'static [u8],
    rows: u64,
}

impl LineCutter {
    pub(in crate::source) fn with_arrays() -> Self {
        Self { lines: Lines::default().with_arrays(), ..Self::default() }
    }
}

#[derive(Debug, Default, Clone, Copy)]
enum NextPiece {
    #[default]
    Line,
    /// The row that follows a byte order mark.
    Row,
    /// The line end after a blank line.
    End,
    /// The bracket after the last element of an array.
    Bracket,
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
                    if let b"[" | b"]" = self.lines.end {
                        self.comma = b"";
                        return Some(FilePiece::Header(&self.line, self.lines.end));
                    }
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
            NextPiece::Bracket => return Some(FilePiece::Header(b"", self.lines.end)),
            NextPiece::Row => {}
        }
        let (position, place, mut before, mut end) =
            (self.rows, self.lines.place(), &b""[..], self.lines.end);
        self.rows += 1;
        if let RowPlace::Element(_) = place {
            before = std::mem::take(&mut self.comma);
            match end {
                b"," => self.comma = b",",
                b"" => {}
                _ => self.next = NextPiece::Bracket,
            }
            end = b"";
        }
        Some(FilePiece::Row(Row { position, place, before, body: &self.line, end, whole: true }))
    }
}

/// Whether the rows of a file are its lines or the elements of a JSON array.
#[derive(Debug, Default)]
pub(super) enum RowForm {
    #[default]
    Lines,
    /// The first byte that is not blank decides: `[` begins an array.
    Undecided,
    Elements(ArrayScan),
}

impl RowForm {
    /// Returns the index of the first byte in `bytes` that ends a row. `bytes` continue the bytes of the previous call.
    pub(super) fn end_of_row(&mut self, bytes: &[u8]) -> Option<usize> {
        if matches!(self, Self::Undecided)
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            *self = if *first == b'[' { Self::Elements(ArrayScan::default()) } else { Self::Lines };
        }
        match self {
            Self::Elements(scan) => scan.end_of_element(bytes),
            Self::Lines | Self::Undecided => bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Elements(scan) if scan.depth > 0)
    }
}

/// The position in a JSON array.
#[derive(Debug, Default)]
pub(super) struct ArrayScan {
    /// The number of open brackets. The elements of the array have the depth 1.
    depth: u64,
    in_string: bool,
    /// Whether the previous byte is a backslash in a string.
    is_escaped: bool,
}

impl ArrayScan {
    /// Returns the index of the first byte that is a bracket of the array or a comma between its elements.
    fn end_of_element(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            match byte {
                b'\\' => self.is_escaped = self.in_string && !is_escaped,
                b'"' => self.in_string ^= !is_escaped,
                _ if self.in_string => {}
                b'[' | b'{' => {
                    self.depth += 1;
                    return self.depth == 1 && *byte == b'[';
                }
                b']' if self.depth <= 1 => {
                    self.depth = 0;
                    return true;
                }
                b']' | b'}' if self.depth > 1 => self.depth -= 1,
                b',' => return self.depth == 1,
                _ => {}
            }
            false
        })
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
                        FilePiece::Row(Row { position, place, body, end, .. }) => {
                            rows.push((position, place, String::from_utf8(body.to_vec()).unwrap()));
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
            assert_eq!(lines.place(), RowPlace::Line(9));
            let expected = [(0, 1, "a"), (1, 3, "long line"), (2, 6, "mac"), (3, 9, "last")];
            let row =
                |(position, line, body): (u64, u64, &str)| (position, RowPlace::Line(line), body.to_owned());
            assert_eq!(rows, expected.map(row));
            assert_eq!(whole, text.as_bytes());
        }
    }

    /// Checks that the pieces are the whole text. Returns the rows, and the text without the rows at `gone`.
    fn elements(text: &str, size: usize, gone: &[u64]) -> (Vec<(RowPlace, String)>, String) {
        let (mut cutter, mut rows) = (LineCutter::with_arrays(), Vec::new());
        let (mut whole, mut kept, mut kept_rows) = (String::new(), String::new(), 0);
        let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for chunk in text.as_bytes().chunks(size).chain([&b""[..]]) {
            cutter.feed(Bytes::copy_from_slice(chunk));
            while let Some(piece) = cutter.next_piece(chunk.is_empty()) {
                let piece = match piece {
                    FilePiece::Row(Row { position, place, before, body, end, .. }) => {
                        rows.push((place, shown(body)));
                        whole += &shown(before);
                        let row = shown(&[body, end].concat());
                        if !gone.contains(&position) {
                            let before = if kept_rows > 0 { shown(before) } else { String::new() };
                            kept += &format!("{before}{row}");
                            kept_rows += 1;
                        }
                        whole += &row;
                        continue;
                    }
                    FilePiece::Header(body, end) => shown(&[body, end].concat()),
                    FilePiece::Other(bytes) => shown(bytes),
                };
                whole += &piece;
                kept += &piece;
            }
        }
        assert_eq!(whole, text);
        (rows, kept)
    }

    #[test]
    fn elements_of_an_array_are_rows() {
        let text = "\n [\n  {\"a\": \"],[\\\"{\\\\\",\n   \"b\": [1, {}]},\n  {\"a\": 2}, 3\n]\n";
        for size in [1, 2, 3, 7, 100] {
            let (rows, kept) = elements(text, size, &[2]);
            let found: Vec<_> = rows.iter().map(|(place, row)| (place.to_string(), row.trim())).collect();
            let expected = [
                (" element 1", "{\"a\": \"],[\\\"{\\\\\",\n   \"b\": [1, {}]}"),
                (" element 2", "{\"a\": 2}"),
                (" element 3", "3"),
            ];
            assert_eq!(found, expected.map(|(place, row)| (place.to_owned(), row)), "chunks of {size}");
            assert_eq!(kept, text.replace(", 3\n", ""));
            assert_eq!(elements(text, size, &[0, 1, 2]).1, "\n []\n");
            assert_eq!(elements(text, size, &[0]).1.trim(), "[\n  {\"a\": 2}, 3\n]");
        }
        for other in ["{\"a\": [1]}\n[3]", "\n\n{},[\n]"] {
            assert_eq!(elements(other, 3, &[]).0.len(), 2, "{other}");
        }
    }

    #[test]
    fn an_array_must_be_closed() {
        for (text, is_open) in
            [("[", true), ("[{}", true), ("[{},", true), ("[]", false), ("[{}] \n", false), ("{", false)]
        {
            let (mut lines, mut chunk) = (Lines::default().with_arrays(), Bytes::from(text));
            while !chunk.is_empty() {
                lines.next(&mut chunk);
            }
            assert_eq!(lines.form.is_open(), is_open, "{text}");
        }
    }
}
