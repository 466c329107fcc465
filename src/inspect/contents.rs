//! The contents of a job's source: files, rows, columns, and the first texts.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::ident;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::columns::{InspectedColumn, RecordFile, beginning, in_order, parquet_columns};
use crate::error::Result;
use crate::job::{Job, Source};
use crate::schema;
use crate::source::{self, Listed, ParquetFile, ReadRequest, SourceFile, format_of};
use crate::udf::values::number;

const CONCURRENT_FOOTERS: usize = 32;
const SAMPLED: u64 = 1000;
/// No more words are counted after texts of this total size in bytes.
const SAMPLED_TEXTS: usize = 64 * 1024 * 1024;
const SHOWN: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct InspectedContents {
    pub files: u64,
    pub bytes: u64,
    pub rows: RowCount,
    /// The columns of the first file. Empty for formats without columns.
    pub columns: Vec<InspectedColumn>,
    /// The columns of `source.columns`.
    pub carried: Vec<CarriedColumn>,
    pub texts: Vec<String>,
    pub sampled: u64,
    pub words: f64,
}

/// A column of `source.columns`.
#[derive(Debug, Serialize)]
pub(crate) struct CarriedColumn {
    pub name: String,
    /// The type of the column's values, in words.
    pub read_as: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RowCount {
    /// The number from the metadata of the files, or counted in files that were read completely.
    Exact(u64),
    /// An estimate from the bytes of the first rows and of all files.
    About(u64),
    #[default]
    Unknown,
}

impl RowCount {
    /// Returns the exact or estimated number of rows, if it is known.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Exact(rows) | Self::About(rows) => Some(rows),
            Self::Unknown => None,
        }
    }
}

/// Inspects the contents of `source`: the beginnings of files, the footers of all Parquet files, and the first texts.
pub(crate) async fn contents(ctx: &SessionContext, source: &Source) -> Result<InspectedContents> {
    let listed = source::list(ctx, source).await?;
    let files: Vec<SourceFile> = listed.files().collect();
    let mut found = InspectedContents {
        files: files.len() as u64,
        bytes: files.iter().map(SourceFile::size).sum(),
        ..InspectedContents::default()
    };
    found.add_texts(ctx, source, &listed).await?;
    let first = files.iter().find(|file| file.size() > 0);
    let format = format_of(source.format);
    match first {
        _ if format.is_one_document() => found.rows = RowCount::Exact(found.files),
        None => found.rows = RowCount::Exact(0),
        Some(first) if format.is_parquet() => {
            found.columns = parquet_columns(ctx, source, first).await?;
            found.rows = RowCount::Exact(rows_of_footers(ctx, &files).await?);
        }
        Some(first) if format.has_rows() => found.add_records(ctx, source, first).await?,
        // Only a parser can count these rows.
        Some(_) => {}
    }
    Ok(found)
}

/// Returns the names of the columns at the beginning of the `first` CSV or JSON lines file, and no names for other formats. Omits fields
/// with JSON arrays, because no column of a job can contain arrays.
pub(crate) async fn column_names(
    ctx: &SessionContext,
    source: &Source,
    first: &SourceFile,
) -> Result<Vec<String>> {
    if !format_of(source.format).has_rows() {
        return Ok(Vec::new());
    }
    let file = RecordFile::open(ctx, first, source.format, Some(source.encoding), Some(source.csv)).await?;
    let columns = file.columns().into_iter().filter(|column| !column.kind.contains("array"));
    Ok(columns.map(|column| column.name).collect())
}

async fn rows_of_footers(ctx: &SessionContext, files: &[SourceFile]) -> Result<u64> {
    let full = files.iter().filter(|file| file.size() > 0);
    let rows = stream::iter(full).map(|file| async move { Ok(ParquetFile::open(ctx, file).await?.rows()) });
    rows.buffered(CONCURRENT_FOOTERS).try_fold(0, |all, rows| async move { Ok(all + rows) }).await
}

/// The bytes of a document in `documents/` without its signature and its shingles.
const RESULT_BYTES: u64 = 12;
/// The bytes of the hash of the shingle set and of the length of the signature, which are written with a signature.
const SET_HASH_BYTES: u64 = 20;
/// The size of a shingle in bytes.
const SHINGLE_BYTES: u64 = 8;
/// The bytes that stages exchange per document for its keys, its copies and its position, without its bands.
const STAGE_BYTES: u64 = 80;

/// The disk space of a job without its pairs. The estimate follows the measurements in `docs/internals/scale.md`.
pub(crate) struct DiskEstimate {
    /// The bytes of a document in the result.
    pub result: u64,
    /// The bytes that stages exchange per document, which are on disk until the run ends.
    pub between: u64,
    documents: Option<u64>,
}

impl DiskEstimate {
    /// Returns the total of `bytes` per document, if the number of documents is known.
    pub(crate) fn total(&self, bytes: u64) -> Option<u64> {
        self.documents.map(|documents| bytes.saturating_mul(documents))
    }
}

impl InspectedContents {
    pub(crate) fn disk(&self, job: &Job) -> DiskEstimate {
        let shingles = SHINGLE_BYTES * self.words.round() as u64;
        let keep = job.output.keep;
        let kept = |kept: bool, bytes: u64| if kept { bytes } else { 0 };
        let signature = kept(keep.signatures(), SET_HASH_BYTES + job.minhash.signature_bytes());
        let tags = kept(job.columns().bucket_tags, 4 + 4 * job.lsh.bands as u64);
        DiskEstimate {
            result: RESULT_BYTES + signature + tags + kept(keep.shingles(), shingles),
            between: STAGE_BYTES + job.candidates.method.bytes_between_stages(&job.lsh, shingles),
            documents: self.rows.known(),
        }
    }

    /// Adds the first texts, the mean number of words per text, and the types of the carried columns.
    async fn add_texts(&mut self, ctx: &SessionContext, source: &Source, listed: &Listed) -> Result<()> {
        let read = source::read(&in_order(ctx), source, listed, ReadRequest::all()).await?;
        let carried = (0..read.types.columns.len()).map(|at| ident(schema::carried(at)));
        let frame = read.frame.select([ident("text")].into_iter().chain(carried).collect::<Vec<_>>())?;
        let mut rows = frame.limit(0, Some(SAMPLED as usize))?.execute_stream().await?;
        let (mut words, mut bytes) = (0, 0);
        // For each column: whether a number occurs, and whether any other value occurs.
        let mut met = vec![[false; 2]; read.types.columns.len()];
        while bytes < SAMPLED_TEXTS
            && let Some(batch) = rows.try_next().await?
        {
            let texts = cast(batch.column(0), &DataType::Utf8View)?;
            for (column, met) in batch.columns().iter().skip(1).zip(&mut met) {
                let values = cast(column, &DataType::Utf8View)?;
                values
                    .as_string_view()
                    .iter()
                    .flatten()
                    .for_each(|value| met[usize::from(number(value).is_none())] = true);
            }
            for text in texts.as_string_view().iter().flatten() {
                words += text.split_whitespace().count();
                bytes += text.len();
                self.sampled += 1;
                if self.texts.len() < SHOWN {
                    self.texts.push(beginning(text));
                }
            }
        }
        self.words = words as f64 / self.sampled.max(1) as f64;
        let carried = read.types.columns.into_iter().zip(met).map(|(column, met)| {
            let read_as = match (&column.data_type, met) {
                (DataType::Utf8, [true, false]) => "numbers".to_owned(),
                (DataType::Utf8, [false, true]) => "texts".to_owned(),
                (DataType::Utf8, [true, true]) => "numbers and texts, which have no common order".to_owned(),
                (DataType::Utf8, [false, false]) => "nothing: no value in the first documents".to_owned(),
                (other, _) => other.to_string(),
            };
            CarriedColumn { name: column.name, read_as }
        });
        self.carried = carried.collect();
        Ok(())
    }

    /// Adds the columns and the number of rows, from the beginning of the `first` CSV or JSON lines file.
    async fn add_records(&mut self, ctx: &SessionContext, source: &Source, first: &SourceFile) -> Result<()> {
        let file =
            RecordFile::open(ctx, first, source.format, Some(source.encoding), Some(source.csv)).await?;
        self.columns = file.columns();
        let rows = file.rows();
        self.rows = if file.whole && self.files == 1 {
            RowCount::Exact(rows)
        } else {
            let rows_per_byte = rows as f64 / file.stored.max(1) as f64;
            RowCount::About((rows_per_byte * self.bytes as f64).round() as u64)
        };
        Ok(())
    }
}
