//! A file of a source, as it was listed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectMeta;

use super::bytes::{compression, decompressed, mark, stored};
use super::chunks::Chunks;
use super::local_names::LOCAL;
use super::parser::FileToParse;
use super::partitions::Partitions;
use super::pin::Pin;
use crate::error::{Context, Error, Result};
use crate::job;

/// A file of a source, as it was listed. Reading it fails once it is another file.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// The path as tables have it: the absolute URL or path of the job, and below it the file.
    pub(super) path: String,
    /// The path relative to the folder of its URL, with `/`. No two files of a listing share it.
    pub(super) name: String,
    /// The store that has it.
    pub(super) store: ObjectStoreUrl,
    /// Location, size and age in that store.
    pub(super) meta: ObjectMeta,
    /// The values that its path has, or the log of its table.
    pub(super) partitions: Partitions,
}

impl SourceFile {
    /// A file with the partition columns that its path has.
    pub(crate) fn new(path: String, name: String, store: ObjectStoreUrl, meta: ObjectMeta) -> Self {
        let partitions = Partitions::of_path(&path);
        Self { path, name, store, meta, partitions }
    }

    /// The values of these partition columns.
    pub(super) fn partition_values(&self, columns: &[String]) -> Vec<Option<String>> {
        columns.iter().map(|name| self.partitions.value(name).flatten().map(str::to_owned)).collect()
    }

    /// A file that was listed by another process.
    ///
    /// # Errors
    /// Where its store or its path cannot be parsed.
    pub(crate) fn listed(file: &FileToParse) -> Result<Self> {
        let since = Duration::from_nanos(file.pin.modified.unsigned_abs());
        let modified = if file.pin.modified < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since };
        let meta = ObjectMeta {
            location: file.pin.location()?,
            last_modified: modified.into(),
            size: file.pin.size,
            e_tag: file.pin.e_tag.clone(),
            version: None,
        };
        let (path, name) = (file.source.to_string(), file.name.to_string());
        Ok(Self::new(path, name, ObjectStoreUrl::parse(&file.store)?, meta))
    }

    /// The file for a process that reads it elsewhere.
    pub(crate) fn to_parse(&self) -> FileToParse {
        FileToParse {
            source: self.path.as_str().into(),
            name: self.name.as_str().into(),
            store: self.store.as_str().to_owned(),
            pin: self.pin(),
            wanted: None,
            partitions: Vec::new(),
        }
    }

    /// The state of the file when it was listed.
    pub(super) fn pin(&self) -> Pin {
        Pin::new(&self.store, &self.meta)
    }

    /// The parts of it that go into the fingerprint of a run.
    pub(super) fn input(&self) -> job::InputFile {
        job::InputFile {
            path: self.path.clone(),
            bytes: self.meta.size,
            modified: SystemTime::from(self.meta.last_modified),
            e_tag: if self.is_local() { None } else { self.meta.e_tag.clone() },
        }
    }

    /// Whether it is on a disk of this machine.
    pub(super) fn is_local(&self) -> bool {
        self.store.as_str() == LOCAL
    }

    /// The path as tables have it in `source`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Where it is now, for messages: its path, unless it was moved since it got that.
    pub(crate) fn place(&self) -> String {
        let location = format!("{}{}", self.store.as_str(), self.meta.location);
        let plain = location.strip_prefix("file://").unwrap_or(&location);
        match plain.ends_with(self.path.trim_start_matches("./")) {
            true => self.path.clone(),
            false => plain.to_owned(),
        }
    }

    /// The path relative to the folder of its URL; where two URLs have files of one name, the whole path.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.meta.size
    }

    /// Its compression, by its name.
    pub(crate) fn compression(&self) -> FileCompressionType {
        compression(&self.path)
    }

    /// Its bytes as they are stored.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is no longer the file that was listed.
    pub(crate) async fn stored(&self, ctx: &SessionContext) -> Result<Chunks> {
        let store = ctx.runtime_env().object_store(&self.store)?;
        stored(store.as_ref(), &self.to_parse()).await
    }

    /// Its bytes decompressed: the byte order mark, which most files lack, and the first bytes after it; then the others.
    ///
    /// # Errors
    /// As [`Self::stored`].
    pub(crate) async fn decompressed(&self, ctx: &SessionContext) -> Result<([Bytes; 2], Chunks)> {
        let mut chunks = decompressed(&ctx.runtime_env(), &self.to_parse()).await?;
        let first =
            mark(&mut chunks).await.context(|| format!("the start of {} cannot be read", self.path))?;
        Ok((first, chunks))
    }
}

/// The error for files without a row: `verbs` (of one file, of several) and `what` they lack, as in "a.csv is empty".
pub(crate) fn without_rows<'a>(
    mut files: impl ExactSizeIterator<Item = &'a str>,
    [one, several]: [&str; 2],
    what: &str,
) -> Error {
    let count = files.len();
    Error::input(match files.next() {
        Some(only) if count == 1 => format!("{only} {one} {what}"),
        first => {
            format!("all {count} files of the input {several} {what}, such as {}", first.unwrap_or_default())
        }
    })
}
