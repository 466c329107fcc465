//! The documents of one file on their way into a batch.

use bytes::Bytes;

use super::batch::Batch;
use super::parser::FileToParse;
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
    batch: &'a mut Batch,
}

impl<'a> DocumentSink<'a> {
    pub(super) fn new(state: &'a mut FileInReading, batch: &'a mut Batch) -> Self {
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
