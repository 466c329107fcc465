//! Uploads in parts. An upload that does not complete is aborted.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use futures::stream::TryStreamExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, PutResult, Result, UploadPart};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::errors::{BucketUrl, STORE, is_transient};
use crate::output::upload::Digest;

/// A running multipart upload. Dropping it aborts the upload, because a store keeps and bills the parts of unfinished uploads.
#[derive(Debug)]
pub(super) struct PartUpload {
    /// The upload, or `None` after its end.
    pub(super) inner: Option<Box<dyn MultipartUpload>>,
    pub(super) sent: Digest,
    /// The store, from which the object is read if the answer to the last request of the upload was lost.
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) bucket_url: Arc<BucketUrl>,
    pub(super) location: Path,
    /// The process ends only after this token is dropped.
    pub(super) under_way: TaskTrackerToken,
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
pub(super) static UNDER_WAY: LazyLock<TaskTracker> = LazyLock::new(|| {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
});

/// Waits until every upload is completed or aborted.
pub(crate) async fn uploads_ended() {
    UNDER_WAY.wait().await;
}
