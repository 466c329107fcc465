//! The rows of a file byte for byte, with the bytes between them.
//!
//! ```text
//! id,text\r\n      header
//! 1,"a\nb"\r\n     row 0
//! \r\n             other bytes: an empty line
//! 2,c              row 1, which the file ends
//! ```
//!
//! Rows have the numbers that documents have as positions. The pieces of a file, one after the other, are the file.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::Encoding;

/// A part of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum FilePiece<'a> {
    /// The record that names the columns, and the end of its line.
    Header(&'a [u8], &'a [u8]),
    /// A row.
    Row(Row<'a>),
    /// Bytes that belong to no row.
    Other(&'a [u8]),
}

/// A row of a file: a record or a line.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// Its number among the rows of the file, from 0.
    pub position: u64,
    /// The line in which it starts, from 1.
    pub line: u64,
    /// Its bytes without the end of its line.
    pub body: &'a [u8],
    /// The end of its line; empty where the file ends first.
    pub end: &'a [u8],
    /// Whether it has as many fields as the others. JSON lines are not checked.
    pub whole: bool,
}

/// The consumer of pieces.
pub(crate) type TakePiece<'a> = dyn FnMut(FilePiece<'_>) -> Result<()> + Send + 'a;

/// Cuts a file into pieces. Holds one row at most.
pub(crate) trait RowCutter: Send {
    /// Cuts the next bytes of the file.
    ///
    /// # Errors
    /// Those of `take`.
    fn feed(&mut self, chunk: Bytes, take: &mut TakePiece<'_>) -> Result<()>;

    /// Ends the file, and with it the row that it ends in.
    ///
    /// # Errors
    /// Those of `take`.
    fn end(&mut self, take: &mut TakePiece<'_>) -> Result<()>;
}

/// Checks that the end of a line and each of `separators` can be found in bytes that were not decoded.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the encoding has characters whose bytes look like one of them.
pub(super) fn check_separators(encoding: Encoding, separators: &[u8]) -> Result<()> {
    if separators_are_bytes(encoding, separators) {
        return Ok(());
    }
    Err(Error::job(format!(
        "source.encoding is {encoding}, in which parts of characters look like the signs between records: convert the files to \
         UTF-8 and run the job again"
    )))
}

fn separators_are_bytes(encoding: Encoding, separators: &[u8]) -> bool {
    let Encoding::Standard(label) = encoding else { return true };
    let encoding = label.encoding();
    // The second bytes of characters are digits in GB18030, and from 0x40 on in others.
    let never_second = |sign: &u8| matches!(sign, 0..0x30 | 0x3a..0x40);
    encoding.is_ascii_compatible() && (encoding.is_single_byte() || separators.iter().all(never_second))
}

/// Where the text of a document is in a file of its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TextPlace {
    /// In the column of this name, or the field of a struct.
    Column(String),
    /// In this field of a record, counted from 0.
    Field(usize),
    /// In the value at this path in an object.
    Path(Vec<String>),
    /// The file is the text, or its documents are written in another format.
    File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_cut_where_their_separators_are_bytes() {
        let encoding = |name: &str| name.parse::<Encoding>().unwrap();
        for (name, separators, can) in [
            ("utf-8", &b",\""[..], true),
            ("latin-1", b"|\"", true),
            ("windows-1252", b"|\"", true),
            ("gbk", b",\"", true),
            ("gbk", b"|\"", false),
            ("gb18030", b";\"", true),
            ("shift_jis", b"", true),
            ("utf-16le", b"", false),
            ("iso-2022-jp", b"", false),
        ] {
            assert_eq!(separators_are_bytes(encoding(name), separators), can, "{name}");
        }
    }
}
