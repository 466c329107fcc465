use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::{GetOptions, ObjectMeta};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize, de};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::identity::Pin;
use super::listing::disk::{LOCAL, local_path};
use super::other_files::other_data;
use super::reading::bytes::{
    CHUNK_BYTES, Chunks, compression, decoded, decompress, marked_compression, split_mark,
};
use crate::error::{Context, Error, Result};
use crate::job::{self, Encoding};
use crate::machine::being_read::BeingRead;
use crate::schema::as_text;

/// A file of a source, in the state in which it was listed. Reading fails if the file was replaced after the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceFile {
    /// The path in the tables of a run: the URL or absolute path in the job, followed by the file's path below it.
    pub(super) path: Arc<str>,
    /// The path below the job's URL, separated by `/`. The name is unique in a listing.
    pub(super) name: Arc<str>,
    #[serde(serialize_with = "as_text", deserialize_with = "store_from_text")]
    pub(super) store: ObjectStoreUrl,
    pub(super) pin: Pin,
    /// The values of the partition columns. The values come from the path or from the log of a Delta table.
    pub(super) partitions: Partitions,
}

/// Partition columns with their values, which may be null.
pub(super) type Partitions = BTreeMap<String, Option<String>>;

fn store_from_text<'a, D: Deserializer<'a>>(from: D) -> std::result::Result<ObjectStoreUrl, D::Error> {
    ObjectStoreUrl::parse(String::deserialize(from)?).map_err(de::Error::custom)
}

impl SourceFile {
    /// Returns a file whose partition columns come from its path.
    pub(crate) fn new(path: &str, name: &str, store: ObjectStoreUrl, meta: ObjectMeta) -> Self {
        let (partitions, pin) = (path_partitions(path), Pin::new(&store, meta));
        Self { path: path.into(), name: name.into(), store, pin, partitions }
    }

    pub(super) fn partition_values<'a>(
        &'a self,
        columns: &'a [String],
    ) -> impl Iterator<Item = Option<&'a str>> {
        columns.iter().map(|name| self.partitions.get(name)?.as_deref())
    }

    /// Returns the part of the file's identity that is included in the fingerprint of a run.
    pub(super) fn input(&self) -> job::InputFile {
        let Pin { size, modified, e_tag, .. } = self.pin.clone();
        job::InputFile::new(self.path.to_string(), size, Some(modified), e_tag)
    }

    pub(super) fn is_local(&self) -> bool {
        self.store.as_str() == LOCAL
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the location for messages: the path, or the new location if the file was moved after the run.
    pub(super) fn shown_location(&self) -> String {
        let location = format!("{}{}", self.store.as_str(), self.pin.location);
        let plain = location.strip_prefix("file://").unwrap_or(&location);
        if plain.ends_with(self.path.trim_start_matches("./")) {
            return self.path.to_string();
        }
        plain.to_owned()
    }

    /// The path below the job's URL, or the whole path if two URLs of the job contain files of the same name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn size(&self) -> u64 {
        self.pin.size
    }

    pub(crate) fn compression(&self) -> FileCompressionType {
        compression(&self.path)
    }

    /// Returns the stored bytes, which can be compressed. Fails with `Kind::Input` if the file cannot be read or was replaced.
    pub(crate) async fn stored(&self, runtime: &RuntimeEnv) -> Result<Chunks> {
        let path = Arc::clone(&self.path);
        let reading = BeingRead::begin(Arc::clone(&path));
        let failed = || format!("reading {path} failed");
        let bytes = if self.is_local() {
            let chunks = self.local_chunks().await.context(failed)?;
            let path = Arc::clone(&path);
            chunks.map(move |chunk| Ok(chunk.context(|| format!("reading {path} failed"))?)).boxed()
        } else {
            let store = runtime.object_store(&self.store)?;
            let got = self.pin.get(store.as_ref(), GetOptions::default()).await.context(failed)?;
            // `split_mark` polls the stream once more after its end, which the streams of some stores do not allow.
            got.into_stream().map_err(DataFusionError::from).fuse().boxed()
        };
        Ok(bytes.inspect(move |_| _ = &reading).boxed())
    }

    /// Reads a local file without DataFusion's object store. The object store reads only 8 KiB at a time and cannot open names that end in
    /// `#` and digits.
    async fn local_chunks(&self) -> Result<Chunks> {
        let Some(path) = local_path(&self.pin.location) else {
            return Err(Error::bug(format!("{} is not a local path", self.path)));
        };
        let file = tokio::fs::File::open(path).await?;
        self.pin.check_open(&file.metadata().await?)?;
        let (open, pin) = (file.try_clone().await?, self.pin.clone());
        // Bytes that are appended later do not belong to the listed file.
        let chunks = ReaderStream::with_capacity(file.take(pin.size), CHUNK_BYTES);
        let check = async move { Ok(pin.check_open(&open.metadata().await?)?) };
        let check = stream::once(check).filter_map(|checked| ready(checked.err().map(Err)));
        Ok(chunks.map_err(DataFusionError::from).chain(check).boxed())
    }

    /// Returns the byte order mark, the first decompressed bytes after it, and the remaining bytes. Most files have no byte order mark, and
    /// the first buffer is then empty.
    pub(crate) async fn decompressed(&self, ctx: &SessionContext) -> Result<([Bytes; 2], Chunks)> {
        let runtime = ctx.runtime_env();
        let mut chunks = decompress(self.stored(&runtime).await?, &self.path, &runtime.memory_pool);
        let first = split_mark(&mut chunks).await.context(|| self.unreadable_start())?;
        Ok((first, chunks))
    }

    /// Passes the start of the file to `take`, chunk by chunk, until `take` returns true. The bytes are UTF-8 without a byte order mark. An
    /// empty chunk marks the end of the file.
    pub(super) async fn read_start(
        &self,
        ctx: &SessionContext,
        encoding: Encoding,
        mut take: impl FnMut(Bytes) -> Result<bool>,
    ) -> Result<()> {
        let failed = || self.unreadable_start();
        let runtime = ctx.runtime_env();
        let stored = self.stored(&runtime).await?;
        let mut chunks = decoded(decompress(stored, &self.path, &runtime.memory_pool), encoding);
        let [_, mut chunk] = split_mark(&mut chunks).await.context(failed)?;
        // The first chunk may consist of a byte order mark only.
        if chunk.is_empty() {
            chunk = chunks.try_next().await.context(failed)?.unwrap_or_default();
        }
        if let Some(kind) = other_data(&chunk) {
            return Err(Error::input(format!(
                "there are no rows to read in {}",
                kind.sentence(&[&self.path])
            )));
        }
        loop {
            let is_end = chunk.is_empty();
            if take(chunk)? || is_end {
                return Ok(());
            }
            chunk = chunks.try_next().await.context(failed)?.unwrap_or_default();
        }
    }

    fn unreadable_start(&self) -> String {
        format!("the start of {} cannot be read", self.path)
    }

    /// Reads about `most` stored bytes from the start of the file and decompresses them.
    pub(crate) async fn head(&self, ctx: &SessionContext, most: usize) -> Result<Head> {
        let failed = || self.unreadable_start();
        let runtime = ctx.runtime_env();
        let mut chunks = self.stored(&runtime).await?;
        let mut stored = BytesMut::new();
        while stored.len() < most
            && let Some(chunk) = chunks.try_next().await.context(failed)?
        {
            stored.extend_from_slice(&chunk);
        }
        let mut head = Head {
            stored: stored.len() as u64,
            whole: stored.len() as u64 >= self.size(),
            compressed: marked_compression(&stored).is_some(),
            bytes: Vec::new(),
        };
        let stored = stream::once(ready(Ok(stored.freeze()))).boxed();
        let mut bytes = decompress(stored, &self.path, &runtime.memory_pool);
        while head.bytes.len() < MAX_DECOMPRESSED {
            match bytes.try_next().await {
                Ok(Some(chunk)) => head.bytes.extend_from_slice(&chunk),
                Ok(None) => return Ok(head),
                Err(error) if head.whole => return Err(error).context(failed),
                // The compressed bytes end in the middle of a block, so the decompressor fails.
                Err(_) => return Ok(head),
            }
        }
        head.whole = false;
        Ok(head)
    }
}

/// The maximum number of decompressed bytes in a head.
const MAX_DECOMPRESSED: usize = 32 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Head {
    /// The decompressed bytes.
    pub bytes: Vec<u8>,
    /// The number of stored bytes.
    pub stored: u64,
    pub whole: bool,
    pub compressed: bool,
}

/// Returns the error for files without rows, such as "a.csv is empty": the names, then the verb `singular` or `plural`, then `lack`.
pub(crate) fn without_rows<'a>(
    mut files: impl ExactSizeIterator<Item = &'a str>,
    [singular, plural]: [&str; 2],
    lack: &str,
) -> Error {
    let count = files.len();
    Error::input(match files.next() {
        Some(only) if count == 1 => format!("{only} {singular} {lack}"),
        first => {
            format!("all {count} files of the input {plural} {lack}, such as {}", first.unwrap_or_default())
        }
    })
}

/// The name of the folder that Hive writes for a null value.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the partition columns that the percent-encoded `NAME=VALUE` folders of a path contain. If a name repeats, the last folder wins.
fn path_partitions(path: &str) -> Partitions {
    let Some((folders, _)) = path.rsplit_once('/') else { return Partitions::new() };
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
    let column = |folder: &str| {
        let (name, value) = folder.split_once('=')?;
        let name = decoded(name).filter(|name| !name.is_empty())?;
        let value = decoded(value)?;
        Some((name, (value != HIVE_NULL).then_some(value)))
    };
    folders.split('/').filter_map(column).collect()
}

/// Returns the partition columns of a Delta table with their values in the log. An empty value in the log means null.
pub(super) fn log_partitions(columns: &[String], values: &Partitions) -> Partitions {
    let value = |name: &String| values.get(name).cloned().flatten().filter(|value| !value.is_empty());
    columns.iter().map(|name| (name.clone(), value(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_path_are_columns() {
        let found =
            path_partitions("s3://b/t=1/day=2026-11-01/h%3D=a%2Fb/n=__HIVE_DEFAULT_PARTITION__/t=2/x=9.csv");
        let value = |text: &str| Some(text.to_owned());
        let expected = [("day", value("2026-11-01")), ("h=", value("a/b")), ("n", None), ("t", value("2"))];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(path_partitions("a=1.csv"), Partitions::new());
    }

    #[test]
    fn empty_values_of_a_log_are_null() {
        let log = [("day".to_owned(), Some("1".to_owned())), ("hour".to_owned(), Some(String::new()))];
        let columns = ["day", "hour", "minute"].map(str::to_owned);
        let found = log_partitions(&columns, &log.into());
        assert_eq!(found.into_values().collect::<Vec<_>>(), [Some("1".to_owned()), None, None]);
    }
}
