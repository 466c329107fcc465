//! Blocking readers and writers of files for the readers and writers of columns, which are not `async`.

use std::future::Future;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::output::upload::Upload;
use crate::source::ParquetFile;

/// Bytes that are read at once.
pub(super) const WINDOW: u64 = 8 << 20;

/// Bytes that are gathered before they are put.
const BUFFER: usize = 1 << 20;

/// Blocks a thread until a future ends or the work is stopped.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    runtime: Handle,
    stop: CancellationToken,
}

impl Waiter {
    /// A waiter that fails once `stop` is cancelled.
    pub(super) fn new(stop: &CancellationToken) -> Self {
        Self { runtime: Handle::current(), stop: stop.clone() }
    }

    /// The result of `work`.
    ///
    /// # Errors
    /// The error of `work`; [`Kind::Interrupted`](crate::error::Kind::Interrupted) if it was stopped.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = self.stop.cancelled() => Err(Error::interrupted()),
            }
        })
    }
}

/// A Parquet file that is read through a moving window: columns are stored in the order in which they are copied.
#[derive(Clone)]
pub(super) struct WindowedFile(Arc<Window>);

struct Window {
    file: Arc<ParquetFile>,
    waiter: Waiter,
    /// The offset of the bytes in the file, and the bytes.
    held: Mutex<(u64, Bytes)>,
}

impl WindowedFile {
    pub(super) fn new(file: Arc<ParquetFile>, waiter: Waiter) -> Self {
        Self(Arc::new(Window { file, waiter, held: Mutex::default() }))
    }

    /// The held bytes from `start` on; reads more if these are fewer than `least`.
    fn from(&self, start: u64, least: u64) -> Result<Bytes> {
        let Window { file, waiter, held } = self.0.as_ref();
        let mut held = held.lock();
        let (first, bytes) = &*held;
        let last = first + bytes.len() as u64;
        if start < *first || start + least > last {
            let range = start..file.size().min(start + least.max(WINDOW));
            // The held bytes are freed before more are read.
            *held = Default::default();
            *held = (start, waiter.wait(file.bytes(range))?);
        }
        let (first, bytes) = &*held;
        Ok(bytes.slice((start - first) as usize..))
    }
}

impl Length for WindowedFile {
    fn len(&self) -> u64 {
        self.0.file.size()
    }
}

impl ChunkReader for WindowedFile {
    type T = InputFrom;

    fn get_read(&self, start: u64) -> ParquetResult<InputFrom> {
        Ok(InputFrom { input: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start, length as u64).map_err(|e| ParquetError::External(Box::new(e)))?;
        match bytes.len() < length {
            true => Err(ParquetError::EOF(format!("it ends before byte {}", start + length as u64))),
            false => Ok(bytes.slice(..length)),
        }
    }
}

/// A reader of the bytes of a file from an offset on.
pub(super) struct InputFrom {
    input: WindowedFile,
    at: u64,
}

impl Read for InputFrom {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let least = u64::from(!to.is_empty() && self.at < self.input.len());
        let bytes = self.input.from(self.at, least).map_err(io::Error::other)?;
        let count = to.len().min(bytes.len());
        to[..count].copy_from_slice(&bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// An upload that is written to.
pub(super) struct Output {
    upload: Upload,
    waiter: Waiter,
    buffer: Vec<u8>,
}

impl Output {
    pub(super) fn new(upload: Upload, waiter: Waiter) -> Self {
        Self { upload, waiter, buffer: Vec::new() }
    }

    fn put(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.buffer);
        self.waiter.wait(self.upload.put(bytes.into()))
    }

    /// The upload, with all bytes that were written.
    ///
    /// # Errors
    /// When the store refuses.
    pub(super) fn end(mut self) -> Result<Upload> {
        self.put()?;
        Ok(self.upload)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.put().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: the writer flushes after each column.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
