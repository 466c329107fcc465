//! A Parquet file whose footer was read.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaData;

use super::footer;
use crate::error::{Context, Result};
use crate::source::file::SourceFile;
use crate::source::pin::Pins;

/// A Parquet file whose footer was read.
pub(crate) struct ParquetFile {
    pub(super) file: Arc<SourceFile>,
    /// Its footer.
    pub(crate) metadata: Arc<ParquetMetaData>,
    store: Arc<dyn ObjectStore>,
}

impl ParquetFile {
    /// Reads the footer of a file, from the session's cache where it was read before.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it has no readable footer, or is no longer the file that was listed.
    pub(crate) async fn open(ctx: &SessionContext, file: &SourceFile) -> Result<Self> {
        let runtime = ctx.runtime_env();
        let store = Pins::new([&file.pin()].into_iter()).over(runtime.object_store(&file.store)?);
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let metadata = footer::read(store.as_ref(), &file.meta, &file.path, cache.as_ref()).await?;
        Ok(Self { file: Arc::new(file.clone()), metadata, store })
    }

    /// The path as the user would write it.
    pub(crate) fn path(&self) -> &str {
        &self.file.path
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.file.meta.size
    }

    /// Its columns, as Arrow has them. Times of 96 bits are in `zone`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the description of the columns in the file is damaged.
    pub(crate) fn schema(&self, zone: Option<&str>) -> Result<Schema> {
        let metadata = footer::without_foreign_schema(Arc::clone(&self.metadata));
        footer::schema(&metadata, &self.file.meta, &self.file.path, zone.map(Arc::from))
    }

    /// Its number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// Some of its bytes.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is no longer the file that was listed.
    pub(crate) async fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.store.get_range(&self.file.meta.location, range).await;
        bytes.context(|| format!("reading {} failed", self.path()))
    }

    /// Checks that it is still the file that was listed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is another file now.
    pub(crate) async fn check(&self) -> Result<()> {
        self.file.pin().check_after_reading(self.store.as_ref(), self.path()).await
    }
}
