//! Parquet footers, with checks.
//!
//! The Parquet library panics on some damaged footers. Known cases are checked before the library reads them, and other panics
//! are caught; either way the error names the file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, Schema, SchemaRef, TimeUnit};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{Field, root_as_message};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, CachedParquetMetaData, Int96Coercer, ParquetFileReaderFactory,
};
use datafusion::error::Result as DfResult;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::{BoxFuture, FutureExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, parquet_to_arrow_schema};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::numbering::{Chunk, chunk_of};
use crate::being_read::BeingRead;
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::parquet_headers;
use crate::source::checksums::Checksums;
use crate::source::pin::Pin;

/// The unit in which the engine reads times of 96 bits, which are days and nanoseconds of a day. Nanoseconds of 64 bits end in the
/// year 2262, and such times occur up to the year 9999. The programs that write them have microseconds.
pub(super) const INT96_UNIT: &str = "us";

/// Bytes at the end of a file that are read first; most footers are shorter.
const GUESS: u64 = 64 * 1024;
/// Bytes of the mark at a file's start, and at its end.
const MARK: u64 = 4;
/// Bytes of the length of the footer and the mark after it.
const TAIL: u64 = 8;

/// The footer of the file that `meta` lists, named `path`; from the cache where it was read before. It may have an Arrow
/// schema that only other programs know: see [`without_foreign_schema`].
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input), with the error of the storage, or the fault of the file.
pub(super) async fn read(
    store: &dyn ObjectStore,
    meta: &ObjectMeta,
    path: &str,
    cache: &FileMetadataCache,
) -> Result<Arc<ParquetMetaData>> {
    Ok(read_with_bytes(store, meta, path, cache).await?.0)
}

/// As [`read`], with its bytes, without the eight that follow them; `None` if it is from the cache.
///
/// # Errors
/// As [`read`].
pub(super) async fn read_with_bytes(
    store: &dyn ObjectStore,
    meta: &ObjectMeta,
    path: &str,
    cache: &FileMetadataCache,
) -> Result<(Arc<ParquetMetaData>, Option<Bytes>)> {
    if let Some(known) = cache.get(&meta.location)
        && known.is_valid_for(meta)
        && known.meta.e_tag == meta.e_tag
        && let Some(known) = known.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()
    {
        return Ok((Arc::clone(known.parquet_metadata()), None));
    }
    let _reading = BeingRead::begin(path);
    let bytes = bytes(store, meta, path).await?;
    let decoded = Arc::new(decode(&bytes, meta, path)?);
    let entry = Arc::new(CachedParquetMetaData::new(Arc::clone(&decoded)));
    cache.put(&meta.location, CachedFileMetadataEntry::new(meta.clone(), entry));
    Ok((decoded, Some(bytes)))
}

/// The first byte and the number of bytes of a footer of so many `bytes`, without the eight that follow them.
pub(super) fn range(meta: &ObjectMeta, bytes: usize) -> (u64, u64) {
    (meta.size.saturating_sub(TAIL + bytes as u64), bytes as u64)
}

fn decode(bytes: &[u8], meta: &ObjectMeta, path: &str) -> Result<ParquetMetaData> {
    parquet_headers::check_footer(bytes).context(|| damaged(path, meta))?;
    let decoded = guarded(|| ParquetMetaDataReader::decode_metadata(bytes))
        .and_then(|decoded| decoded.map_err(|e| Error::input("it cannot be decoded").because(e)))
        .context(|| damaged(path, meta))?;
    let limit = meta.size - TAIL - bytes.len() as u64;
    check_places(&decoded, limit).context(|| damaged(path, meta))?;
    Ok(decoded)
}

/// A footer without an Arrow schema that the library cannot decode, so that it has the types of Parquet.
pub(super) fn without_foreign_schema(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let about = metadata.file_metadata();
    let is_foreign =
        |pair: &KeyValue| pair.key == ARROW_SCHEMA_META_KEY && pair.value.as_deref().is_some_and(is_foreign);
    let Some(pairs) = about.key_value_metadata().filter(|pairs| pairs.iter().any(is_foreign)) else {
        return metadata;
    };
    let about = FileMetaData::new(
        about.version(),
        about.num_rows(),
        about.created_by().map(str::to_owned),
        Some(pairs.iter().filter(|pair| !is_foreign(pair)).cloned().collect()),
        about.schema_descr_ptr(),
        about.column_orders().cloned(),
    );
    Arc::new(ParquetMetaData::new(about, metadata.row_groups().to_vec()))
}

/// A footer whose strings are bytes in the columns that `read` has as `BinaryView`.
///
/// The library checks the bytes of strings page by page, and an error of one is an error of all.
fn with_bytes(metadata: &ParquetMetaData, read: &Schema) -> Result<ParquetMetaData> {
    let about = metadata.file_metadata();
    let schema = bytes_in_fields(about.schema_descr().root_schema(), read.fields())?;
    // An Arrow schema in the file would make strings of the bytes again.
    let pairs = about.key_value_metadata().map(|pairs| {
        pairs.iter().filter(|pair| pair.key != ARROW_SCHEMA_META_KEY).cloned().collect::<Vec<_>>()
    });
    let about = FileMetaData::new(
        about.version(),
        about.num_rows(),
        about.created_by().map(str::to_owned),
        pairs,
        Arc::new(SchemaDescriptor::new(schema)),
        about.column_orders().cloned(),
    );
    Ok(ParquetMetaData::new(about, metadata.row_groups().to_vec()))
}

/// The group of fields `group`, with bytes instead of the strings that are `BinaryView` in `read`.
fn bytes_in_fields(group: &Type, read: &Fields) -> Result<TypePtr> {
    let about = group.get_basic_info();
    let read: HashMap<&str, &DataType> =
        read.iter().map(|field| (field.name().as_str(), field.data_type())).collect();
    let fields = group.get_fields().iter().map(|field| match read.get(field.name()).copied() {
        Some(DataType::Struct(read)) if field.is_group() => bytes_in_fields(field, read),
        Some(DataType::BinaryView)
            if field.is_primitive() && field.get_physical_type() == PhysicalType::BYTE_ARRAY =>
        {
            let info = field.get_basic_info();
            let bytes = Type::primitive_type_builder(field.name(), field.get_physical_type())
                .with_repetition(info.repetition())
                .with_id(info.has_id().then(|| info.id()))
                .build();
            Ok(Arc::new(bytes?))
        }
        _ => Ok(Arc::clone(field)),
    });
    let mut builder = Type::group_type_builder(group.name())
        .with_fields(fields.collect::<Result<_>>()?)
        .with_converted_type(about.converted_type())
        .with_logical_type(about.logical_type_ref().cloned())
        .with_id(about.has_id().then(|| about.id()));
    if about.has_repetition() {
        builder = builder.with_repetition(about.repetition());
    }
    Ok(Arc::new(builder.build()?))
}

/// The columns of a file, as Arrow has them. Times of 96 bits are in microseconds, as [`INT96_UNIT`] says, and in `zone`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where the schema in the file is damaged.
pub(super) fn schema(
    metadata: &ParquetMetaData,
    meta: &ObjectMeta,
    path: &str,
    zone: Option<Arc<str>>,
) -> Result<Schema> {
    let about = metadata.file_metadata();
    let columns = about.schema_descr();
    let schema = guarded(|| parquet_to_arrow_schema(columns, about.key_value_metadata()))
        .and_then(|schema| schema.map_err(|e| Error::input("its schema cannot be decoded").because(e)))
        .context(|| damaged(path, meta))?;
    let coerced = Int96Coercer::new(columns, &schema, &TimeUnit::Microsecond).with_timezone(zone).coerce();
    Ok(coerced.unwrap_or(schema))
}

fn damaged(path: &str, meta: &ObjectMeta) -> String {
    format!("{path} ({} bytes) has no readable Parquet footer: is it whole, and is it Parquet?", meta.size)
}

/// The footer's bytes, without the eight that follow them.
///
/// # Errors
/// As [`read`].
pub(super) async fn bytes(store: &dyn ObjectStore, meta: &ObjectMeta, path: &str) -> Result<Bytes> {
    let wrong = |why: String| Err(Error::input(why)).context(|| damaged(path, meta));
    let size = meta.size;
    if size < MARK + TAIL {
        return wrong("it is shorter than the shortest Parquet file".to_owned());
    }
    let start = size.saturating_sub(GUESS);
    let end = get(store, meta, path, start..size).await?;
    if start == 0 && !end.starts_with(b"PAR1") && !end.starts_with(b"PARE") {
        return wrong("it does not start with the letters PAR1".to_owned());
    }
    let (rest, tail) = end.split_at(end.len() - TAIL as usize);
    let (length, mark) = tail.split_at(4);
    match mark {
        b"PAR1" => {}
        b"PARE" => return wrong("it is encrypted".to_owned()),
        _ => return wrong("it does not end with the letters PAR1".to_owned()),
    }
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
    if length > size - MARK - TAIL {
        return wrong(format!("its footer says that it has {length} bytes"));
    }
    let from = size - TAIL - length;
    if from >= start {
        return Ok(end.slice(rest.len() - length as usize..rest.len()));
    }
    get(store, meta, path, from..size - TAIL).await
}

async fn get(store: &dyn ObjectStore, meta: &ObjectMeta, path: &str, range: Range<u64>) -> Result<Bytes> {
    let asked = range.end - range.start;
    let bytes = store
        .get_range(&meta.location, range)
        .await
        .context(|| format!("the footer of {path} cannot be read"))?;
    if bytes.len() as u64 != asked {
        return Err(Error::input(format!(
            "the footer of {path} cannot be read: {} bytes came instead of {asked}",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// Checks that every column of every row group is in the file before its footer, and that rows and bytes can be counted.
fn check_places(metadata: &ParquetMetaData, limit: u64) -> Result<()> {
    let (mut rows, mut bytes) = (0_i64, 0_i64);
    for (i, group) in metadata.row_groups().iter().enumerate() {
        if !group.columns().iter().all(|column| inside(column, limit)) {
            return Err(Error::input(format!("its row group {i} lies outside of it")));
        }
        let group_bytes =
            group.columns().iter().try_fold(bytes, |sum, column| sum.checked_add(column.uncompressed_size()));
        let sums = rows.checked_add(group.num_rows()).zip(group_bytes);
        let Some(sums) = sums.filter(|_| group.num_rows() >= 0) else {
            return Err(Error::input(format!(
                "its row group {i} says that it has {} rows",
                group.num_rows()
            )));
        };
        (rows, bytes) = sums;
    }
    Ok(())
}

/// Whether all parts of a column are before byte `limit`. A file that lost its front has them beyond it.
fn inside(column: &ColumnChunkMetaData, limit: u64) -> bool {
    let fits = |start: i64, length: i64| {
        let (Ok(start), Ok(length)) = (u64::try_from(start), u64::try_from(length)) else { return false };
        start >= MARK && start.checked_add(length).is_some_and(|end| end <= limit)
    };
    let index = |start: Option<i64>, length: Option<i32>| match start.zip(length) {
        Some((start, length)) => fits(start, i64::from(length)),
        None => true,
    };
    // `byte_range` of the library panics on a negative start.
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    fits(start, column.compressed_size())
        && column.num_values() >= 0
        && column.uncompressed_size() >= 0
        && index(column.column_index_offset(), column.column_index_length())
        && index(column.offset_index_offset(), column.offset_index_length())
}

/// A factory of readers that get their footers from [`read`], and check the headers of pages.
#[derive(Debug)]
pub(super) struct Readers {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    inner: CachedParquetFileReaderFactory,
    checksums: Option<FilesToCheck>,
    /// The most bytes of a page.
    page_limit: usize,
    /// The columns that are read; `None` if none is read as bytes.
    bytes: Option<SchemaRef>,
    /// The paths of the chunks' files, as tables have them.
    paths: Vec<Arc<str>>,
}

/// The files whose bytes get checksums, by their places in the store: their paths in tables, and what they were when they were
/// listed.
#[derive(Debug, Clone)]
pub(super) struct FilesToCheck {
    pub files: Arc<HashMap<Path, (Arc<str>, Pin)>>,
    pub checksums: Arc<Checksums>,
}

impl FilesToCheck {
    /// Adds the bytes of a range of the file at `location`.
    fn add(&self, location: &Path, start: u64, bytes: &[u8]) {
        if let Some((path, pin)) = self.files.get(location) {
            self.checksums.add(path, pin, (start, bytes.len() as u64), crc32fast::hash(bytes));
        }
    }
}

impl Readers {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        cache: Arc<FileMetadataCache>,
        checksums: Option<FilesToCheck>,
        page_limit: usize,
        read: &SchemaRef,
        chunks: &[Chunk],
    ) -> Self {
        let inner = CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&cache));
        let bytes = has_bytes(read.fields()).then(|| Arc::clone(read));
        let paths = chunks.iter().map(|chunk| Arc::clone(&chunk.source)).collect();
        Self { store, cache, inner, checksums, page_limit, bytes, paths }
    }
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        footer_guess: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DfResult<Box<dyn AsyncFileReader + Send>> {
        let path = chunk_of(&file).and_then(|chunk| self.paths.get(chunk as usize));
        Ok(Box::new(FooterReader {
            _reading: path.map(|path| BeingRead::begin(Arc::clone(path))),
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            meta: file.object_meta.clone(),
            checksums: self.checksums.clone(),
            page_limit: self.page_limit,
            bytes: self.bytes.clone(),
            inner: self.inner.create_reader(partition, file, footer_guess, metrics)?,
        }))
    }
}

/// Whether a column, or a field of one, is read as bytes.
fn has_bytes(fields: &Fields) -> bool {
    fields.iter().any(|field| match field.data_type() {
        DataType::BinaryView => true,
        DataType::Struct(inner) => has_bytes(inner),
        _ => false,
    })
}

struct FooterReader {
    _reading: Option<BeingRead>,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    meta: ObjectMeta,
    checksums: Option<FilesToCheck>,
    page_limit: usize,
    bytes: Option<SchemaRef>,
    inner: Box<dyn AsyncFileReader + Send>,
}

impl AsyncFileReader for FooterReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let (checksums, location, start) = (self.checksums.clone(), self.meta.location.clone(), range.start);
        let read = self.inner.get_bytes(range);
        async move {
            let bytes = read.await?;
            if let Some(checksums) = checksums {
                checksums.add(&location, start, &bytes);
            }
            Ok(bytes)
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let (checksums, location) = (self.checksums.clone(), self.meta.location.clone());
        let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        let page_limit = self.page_limit;
        let read = self.inner.get_byte_ranges(ranges);
        async move {
            let read = read.await?;
            // Page indexes are not used, so each range is a column chunk.
            for chunk in &read {
                parquet_headers::check_pages(chunk, page_limit)
                    .map_err(|error| ParquetError::External(Box::new(error)))?;
            }
            if let Some(checksums) = checksums {
                for (start, bytes) in starts.into_iter().zip(&read) {
                    checksums.add(&location, start, bytes);
                }
            }
            Ok(read)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let footer =
                read(self.store.as_ref(), &self.meta, self.meta.location.as_ref(), self.cache.as_ref()).await;
            match &self.bytes {
                Some(columns) => footer.and_then(|footer| Ok(Arc::new(with_bytes(&footer, columns)?))),
                None => footer.map(without_foreign_schema),
            }
            .map_err(|error| ParquetError::External(Box::new(error)))
        }
        .boxed()
    }
}

/// The schema; `None` where it is damaged, or has types that Arrow's Rust library does not know.
pub(crate) fn decoded(encoded: &str) -> Option<Schema> {
    let known = |schema: arrow::ipc::Schema<'_>| {
        let known = schema.fields().is_none_or(|fields| fields.iter().all(is_known));
        known.then(|| fb_to_schema(schema))
    };
    with_message(encoded, known).flatten()
}

/// Whether it is valid and has types that Arrow's Rust library does not know, on which it panics.
pub(super) fn is_foreign(encoded: &str) -> bool {
    let foreign =
        |schema: arrow::ipc::Schema<'_>| schema.fields().is_some_and(|fields| !fields.iter().all(is_known));
    with_message(encoded, foreign).unwrap_or(false)
}

fn with_message<T>(encoded: &str, read: impl FnOnce(arrow::ipc::Schema<'_>) -> T) -> Option<T> {
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    // Since version 0.15, four bytes of ones and a length precede the message.
    let message = bytes.strip_prefix(&[255; 4]).and_then(|rest| rest.get(4..)).unwrap_or(&bytes);
    Some(read(root_as_message(message).ok()?.header_as_schema()?))
}

/// Polars has integers of 128 bits.
fn is_known(field: Field<'_>) -> bool {
    let known = field.type_as_int().is_none_or(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64));
    known && field.children().is_none_or(|children| children.iter().all(is_known))
}
