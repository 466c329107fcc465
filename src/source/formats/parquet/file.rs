//! Parquet files and their footers. The Parquet library panics on some damaged footers. Known cases are checked before decoding, and other
//! panics are caught. In both cases, the error names the file.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, Schema, TimeUnit};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{Field, root_as_message};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crc32fast::Hasher;
use datafusion::datasource::physical_plan::parquet::{CachedParquetMetaData, Int96Coercer};
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::execution::context::SessionContext;
use object_store::ObjectStore;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, parquet_to_arrow_schema};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::machine::being_read::BeingRead;
use crate::parquet_headers;
use crate::source::file::SourceFile;
use crate::source::identity::Checksums;

/// The number of bytes at the end of a file that are read first. Most footers are shorter.
const FOOTER_GUESS: u64 = 64 * 1024;
/// The length of the magic number at the start of a file, in bytes.
const MAGIC: u64 = 4;
/// The length of the tail after the footer, in bytes: the footer's length and the magic number.
const TAIL: u64 = 8;

/// A Parquet file whose footer was read.
pub(crate) struct ParquetFile {
    pub(super) file: Arc<SourceFile>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    store: Arc<dyn ObjectStore>,
}

impl ParquetFile {
    /// Reads the footer of a file, or takes the footer from the session's cache. Fails with `Kind::Input` if the file has no readable
    /// footer or was replaced.
    pub(crate) async fn open(ctx: &SessionContext, file: &SourceFile) -> Result<Self> {
        let runtime = ctx.runtime_env();
        let store = runtime.object_store(&file.store)?;
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let (metadata, footer) = read_footer(store.as_ref(), file, cache.as_ref()).await?;
        if let Some((footer, checksums)) = footer.zip(Checksums::find(ctx.state_ref().read().config())) {
            checksums.add(file, file.size().saturating_sub(TAIL + footer.len() as u64), &footer);
        }
        Ok(Self { file: Arc::new(file.clone()), metadata, store })
    }

    pub(crate) fn path(&self) -> &str {
        &self.file.path
    }

    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }

    /// Returns the Arrow schema. INT96 timestamps have the unit microseconds, as in the scan, and the time zone `zone`. Fails with
    /// `Kind::Input` if the schema is damaged.
    pub(crate) fn schema(&self, zone: Option<&str>) -> Result<Schema> {
        let metadata = without_foreign_schema(Arc::clone(&self.metadata));
        let about = metadata.file_metadata();
        let columns = about.schema_descr();
        let schema = guarded(|| parquet_to_arrow_schema(columns, about.key_value_metadata()))
            .and_then(|schema| schema.map_err(|e| Error::input("its schema cannot be decoded").because(e)))
            .context(|| damaged(&self.file))?;
        let coerced = Int96Coercer::new(columns, &schema, &TimeUnit::Microsecond);
        Ok(coerced.with_timezone(zone.map(Arc::from)).coerce().unwrap_or(schema))
    }

    pub(crate) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// Reads a range of the file. Fails with `Kind::Input` if the file cannot be read or was replaced.
    pub(crate) async fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.file.pin.get_range(self.store.as_ref(), range).await;
        bytes.context(|| format!("reading {} failed", self.path()))
    }

    /// Returns the CRC-32 of the columns `names` and the footer in file order, or of the footer alone, whichever covers `bytes` bytes.
    /// Returns `None` if neither does.
    pub(in crate::source) async fn checksum(&self, names: &[&str], bytes: u64) -> Result<Option<u32>> {
        let footer = footer_bytes(self.store.as_ref(), &self.file).await?;
        let mut ranges = BTreeMap::new();
        if bytes != footer.len() as u64 {
            // A name refers to a column or to a field in a column.
            let is_named = |root: &String| {
                names.iter().any(|name| name == root || name.split('.').next() == Some(root.as_str()))
            };
            for column in self.metadata.row_groups().iter().flat_map(|group| group.columns()) {
                if column.column_path().parts().first().is_some_and(is_named) {
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

    /// Fails with `Kind::Input` if the file was replaced.
    pub(crate) async fn check(&self) -> Result<()> {
        self.file.pin.check_after_reading(self.store.as_ref(), self.path()).await
    }
}

/// Returns the footer of a file, and its bytes if it does not come from the cache. The footer can contain an Arrow schema that only other
/// programs decode: see [`without_foreign_schema`]. Fails with `Kind::Input` if the footer is not readable or the file was replaced.
pub(super) async fn read_footer(
    store: &dyn ObjectStore,
    file: &SourceFile,
    cache: &FileMetadataCache,
) -> Result<(Arc<ParquetMetaData>, Option<Bytes>)> {
    let meta = file.pin.meta();
    if let Some(known) = cache.get(&meta.location)
        && known.is_valid_for(&meta)
        && known.meta.e_tag == meta.e_tag
        && let Some(known) = known.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()
    {
        return Ok((Arc::clone(known.parquet_metadata()), None));
    }
    let _reading = BeingRead::begin(Arc::clone(&file.path));
    let bytes = footer_bytes(store, file).await?;
    let decoded = Arc::new(decode(&bytes, file.size()).context(|| damaged(file))?);
    let entry = Arc::new(CachedParquetMetaData::new(Arc::clone(&decoded)));
    cache.put(&file.pin.location, CachedFileMetadataEntry::new(meta, entry));
    Ok((decoded, Some(bytes)))
}

fn damaged(file: &SourceFile) -> String {
    let (path, size) = (&file.path, file.size());
    format!("{path} ({size} bytes) has no readable Parquet footer: is it whole, and is it Parquet?")
}

/// Reads the bytes of the footer, without [`TAIL`].
async fn footer_bytes(store: &dyn ObjectStore, file: &SourceFile) -> Result<Bytes> {
    let wrong = |why: String| Err(Error::input(why)).context(|| damaged(file));
    let size = file.size();
    if size < MAGIC + TAIL {
        return wrong("it is shorter than the shortest Parquet file".to_owned());
    }
    let read = async |range: Range<u64>| {
        let asked = range.end - range.start;
        let failed = || format!("the footer of {} cannot be read", file.path);
        let bytes = file.pin.get_range(store, range).await.context(failed)?;
        if bytes.len() as u64 == asked {
            return Ok(bytes);
        }
        Err(Error::input(format!("{}: {} bytes came instead of {asked}", failed(), bytes.len())))
    };
    let start = size.saturating_sub(FOOTER_GUESS);
    let end = read(start..size).await?;
    if start == 0 && !end.starts_with(b"PAR1") && !end.starts_with(b"PARE") {
        return wrong("it does not start with the letters PAR1".to_owned());
    }
    let (rest, tail) = end.split_at(end.len() - TAIL as usize);
    let (length, magic) = tail.split_at(4);
    match magic {
        b"PAR1" => {}
        b"PARE" => return wrong("it is encrypted".to_owned()),
        _ => return wrong("it does not end with the letters PAR1".to_owned()),
    }
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
    if length > size - MAGIC - TAIL {
        return wrong(format!("its footer says that it has {length} bytes"));
    }
    let from = size - TAIL - length;
    if from >= start {
        return Ok(end.slice(rest.len() - length as usize..rest.len()));
    }
    read(from..size - TAIL).await
}

fn decode(footer: &[u8], size: u64) -> Result<ParquetMetaData> {
    parquet_headers::check_footer(footer)?;
    let decoded = guarded(|| ParquetMetaDataReader::decode_metadata(footer))?
        .map_err(|e| Error::input("it cannot be decoded").because(e))?;
    check_places(&decoded, size - TAIL - footer.len() as u64)?;
    Ok(decoded)
}

/// Checks that all columns end before byte `limit`, where the footer starts. Also checks that the sums of rows and bytes do not overflow.
fn check_places(metadata: &ParquetMetaData, limit: u64) -> Result<()> {
    let (mut rows, mut bytes) = (0_i64, 0_i64);
    for (i, group) in metadata.row_groups().iter().enumerate() {
        if !group.columns().iter().all(|column| is_before(column, limit)) {
            return Err(Error::input(format!("its row group {i} is outside of the file")));
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

/// Whether all parts of a column end before byte `limit`. This is false if the start of the file is missing.
fn is_before(column: &ColumnChunkMetaData, limit: u64) -> bool {
    let fits = |start: i64, length: i64| {
        let (Ok(start), Ok(length)) = (u64::try_from(start), u64::try_from(length)) else { return false };
        start >= MAGIC && start.checked_add(length).is_some_and(|end| end <= limit)
    };
    let index = |start: Option<i64>, length: Option<i32>| {
        start.zip(length).is_none_or(|(start, length)| fits(start, i64::from(length)))
    };
    // The library's `byte_range` panics on a negative start.
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    fits(start, column.compressed_size())
        && column.num_values() >= 0
        && column.uncompressed_size() >= 0
        && index(column.column_index_offset(), column.column_index_length())
        && index(column.offset_index_offset(), column.offset_index_length())
}

/// Removes the Arrow schema from a footer if the library cannot decode it. The columns then have the types of the Parquet schema.
pub(super) fn without_foreign_schema(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let is_foreign =
        |pair: &KeyValue| pair.key == ARROW_SCHEMA_META_KEY && pair.value.as_deref().is_some_and(is_foreign);
    let about = metadata.file_metadata();
    if !about.key_value_metadata().into_iter().flatten().any(is_foreign) {
        return metadata;
    }
    Arc::new(with_schema(&metadata, about.schema_descr_ptr(), is_foreign))
}

/// Returns a footer with another schema. Key-value pairs for which `is_left_out` is true are removed.
fn with_schema(
    metadata: &ParquetMetaData,
    schema: SchemaDescPtr,
    is_left_out: impl Fn(&KeyValue) -> bool,
) -> ParquetMetaData {
    let about = metadata.file_metadata();
    let pairs = about.key_value_metadata();
    let about = FileMetaData::new(
        about.version(),
        about.num_rows(),
        about.created_by().map(str::to_owned),
        pairs.map(|pairs| pairs.iter().filter(|pair| !is_left_out(pair)).cloned().collect()),
        schema,
        about.column_orders().cloned(),
    );
    ParquetMetaData::new(about, metadata.row_groups().to_vec())
}

/// Returns a footer in which strings become bytes if their column is `BinaryView` in `read`. The library checks the UTF-8 of strings page
/// by page, so one invalid string would fail the whole page.
pub(super) fn with_bytes(metadata: &ParquetMetaData, read: &Schema) -> Result<ParquetMetaData> {
    let schema = bytes_in_fields(metadata.file_metadata().schema_descr().root_schema(), read.fields())?;
    // An Arrow schema in the file would turn the bytes into strings again.
    Ok(with_schema(metadata, Arc::new(SchemaDescriptor::new(schema)), |pair| {
        pair.key == ARROW_SCHEMA_META_KEY
    }))
}

/// Returns the fields of `group`. Strings that are `BinaryView` in `read` become bytes.
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

/// Decodes an Arrow schema. Returns `None` if it is damaged or contains types that the Rust library of Arrow does not support.
pub(crate) fn decoded_arrow_schema(encoded: &str) -> Option<Schema> {
    with_message(encoded, |schema| is_known_schema(&schema).then(|| fb_to_schema(schema))).flatten()
}

/// Whether an Arrow schema is valid but contains types that the Rust library of Arrow does not support. The library panics on such types.
fn is_foreign(encoded: &str) -> bool {
    with_message(encoded, |schema| !is_known_schema(&schema)).unwrap_or(false)
}

fn with_message<T>(encoded: &str, read: impl FnOnce(arrow::ipc::Schema<'_>) -> T) -> Option<T> {
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    // Since Arrow 0.15, a continuation marker and a length precede the message.
    let message = bytes.strip_prefix(&[255; 4]).and_then(|rest| rest.get(4..)).unwrap_or(&bytes);
    Some(read(root_as_message(message).ok()?.header_as_schema()?))
}

fn is_known_schema(schema: &arrow::ipc::Schema<'_>) -> bool {
    schema.fields().is_none_or(|fields| fields.iter().all(is_known_field))
}

/// Whether the Rust library of Arrow supports the type of a field. For example, it does not support the 128-bit integers of Polars.
fn is_known_field(field: Field<'_>) -> bool {
    let known = field.type_as_int().is_none_or(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64));
    known && field.children().is_none_or(|children| children.iter().all(is_known_field))
}
