use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, Result};

use super::checked_http::Checksum;
use super::errors::{BucketUrl, is_transient};

/// The maximum number of resumptions without progress. Each has the full time limit of a request, because a long download can break off
/// at this limit alone.
const TIMES: usize = 3;

/// The bytes of an object, read with resumptions after a broken connection.
pub(super) struct Body {
    pub(super) reads: Arc<dyn ObjectStore>,
    pub(super) bucket_url: Arc<BucketUrl>,
    pub(super) location: Path,
    pub(super) options: GetOptions,
    pub(super) e_tag: Option<String>,
    /// The range of bytes that are still missing.
    pub(super) left: Range<u64>,
    /// The checksum of an object that is read completely, if the store provides one.
    pub(super) checksum: Option<Checksum>,
    pub(super) stream: BoxStream<'static, Result<Bytes>>,
    pub(super) failures: usize,
}

impl Body {
    /// Returns the next bytes, after a new request if the connection broke.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
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
            let (true, Some(e_tag)) = (is_transient(&error) && self.failures < TIMES, &self.e_tag) else {
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
