//! A file of a source, as it was listed.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use percent_encoding::percent_decode_str;

use super::bytes::{Chunks, compression, decompress, decompressed, mark, marked_compression, stored};
use super::local_names::LOCAL;
use super::parser::FileToParse;
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
        let Pin { size, modified, e_tag, .. } = self.pin();
        job::InputFile::new(self.path.clone(), size, Some(modified), e_tag)
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

/// Decompressed bytes after which a head ends, however few bytes are stored for them.
const MAX_DECOMPRESSED: usize = 32 * 1024 * 1024;

/// The first bytes of a file.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The bytes, decompressed.
    pub bytes: Vec<u8>,
    /// The number of bytes that are stored for them.
    pub stored: u64,
    /// Whether they are all of the file.
    pub whole: bool,
    /// Whether the file is compressed.
    pub compressed: bool,
}

impl SourceFile {
    /// The first bytes of the file: about `most` bytes as they are stored, decompressed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read.
    pub(crate) async fn head(&self, ctx: &SessionContext, most: usize) -> Result<Head> {
        let failed = || format!("the start of {} cannot be read", self.path());
        let mut chunks = self.stored(ctx).await?;
        let mut stored = BytesMut::new();
        while stored.len() < most
            && let Some(chunk) = chunks.try_next().await.context(failed)?
        {
            stored.extend_from_slice(&chunk);
        }
        let mut head = Head { stored: stored.len() as u64, ..Head::default() };
        head.whole = head.stored >= self.size();
        head.compressed = marked_compression(&stored).is_some();
        let stored = stream::once(async move { Ok(stored.freeze()) }).boxed();
        let mut bytes = decompress(stored, self.path(), &ctx.runtime_env().memory_pool);
        loop {
            match bytes.try_next().await {
                Ok(Some(chunk)) => head.bytes.extend_from_slice(&chunk),
                Ok(None) => return Ok(head),
                Err(error) if head.whole => return Err(error).context(failed),
                // What is compressed ends in the middle of a block.
                Err(_) => return Ok(head),
            }
            if head.bytes.len() >= MAX_DECOMPRESSED {
                head.whole = false;
                return Ok(head);
            }
        }
    }
}

/// What Hive writes for a missing value.
const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition columns of a file and their values, which are null where they are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partitions(BTreeMap<String, Option<String>>);

impl Partitions {
    /// Those that the folders of a path name as `NAME=VALUE`. Special characters are percent-encoded; of several folders with one
    /// name, the last counts.
    pub(super) fn of_path(path: &str) -> Self {
        let Some((folders, _)) = path.rsplit_once('/') else { return Self::default() };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let column = |folder: &str| {
            let (name, value) = folder.split_once('=')?;
            let name = decoded(name).filter(|name| !name.is_empty())?;
            let value = decoded(value)?;
            Some((name, (value != MISSING).then_some(value)))
        };
        Self(folders.split('/').filter_map(column).collect())
    }

    /// Those of a Delta table, with the values of the log, where an empty one is missing.
    pub(super) fn of_log(columns: &[String], values: &BTreeMap<String, Option<String>>) -> Self {
        let value = |name: &String| values.get(name).cloned().flatten().filter(|value| !value.is_empty());
        Self(columns.iter().map(|name| (name.clone(), value(name))).collect())
    }

    /// The value of a column; `None` if the file has no such column.
    pub(super) fn value(&self, name: &str) -> Option<Option<&str>> {
        self.0.get(name).map(Option::as_deref)
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

#[cfg(test)]
mod partitions_tests {
    use super::*;

    #[test]
    fn folders_of_a_path_are_columns() {
        let found = Partitions::of_path(
            "s3://b/t=1/day=2026-11-01/h%3D=a%2Fb/n=__HIVE_DEFAULT_PARTITION__/t=2/x=9.csv",
        );
        let value = |name| found.value(name);
        assert_eq!(value("day"), Some(Some("2026-11-01")));
        assert_eq!(value("h="), Some(Some("a/b")));
        assert_eq!(value("n"), Some(None));
        assert_eq!(value("t"), Some(Some("2")));
        assert_eq!(value("x"), None);
        assert_eq!(found.names().count(), 4);
        assert_eq!(Partitions::of_path("a=1.csv"), Partitions::default());
    }

    #[test]
    fn a_log_has_values() {
        let log = [("day".to_owned(), Some("1".to_owned())), ("hour".to_owned(), Some(String::new()))];
        let columns = ["day", "hour", "minute"].map(str::to_owned);
        let found = Partitions::of_log(&columns, &log.into());
        assert_eq!(
            columns.each_ref().map(|name| found.value(name)),
            [Some(Some("1")), Some(None), Some(None)]
        );
    }
}
