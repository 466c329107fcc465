//! An object store that counts the requests for objects and the bytes of the answers.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, coalesce_ranges,
};

use super::*;

/// A store over another, with what it answered: the path and the bytes of each request.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn ObjectStore>,
    answered: Mutex<Vec<(String, u64)>>,
    /// Ranges of an object with at most so many bytes between them are one request.
    gap: u64,
}

impl Counting {
    pub fn over(inner: impl ObjectStore, gap: u64) -> Arc<Self> {
        Arc::new(Self { inner: Arc::new(inner), answered: Mutex::default(), gap })
    }

    /// The requests for objects with `part` in their path, and the bytes of the answers. `part` is that of a folder or of a file.
    pub fn answered(&self, part: &str) -> (usize, u64) {
        let answered = self.answered.lock().unwrap();
        let from_path: Vec<u64> =
            answered.iter().filter(|(path, _)| path.contains(part)).map(|(_, bytes)| *bytes).collect();
        (from_path.len(), from_path.iter().sum())
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let got = self.inner.get_opts(location, options).await?;
        let bytes = if head { 0 } else { got.range.end - got.range.start };
        self.answered.lock().unwrap().push((location.to_string(), bytes));
        Ok(got)
    }

    /// Joins ranges as remote stores do, whose gap is a mebibyte.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let get = |range| self.get_range(location, range);
        coalesce_ranges(ranges, get, self.gap).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
