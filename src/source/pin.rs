//! Files as they were when they were listed.
//!
//! The fingerprint of a run holds the files that were listed. A file that was replaced since, or is replaced while it is read, is
//! an error that names it; its rows never appear under the name of the old file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::local_names::local_path;
use crate::error::{Context, Error};

/// A file as it was when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// The file's path in its store.
    pub location: String,
    /// Bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified: i64,
    /// The store's name for this content. A disk has none: there size and time are compared.
    pub e_tag: Option<String>,
}

impl Pin {
    /// The state of a file that `store` listed.
    pub(crate) fn new(store: &ObjectStoreUrl, meta: &ObjectMeta) -> Self {
        // What object_store makes up for a disk's file holds its inode, which is another one on each machine.
        let disk = store.as_str().starts_with("file:");
        Self {
            location: meta.location.to_string(),
            size: meta.size,
            modified: nanoseconds(meta),
            e_tag: meta.e_tag.clone().filter(|_| !disk),
        }
    }

    /// The file's path in its store.
    ///
    /// # Errors
    /// Where the text is not a path.
    pub(crate) fn location(&self) -> Result<Path> {
        Ok(Path::parse(&self.location)?)
    }

    /// As [`ObjectStore::get_opts`], of the file as it was listed.
    ///
    /// A file on a disk may still change while it is read: see [`Pin::check_after_reading`].
    ///
    /// # Errors
    /// [`object_store::Error::Precondition`] where the file is another one now.
    pub(crate) async fn get(&self, store: &dyn ObjectStore, options: GetOptions) -> Result<GetResult> {
        let location = self.location()?;
        // A weak name is never equal to any, by RFC 9110.
        let if_match = self.e_tag.clone().filter(|e_tag| !e_tag.starts_with("W/"));
        let options = GetOptions { if_match: if_match.or(options.if_match.clone()), ..options };
        let mut got = match store.get_opts(&location, options.clone()).await {
            // The store looks for the escaped name.
            Err(object_store::Error::NotFound { .. }) if self.is_escaped() => {
                self.open(location, &options)?
            }
            got => got.map_err(|error| self.explain(error))?,
        };
        self.compare(&got.meta)?;
        if let GetResultPayload::Stream(bytes) = &mut got.payload {
            let (pin, inner) = (self.clone(), std::mem::replace(bytes, stream::empty().boxed()));
            *bytes = inner.map_err(move |error| pin.explain(error)).boxed();
        }
        Ok(got)
    }

    /// Checks, after the file called `shown` was read, that it is still the one that was listed. A store with e_tags has checked
    /// that with each answer; a disk does not.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is another file now.
    pub(crate) async fn check_after_reading(
        &self,
        store: &dyn ObjectStore,
        shown: &str,
    ) -> crate::error::Result<()> {
        match self.e_tag {
            Some(_) => Ok(()),
            None => self.check(store).await.context(|| format!("reading {shown} failed")),
        }
    }

    async fn check(&self, store: &dyn ObjectStore) -> Result<()> {
        self.get(store, GetOptions::new().with_head(true)).await.map(drop)
    }

    /// Whether this may be a local file whose name is not text.
    fn is_escaped(&self) -> bool {
        self.e_tag.is_none() && self.location.contains("\\x")
    }

    /// Opens a local file by the bytes of its name.
    fn open(&self, location: Path, options: &GetOptions) -> Result<GetResult> {
        let open = || -> io::Result<GetResult> {
            let path = local_path(&self.location).unwrap_or_default();
            let file = File::open(&path)?;
            let (size, modified) = (file.metadata()?.len(), file.metadata()?.modified()?);
            let range = options.range.as_ref().map_or(Ok(0..size), |range| range.as_range(size));
            let meta =
                ObjectMeta { location, last_modified: modified.into(), size, e_tag: None, version: None };
            let (payload, attributes) = (GetResultPayload::File(file, path), Attributes::new());
            Ok(GetResult { payload, meta, range: range.map_err(io::Error::other)?, attributes })
        };
        let failed = |error: io::Error| object_store::Error::NotFound {
            path: self.location.clone(),
            source: error.into(),
        };
        open().map_err(failed)
    }

    /// Checks that an open file of this machine is the one that was listed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is another file now.
    pub(super) fn check_open(&self, now: &Metadata) -> std::result::Result<(), Error> {
        self.same(now.len(), now.modified().map_or(self.modified, nanoseconds_of))
    }

    fn compare(&self, now: &ObjectMeta) -> Result<()> {
        let same = match self.e_tag.as_deref().zip(now.e_tag.as_deref()) {
            None => self.same(now.size, nanoseconds(now)),
            Some(_) if now.size != self.size => self.same(now.size, self.modified),
            Some((listed, now)) if without_weak_mark(listed) == without_weak_mark(now) => Ok(()),
            Some((listed, now)) => {
                Err(replaced(&format!("its e_tag is {now} and was {listed} when it was listed")))
            }
        };
        same.map_err(|error| self.precondition(error))
    }

    fn same(&self, size: u64, modified: i64) -> std::result::Result<(), Error> {
        const SECOND: i64 = 1_000_000_000;
        if size != self.size {
            return Err(replaced(&format!("it has {size} bytes and had {} when it was listed", self.size)));
        }
        // Some stores list fractions of seconds, and answer requests with whole seconds.
        let same = match modified % SECOND {
            0 => modified / SECOND == self.modified.div_euclid(SECOND),
            _ => modified == self.modified,
        };
        if same { Ok(()) } else { Err(replaced("it was last written at another time")) }
    }

    fn explain(&self, error: object_store::Error) -> object_store::Error {
        match error {
            object_store::Error::Precondition { .. } => self.precondition(replaced(
                "the storage has another object under its name than the one that was listed",
            )),
            other => other,
        }
    }

    fn precondition(&self, error: Error) -> object_store::Error {
        object_store::Error::Precondition { path: self.location.clone(), source: Box::new(error) }
    }
}

/// The error for a file that is no longer the one that was listed.
fn replaced(how: &str) -> Error {
    Error::input(format!(
        "the file was replaced or written to since it was listed: {how}; run again when no process writes there"
    ))
}

/// An e_tag without the mark of weak ones.
fn without_weak_mark(e_tag: &str) -> &str {
    e_tag.strip_prefix("W/").unwrap_or(e_tag)
}

fn nanoseconds(meta: &ObjectMeta) -> i64 {
    meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970, or the nearest number that fits.
fn nanoseconds_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

/// Files that must be read as they were listed, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Pins(BTreeMap<Path, Pin>);

impl Pins {
    pub(crate) fn new<'a>(pins: impl Iterator<Item = &'a Pin>) -> Arc<Self> {
        // Nothing can be read under a text that is not a path.
        Arc::new(Self(pins.filter_map(|pin| Some((pin.location().ok()?, pin.clone()))).collect()))
    }

    /// `store`, which refuses to read pinned files that have changed.
    pub(crate) fn over(self: &Arc<Self>, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(PinnedStore { inner: store, pins: Arc::clone(self) })
    }

    /// `context` with such stores.
    pub(crate) fn context(self: &Arc<Self>, context: &Arc<TaskContext>) -> Arc<TaskContext> {
        let runtime = context.runtime_env();
        let registry =
            PinnedRegistry { inner: Arc::clone(&runtime.object_store_registry), pins: Arc::clone(self) };
        let runtime = RuntimeEnv { object_store_registry: Arc::new(registry), ..runtime.as_ref().clone() };
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            Arc::new(runtime),
        ))
    }
}

/// The stores of another registry, each with these pins.
#[derive(Debug)]
struct PinnedRegistry {
    inner: Arc<dyn ObjectStoreRegistry>,
    pins: Arc<Pins>,
}

impl ObjectStoreRegistry for PinnedRegistry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        self.inner.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        Ok(self.pins.over(self.inner.get_store(url)?))
    }
}

/// A store that refuses to read pinned files that have changed.
#[derive(Debug)]
struct PinnedStore {
    inner: Arc<dyn ObjectStore>,
    pins: Arc<Pins>,
}

impl fmt::Display for PinnedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for PinnedStore {
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
        match self.pins.0.get(location) {
            Some(pin) => pin.get(self.inner.as_ref(), options).await,
            None => self.inner.get_opts(location, options).await,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.pins.0.get(location) {
            // Each answer has the e_tag.
            Some(pin) if pin.e_tag.is_some() || pin.is_escaped() => {
                let get = |range| self.get_range(location, range);
                coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
            }
            // A disk reads ranges faster than it reads one after the other.
            Some(pin) => {
                pin.check(self.inner.as_ref()).await?;
                self.inner.get_ranges(location, ranges).await
            }
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
