//! A remote store. Reads resume after a broken connection, unfinished uploads are aborted, and errors are explained.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::checked_http::{CHECKSUM_METADATA, Checksum};
use super::endless_listings::Repeats;
use super::errors::{BucketUrl, lost};
use super::multipart_uploads::{PartUpload, UNDER_WAY};
use super::resumed_reads::Body;
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
