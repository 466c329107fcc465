//! Files as they were when they were listed.
//!
//! A run is known by the files that were listed. What is read must be those: a file that was replaced since, or is
//! replaced while it is read, is an error that names it, and never rows under the name of the old file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::Error;

/// A file as it was when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// The file's path in its store.
    pub location: String,
    /// Bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified: i64,
    /// The store's name for this content. A disk has none: there size and time tell.
    pub e_tag: Option<String>,
}

impl Pin {
    /// What the listing of `store` said of a file.
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
    /// Where the text is none.
    pub(crate) fn location(&self) -> Result<Path> {
        Ok(Path::parse(&self.location)?)
    }

    /// As [`ObjectStore::get_opts`], of the file as it was listed.
    ///
    /// A file on a disk may still change under the reader: see [`Pin::check`] and [`Pin::stream`].
    ///
    /// # Errors
    /// [`object_store::Error::Precondition`] where the file is another one now.
    pub(crate) async fn get(&self, store: &dyn ObjectStore, options: GetOptions) -> Result<GetResult> {
        let location = self.location()?;
        // A weak name is never equal to any, by RFC 9110.
        let if_match = self.e_tag.clone().filter(|e_tag| !e_tag.starts_with("W/"));
        let options = GetOptions { if_match: if_match.or(options.if_match.clone()), ..options };
        let mut got = store.get_opts(&location, options).await.map_err(|error| self.explain(error))?;
        self.compare(&got.meta)?;
        if let GetResultPayload::Stream(bytes) = &mut got.payload {
            let (pin, inner) = (self.clone(), std::mem::replace(bytes, stream::empty().boxed()));
            *bytes = inner.map_err(move |error| pin.explain(error)).boxed();
        }
        Ok(got)
    }

    /// The file's bytes, and an error at their end where the file changed while it was read.
    ///
    /// # Errors
    /// As [`Pin::get`].
    pub(crate) async fn stream(&self, store: &dyn ObjectStore) -> Result<BoxStream<'static, Result<Bytes>>> {
        let (got, open) = self.open(store).await?;
        let Some(open) = open else { return Ok(got.into_stream()) };
        let pin = self.clone();
        let end = stream::once(async move { pin.compare_open(&open) });
        Ok(got.into_stream().chain(end.filter_map(|checked| async { checked.err().map(Err) })).boxed())
    }

    /// Whether the file is still the one that was listed.
    ///
    /// # Errors
    /// As [`Pin::get`].
    pub(crate) async fn check(&self, store: &dyn ObjectStore) -> Result<()> {
        let meta = store.head(&self.location()?).await.map_err(|error| self.explain(error))?;
        self.compare(&meta)
    }

    /// The file, and once more where it is on a disk: what is open there stays that file when another one takes its name.
    async fn open(&self, store: &dyn ObjectStore) -> Result<(GetResult, Option<File>)> {
        let got = self.get(store, GetOptions::default()).await?;
        let open = match &got.payload {
            GetResultPayload::File(file, _) => Some(file.try_clone().map_err(|error| self.failed(error))?),
            GetResultPayload::Stream(_) => None,
        };
        Ok((got, open))
    }

    fn compare_open(&self, file: &File) -> Result<()> {
        let now = file.metadata().map_err(|error| self.failed(error))?;
        let written = now.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let written = written.and_then(|since| i64::try_from(since.as_nanos()).ok());
        self.same(now.len(), written.unwrap_or(self.modified))
    }

    fn compare(&self, now: &ObjectMeta) -> Result<()> {
        let Some((listed, now_named)) = self.e_tag.as_deref().zip(now.e_tag.as_deref()) else {
            return self.same(now.size, nanoseconds(now));
        };
        if now.size != self.size {
            return self.same(now.size, self.modified);
        }
        let strong = |e_tag: &'_ str| e_tag.strip_prefix("W/").unwrap_or(e_tag).to_owned();
        if strong(listed) == strong(now_named) {
            return Ok(());
        }
        Err(self.replaced(format!("its e_tag is {now_named} and was {listed} when it was listed")))
    }

    fn same(&self, size: u64, modified: i64) -> Result<()> {
        const SECOND: i64 = 1_000_000_000;
        if size != self.size {
            return Err(
                self.replaced(format!("it has {size} bytes and had {} when it was listed", self.size))
            );
        }
        // Stores list fractions of seconds, and answer with whole ones.
        let same = match modified % SECOND {
            0 => modified / SECOND == self.modified.div_euclid(SECOND),
            _ => modified == self.modified,
        };
        if same { Ok(()) } else { Err(self.replaced("it was last written at another time".to_owned())) }
    }

    fn explain(&self, error: object_store::Error) -> object_store::Error {
        match error {
            object_store::Error::Precondition { .. } => self.replaced(
                "the storage has another object under its name than the one that was listed".to_owned(),
            ),
            other => other,
        }
    }

    fn replaced(&self, how: String) -> object_store::Error {
        let source = Error::input(format!(
            "the file was replaced or written to since it was listed: {how}; run again when nobody writes there"
        ));
        object_store::Error::Precondition { path: self.location.clone(), source: Box::new(source) }
    }

    fn failed(&self, error: std::io::Error) -> object_store::Error {
        object_store::Error::Generic { store: "file", source: Box::new(error) }
    }
}

fn nanoseconds(meta: &ObjectMeta) -> i64 {
    meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX)
}

/// Files that must be read as they were listed, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Pins(BTreeMap<Path, Pin>);

impl Pins {
    pub(crate) fn new<'a>(pins: impl Iterator<Item = &'a Pin>) -> Arc<Self> {
        // What is not a path is asked for by nobody.
        Arc::new(Self(pins.filter_map(|pin| Some((pin.location().ok()?, pin.clone()))).collect()))
    }

    /// `store`, where what is read must be as it was listed.
    pub(crate) fn over(self: &Arc<Self>, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(PinnedStore { inner: store, pins: Arc::clone(self) })
    }

    /// `context`, whose stores are held to these pins.
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

/// The stores of another registry, held to pins.
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

/// A store whose pinned files are read as they were listed, or not at all.
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
            Some(pin) if pin.e_tag.is_some() => {
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
