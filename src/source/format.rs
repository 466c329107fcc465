//! The interface of a source format: its names, its parser, and how its files are rewritten.
//!
//! Each format is one constant of [`SourceFormat`] in a file of its own under `formats/`, whose `mod.rs` has the list.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;

use super::columns::NamedExpressions;
use super::documents::DocumentSink;
use super::file::SourceFile;
use super::parser::{FileToParse, Parser, WantedValues};
use super::rows::TextPlace;
use super::rows::{RowCutter, check_separators};
use crate::error::Result;
use crate::job;

/// A format of source files.
pub(crate) struct SourceFormat {
    /// What messages call files of this format.
    pub title: &'static str,
    /// How the files are found.
    pub listing: Listing,
    /// Lower-case endings of the files that are read in a folder, without those of compressed files; empty where every file is
    /// read.
    pub endings: &'static [&'static str],
    /// What a file without bytes is.
    pub empty_file: EmptyFile,
    /// How documents are read.
    pub reading: Reading,
    /// How `apply` rewrites a file.
    pub rewriting: Rewriting,
}

/// How the files of a source are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Each URL names a file, a folder or a pattern.
    Files,
    /// Each URL names a folder whose Delta log names the files.
    DeltaTables,
}

/// What a file without bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyFile {
    /// An empty document.
    Document,
    /// A file without documents, as frameworks leave them behind; skipped with a warning.
    NoDocuments,
}

/// How documents are read.
#[derive(Clone, Copy)]
pub(crate) enum Reading {
    /// By the engine's scan of Parquet files.
    ParquetScan,
    /// By a parser of this program.
    Parser(&'static dyn ParsedFormat),
}

/// How `apply` rewrites a file.
#[derive(Clone, Copy)]
pub(crate) enum Rewriting {
    /// Parquet value by value.
    ParquetValues,
    /// Row by row, each with its bytes unchanged.
    Rows(&'static dyn RowFormat),
    /// The file is one document, which is copied or left out.
    WholeFile,
    /// The ids and texts of its documents become a Parquet file.
    AsParquet,
}

/// A format whose files are parsed by this program.
pub(crate) trait ParsedFormat: Sync {
    /// Finds the values of the `columns` of the files in the first bytes of `files`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) for files that are damaged or differ in their columns;
    /// [`Kind::Job`](crate::error::Kind::Job) for a column of the job that does not exist or cannot be used.
    fn plan<'a>(
        &'a self,
        ctx: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>>;

    /// A reader for one file.
    ///
    /// # Errors
    /// Where `parser` is not a plan of this format.
    fn reader(&self, parser: &Parser, file: &FileToParse) -> Result<Box<dyn DocumentReader>>;

    /// Whether a file may be compressed.
    fn may_be_compressed(&self) -> bool {
        false
    }

    /// Whether some of these files can be cut into shingles while they are read, so that they are never held whole.
    fn cuts_into_shingles(&self, files: &[Arc<SourceFile>], shingle: &job::Shingle) -> bool {
        let _ = (files, shingle);
        false
    }
}

/// What the beginnings of files say about how to parse them.
pub(crate) struct ParsePlan {
    /// Where the wanted values are in each document.
    pub wanted: WantedValues,
    /// The columns of the files, each with the expression that gives its value.
    pub values: NamedExpressions,
    /// The files that have documents.
    pub files: Vec<Arc<SourceFile>>,
}

/// Reads the documents of one file.
pub(crate) trait DocumentReader: Send {
    /// Reads `chunk` until it is empty or the sink is full. The bytes are decompressed and, except for
    /// [`INVALID`](super::decode::INVALID), UTF-8.
    ///
    /// # Errors
    /// Those of the sink.
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()>;

    /// Reads the document that the end of the file completes.
    ///
    /// # Errors
    /// As [`Self::read`], and where the file must have documents and has none.
    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()>;
}

/// A format whose rows can be copied byte for byte, and can get more columns.
pub(crate) trait RowFormat: Sync {
    /// The bytes that separate fields and records besides the ends of lines.
    fn separators(&self, source: &job::Source) -> Vec<u8>;

    /// A cutter for one file.
    fn cutter(&self, source: &job::Source) -> Box<dyn RowCutter>;

    /// Whether files begin with a header.
    fn has_header(&self, source: &job::Source) -> bool {
        let _ = source;
        false
    }

    /// Appends columns of these names to a header.
    ///
    /// # Errors
    /// The name of a column that the header already has.
    fn append_names(
        &self,
        source: &job::Source,
        header: &[u8],
        names: &[&'static str],
        to: &mut Vec<u8>,
    ) -> std::result::Result<(), &'static str> {
        let _ = (source, names);
        to.extend_from_slice(header);
        Ok(())
    }

    /// Appends columns of these names and values to a row.
    ///
    /// # Errors
    /// The first column that cannot be appended.
    fn append_values(
        &self,
        source: &job::Source,
        row: &[u8],
        columns: &[(&'static str, AddedValue)],
        to: &mut Vec<u8>,
    ) -> std::result::Result<(), CannotAppend>;

    /// The place of the text in the rows of a file with this header, where the files of the source have it in `place`.
    fn text_place(&self, source: &job::Source, place: &TextPlace, header: &[u8]) -> Option<TextPlace> {
        let _ = (source, header);
        Some(place.clone())
    }

    /// Appends a row without `spans` of the text at `place`: ranges of the text's bytes, in ascending order. `None` if the row has
    /// no text there, or the text does not have these spans.
    fn cut_text(
        &self,
        source: &job::Source,
        place: &TextPlace,
        row: &[u8],
        spans: &[Range<usize>],
        to: &mut Vec<u8>,
    ) -> Option<()>;
}

impl dyn RowFormat + '_ {
    /// A cutter for one file whose bytes are not decoded.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where the encoding has characters whose bytes look like separators.
    pub(crate) fn checked_cutter(&self, source: &job::Source) -> Result<Box<dyn RowCutter>> {
        check_separators(source.encoding, &self.separators(source))?;
        Ok(self.cutter(source))
    }
}

/// Why a column cannot be added to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CannotAppend {
    /// The row already has a column of this name.
    Exists(&'static str),
    /// The value of this column would need quotes, and the file has none.
    NeedsQuotes(&'static str),
}

/// A value of a column that is added to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddedValue {
    Null,
    /// A number or a boolean, as it is written.
    Literal(String),
    Text(String),
}
