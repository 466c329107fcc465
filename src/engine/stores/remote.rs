//! A remote store. Reads resume after a broken connection, unfinished uploads are aborted, and errors are explained.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::checked_http::{CHECKSUM_METADATA, Checksum};
use super::errors::{BucketUrl, STORE, is_transient, lost};
use crate::output::upload::Digest;

/// The maximum number of times that a put is repeated after its answer was lost.
const PUT_REPEATS: usize = 3;

#[derive(Clone)]
pub(super) struct Remote {
    pub(super) inner: Arc<dyn ObjectStore>,
    /// A client for the same store that reads objects.
    pub(super) reads: Arc<dyn ObjectStore>,
    pub(super) bucket_url: Arc<BucketUrl>,
}

impl Remote {
    fn explained(
        &self,
        object: &Path,
    ) -> impl Fn(object_store::Error) -> object_store::Error + Send + 'static {
        let (bucket_url, object) = (Arc::clone(&self.bucket_url), object.clone());
        move |error| bucket_url.explain(Some(&object), error)
    }

    /// Explains the errors of a listing under `prefix`, and ends a listing that repeats itself.
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
                // The client library does not retry a request that the store may have carried out. If the first put was carried out, a
                // second one correctly fails.
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
        // The upload begins in a separate task, which completes even if the caller is dropped. The new upload is then aborted.
        let begun = tokio::spawn(async move {
            let begun = store.inner.put_multipart_opts(&location, options).await;
            let inner = begun.map_err(store.explained(&location))?;
            let sent = Digest::default();
            let bucket_url = Arc::clone(&store.bucket_url);
            let (inner, store): (_, Arc<dyn ObjectStore>) = (Some(inner), Arc::new(store));
            Ok::<_, object_store::Error>(PartUpload { inner, sent, store, bucket_url, location, under_way })
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

/// Detects a listing that repeats itself, in constant memory. Compares one object with all later objects. Replaces it after twice as many
/// objects as the previous one (Brent, "An improved Monte Carlo factorization algorithm", 1980).
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

/// The maximum number of resumptions without progress. Each has the full time limit of a request, because a long download can break off
/// at this limit alone.
const RESUMPTIONS: usize = 3;

/// The bytes of an object, read with resumptions after a broken connection.
struct Body {
    reads: Arc<dyn ObjectStore>,
    bucket_url: Arc<BucketUrl>,
    location: Path,
    options: GetOptions,
    e_tag: Option<String>,
    /// The range of bytes that are still missing.
    left: Range<u64>,
    /// The checksum of an object that is read completely, if the store provides one.
    checksum: Option<Checksum>,
    stream: BoxStream<'static, Result<Bytes>>,
    failures: usize,
}

impl Body {
    /// Returns the next bytes, after a new request if the connection broke.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let error = match self.stream.try_next().await {
                Ok(Some(bytes)) => {
                    let came = bytes.len() as u64;
                    if came > self.left.end.saturating_sub(self.left.start) {
                        let message = "more bytes came than were announced";
                        return Err(self.bucket_url.refused(Some(&self.location), message));
                    }
                    self.left.start += came;
                    self.failures = 0;
                    if let Some(checksum) = &mut self.checksum {
                        checksum.update(&bytes);
                        // Checks before the last bytes are passed on, because a reader that has all bytes does not poll again.
                        if self.left.is_empty() && !checksum.is_right() {
                            return Err(self.bucket_url.altered(&self.location));
                        }
                    }
                    return Ok(Some(bytes));
                }
                // All bytes arrived, even if the connection broke afterwards.
                _ if self.left.is_empty() => return Ok(None),
                Ok(None) => self.bucket_url.cut_short(&self.location, self.left.end - self.left.start),
                Err(error) => self.bucket_url.explain(Some(&self.location), error),
            };
            let (true, Some(e_tag)) = (is_transient(&error) && self.failures < RESUMPTIONS, &self.e_tag)
            else {
                return Err(error);
            };
            self.failures += 1;
            // The store refuses this request if the object was replaced in the meantime.
            let options = GetOptions {
                range: Some(GetRange::Bounded(self.left.clone())),
                if_match: Some(e_tag.clone()),
                ..self.options.clone()
            };
            let explain = |error| self.bucket_url.explain(Some(&self.location), error);
            let got = self.reads.get_opts(&self.location, options).await.map_err(explain)?;
            if got.meta.e_tag.as_deref() != Some(e_tag) {
                return Err(self.bucket_url.replaced(&self.location));
            }
            self.stream = got.into_stream();
        }
    }
}

/// A running multipart upload. Dropping it aborts the upload, because a store keeps and bills the parts of unfinished uploads.
#[derive(Debug)]
struct PartUpload {
    /// The upload, or `None` after its end.
    inner: Option<Box<dyn MultipartUpload>>,
    sent: Digest,
    /// The store, from which the object is read if the answer to the last request of the upload was lost.
    store: Arc<dyn ObjectStore>,
    bucket_url: Arc<BucketUrl>,
    location: Path,
    /// The process ends only after this token is dropped.
    under_way: TaskTrackerToken,
}

/// Returns the object at `location` if its bytes have this digest.
async fn uploaded(store: &dyn ObjectStore, location: &Path, sent: Digest) -> Result<Option<PutResult>> {
    let got = store.get(location).await?;
    let (e_tag, version) = (got.meta.e_tag.clone(), got.meta.version.clone());
    if got.meta.size != sent.bytes() {
        return Ok(None);
    }
    let (mut there, mut stream) = (Digest::default(), got.into_stream());
    while let Some(bytes) = stream.try_next().await? {
        there.update(&bytes);
    }
    Ok((there.end() == sent.end()).then_some(PutResult { e_tag, version }))
}

impl PartUpload {
    fn explained(&self) -> impl Fn(object_store::Error) -> object_store::Error + Send + 'static {
        let (bucket_url, location) = (Arc::clone(&self.bucket_url), self.location.clone());
        move |error| bucket_url.explain(Some(&location), error)
    }

    fn ended(&self) -> object_store::Error {
        let source = format!("{}/{}: this upload has ended", self.store, self.location).into();
        object_store::Error::Generic { store: STORE, source }
    }
}

#[async_trait]
impl MultipartUpload for PartUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let explain = self.explained();
        match &mut self.inner {
            Some(inner) => {
                data.iter().for_each(|bytes| self.sent.update(bytes));
                let part = inner.put_part(data);
                Box::pin(async move { part.await.map_err(explain) })
            }
            None => {
                let ended = self.ended();
                Box::pin(async move { Err(ended) })
            }
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let explain = self.explained();
        let Some(inner) = &mut self.inner else { return Err(self.ended()) };
        let completed = inner.complete().await.map_err(explain);
        let put = match completed {
            // If the answer was lost, the upload may be complete. The store then has the object but no longer the upload.
            Err(error) if is_transient(&error) || matches!(error, object_store::Error::NotFound { .. }) => {
                let uploaded = uploaded(self.store.as_ref(), &self.location, self.sent.clone()).await;
                uploaded.ok().flatten().ok_or(error)?
            }
            completed => completed?,
        };
        self.inner = None;
        Ok(put)
    }

    async fn abort(&mut self) -> Result<()> {
        let Some(mut inner) = self.inner.take() else { return Ok(()) };
        inner.abort().await.map_err(self.explained())
    }
}

impl Drop for PartUpload {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        // Without a runtime, the process is ending. Rules of the bucket can remove the parts.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let explain = self.explained();
        let under_way = self.under_way.clone();
        runtime.spawn(async move {
            let _under_way = under_way;
            if let Err(error) = inner.abort().await.map_err(explain) {
                tracing::debug!(%error, "an upload could not be aborted");
            }
        });
    }
}

/// The running uploads. The tracker is closed from the start, so that waiting ends as soon as no upload runs.
static UNDER_WAY: LazyLock<TaskTracker> = LazyLock::new(|| {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
});

/// Waits until every upload is completed or aborted.
pub(crate) async fn uploads_ended() {
    UNDER_WAY.wait().await;
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
