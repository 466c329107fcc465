//! Blocking input and output for the Parquet readers and writers, which are not `async`.

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

/// The number of bytes per read.
pub(super) const WINDOW: u64 = 8 << 20;

/// The number of bytes that are collected before a put.
const BUFFER: usize = 1 << 20;

/// Blocks a thread until a future ends or the work is stopped.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    runtime: Handle,
    stop: CancellationToken,
}

impl Waiter {
    pub(super) fn new(stop: &CancellationToken) -> Self {
        Self { runtime: Handle::current(), stop: stop.clone() }
    }

    /// Blocks until `work` ends. Returns the error of `work`, or `Kind::Interrupted` if the work was stopped.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = self.stop.cancelled() => Err(Error::interrupted()),
            }
        })
    }
}

/// A Parquet file that is read through a moving window. A window is sufficient, because columns are copied in the order in which they are
/// stored.
#[derive(Clone)]
pub(super) struct WindowedFile(Arc<Window>);

struct Window {
    file: Arc<ParquetFile>,
    waiter: Waiter,
    /// The offset of the window in the file, and the bytes in the window.
    held: Mutex<(u64, Bytes)>,
}

impl WindowedFile {
    pub(super) fn new(file: Arc<ParquetFile>, waiter: Waiter) -> Self {
        Self(Arc::new(Window { file, waiter, held: Mutex::default() }))
    }

    /// Returns the bytes in the window from `start` to its end. Moves the window if fewer than `least` bytes follow `start` in it.
    fn from(&self, start: u64, least: u64) -> Result<Bytes> {
        let Window { file, waiter, held } = self.0.as_ref();
        let mut held = held.lock();
        let (first, bytes) = &*held;
        let last = first + bytes.len() as u64;
        if start < *first || start + least > last {
            let range = start..file.size().min(start + least.max(WINDOW));
            // Frees the window before the next read.
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
        if bytes.len() < length {
            Err(ParquetError::EOF(format!("it ends before byte {}", start + length as u64)))
        } else {
            Ok(bytes.slice(..length))
        }
    }
}

/// A reader that starts at an offset in a file.
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

pub(super) struct UploadWriter {
    upload: Upload,
    waiter: Waiter,
    buffer: Vec<u8>,
}

impl UploadWriter {
    pub(super) fn new(upload: Upload, waiter: Waiter) -> Self {
        Self { upload, waiter, buffer: Vec::new() }
    }

    fn put(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.buffer);
        self.waiter.wait(self.upload.put(bytes.into()))
    }

    /// Flushes all written bytes and returns the upload.
    pub(super) fn end(mut self) -> Result<Upload> {
        self.put()?;
        Ok(self.upload)
    }
}

impl Write for UploadWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.put().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    /// Does nothing. The Parquet writer flushes after each column, and each flush would put a partly filled buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
