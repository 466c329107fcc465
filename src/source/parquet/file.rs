//! A Parquet file whose footer was read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use bytes::Bytes;
use crc32fast::Hasher;
use datafusion::execution::context::SessionContext;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaData;

use super::footer;
use crate::error::{Context, Result};
use crate::source::checksums::Checksums;
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
        let (metadata, footer) =
            footer::read_with_bytes(store.as_ref(), &file.meta, &file.path, cache.as_ref()).await?;
        if let Some((footer, checksums)) = footer.zip(Checksums::of(ctx.state_ref().read().config())) {
            let range = footer::range(&file.meta, footer.len());
            checksums.add(&file.path, &file.pin(), range, crc32fast::hash(&footer));
        }
        Ok(Self { file: Arc::new(file.clone()), metadata, store })
    }

    /// The path, as tables have it.
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

    /// The CRC-32 of the columns `names` and of the footer, in the order of their bytes, if these are so many `bytes`; of the
    /// footer alone, if these are. `None` for another number of bytes.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(in crate::source) async fn checksum(&self, names: &[&str], bytes: u64) -> Result<Option<u32>> {
        let footer = footer::bytes(self.store.as_ref(), &self.file.meta, self.path()).await?;
        let mut ranges = BTreeMap::new();
        if bytes != footer.len() as u64 {
            for column in self.metadata.row_groups().iter().flat_map(|group| group.columns()) {
                // A name is that of a column, or of a field in one.
                let of = |root: &str| {
                    names
                        .iter()
                        .any(|name| *name == root || name.split_once('.').is_some_and(|(of, _)| of == root))
                };
                if column.column_path().parts().first().is_some_and(|root| of(root)) {
                    let (start, length) = column.byte_range();
                    ranges.insert(start, length);
                }
            }
        }
        if ranges.values().sum::<u64>() + footer.len() as u64 != bytes {
            return Ok(None);
        }
        let mut hasher = Hasher::new();
        for (start, length) in ranges {
            hasher.update(&self.bytes(start..start + length).await?);
        }
        hasher.update(&footer);
        Ok(Some(hasher.finalize()))
    }

    /// Checks that it is still the file that was listed.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is another file now.
    pub(crate) async fn check(&self) -> Result<()> {
        self.file.pin().check_after_reading(self.store.as_ref(), self.path()).await
    }
}
