//! The writer node. Each partition writes uniquely named Parquet files and returns one row per file. The node commits nothing. The driver
//! collects the rows and lists the files in a manifest. If a partition runs twice or dies, its unused files are in no manifest.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, filter_record_batch, is_not_null, is_null};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::attempt::Attempt;
use super::layout::Layout;
use super::manifest::File;
use super::parts::StageParts;
use super::upload::{Digest, multipart_writer};
use crate::plan::{Batches, Description, Requirement, Shape, Task, only_input};
use crate::schema::{self, Table};
use crate::udf::values::reinterpret;

/// The range for the encoded size of a row group, in bytes. Within this range, the size is 1/32 of a partition's share of the memory pool.
/// Encoded bytes are in memory until their row group ends, and a second time during their upload.
const ROW_GROUP_BYTES: std::ops::RangeInclusive<usize> = 1 << 20..=8 << 20;

/// A table that a writer node writes, with the rows and columns that it takes from the input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableTarget {
    /// The table's name.
    pub table: String,
    /// The folder of the table inside the output.
    pub folder: String,
    /// The rows of the input that the table contains.
    pub rows: TableRows,
    /// The columns of the table. They are found by name in the input. Unsigned numbers keep their bits in a signed column. Other values are
    /// cast.
    #[serde(with = "schema_bytes")]
    pub schema: SchemaRef,
    /// The number of carried columns. They come last and have different names in the input: see [`crate::schema::carried`].
    pub carried: usize,
}

/// The rows of the input that a table contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableRows {
    /// All rows.
    All,
    /// Rows in which this column is null.
    Null(String),
    /// Rows in which this column is not null.
    NotNull(String),
}

/// The node. Its input contains the rows of the tables. Its output contains one row per written file: see [`File::write_rows`]. Partitions
/// do not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Write {
    /// The URL of the store in the session.
    pub store_url: String,
    /// The path in this store that contains the tables' folders.
    pub root: String,
    /// The attempt. Its id is part of the names of the files.
    pub attempt: Attempt,
    /// The tables to write.
    pub targets: Vec<TableTarget>,
    /// The parts that the partitions record, if the stage has parts.
    pub parts: Option<StageParts>,
}

/// A schema as an Arrow IPC stream without rows.
mod schema_bytes {
    use arrow::datatypes::SchemaRef;
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

    pub(super) fn serialize<S: Serializer>(schema: &SchemaRef, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = StreamWriter::try_new(Vec::new(), schema).and_then(StreamWriter::into_inner);
        bytes.map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchemaRef, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Ok(StreamReader::try_new(bytes.as_slice(), None).map_err(de::Error::custom)?.schema())
    }
}

impl Description for Write {
    const NAME: &'static str = "WriteExec";
    /// The node counts its input rows itself, because its output has one row per file.
    const COUNTS_ROWS: bool = false;

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<&str> = self.targets.iter().map(|t| t.table.as_str()).collect();
        write!(f, "tables=[{}]", tables.join(", "))
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Shape::over(inputs, File::schema(), vec![Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut input = task.rows_of(0)?;
        let partition = task.partition;
        let store = task.context.runtime_env().object_store(ObjectStoreUrl::parse(&self.store_url)?)?;
        let root = Path::parse(&self.root).map_err(object_store::Error::from)?;
        let metrics = BaselineMetrics::new(task.metrics, partition);
        let held = MemoryConsumer::new("Write").register(task.context.memory_pool());
        let (from, context) = (only_input(Self::NAME, task.inputs)?, Arc::clone(&task.context));
        let row_group_bytes = row_group_bytes(from, &task.context);
        let record_part = |parts: &StageParts| {
            let output = Layout::in_store(Arc::clone(&store), &self.store_url, root.clone())?;
            parts.part(from, partition, output)
        };
        let recorded = self.parts.as_ref().map(record_part).transpose()?;
        let part = |target: &TableTarget| {
            let inside = self.attempt.part(&target.folder, partition);
            PartitionFile::new(target.clone(), Arc::clone(&store), &root, inside, row_group_bytes)
        };
        let mut parts: Vec<PartitionFile> = self.targets.iter().map(part).collect();
        let write = async move {
            if let Some(part) = &recorded
                && let Some(files) = part.written().await?
            {
                return File::write_rows(&files);
            }
            while let Some(batch) = input.next().await.transpose()? {
                for part in &mut parts {
                    part.write(&batch).await?;
                }
                reserve(&held, &mut parts).await?;
                metrics.record_output(batch.num_rows());
            }
            let mut files = Vec::with_capacity(parts.len());
            // The first partition always writes a file, so that every table has at least one file with its schema.
            let is_first = recorded.as_ref().map_or(partition == 0, |part| part.is_first);
            for part in parts {
                files.extend(part.finish(is_first).await?);
            }
            if let Some(part) = recorded {
                part.record(&files, &context).await?;
            }
            File::write_rows(&files)
        };
        Ok(futures::stream::once(write).boxed())
    }
}

/// Returns the encoded size in bytes at which a row group in one of `input`'s partitions ends.
fn row_group_bytes(input: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> usize {
    let bytes = match context.memory_pool().memory_limit() {
        // The number of partitions that write at the same time is at most the session's number of target partitions.
        MemoryLimit::Finite(bytes) => {
            let partitions = input.output_partitioning().partition_count();
            bytes / (32 * partitions.min(context.session_config().target_partitions()).max(1))
        }
        _ => usize::MAX,
    };
    bytes.clamp(*ROW_GROUP_BYTES.start(), *ROW_GROUP_BYTES.end())
}

/// Reserves the memory of the open row groups. If the pool has no memory left, ends the row groups.
async fn reserve(held: &MemoryReservation, parts: &mut [PartitionFile]) -> Result<()> {
    if held.try_resize(parts.iter().map(PartitionFile::memory).sum()).is_err() {
        for part in parts.iter_mut() {
            part.end_row_group().await?;
        }
        // A writer needs at least the memory that is still in use.
        held.resize(parts.iter().map(PartitionFile::memory).sum());
    }
    Ok(())
}

/// The file that a partition writes for a table.
struct PartitionFile {
    target: TableTarget,
    store: Arc<dyn ObjectStore>,
    path: Path,
    inside: String,
    writer: Option<AsyncArrowWriter<DigestWriter>>,
    row_group_bytes: usize,
    rows: u64,
}

impl PartitionFile {
    fn new(
        target: TableTarget,
        store: Arc<dyn ObjectStore>,
        root: &Path,
        inside: String,
        row_group_bytes: usize,
    ) -> Self {
        let path = inside.split('/').fold(root.clone(), |path, part| path.join(part));
        Self { target, store, path, inside, writer: None, row_group_bytes, rows: 0 }
    }

    fn memory(&self) -> usize {
        self.writer.as_ref().map_or(0, AsyncArrowWriter::memory_size)
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = self.select(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows() as u64;
        let row_group_bytes = self.row_group_bytes;
        let writer = self.open()?;
        writer.write(&batch).await?;
        if writer.in_progress_size() >= row_group_bytes {
            writer.flush().await?;
        }
        Ok(())
    }

    async fn end_row_group(&mut self) -> Result<()> {
        match &mut self.writer {
            Some(writer) => Ok(writer.flush().await?),
            None => Ok(()),
        }
    }

    fn open(&mut self) -> Result<&mut AsyncArrowWriter<DigestWriter>> {
        if self.writer.is_none() {
            let sink = multipart_writer(&self.store, self.path.clone());
            let sink = DigestWriter { sink, digest: Digest::default() };
            let properties = properties(&self.target, self.row_group_bytes)?;
            self.writer =
                Some(AsyncArrowWriter::try_new(sink, Arc::clone(&self.target.schema), Some(properties))?);
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            None => internal_err!("a writer that was just opened is not there"),
        }
    }

    /// Selects the rows and columns of the table and converts them to its types.
    fn select(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keep: Option<BooleanArray> = match &self.target.rows {
            TableRows::All => None,
            TableRows::Null(column) => Some(is_null(named(batch, column)?)?),
            TableRows::NotNull(column) => Some(is_not_null(named(batch, column)?)?),
        };
        let batch = match keep {
            Some(keep) if keep.true_count() == 0 => batch.slice(0, 0),
            Some(keep) if keep.true_count() < keep.len() => filter_record_batch(batch, &keep)?,
            _ => batch.clone(),
        };
        let mut columns = Vec::with_capacity(self.target.schema.fields().len());
        let own = self.target.schema.fields().len().saturating_sub(self.target.carried);
        for (at, field) in self.target.schema.fields().iter().enumerate() {
            let column = match at.checked_sub(own) {
                Some(carried) => named(&batch, &schema::carried(carried))?,
                None => named(&batch, field.name())?,
            };
            // A signed column with the same width stores the bits of unsigned numbers.
            columns.push(match (reinterpret(column, field.data_type()), column.data_type()) {
                (Some(same_bits), _) => same_bits,
                // The writer takes strings from a dictionary.
                (None, DataType::Dictionary(_, value)) if **value == DataType::Utf8 => Arc::clone(column),
                (None, _) => cast(column, field.data_type())?,
            });
        }
        let types = self.target.schema.fields().iter().zip(&columns);
        let fields: Vec<Field> = types
            .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }

    /// Finishes the file. Returns `None` if the file has no rows and `even_empty` is false.
    async fn finish(mut self, even_empty: bool) -> Result<Option<File>> {
        if even_empty {
            self.open()?;
        }
        let Some(mut writer) = self.writer else { return Ok(None) };
        writer.finish().await?;
        let (bytes, crc32) = writer.into_inner().digest.end();
        Ok(Some(File { table: self.target.table, path: self.inside, rows: self.rows, bytes, crc32 }))
    }
}

fn named<'a>(batch: &'a RecordBatch, column: &str) -> Result<&'a Arc<dyn Array>> {
    match batch.column_by_name(column) {
        Some(array) => Ok(array),
        None => internal_err!("column {column} must be written but is not in the plan: {}", batch.schema()),
    }
}

/// The columns of numbers that are hashes.
const HASHES: [&str; 3] = ["doc", "set_hash_0", "set_hash_1"];

/// Returns the Parquet settings. Columns are compressed by zstd, except for hashes, which do not repeat and do not compress. Ids do not
/// repeat either, so they have no dictionary. The columns of `pairs` have dictionaries for a whole row group, because ids and counts repeat
/// in the pairs of copies.
fn properties(target: &TableTarget, row_group_bytes: usize) -> ParquetResult<WriterProperties> {
    let TableTarget { schema, carried, .. } = target;
    let own = schema.fields().len().saturating_sub(*carried);
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("resemblance ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_coerce_types(false);
    if target.table == schema::Table::Pairs.name() {
        return Ok(properties.set_dictionary_page_size_limit(row_group_bytes).build());
    }
    for (at, field) in schema.fields().iter().enumerate() {
        if at >= own && field.data_type().is_floating() {
            // Statistics ignore NaN, so DataFusion could take a column with NaN for constant if its minimum and maximum are equal.
            properties = properties.set_column_statistics_enabled(
                ColumnPath::from(field.name().as_str()),
                EnabledStatistics::None,
            );
            continue;
        }
        let path = match field.data_type() {
            DataType::List(item) => {
                ColumnPath::new(vec![field.name().clone(), "list".into(), item.name().clone()])
            }
            DataType::Binary if at >= own => continue,
            DataType::Utf8 if at >= own || field.name() != "id" => continue,
            DataType::Utf8 | DataType::Binary | DataType::UInt64 | DataType::Int64 => {
                ColumnPath::from(field.name().as_str())
            }
            _ => continue,
        };
        properties = properties.set_column_dictionary_enabled(path.clone(), false);
        let is_sketch = matches!(field.data_type(), DataType::List(_) | DataType::Binary);
        if is_sketch || HASHES.contains(&field.name().as_str()) {
            properties = properties.set_column_compression(path.clone(), Compression::UNCOMPRESSED);
        }
        if is_sketch {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    Ok(with_pages(properties, &target.table).build())
}

/// A writer to an object store that computes a digest of the bytes.
struct DigestWriter {
    sink: BufWriter,
    digest: Digest,
}

impl AsyncFileWriter for DigestWriter {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, ParquetResult<()>> {
        self.digest.update(&bytes);
        self.sink.put(bytes).map_err(|e| ParquetError::External(Box::new(e))).boxed()
    }

    fn complete(&mut self) -> BoxFuture<'_, ParquetResult<()>> {
        self.sink.shutdown().map_err(|e| ParquetError::External(Box::new(e))).boxed()
    }
}

/// The maximum number of documents in a page. A look-up reads whole pages, and the offsets of all pages.
const PAGE_ROWS: usize = 512;

/// The approximate maximum size of a page with signatures or shingles: 32 signatures with 128 values of 16 bits and their length.
const SKETCH_PAGE_BYTES: usize = 32 * 260;

/// Adds the page settings of the table with this name to `properties`.
pub(super) fn with_pages(properties: WriterPropertiesBuilder, table: &str) -> WriterPropertiesBuilder {
    if table != Table::Documents.name() {
        return properties;
    }
    let list = |name: &str| ColumnPath::new([name, "list", "item"].map(str::to_owned).into());
    let sketches = [ColumnPath::from("signature"), list("signature"), list("shingles")];
    sketches
        .into_iter()
        .fold(properties, |properties, path| {
            properties.set_column_data_page_size_limit(path, SKETCH_PAGE_BYTES)
        })
        .set_data_page_row_count_limit(PAGE_ROWS)
        // The writer compares the number of rows with the limit after each of these batches.
        .set_write_batch_size(PAGE_ROWS)
        .set_column_statistics_enabled(ColumnPath::from("id"), EnabledStatistics::Page)
        // Ids can be paths that differ only in their last letters, so bounds are not truncated.
        .set_column_index_truncate_length(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
    use parquet::file::page_index::column_index::ColumnIndexMetaData;
    use parquet::file::properties::WriterProperties;

    use super::*;

    /// Returns the metadata of a file with 5,000 documents. Its pages have the settings of the table with this name.
    fn metadata(table: &str) -> ParquetMetaData {
        let ids = (0..5_000).map(|row| format!("{}{row:04}", "a folder/".repeat(20)));
        let signatures = (0..5_000_u32).map(|row| row.to_le_bytes().repeat(64));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(StringArray::from_iter_values(ids))),
            ("signature", Arc::new(BinaryArray::from_iter_values(signatures))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let properties = with_pages(WriterProperties::builder(), table).set_dictionary_enabled(false);
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).unwrap();
        writer.write(&rows).unwrap();
        let bytes = Bytes::from(writer.into_inner().unwrap());
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        reader.parse_and_finish(&bytes).unwrap()
    }

    #[test]
    fn a_look_up_reads_small_pages_of_documents() {
        let metadata = metadata("documents");
        let [ids, signatures] = &metadata.offset_index().unwrap()[0][..] else { panic!("two columns") };
        assert_eq!(ids.page_locations().len(), 10);
        let most = signatures.page_locations().iter().map(|page| page.compressed_page_size).max();
        assert!(most.unwrap() < 2 * SKETCH_PAGE_BYTES as i32, "{most:?}");
        let ColumnIndexMetaData::BYTE_ARRAY(bounds) = &metadata.column_index().unwrap()[0][0] else {
            panic!("ids have bounds")
        };
        assert_eq!(bounds.max_value(0), Some(format!("{}0511", "a folder/".repeat(20)).as_bytes()));
    }
}
