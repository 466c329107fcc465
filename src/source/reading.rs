//! One partition's files -> batches of documents, one file after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt32Type};
use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::Count;
use futures::stream::TryStreamExt;

use super::batch::Batch;
use super::bytes::{decompress, start, stored};
use super::checksums::Checksums;
use super::chunks::Chunks;
use super::decode::decoded;
use super::documents::{DocumentSink, FileInReading};
use super::file_bytes::FileBytes;
use super::format::{DocumentReader, ParsedFormat};
use super::parser::{FileToParse, Parser};
use crate::error::{Context, Error, Result};

/// The reading of one partition's files.
pub(super) struct PartitionReader {
    format: &'static dyn ParsedFormat,
    parser: Parser,
    files: Arc<[FileToParse]>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    /// Counts the bytes of files that were read.
    read: Count,
    /// Indices of the files that the input has named.
    ahead: VecDeque<u32>,
    open: Option<OpenFile>,
    batch: Batch,
}

/// The file that is being read.
struct OpenFile {
    state: FileInReading,
    reader: Box<dyn DocumentReader>,
    chunks: Chunks,
    bytes: FileBytes,
    /// Bytes that the reader has not taken yet.
    chunk: Bytes,
}

impl PartitionReader {
    /// The reading of those of `files` that `input` names, into batches of `schema`.
    pub(super) fn new(
        format: &'static dyn ParsedFormat,
        parser: &Parser,
        files: Arc<[FileToParse]>,
        schema: SchemaRef,
        input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
        read: Count,
    ) -> Self {
        let batch = Batch::new(schema, parser.wanted.len(), parser.partition_columns.len());
        Self {
            format,
            parser: parser.clone(),
            files,
            input,
            context,
            read,
            ahead: VecDeque::new(),
            open: None,
            batch,
        }
    }

    /// The next full batch, or the last one.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.batch.is_full() {
            if let Some(file) = &mut self.open {
                if !file.advance(&mut self.batch).await? {
                    self.open = None;
                }
                continue;
            }
            match self.next_file().await? {
                Some(index) => self.open = Some(self.open(index).await?),
                None if self.batch.rows == 0 => return Ok(None),
                None => break,
            }
        }
        self.batch.finish().map(Some)
    }

    /// The index of the next file.
    async fn next_file(&mut self) -> Result<Option<u32>> {
        loop {
            if let Some(index) = self.ahead.pop_front() {
                return Ok(Some(index));
            }
            let Some(batch) = self.input.try_next().await? else { return Ok(None) };
            let indices = batch.column(0);
            let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
                return Err(Error::bug(format!("the indices of files are of type {}", indices.data_type())));
            };
            self.ahead.extend(indices.values());
        }
    }

    async fn open(&mut self, index: u32) -> Result<OpenFile> {
        let Some(file) = self.files.get(index as usize).cloned() else {
            return Err(Error::bug(format!("there is no file {index} among {}", self.files.len())));
        };
        let reader = self.format.reader(&self.parser, &file)?;
        let store = self.context.runtime_env().object_store(ObjectStoreUrl::parse(&file.store)?)?;
        let encoding = self.parser.source.encoding;
        let raw = stored(store.as_ref(), &file).await?;
        let raw = match Checksums::of(self.context.session_config()) {
            Some(checksums) => checksums.of_stream(raw, &file),
            None => raw,
        };
        let (chunks, chunk) = if self.format.may_be_compressed() {
            let pool = self.context.memory_pool();
            let mut chunks = decoded(decompress(raw, &file.source, pool), encoding);
            let first = start(&mut chunks).await;
            (chunks, first.context(|| format!("the start of {} cannot be read", file.source))?)
        } else {
            (decoded(raw, encoding), Bytes::new())
        };
        let mut bytes = FileBytes::new(&self.read, file.pin.size);
        bytes.add(chunk.len() as u64);
        Ok(OpenFile { state: FileInReading::new(file, &self.parser.source), reader, chunks, bytes, chunk })
    }
}

impl OpenFile {
    /// Reads until the batch is full or a chunk has been read. Returns false after the end of the file.
    async fn advance(&mut self, batch: &mut Batch) -> Result<bool> {
        self.reader.read(&mut self.chunk, &mut DocumentSink::new(&mut self.state, batch))?;
        if batch.is_full() {
            return Ok(true);
        }
        let (source, count) = (&self.state.file.source, self.state.count());
        let failed = || format!("reading {source} failed after {count} rows");
        match self.chunks.try_next().await.context(failed)? {
            Some(chunk) => {
                self.bytes.add(chunk.len() as u64);
                self.chunk = chunk;
                Ok(true)
            }
            None => {
                self.reader.end(&mut DocumentSink::new(&mut self.state, batch))?;
                self.state.end()?;
                Ok(false)
            }
        }
    }
}
