//! The identity of source files: if a file was replaced after it was listed, reading it fails. The fingerprint of a run covers the listed
//! files. [`Pin`] refuses changed content, so rows of a new file never appear under the name of the old file.

mod checksums;
mod comparison;

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, GetOptions, GetResult, GetResultPayload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta,
    ObjectStore, Result, coalesce_ranges,
};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::listing::disk::{local_meta, local_path};
use crate::error::{Context, Error};
use crate::schema::as_text;

pub(crate) use self::checksums::{Checksums, checksum_of};
pub(crate) use self::comparison::InputComparison;

/// The state of a file when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    #[serde(serialize_with = "as_text", deserialize_with = "path_from_text")]
    pub location: Path,
    pub size: u64,
    /// The modification time in nanoseconds since 1970.
    pub modified: i64,
    /// The store's identifier of the content. The local disk provides none, so its files are compared by size and time.
    pub e_tag: Option<String>,
}

fn path_from_text<'a, D: Deserializer<'a>>(from: D) -> std::result::Result<Path, D::Error> {
    Path::parse(String::deserialize(from)?).map_err(de::Error::custom)
}

impl Pin {
    pub(super) fn new(store: &ObjectStoreUrl, meta: ObjectMeta) -> Self {
        // The e_tag of `LocalFileSystem` contains the inode, which differs between machines.
        let is_local = store.as_str().starts_with("file:");
        Self {
            size: meta.size,
            modified: nanoseconds(&meta),
            e_tag: meta.e_tag.filter(|_| !is_local),
            location: meta.location,
        }
    }

    /// Returns the state as the type that object stores and Parquet readers take.
    pub(super) fn meta(&self) -> ObjectMeta {
        let since = Duration::from_nanos(self.modified.unsigned_abs());
        let modified = if self.modified < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since };
        ObjectMeta {
            location: self.location.clone(),
            last_modified: modified.into(),
            size: self.size,
            e_tag: self.e_tag.clone(),
            version: None,
        }
    }

    /// Gets the file like [`ObjectStore::get_opts`]. A local file may change while it is read: see [`Pin::check_after_reading`].
    pub(super) async fn get(&self, store: &dyn ObjectStore, options: GetOptions) -> Result<GetResult> {
        // A weak e_tag never matches `If-Match` (RFC 9110).
        let if_match = self.e_tag.clone().filter(|e_tag| !e_tag.starts_with("W/"));
        let options = GetOptions { if_match, ..options };
        let mut got = match store.get_opts(&self.location, options.clone()).await {
            // `LocalFileSystem` looks for the escaped name, which does not exist on the disk.
            Err(object_store::Error::NotFound { .. }) if self.is_escaped() => self.open_escaped(&options)?,
            got => got.map_err(|error| self.explain(error))?,
        };
        self.compare(&got.meta)?;
        if let GetResultPayload::Stream(bytes) = &mut got.payload {
            let (pin, inner) = (self.clone(), std::mem::replace(bytes, stream::empty().boxed()));
            *bytes = inner.map_err(move |error| pin.explain(error)).boxed();
        }
        Ok(got)
    }

    pub(super) async fn get_range(&self, store: &dyn ObjectStore, range: Range<u64>) -> Result<Bytes> {
        self.get(store, GetOptions::new().with_range(Some(range))).await?.bytes().await
    }

    pub(super) async fn get_ranges(
        &self,
        store: &dyn ObjectStore,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        // A store with e_tags checks each request.
        if self.e_tag.is_some() || self.is_escaped() {
            let get = |range| self.get_range(store, range);
            return coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await;
        }
        // `LocalFileSystem` reads all ranges of a file in one call, so the file is checked once.
        self.check(store).await?;
        store.get_ranges(&self.location, ranges).await
    }

    /// Fails with `Kind::Input` if the file, called `shown`, was replaced while it was read. A store with e_tags has already checked each
    /// request.
    pub(super) async fn check_after_reading(
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

    /// Whether the location may contain the escapes of a local name that is not plain UTF-8.
    fn is_escaped(&self) -> bool {
        self.e_tag.is_none() && self.location.as_ref().contains("\\x")
    }

    /// Opens a local file whose name is escaped in the location.
    fn open_escaped(&self, options: &GetOptions) -> Result<GetResult> {
        let open = || -> io::Result<GetResult> {
            let path = local_path(&self.location).unwrap_or_default();
            let file = File::open(&path)?;
            let meta = local_meta(self.location.clone(), &file.metadata()?)?;
            let range = options.range.as_ref().map_or(Ok(0..meta.size), |range| range.as_range(meta.size));
            let (payload, attributes) = (GetResultPayload::File(file, path), Attributes::new());
            Ok(GetResult { payload, meta, range: range.map_err(io::Error::other)?, attributes })
        };
        open().map_err(|error| object_store::Error::NotFound {
            path: self.location.to_string(),
            source: error.into(),
        })
    }

    /// Fails with `Kind::Input` if an open local file is not the file that was listed.
    pub(super) fn check_open(&self, now: &Metadata) -> crate::error::Result<()> {
        let now = local_meta(self.location.clone(), now)?;
        self.compare_size_and_time(now.size, nanoseconds(&now))
    }

    fn compare(&self, now: &ObjectMeta) -> Result<()> {
        let same = match self.e_tag.as_deref().zip(now.e_tag.as_deref()) {
            None => self.compare_size_and_time(now.size, nanoseconds(now)),
            Some(_) if now.size != self.size => self.compare_size_and_time(now.size, self.modified),
            Some((listed, now)) if without_weak_mark(listed) == without_weak_mark(now) => Ok(()),
            Some((listed, now)) => {
                Err(replaced(&format!("its e_tag is {now} and was {listed} when it was listed")))
            }
        };
        same.map_err(|error| self.precondition(error))
    }

    fn compare_size_and_time(&self, size: u64, modified: i64) -> crate::error::Result<()> {
        const SECOND: i64 = 1_000_000_000;
        if size != self.size {
            return Err(replaced(&format!("it has {size} bytes and had {} when it was listed", self.size)));
        }
        // Some stores list times with fractions of seconds, but answer requests with whole seconds.
        let same = match modified % SECOND {
            0 => modified / SECOND == self.modified.div_euclid(SECOND),
            _ => modified == self.modified,
        };
        if same { Ok(()) } else { Err(replaced("its modification time changed")) }
    }

    fn explain(&self, error: object_store::Error) -> object_store::Error {
        match error {
            object_store::Error::Precondition { .. } => {
                self.precondition(replaced("the store has another object under its name"))
            }
            other => other,
        }
    }

    fn precondition(&self, error: Error) -> object_store::Error {
        object_store::Error::Precondition { path: self.location.to_string(), source: Box::new(error) }
    }
}

fn replaced(how: &str) -> Error {
    Error::input(format!(
        "the file was replaced or written to since it was listed: {how}; run again when no process writes there"
    ))
}

fn without_weak_mark(e_tag: &str) -> &str {
    e_tag.strip_prefix("W/").unwrap_or(e_tag)
}

fn nanoseconds(meta: &ObjectMeta) -> i64 {
    meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX)
}
