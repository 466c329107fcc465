//! One partition's files -> batches of documents, one file after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt32Type};
use bytes::{Buf, Bytes, BytesMut};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::stream::TryStreamExt;

use super::batch::Batch;
use super::bytes::{Chunks, decompressed, start, stored};
use super::decode::decoded;
use super::json_line::{Lines, Unusable, Wanted};
use super::records::{End, Keep, Records};
use super::selection::{RowSet, too_few};
use super::sgml::Stories;
use super::text::{self, Utf8Text};
use super::to_parse::{FileToParse, Parser};
use crate::error::{Context, Error, Result};
use crate::job::{Encoding, OnError};
use crate::kernel::text::long_text::LongText;

/// Bytes from which a text file is cut into shingles while it is read, where that can be: it need not be held whole then.
pub(super) const LONG_TEXT: u64 = 8 * 1024 * 1024;

/// The reading of one partition's files.
pub(super) struct Reading {
    parser: Parser,
    files: Arc<[FileToParse]>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    /// Indices of files that the input has named.
    ahead: VecDeque<u32>,
    open: Option<Open>,
    batch: Batch,
}

/// The file that is being read.
struct Open {
    file: FileToParse,
    encoding: Encoding,
    chunks: Chunks,
    /// Bytes that have come and are not read yet.
    chunk: Bytes,
    content: Content,
    /// Rows that have come.
    count: u64,
    /// Rows of them that could not be read.
    unusable: u64,
}

enum Content {
    /// A file that is one document, and is cut while it comes; `None` after its end.
    LongText(Utf8Text, Option<Box<LongText>>),
    Stories(Stories),
    Records {
        records: Records,
        /// Whether the next record names the columns.
        header: bool,
        columns: usize,
        on_error: OnError,
    },
    Lines {
        lines: Lines,
        wanted: Wanted,
        on_error: OnError,
    },
}

impl Reading {
    /// The reading of those of `files` that `input` names, into batches of `schema`.
    pub(crate) fn new(
        parser: &Parser,
        files: Arc<[FileToParse]>,
        schema: SchemaRef,
        input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
    ) -> Self {
        let batch = Batch::new(schema, parser.values());
        Self { parser: parser.clone(), files, input, context, ahead: VecDeque::new(), open: None, batch }
    }

    /// The next full batch, or the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.batch.is_full() {
            if let Some(open) = &mut self.open {
                if !open.advance(&mut self.batch).await? {
                    self.open = None;
                }
                continue;
            }
            match self.file().await? {
                Some(index) => self.start(index).await?,
                None if self.batch.rows == 0 => return Ok(None),
                None => break,
            }
        }
        self.batch.finish().map(Some)
    }

    /// The index of the next file.
    async fn file(&mut self) -> Result<Option<u32>> {
        loop {
            if let Some(index) = self.ahead.pop_front() {
                return Ok(Some(index));
            }
            let Some(batch) = self.input.try_next().await? else { return Ok(None) };
            let indices = batch.column(0);
            let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
                return Err(Error::bug(format!("indices of files came as {}", indices.data_type())));
            };
            self.ahead.extend(indices.values());
        }
    }

    async fn start(&mut self, index: u32) -> Result<()> {
        let Some(file) = self.files.get(index as usize).cloned() else {
            return Err(Error::bug(format!("file {index} of {} was asked for", self.files.len())));
        };
        let store = self.context.runtime_env().object_store(ObjectStoreUrl::parse(&file.store)?)?;
        let encoding = self.parser.encoding();
        let content = match &self.parser {
            Parser::Text { cut: Some(by), .. } if file.pin.size >= LONG_TEXT => {
                Content::LongText(Utf8Text::default(), Some(Box::new(LongText::begin(by)?)))
            }
            Parser::Text { .. } => {
                let bytes = whole(decoded(stored(store.as_ref(), &file).await?, encoding))
                    .await
                    .context(|| format!("reading {} failed", file.source))?;
                match text::document(bytes) {
                    Some(text) => self.batch.push_text(&file, text)?,
                    None => self.batch.push(&file, 0, &[None], Some(encoding.defect()))?,
                }
                return Ok(());
            }
            Parser::Reuters { references, .. } => Content::Stories(Stories::of(encoding, *references)),
            Parser::Csv { csv, columns, wanted, on_error, .. } => {
                let mut places = vec![None; *columns];
                for (value, column) in wanted.iter().enumerate() {
                    if let Some(place) = places.get_mut(*column) {
                        *place = Some(value);
                    }
                }
                Content::Records {
                    records: Records::new(*csv, Keep::Columns(places)),
                    header: csv.header,
                    columns: *columns,
                    on_error: *on_error,
                }
            }
            Parser::JsonLines { wanted, on_error, .. } => {
                Content::Lines { lines: Lines::default(), wanted: Wanted::new(wanted), on_error: *on_error }
            }
        };
        let chunks = match content {
            Content::Stories(_) | Content::LongText(..) => stored(store.as_ref(), &file).await?,
            Content::Records { .. } | Content::Lines { .. } => decompressed(store.as_ref(), &file).await?,
        };
        let mut chunks = decoded(chunks, encoding);
        let chunk = match content {
            Content::Stories(_) | Content::LongText(..) => Bytes::new(),
            Content::Records { .. } | Content::Lines { .. } => {
                start(&mut chunks).await.context(|| format!("the start of {} cannot be read", file.source))?
            }
        };
        self.open = Some(Open { file, encoding, chunks, chunk, content, count: 0, unusable: 0 });
        Ok(())
    }
}

/// All bytes that come, in one piece.
async fn whole(mut chunks: Chunks) -> Result<Bytes> {
    let Some(first) = chunks.try_next().await? else { return Ok(Bytes::new()) };
    let Some(second) = chunks.try_next().await? else { return Ok(first) };
    let mut all = BytesMut::from(first);
    all.extend_from_slice(&second);
    while let Some(more) = chunks.try_next().await? {
        all.extend_from_slice(&more);
    }
    Ok(all.freeze())
}

impl Open {
    /// Reads a row of the file, or more of its bytes; false after its end.
    async fn advance(&mut self, batch: &mut Batch) -> Result<bool> {
        if self.row(batch)? {
            return Ok(true);
        }
        let failed = || format!("reading {} failed after {} rows", self.file.source, self.count);
        match self.chunks.try_next().await.context(failed)? {
            Some(chunk) => {
                match &mut self.content {
                    Content::LongText(text, Some(cut)) => text.take(&chunk, |part| cut.take(part)),
                    Content::LongText(_, None) => {}
                    Content::Stories(stories) => stories.feed(&chunk),
                    Content::Records { .. } | Content::Lines { .. } => self.chunk = chunk,
                }
                Ok(true)
            }
            None => {
                self.end(batch)?;
                Ok(false)
            }
        }
    }

    /// Reads a row that has come whole; false if there is none.
    fn row(&mut self, batch: &mut Batch) -> Result<bool> {
        match &mut self.content {
            Content::LongText(..) => Ok(false),
            Content::Stories(stories) => match stories.next() {
                Some(story) => {
                    if self.file.wants(self.count) {
                        batch.push_story(&self.file, self.count, &story)?;
                    }
                    self.count += 1;
                    Ok(true)
                }
                None => Ok(false),
            },
            Content::Records { records, .. } => {
                let read = records.read(&self.chunk);
                self.chunk.advance(read);
                if !records.is_done() {
                    return Ok(false);
                }
                self.record(batch, End::Record)?;
                Ok(true)
            }
            Content::Lines { lines, .. } => match lines.next(&mut self.chunk) {
                Some(line) => {
                    self.line(batch, &line)?;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Reads what the end of the file ends.
    fn end(&mut self, batch: &mut Batch) -> Result<()> {
        match &mut self.content {
            Content::LongText(text, cut) => {
                match cut.take().filter(|_| text.is_valid()) {
                    Some(cut) => batch.push_cut(&self.file, cut.end())?,
                    None => batch.push(&self.file, 0, &[None], Some(self.encoding.defect()))?,
                }
                self.count += 1;
            }
            Content::Stories(stories) => {
                if let Some(story) = stories.end() {
                    if self.file.wants(self.count) {
                        batch.push_story(&self.file, self.count, &story)?;
                    }
                    self.count += 1;
                }
                if self.count == 0 {
                    return Err(Error::input(format!(
                        "{} holds no <REUTERS> story: take it out of [source] url, or correct [source] format",
                        self.file.source
                    )));
                }
            }
            Content::Records { records, .. } => match records.end() {
                End::Nothing => {}
                end => self.record(batch, end)?,
            },
            Content::Lines { lines, .. } => {
                if let Some(line) = lines.end() {
                    self.line(batch, &line)?;
                }
            }
        }
        let last = self.file.wanted.as_ref().and_then(RowSet::last);
        if let Some(last) = last.filter(|last| *last >= self.count) {
            return Err(too_few(&self.file.source, self.count, last));
        }
        if self.unusable > 1 {
            tracing::warn!(
                file = &*self.file.source,
                rows = self.unusable,
                "rows of this file could not be read and go to the table rejects"
            );
        }
        Ok(())
    }

    /// The record that is done.
    fn record(&mut self, batch: &mut Batch, end: End) -> Result<()> {
        let Content::Records { records, header, columns, on_error } = &mut self.content else {
            return Err(Error::bug("a record came of a file without records"));
        };
        let (line, fields) = (records.record_line(), records.fields());
        let wrong = match end {
            End::Quoted(quote) => Some((
                "truncated",
                quote,
                "has a quote that is never closed, so that the rest of the file is one field: close it, or set \
                 [source] quote to what the file uses"
                    .to_owned(),
            )),
            _ if fields != *columns => {
                Some(("malformed", line, format!("has {fields} fields, but the others have {columns}")))
            }
            _ => None,
        };
        if std::mem::take(header) && wrong.is_none() {
            records.next();
            return Ok(());
        }
        let values = records.values().iter().map(|value| match value.is_empty() {
            true => Ok(None),
            false => std::str::from_utf8(value).map(Some),
        });
        let wrong = match (wrong, values.collect::<Result<Vec<_>, _>>()) {
            (Some(wrong), _) => wrong,
            (None, Err(_)) => (self.encoding.defect(), line, self.encoding.complaint()),
            (None, Ok(values)) => {
                if self.file.wants(self.count) {
                    batch.push(&self.file, self.count, &values, None)?;
                }
                self.count += 1;
                records.next();
                return Ok(());
            }
        };
        records.next();
        let (on_error, values) = (*on_error, records.values().len());
        self.unusable(batch, on_error, values, wrong)
    }

    fn line(&mut self, batch: &mut Batch, line: &[u8]) -> Result<()> {
        let Content::Lines { lines, wanted, on_error } = &self.content else {
            return Err(Error::bug("a line came of a file without lines"));
        };
        let (defect, said) = match wanted.read(line) {
            Ok(None) => return Ok(()),
            Ok(Some(values)) => {
                if self.file.wants(self.count) {
                    let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
                    batch.push(&self.file, self.count, &values, None)?;
                }
                self.count += 1;
                return Ok(());
            }
            Err(Unusable::Malformed(said)) => ("malformed", said),
            Err(Unusable::NotUtf8) => (self.encoding.defect(), self.encoding.complaint()),
        };
        let (on_error, wrong) = (*on_error, (defect, lines.line(), said));
        let values = wanted.len();
        self.unusable(batch, on_error, values, wrong)
    }

    /// A row that cannot be read: what is wrong with it, and its line.
    fn unusable(
        &mut self,
        batch: &mut Batch,
        on_error: OnError,
        values: usize,
        (defect, line, said): (&str, u64, String),
    ) -> Result<()> {
        // Where only some documents are wanted, whoever read all of them was told.
        if self.file.wanted.is_some() {
            self.count += 1;
            return Ok(());
        }
        let source = &self.file.source;
        if on_error == OnError::Error {
            return Err(Error::input(format!(
                "{source} line {line} {said} (source.on_error = \"reject\" puts such rows into the table rejects)"
            )));
        }
        if self.unusable == 0 {
            tracing::warn!("{source} line {line} {said}; it goes to the table rejects");
        }
        batch.push(&self.file, self.count, &vec![None; values], Some(defect))?;
        self.count += 1;
        self.unusable += 1;
        Ok(())
    }
}
