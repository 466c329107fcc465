//! The interface of a source format: how its files are named, parsed and rewritten. Rewriting cuts a file into pieces that add up to the
//! whole file:
//!
//! ```text
//! id,text\r\n      header
//! 1,"a\nb"\r\n     row 0
//! \r\n             other bytes: an empty line
//! 2,c              row 1, which ends with the file
//! ```

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use serde::{Deserialize, Serialize};

use super::file::SourceFile;
use super::formats::jsonl::line::JsonValue;
use super::reading::documents::{DocumentSink, RowPlace};
use super::rows::columns::NamedExpressions;
use crate::error::{Error, Result};
use crate::job::{self, Encoding, Shingle};

pub(crate) struct SourceFormat {
    /// The name of files in this format, for messages.
    pub title: &'static str,
    /// The endings of the format's rules.
    pub endings: &'static [&'static str],
    pub reading: Reading,
    pub rewriting: Rewriting,
}

impl SourceFormat {
    pub(crate) fn is_parquet(&self) -> bool {
        matches!(self.reading, Reading::ParquetScan)
    }

    /// Whether each file is one document. In other formats, an empty file contains no documents.
    pub(crate) fn is_one_document(&self) -> bool {
        matches!(self.rewriting, Rewriting::WholeFile)
    }

    /// Whether a file is a sequence of rows. The beginning of the file then shows the columns.
    pub(crate) fn has_rows(&self) -> bool {
        matches!(self.rewriting, Rewriting::Rows(_))
    }

    /// Whether `apply` can add columns to the files.
    pub(crate) fn takes_columns(&self) -> bool {
        match self.rewriting {
            Rewriting::ParquetValues | Rewriting::AsParquet => true,
            Rewriting::Rows(format) => format.takes_columns(),
            Rewriting::WholeFile => false,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Reading {
    ParquetScan,
    Parser(&'static dyn ParsedFormat),
}

/// How `apply` rewrites a file.
#[derive(Clone, Copy)]
pub(crate) enum Rewriting {
    /// Parquet is copied value by value.
    ParquetValues,
    /// Rows are copied with unchanged bytes.
    Rows(&'static dyn RowFormat),
    /// The file is one document, which is copied or skipped.
    WholeFile,
    /// The ids and texts of the documents are written as Parquet.
    AsParquet,
}

#[async_trait]
pub(crate) trait ParsedFormat: Sync {
    /// Reads the first bytes of the files, and determines how to get the values of the columns. Fails with `Kind::Input` for damaged files
    /// or files with different columns, and with `Kind::Job` for a column that does not exist or cannot be used.
    async fn plan(&self, request: ParseRequest<'_>) -> Result<ParsePlan>;

    fn reader(&self, parser: &Parser, file: &SourceFile) -> Result<Box<dyn DocumentReader>>;

    /// Returns the names of the columns of `file`, all of which contain texts. Required unless the file is one document or a sequence of
    /// rows.
    async fn columns(&self, _ctx: &SessionContext, _file: &SourceFile) -> Result<Vec<String>> {
        Err(Error::bug("a source format does not name its columns"))
    }

    fn may_be_compressed(&self) -> bool {
        true
    }

    /// Whether some of these files are cut into shingles while they are read, so that a long text is never in memory as a whole.
    fn cuts_into_shingles(&self, _files: &[Arc<SourceFile>], _shingle: &Shingle) -> bool {
        false
    }
}

/// A step from the contents of a text file, in UTF-8, to its text.
pub(crate) struct TextStep {
    /// Whether the step applies to a file with this name (in lower case, without the ending of a compression) and these first bytes.
    pub applies: fn(&job::Source, &str, &[u8]) -> bool,
    pub text: fn(&str) -> String,
}

/// Files to parse, and the columns whose values are wanted.
pub(crate) struct ParseRequest<'a> {
    pub ctx: &'a SessionContext,
    pub source: &'a job::Source,
    pub columns: &'a [&'a str],
    pub files: &'a [Arc<SourceFile>],
}

/// The plan for parsing files, made from their first bytes.
pub(crate) struct ParsePlan {
    pub wanted: WantedValues,
    /// A sentence about files with other columns than the first file.
    pub warning: Option<String>,
    /// The columns of the files, with the expressions of their values.
    pub values: NamedExpressions,
    pub files: Vec<Arc<SourceFile>>,
}

impl ParsePlan {
    pub(super) fn new(wanted: WantedValues, values: NamedExpressions, files: Vec<Arc<SourceFile>>) -> Self {
        Self { wanted, warning: None, values, files }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parser {
    pub source: job::Source,
    pub wanted: WantedValues,
    /// The partition columns of the output.
    pub partition_columns: Vec<String>,
    /// The shingle settings with which long texts are cut while they are read, or `None` if every text is read as a whole.
    pub cut: Option<Shingle>,
}

/// The wanted values of each document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WantedValues {
    /// All values of the format, and their number.
    All(usize),
    /// The columns with these names. Some files may lack a column.
    Columns(Vec<String>),
    Fields(Vec<JsonValue>),
}

impl WantedValues {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(values) => *values,
            Self::Columns(names) => names.len(),
            Self::Fields(fields) => fields.len(),
        }
    }
}

pub(crate) trait DocumentReader: Send {
    /// Reads `chunk` until it is empty or the sink is full. The bytes are decompressed, and UTF-8 except for the byte
    /// [`INVALID`](super::reading::bytes::INVALID).
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()>;

    /// Reads the documents that the end of the file completes.
    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()>;
}

/// A format whose rows can be copied byte for byte and extended by columns.
pub(crate) trait RowFormat: Sync {
    /// Returns the bytes that separate fields and records, besides line ends.
    fn separators(&self, _source: &job::Source) -> Vec<u8> {
        Vec::new()
    }

    fn cutter(&self, source: &job::Source) -> Box<dyn RowCutter>;

    fn takes_columns(&self) -> bool {
        true
    }

    fn has_header(&self, _source: &job::Source) -> bool {
        false
    }

    /// Returns a header with these additional column names, or the name that it already has.
    fn with_names(
        &self,
        _source: &job::Source,
        header: &[u8],
        _names: &[&'static str],
    ) -> Result<Vec<u8>, &'static str> {
        Ok(header.to_vec())
    }

    /// Returns a row with these additional columns.
    fn with_values(
        &self,
        source: &job::Source,
        row: &[u8],
        columns: &[AddedColumn],
    ) -> Result<Vec<u8>, CannotAppend>;

    /// Returns the place of the text in the rows of a file with this header. `place` is the text's place as the job names it.
    fn text_place(&self, _source: &job::Source, place: &TextPlace, _header: &[u8]) -> Option<TextPlace> {
        Some(place.clone())
    }

    /// Returns the row without the spans. Returns `None` if the row has no text at the place, or if the spans do not fit the text.
    fn cut_text(&self, source: &job::Source, cut: TextCut<'_>) -> Option<Vec<u8>>;
}

impl dyn RowFormat + '_ {
    /// Returns a cutter for one file that is read without decoding. Fails with `Kind::Job` if bytes inside a character of the encoding can
    /// look like separators.
    pub(crate) fn checked_cutter(&self, source: &job::Source) -> Result<Box<dyn RowCutter>> {
        let encoding = source.encoding;
        if separators_are_bytes(encoding, &self.separators(source)) {
            return Ok(self.cutter(source));
        }
        Err(Error::job(format!(
            "source.encoding is {encoding}, in which bytes inside characters can look like separators: convert the files to \
             UTF-8 and run the job again"
        )))
    }
}

/// Whether the bytes of `separators` and line ends never occur inside another character of the encoding.
fn separators_are_bytes(encoding: Encoding, separators: &[u8]) -> bool {
    let Encoding::Standard(label) = encoding else { return true };
    let encoding = label;
    // The second byte of a character is a digit in GB18030, and at least 0x40 in other encodings.
    let never_second = |sign: &u8| matches!(sign, 0..0x30 | 0x3a..0x40);
    encoding.is_ascii_compatible() && (encoding.is_single_byte() || separators.iter().all(never_second))
}

/// Cuts a file into pieces. Holds at most one row and one chunk in memory.
pub(crate) trait RowCutter: Send {
    fn feed(&mut self, chunk: Bytes);

    /// Returns the next piece, or `None` if the cutter needs more bytes. `is_end` is true at the end of the file.
    fn next_piece(&mut self, is_end: bool) -> Option<FilePiece<'_>>;
}

#[derive(Debug, PartialEq)]
pub(crate) enum FilePiece<'a> {
    /// Bytes that are written even if no row is kept, in two pieces. These are the record with the column names and its line end, or the
    /// bytes before a bracket of a JSON array and the bracket.
    Header(&'a [u8], &'a [u8]),
    Row(Row<'a>),
    /// Bytes that belong to no row.
    Other(&'a [u8]),
}

/// A row of a file: a record or a line.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// The number of the row in the file, from 0. This number is also the position of the document.
    pub position: u64,
    pub place: RowPlace,
    /// The comma between this element and an earlier element of a JSON array. In other files, this is empty.
    pub before: &'static [u8],
    /// The bytes of the row without its line end.
    pub body: &'a [u8],
    /// The line end. The last row of a file without a final line end has an empty line end.
    pub end: &'a [u8],
    /// Whether the row has as many fields as the other rows. JSON lines are not checked.
    pub whole: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TextPlace {
    /// The column with this name, or a field of a struct.
    Column(String),
    /// The field with this index in a record, from 0.
    Field(usize),
    /// The value at this path in a JSON object.
    Path(Vec<String>),
    /// The whole file. Also used for formats that `apply` rewrites as Parquet, and if no text is cut.
    File,
}

/// A row with spans to remove from its text. The spans are byte ranges of the text in ascending order.
pub(crate) struct TextCut<'a> {
    pub row: &'a [u8],
    pub place: &'a TextPlace,
    pub spans: &'a [Range<usize>],
}

/// The name and the value of a column that is added to a row.
pub(crate) type AddedColumn = (&'static str, AddedValue);

/// The reason why a column cannot be added to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CannotAppend {
    /// The row already has a column of this name.
    Exists(&'static str),
    /// The value of this column needs quotes, but quotes are disabled for the file.
    NeedsQuotes(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddedValue {
    Null,
    /// A number or a boolean as text.
    Literal(String),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_encodings_have_separators_as_bytes() {
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
