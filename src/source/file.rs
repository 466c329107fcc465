//! A file of a source as it is, for whoever wants its bytes or its columns and not its documents.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::ObjectMeta;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection, RowSelector};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStream};
use parquet::file::metadata::ParquetMetaData;

use super::bytes::{Chunks, compression, decompressed, mark, stored};
use super::chunks::batch_rows;
use super::footer::{self, Readers};
use super::listing::File;
use super::pin::Pins;
use super::selection::RowSet;
use super::to_parse::FileToParse;
use crate::error::{Context, Result};

/// Rows that a batch holds at most.
const BATCH_ROWS: usize = 8192;

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

    /// Its footer and its columns, where it is Parquet.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it has no readable footer.
    pub(crate) async fn parquet(&self, ctx: &SessionContext) -> Result<ParquetFile> {
        let Self(file) = self;
        let runtime = ctx.runtime_env();
        let store = Pins::new([&file.pin()].into_iter()).over(runtime.object_store(&file.store)?);
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let metadata = footer::read(store.as_ref(), &file.meta, &file.path, cache.as_ref()).await?;
        // What the library would panic on is an error here.
        footer::schema(&metadata, &file.meta, &file.path)?;
        let about = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new())
            .context(|| format!("the columns of {} cannot be read", file.path))?;
        let readers = Readers::new(store, cache);
        let listed = PartitionedFile::new_from_meta(file.meta.clone());
        Ok(ParquetFile { file: self.clone(), metadata, about, readers, listed })
    }
}

/// A Parquet file whose footer was read.
pub(crate) struct ParquetFile {
    file: SourceFile,
    /// Its footer.
    pub metadata: Arc<ParquetMetaData>,
    about: ArrowReaderMetadata,
    readers: Readers,
    listed: PartitionedFile,
}

/// The rows of a Parquet file, batch by batch.
pub(crate) type ParquetRows = ParquetRecordBatchStream<Box<dyn AsyncFileReader>>;

impl ParquetFile {
    /// All of its columns, as Arrow has them.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.about.schema()
    }

    /// The rows that it has.
    pub(crate) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// Its rows with all their columns, in their order: all of them, or the selected ones.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn read(&self, selection: Option<RowSelection>) -> Result<ParquetRows> {
        let failed = || format!("reading {} failed", self.file.path());
        let metrics = ExecutionPlanMetricsSet::new();
        let reader: Box<dyn AsyncFileReader> =
            self.readers.create_reader(0, self.listed.clone(), None, &metrics).context(failed)?;
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, self.about.clone())
            .with_batch_size(batch_rows(self.row_bytes(), BATCH_ROWS));
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        builder.build().context(failed)
    }

    /// Bytes of a row in the row group whose rows are longest.
    fn row_bytes(&self) -> u64 {
        let groups = self.metadata.row_groups().iter();
        let of_row = groups.filter_map(|group| group.total_byte_size().checked_div(group.num_rows()));
        of_row.max().map_or(0, i64::cast_unsigned)
    }
}

/// A selection of the rows of `set`, or of all others, of a file that has so many rows.
pub(crate) fn row_selection(set: &RowSet, selected: bool, rows: u64) -> RowSelection {
    let selector = |select: bool, count: u64| match select {
        true => RowSelector::select(count as usize),
        false => RowSelector::skip(count as usize),
    };
    let mut selectors = Vec::new();
    let mut at = 0;
    for run in set.runs() {
        selectors.push(selector(!selected, run.start - at));
        selectors.push(selector(selected, run.end - run.start));
        at = run.end;
    }
    selectors.push(selector(!selected, rows.saturating_sub(at)));
    selectors.retain(|selector| selector.row_count > 0);
    selectors.into()
}
