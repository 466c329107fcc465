//! Collects the documents of files in batches.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch, StringBuilder, StringViewBuilder, UInt64Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, SchemaRef};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::job::{Encoding, OnError};
use crate::kernel::text::long_text::CutText;
use crate::source::other_files::OtherFile;
use crate::source::rows::columns::OriginColumns;
use crate::source::rows::selection::{RowSet, too_few};
use crate::source::rows::split::Split;

/// The column with the shingles of texts that were cut while they were read. The column is null for other texts. If the column is not null,
/// the text of the row is only a sample: see [`CutText`].
pub(crate) const CUT: &str = "cut";

/// The place of a row in its file. Messages show it after the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowPlace {
    /// The line in which the row starts, from 1.
    Line(u64),
    /// The number of an element in a JSON array, from 1.
    Element(u64),
    File,
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, " line {number}"),
            Self::Element(number) => write!(f, " element {number}"),
            Self::File => Ok(()),
        }
    }
}

pub(super) struct FileProgress {
    pub split: Split,
    pub encoding: Encoding,
    pub on_error: OnError,
    pub count: u64,
    /// The number of documents that cannot be read.
    pub unreadable: u64,
}

impl FileProgress {
    /// Fails with `Kind::Input` if the file ended before its last wanted document.
    pub(super) fn end(&self) -> Result<()> {
        let path = self.split.file.path();
        let last = self.split.wanted.as_ref().and_then(RowSet::last);
        if let Some(last) = last.filter(|last| *last >= self.count) {
            return Err(too_few(path, self.count, last));
        }
        if self.unreadable > 1 {
            tracing::warn!(
                file = path,
                rows = self.unreadable,
                "rows of this file could not be read and go to the table rejects"
            );
        }
        Ok(())
    }
}

/// Counts the documents in one file and adds the wanted documents to a batch.
pub(crate) struct DocumentSink<'a> {
    pub(super) file: &'a mut FileProgress,
    pub(super) batch: &'a mut DocumentBatch,
}

impl DocumentSink<'_> {
    /// Whether the batch must be finished before another document is added.
    pub(in crate::source) fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    pub(in crate::source) fn count(&self) -> u64 {
        self.file.count
    }

    pub(in crate::source) fn path(&self) -> &str {
        self.file.split.file.path()
    }

    /// Adds a document with these values. Fails with `Kind::Input` if a value is too long for a column.
    pub(in crate::source) fn push(&mut self, values: &[Option<&str>], defect: Option<&str>) -> Result<()> {
        if self.file.split.wanted.as_ref().is_none_or(|wanted| wanted.contains(self.file.count)) {
            for (builder, value) in self.batch.values.iter_mut().zip(values) {
                if let Some(value) = value {
                    check_length(&self.file.split, value.len())?;
                    self.batch.bytes += value.len();
                }
                match value {
                    Some(value) => builder.try_append_value(value)?,
                    None => builder.append_null(),
                }
            }
            return self.end_row(defect);
        }
        self.file.count += 1;
        Ok(())
    }

    /// Adds the whole file as a document. If `text` is `None`, the bytes are invalid in the encoding, and the document gets a defect.
    pub(in crate::source) fn push_text(&mut self, text: Option<Bytes>) -> Result<()> {
        let Some(text) = text else { return self.push(&[None], Some(self.file.encoding.defect())) };
        check_length(&self.file.split, text.len())?;
        self.batch.bytes += text.len();
        let builder = self.batch.text_builder()?;
        match u32::try_from(text.len()) {
            Ok(length) if text.len() >= OWN_BUFFER_BYTES && length < u32::MAX => {
                let block = builder.append_block(Buffer::from(text));
                builder.try_append_view(block, 0, length)?;
            }
            _ => {
                let text = std::str::from_utf8(&text);
                builder.try_append_value(text.map_err(|e| Error::bug("a text is not UTF-8").because(e))?)?;
            }
        }
        self.end_row(None)
    }

    /// Adds the whole file, which was cut into shingles, as a document. For `None`, see [`Self::push_text`].
    pub(in crate::source) fn push_cut(&mut self, text: Option<CutText>) -> Result<()> {
        let Some(text) = text else { return self.push(&[None], Some(self.file.encoding.defect())) };
        self.batch.bytes += size_of_val(text.shingles.as_slice()) + text.sample.len();
        self.batch.text_builder()?.try_append_value(&text.sample)?;
        let (Some(cuts), rows) = (&mut self.batch.cuts, self.batch.rows) else {
            return Err(Error::bug("a text was cut into shingles, but the batch has no column for them"));
        };
        cuts.resize(rows, None);
        cuts.push(Some(text.shingles));
        self.end_row(None)
    }

    /// Adds a document that cannot be read. Messages show `why` after the place. Fails with `Kind::Input` if `source.on_error` is `error`.
    pub(in crate::source) fn reject(&mut self, defect: &str, place: RowPlace, why: &str) -> Result<()> {
        // A second pass that reads only some documents does not report the error again.
        if self.file.split.wanted.is_some() {
            self.file.count += 1;
            return Ok(());
        }
        let path = self.path();
        if self.file.on_error == OnError::Error {
            return Err(Error::input(format!(
                "{path}{place} {why} (source.on_error = \"reject\" puts such rows into the table rejects)"
            )));
        }
        if self.file.unreadable == 0 {
            tracing::warn!("{path}{place} {why}; it goes to the table rejects");
        }
        self.file.unreadable += 1;
        self.push_defect(defect)
    }

    /// Adds the document at `place`, whose size of `bytes` bytes exceeds `source.max_text`.
    pub(in crate::source) fn push_too_long(&mut self, place: RowPlace, bytes: u64) -> Result<()> {
        if self.file.split.wanted.is_some() {
            self.file.count += 1;
            return Ok(());
        }
        let path = self.path();
        tracing::warn!(
            "{path}{place} has {bytes} bytes, more than source.max_text; it goes to the table rejects as too_long"
        );
        self.push_defect("too_long")
    }

    /// Adds a document whose bytes are invalid in the encoding.
    pub(in crate::source) fn reject_bytes(&mut self, place: RowPlace) -> Result<()> {
        let encoding = self.file.encoding;
        self.reject(encoding.defect(), place, &encoding.complaint())
    }

    /// Adds a document with the defect `not_text` for a file that is not text.
    pub(in crate::source) fn push_other_file(&mut self, kind: &OtherFile) -> Result<()> {
        if self.file.split.wanted.is_none() {
            let path = self.path();
            tracing::warn!("{}; it goes to the table rejects as not_text", kind.sentence(&[path]));
        }
        self.push_defect("not_text")
    }

    /// Reports that the file ends inside a JSON array. Fails with `Kind::Input` if `source.on_error` is `error`.
    pub(in crate::source) fn open_array(&self) -> Result<()> {
        let path = self.path();
        let why = format!(
            "{path} ends before the `]` of its JSON array, so elements may be missing: get the whole file"
        );
        match self.file.on_error {
            _ if self.file.split.wanted.is_some() => {}
            OnError::Error => {
                return Err(Error::input(format!("{why} (source.on_error = \"reject\" reads the others)")));
            }
            OnError::Reject => tracing::warn!("{why}"),
        }
        Ok(())
    }

    fn push_defect(&mut self, defect: &str) -> Result<()> {
        self.batch.values.iter_mut().for_each(StringViewBuilder::append_null);
        self.end_row(Some(defect))
    }

    fn end_row(&mut self, defect: Option<&str>) -> Result<()> {
        self.batch.origins.append(&self.file.split.file, [self.file.count])?;
        self.batch.defects.append_option(defect);
        self.batch.rows += 1;
        self.file.count += 1;
        Ok(())
    }
}

/// Checks that a text fits into a column.
fn check_length(split: &Split, bytes: usize) -> Result<()> {
    if u32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::input(format!(
        "{} has a text of {bytes} bytes, but a text may have at most {}: split it",
        split.file.path(),
        u32::MAX
    )))
}

/// The maximum number of rows in a batch.
const BATCH_ROWS: usize = 1024;
/// The number of text bytes after which a batch is full. The last text may exceed this number.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// The minimum size, in bytes, of a text that becomes part of the batch without a copy.
const OWN_BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct DocumentBatch {
    schema: SchemaRef,
    values: Vec<StringViewBuilder>,
    origins: OriginColumns,
    defects: StringBuilder,
    /// The shingles of cut texts, or `None` if the schema has no column `cut`.
    cuts: Option<Vec<Option<Vec<u64>>>>,
    pub rows: usize,
    bytes: usize,
}

impl DocumentBatch {
    pub(super) fn new(schema: SchemaRef, values: usize, partition_columns: &[String]) -> Self {
        Self {
            values: (0..values).map(|_| StringViewBuilder::new()).collect(),
            origins: OriginColumns::new(partition_columns),
            defects: StringBuilder::new(),
            cuts: schema.column_with_name(CUT).map(|_| Vec::new()),
            schema,
            rows: 0,
            bytes: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn text_builder(&mut self) -> Result<&mut StringViewBuilder> {
        match self.values.as_mut_slice() {
            [builder] => Ok(builder),
            _ => Err(Error::bug("a text file has one value")),
        }
    }

    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.values.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.extend(self.origins.finish());
        columns.push(Arc::new(self.defects.finish()));
        if let Some(cuts) = &mut self.cuts {
            cuts.resize(self.rows, None);
            columns.push(Arc::new(lists(std::mem::take(cuts))?));
        }
        self.rows = 0;
        self.bytes = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Converts lists to an array. A single list is not copied, because it can take most of the process's memory.
fn lists(mut rows: Vec<Option<Vec<u64>>>) -> Result<ListArray> {
    let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
    let mut lists = rows.iter_mut().flatten();
    let mut values = lists.next().map(std::mem::take).unwrap_or_default();
    lists.for_each(|list| values.append(list));
    let field = Arc::new(Field::new_list_field(DataType::UInt64, true));
    Ok(ListArray::try_new(field, offsets, Arc::new(UInt64Array::from(values)), Some(valid))?)
}
