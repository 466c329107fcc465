//! A file of a source as it is, for whoever wants its bytes or its columns and not its documents.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow::datatypes::Schema;
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaData;

use super::bytes::{Chunks, compression, decompressed, mark, stored};
use super::footer;
use super::listing::File;
use super::pin::Pins;
use super::to_parse::FileToParse;
use crate::error::{Context, Result};

/// A file of a source, found and not read. It is read as it was listed, or not at all.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile(Arc<File>);

impl SourceFile {
    pub(super) fn new(file: &Arc<File>) -> Self {
        Self(Arc::clone(file))
    }

    /// A file that was listed elsewhere.
    ///
    /// # Errors
    /// Where its store or its path there is none.
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
        Ok(Self(Arc::new(File { path, name, store: ObjectStoreUrl::parse(&file.store)?, meta })))
    }

    /// What whoever reads it elsewhere must know of it.
    pub(crate) fn to_parse(&self) -> FileToParse {
        self.0.to_parse()
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.0)
    }

    /// The path as the user would write it, which tables call `source`.
    pub(crate) fn path(&self) -> &str {
        &self.0.path
    }

    /// The path relative to the folder of its URL; where two URLs have files of one name, the whole path.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.0.meta.size
    }

    /// How it is compressed, by its name.
    pub(crate) fn compression(&self) -> FileCompressionType {
        compression(&self.0.path)
    }

    /// Its bytes as they are stored.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is not the file that was listed any more.
    pub(crate) async fn stored(&self, ctx: &SessionContext) -> Result<Chunks> {
        let store = ctx.runtime_env().object_store(&self.0.store)?;
        stored(store.as_ref(), &self.0.to_parse()).await
    }

    /// Its bytes decompressed: the byte order mark, which most files lack, and the first bytes behind it; then the others.
    ///
    /// # Errors
    /// As [`Self::stored`].
    pub(crate) async fn decompressed(&self, ctx: &SessionContext) -> Result<([Bytes; 2], Chunks)> {
        let store = ctx.runtime_env().object_store(&self.0.store)?;
        let mut chunks = decompressed(store.as_ref(), &self.0.to_parse()).await?;
        let first =
            mark(&mut chunks).await.context(|| format!("the start of {} cannot be read", self.path()))?;
        Ok((first, chunks))
    }

    /// Its footer, where it is Parquet.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it has no readable footer.
    pub(crate) async fn parquet(&self, ctx: &SessionContext) -> Result<ParquetFile> {
        let Self(file) = self;
        let runtime = ctx.runtime_env();
        let store = Pins::new([&file.pin()].into_iter()).over(runtime.object_store(&file.store)?);
        let metadata = Arc::new(footer::stored(store.as_ref(), &file.meta, &file.path).await?);
        Ok(ParquetFile { file: self.clone(), metadata, store })
    }
}

/// A Parquet file whose footer was read.
pub(crate) struct ParquetFile {
    file: SourceFile,
    /// Its footer.
    pub metadata: Arc<ParquetMetaData>,
    store: Arc<dyn ObjectStore>,
}

impl ParquetFile {
    /// The path as the user would write it.
    pub(crate) fn path(&self) -> &str {
        self.file.path()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }

    /// Its columns, as Arrow has them. Times of 96 bits are points in time.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where its own description of them is damaged.
    pub(crate) fn schema(&self) -> Result<Schema> {
        let Self { file: SourceFile(file), metadata, .. } = self;
        let metadata = footer::without_foreign_schema(metadata.as_ref().clone());
        footer::schema(&metadata, &file.meta, &file.path, Some("UTC".into()))
    }

    /// The rows that it has.
    pub(crate) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// Some of its bytes.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is not the file that was listed any more.
    pub(crate) async fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let SourceFile(file) = &self.file;
        self.store
            .get_range(&file.meta.location, range)
            .await
            .context(|| format!("reading {} failed", file.path))
    }

    /// Makes sure that it is still the file that was listed: a disk does not say so by itself while a file is read.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is another file now.
    pub(crate) async fn check(&self) -> Result<()> {
        let SourceFile(file) = &self.file;
        let pin = file.pin();
        match pin.e_tag {
            Some(_) => Ok(()),
            None => pin.check(self.store.as_ref()).await.context(|| format!("reading {} failed", file.path)),
        }
    }
}
