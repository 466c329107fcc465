//! A remote store with three additions: reads resume after a broken connection, uploads can be aborted, and errors are explained.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::errors::{BucketUrl, lost};
use super::multipart_uploads::{PartUpload, UNDER_WAY};
use super::resumed_reads::Body;
use super::s3_http::{CHECKSUM_METADATA, Checksum};
use crate::output::upload::Digest;

/// The maximum number of repetitions of a put whose answer was lost.
const PUT_REPEATS: usize = 3;

/// A store with explained errors and reads that resume.
#[derive(Clone)]
pub(super) struct Remote {
    inner: Arc<dyn ObjectStore>,
    /// A client for the same store that reads objects.
    reads: Arc<dyn ObjectStore>,
    bucket_url: Arc<BucketUrl>,
}

impl Remote {
    pub(super) fn new(
        inner: Arc<dyn ObjectStore>,
        reads: Arc<dyn ObjectStore>,
        bucket_url: Arc<BucketUrl>,
    ) -> Self {
        Self { inner, reads, bucket_url }
    }

    pub(super) fn explained(
        &self,
        object: &Path,
    ) -> impl Fn(object_store::Error) -> object_store::Error + Send + 'static {
        let (bucket_url, object) = (Arc::clone(&self.bucket_url), object.clone());
        move |error| bucket_url.explain(Some(&object), error)
    }

    /// Explains the errors of a listing under `prefix`. Ends the listing with an error if it repeats itself.
    fn checked_listing(
        &self,
        prefix: Option<&Path>,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (bucket_url, prefix) = (Arc::clone(&self.bucket_url), prefix.cloned());
        let mut repeats = Repeats::default();
        let checked = listing.map(move |meta| {
            let meta = meta.map_err(|error| bucket_url.explain(prefix.as_ref(), error))?;
            if repeats.has_repeated(&meta.location) {
                let message =
                    format!("the listing came to {} a second time, so it would never end", meta.location);
                return Err(bucket_url.refused(prefix.as_ref(), &message));
            }
            Ok(meta)
        });
        checked.boxed()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The inner store contains credentials.
        write!(f, "Remote({})", self.bucket_url)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bucket_url.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Remote {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mut failures = 0;
        loop {
            match self.inner.put_opts(location, payload.clone(), options.clone()).await {
                // The client library does not retry a request that the store may have carried out. A second put would
                // correctly fail.
                Err(error)
                    if options.mode != PutMode::Overwrite && failures < PUT_REPEATS && lost(&error) =>
                {
                    failures += 1
                }
                ended => return ended.map_err(self.explained(location)),
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (store, location) = (self.clone(), location.clone());
        let under_way = UNDER_WAY.token();
        // The upload begins in a separate task, which completes even if the caller is dropped. An upload that was begun is then aborted.
        let begun = tokio::spawn(async move {
            let begun = store.inner.put_multipart_opts(&location, options).await;
            let inner = begun.map_err(store.explained(&location))?;
            let sent = Digest::default();
            Ok::<_, object_store::Error>(PartUpload { inner: Some(inner), sent, store, location, under_way })
        });
        Ok(Box::new(begun.await??))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let store = if options.head { &self.inner } else { &self.reads };
        let mut got = store.get_opts(location, options.clone()).await.map_err(self.explained(location))?;
        let checksum = got.attributes.get(&Attribute::Metadata(CHECKSUM_METADATA.into()));
        let checksum = checksum.and_then(|checksum| Checksum::from_metadata(checksum));
        let (GetResultPayload::Stream(stream), false) = (&mut got.payload, options.head) else {
            return Ok(got);
        };
        let body = Body {
            reads: Arc::clone(&self.reads),
            bucket_url: Arc::clone(&self.bucket_url),
            location: location.clone(),
            options,
            e_tag: got.meta.e_tag.clone(),
            left: got.range.clone(),
            checksum,
            stream: std::mem::replace(stream, stream::empty().boxed()),
            failures: 0,
        };
        let bytes = stream::try_unfold(body, |mut body| async move {
            let bytes = body.next().await?;
            Ok(bytes.map(|bytes| (bytes, body)))
        });
        got.payload = GetResultPayload::Stream(bytes.boxed());
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let bucket_url = Arc::clone(&self.bucket_url);
        self.inner.delete_stream(locations).map_err(move |error| bucket_url.explain(None, error)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.checked_listing(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.checked_listing(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let explain = self.explained(prefix.unwrap_or(&Path::default()));
        self.inner.list_with_delimiter(prefix).await.map_err(explain)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await.map_err(self.explained(from))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await.map_err(self.explained(from))
    }
}

/// Detects a listing that repeats itself, in constant memory. One object is compared with all later objects. It is replaced after twice as
/// many objects as the previous one (Brent, "An improved Monte Carlo factorization algorithm", 1980).
#[derive(Debug, Default)]
struct Repeats {
    compared: Option<Path>,
    /// The number of objects since the compared object.
    since: u64,
    /// The number of objects after which the compared object is replaced.
    term: u64,
}

impl Repeats {
    /// Whether `location` occurred before.
    fn has_repeated(&mut self, location: &Path) -> bool {
        if self.compared.as_ref() == Some(location) {
            return true;
        }
        self.since += 1;
        if self.since >= self.term {
            self.compared = Some(location.clone());
            self.term = (2 * self.since).max(1);
            self.since = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_any_length_are_detected() {
        let path = |i: usize| Path::from(format!("{i}"));
        let mut line = Repeats::default();
        assert!(!(0..5_000).any(|i| line.has_repeated(&path(i))));
        for (before, circle) in [(0, 1), (0, 2), (3, 5), (1_000, 1_500), (10, 700)] {
            let mut repeats = Repeats::default();
            let keys = (0..before).chain((0..).map(|i| before + i % circle));
            let noticed = keys.take(10 * (before + circle)).position(|i| repeats.has_repeated(&path(i)));
            assert!(noticed.is_some_and(|at| at >= before + circle), "{before} {circle} {noticed:?}");
        }
    }
}
