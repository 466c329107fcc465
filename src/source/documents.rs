//! The documents of one file on their way into a batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ListArray, RecordBatch, StringBuilder, StringViewBuilder, UInt64Array, UInt64Builder,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, SchemaRef};
use bytes::Bytes;

use super::parser::{CUT, FileToParse};
use super::selection::{RowSet, too_few};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, OnError};
use crate::kernel::text::long_text::CutText;

/// A file that is being read.
pub(super) struct FileInReading {
    pub file: FileToParse,
    encoding: Encoding,
    on_error: OnError,
    /// Documents that were read.
    count: u64,
    /// Documents among them that cannot be read.
    unreadable: u64,
}

impl FileInReading {
    /// A file before its first document.
    pub(super) fn new(file: FileToParse, source: &job::Source) -> Self {
        Self { file, encoding: source.encoding, on_error: source.on_error, count: 0, unreadable: 0 }
    }

    /// The number of documents that were read.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Checks, at the end of the file, that it had every wanted document.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it has too few.
    pub(super) fn end(&self) -> Result<()> {
        let last = self.file.wanted.as_ref().and_then(RowSet::last);
        if let Some(last) = last.filter(|last| *last >= self.count) {
            return Err(too_few(&self.file.source, self.count, last));
        }
        if self.unreadable > 1 {
            tracing::warn!(
                file = &*self.file.source,
                rows = self.unreadable,
                "rows of this file could not be read and go to the table rejects"
            );
        }
        Ok(())
    }
}

/// Takes the documents of one file, counts them, and puts the wanted ones into a batch.
pub(crate) struct DocumentSink<'a> {
    state: &'a mut FileInReading,
    batch: &'a mut DocumentBatch,
}

impl<'a> DocumentSink<'a> {
    pub(super) fn new(state: &'a mut FileInReading, batch: &'a mut DocumentBatch) -> Self {
        Self { state, batch }
    }

    /// Whether the batch must be given away before another document comes.
    pub(super) fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// The number of documents of the file so far.
    pub(super) fn count(&self) -> u64 {
        self.state.count
    }

    /// The path of the file, as tables have it.
    pub(super) fn source(&self) -> &str {
        &self.state.file.source
    }

    /// Adds a document with these values.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) for a value that is too long for a column.
    pub(super) fn push(&mut self, values: &[Option<&str>], defect: Option<&str>) -> Result<()> {
        let FileInReading { file, count, .. } = &mut *self.state;
        if file.wants(*count) {
            self.batch.push(file, *count, values, defect)?;
        }
        *count += 1;
        Ok(())
    }

    /// Adds the document that is the whole file; `None` if its bytes are not valid in the encoding.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) fn push_text(&mut self, text: Option<Bytes>) -> Result<()> {
        match text {
            Some(text) => self.batch.push_text(&self.state.file, text)?,
            None => return self.push(&[None], Some(self.state.encoding.defect())),
        }
        self.state.count += 1;
        Ok(())
    }

    /// Adds the document that is the whole file and was cut into shingles; `None` if its bytes are not valid in the encoding.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) fn push_cut(&mut self, text: Option<CutText>) -> Result<()> {
        match text {
            Some(text) => self.batch.push_cut(&self.state.file, text)?,
            None => return self.push(&[None], Some(self.state.encoding.defect())),
        }
        self.state.count += 1;
        Ok(())
    }

    /// Adds a document that cannot be read, because of `why`, which follows its line in messages.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the job wants an error instead of a row in `rejects`.
    pub(super) fn reject(&mut self, defect: &str, line: u64, why: &str) -> Result<()> {
        let FileInReading { file, on_error, count, unreadable, .. } = &mut *self.state;
        // Where only some documents are read again, the first reading reported this one.
        if file.wanted.is_none() {
            let source = &file.source;
            if *on_error == OnError::Error {
                return Err(Error::input(format!(
                    "{source} line {line} {why} (source.on_error = \"reject\" puts such rows into the table rejects)"
                )));
            }
            if *unreadable == 0 {
                tracing::warn!("{source} line {line} {why}; it goes to the table rejects");
            }
            self.batch.push_defect(file, *count, defect)?;
            *unreadable += 1;
        }
        *count += 1;
        Ok(())
    }

    /// Adds a document of so many `bytes` in `line`, which are more than `source.max_text`.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) fn push_too_long(&mut self, line: u64, bytes: u64) -> Result<()> {
        let FileInReading { file, count, .. } = &mut *self.state;
        if file.wanted.is_none() {
            let source = &file.source;
            tracing::warn!(
                "{source} line {line} has {bytes} bytes, more than source.max_text; it goes to the table rejects as too_long"
            );
            self.batch.push_defect(file, *count, "too_long")?;
        }
        *count += 1;
        Ok(())
    }

    /// Adds a document whose bytes are not valid in the encoding.
    ///
    /// # Errors
    /// As [`Self::reject`].
    pub(super) fn reject_bytes(&mut self, line: u64) -> Result<()> {
        let encoding = self.state.encoding;
        self.reject(encoding.defect(), line, &encoding.complaint())
    }
}

/// The most rows of a batch.
const BATCH_ROWS: usize = 1024;
/// Bytes of text after which a batch is full. One text may be longer; then it is alone with those before it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes from which a text's buffer becomes part of the batch without a copy.
const OWN_BUFFER_BYTES: usize = 64 * 1024;

/// A batch that is being filled.
pub(super) struct DocumentBatch {
    schema: SchemaRef,
    values: Vec<StringViewBuilder>,
    sources: StringViewBuilder,
    names: StringViewBuilder,
    positions: UInt64Builder,
    /// The partition columns.
    partitions: Vec<StringViewBuilder>,
    defects: StringBuilder,
    /// `None` where the schema has no such column.
    cuts: Option<Vec<Option<Vec<u64>>>>,
    pub rows: usize,
    bytes: usize,
}

impl DocumentBatch {
    /// An empty batch of rows with `values` values and so many partition columns.
    pub(super) fn new(schema: SchemaRef, values: usize, partition_columns: usize) -> Self {
        // A batch has few files and many rows: each path is held once.
        let paths = || StringViewBuilder::new().with_deduplicate_strings();
        Self {
            values: (0..values).map(|_| StringViewBuilder::new()).collect(),
            sources: paths(),
            names: paths(),
            positions: UInt64Builder::new(),
            partitions: (0..partition_columns).map(|_| paths()).collect(),
            defects: StringBuilder::new(),
            cuts: schema.column_with_name(CUT).map(|_| Vec::new()),
            schema,
            rows: 0,
            bytes: 0,
        }
    }

    /// Whether it must be finished before another row is added.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// Adds the document at `position` of its file.
    pub(super) fn push(
        &mut self,
        file: &FileToParse,
        position: u64,
        values: &[Option<&str>],
        defect: Option<&str>,
    ) -> Result<()> {
        for (builder, value) in self.values.iter_mut().zip(values) {
            match value {
                Some(value) => {
                    self.bytes += value.len();
                    if u32::try_from(value.len()).is_err() {
                        return Err(too_long(file, value.len()));
                    }
                    builder.try_append_value(value)?;
                }
                None => builder.append_null(),
            }
        }
        self.origin(file, position, defect)
    }

    /// Adds the document at `position` of its file, which cannot be read.
    pub(super) fn push_defect(&mut self, file: &FileToParse, position: u64, defect: &str) -> Result<()> {
        self.values.iter_mut().for_each(StringViewBuilder::append_null);
        self.origin(file, position, Some(defect))
    }

    /// Adds the document that is the whole file.
    pub(super) fn push_text(&mut self, file: &FileToParse, text: Bytes) -> Result<()> {
        let Ok(length) = u32::try_from(text.len()) else {
            return Err(too_long(file, text.len()));
        };
        let [builder] = self.values.as_mut_slice() else {
            return Err(Error::bug("a text file has one value"));
        };
        self.bytes += text.len();
        if text.len() < OWN_BUFFER_BYTES || length == u32::MAX {
            let text =
                std::str::from_utf8(&text).map_err(|e| Error::bug("a text is not UTF-8").because(e))?;
            builder.try_append_value(text)?;
        } else {
            let block = builder.append_block(Buffer::from(text));
            builder.try_append_view(block, 0, length)?;
        }
        self.origin(file, 0, None)
    }

    /// Adds the document that is the whole file, which was cut into shingles while it was read.
    pub(super) fn push_cut(&mut self, file: &FileToParse, text: CutText) -> Result<()> {
        let (Some(cuts), [builder]) = (&mut self.cuts, self.values.as_mut_slice()) else {
            return Err(Error::bug("a text was cut into shingles, but the batch has no column for them"));
        };
        self.bytes += size_of_val(text.shingles.as_slice()) + text.sample.len();
        cuts.resize(self.rows, None);
        cuts.push(Some(text.shingles));
        builder.try_append_value(&text.sample)?;
        self.origin(file, 0, None)
    }

    fn origin(&mut self, file: &FileToParse, position: u64, defect: Option<&str>) -> Result<()> {
        self.sources.try_append_value(&*file.source)?;
        self.names.try_append_value(&*file.name)?;
        self.positions.append_value(position);
        for (builder, value) in self.partitions.iter_mut().zip(&file.partitions) {
            match value {
                Some(value) => builder.try_append_value(value)?,
                None => builder.append_null(),
            }
        }
        self.defects.append_option(defect);
        self.rows += 1;
        Ok(())
    }

    /// Returns the batch, and leaves an empty one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.values.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.push(Arc::new(self.sources.finish()));
        columns.push(Arc::new(self.names.finish()));
        columns.push(Arc::new(self.positions.finish()));
        columns.extend(self.partitions.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
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

/// A row for each list. A single list is not copied: it may be most of the memory of this process.
fn lists(mut rows: Vec<Option<Vec<u64>>>) -> Result<ListArray> {
    let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
    let mut lists = rows.iter_mut().flatten();
    let mut values = lists.next().map(std::mem::take).unwrap_or_default();
    lists.for_each(|list| values.append(list));
    let field = Arc::new(Field::new_list_field(DataType::UInt64, true));
    Ok(ListArray::try_new(field, offsets, Arc::new(UInt64Array::from(values)), Some(valid))?)
}

fn too_long(file: &FileToParse, bytes: usize) -> Error {
    let source = &file.source;
    Error::input(format!(
        "{source} has a text of {bytes} bytes, but a text may have at most {}: split it",
        u32::MAX
    ))
}
