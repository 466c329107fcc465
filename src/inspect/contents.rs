//! What a job reads: files, rows, columns, and the first of the texts.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::ident;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::column::{InspectedColumn, beginning};
use super::dataset::SAMPLED_BYTES;
use super::parquet::{self, in_order};
use super::{delimited, encoding, json_lines};
use crate::error::Result;
use crate::job::{Format, Source};
use crate::schema;
use crate::source::{self, Listed, ParquetFile, ReadRequest, SourceFile, format_of};
use crate::udf::values::number;

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;
/// Texts whose words are counted.
const SAMPLED: u64 = 1000;
/// Bytes of texts after which no more are counted.
const SAMPLED_TEXTS: usize = 64 * 1024 * 1024;
/// Texts that are shown.
const SHOWN: usize = 5;

/// What a job reads.
#[derive(Debug)]
pub(crate) struct InspectedContents {
    /// Files.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Their rows.
    pub rows: RowCount,
    /// The columns of the first file; empty for formats whose files have no columns of their own.
    pub columns: Vec<InspectedColumn>,
    /// The columns that documents carry, each with what its values are read as.
    pub carried: Vec<(String, String)>,
    /// The beginnings of the first texts.
    pub texts: Vec<String>,
    /// Texts whose words were counted.
    pub sampled: u64,
    /// Words of a text between white space, on average.
    pub words: f64,
}

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCount {
    /// As the files say themselves.
    Exact(u64),
    /// As many as the bytes of the first rows let expect.
    About(u64),
    /// Only reading all files would tell.
    Unknown,
}

/// What a job with `source` reads. Reads the beginnings of files, the footers of all Parquet files, and the first texts.
///
/// # Errors
/// As [`source::list`] and [`source::read`], and where the first texts cannot be read.
pub(crate) async fn contents(ctx: &SessionContext, source: &Source) -> Result<InspectedContents> {
    let listed = source::list(ctx, source).await?;
    let files: Vec<SourceFile> = listed.files().collect();
    let mut found = InspectedContents {
        files: files.len() as u64,
        bytes: files.iter().map(SourceFile::size).sum(),
        rows: RowCount::Unknown,
        columns: Vec::new(),
        carried: Vec::new(),
        texts: Vec::new(),
        sampled: 0,
        words: 0.0,
    };
    found.add_texts(ctx, source, &listed).await?;
    let first = files.iter().find(|file| file.size() > 0);
    let format = format_of(source.format);
    match first {
        _ if format.is_one_document() => found.rows = RowCount::Exact(found.files),
        None => found.rows = RowCount::Exact(0),
        Some(first) if format.is_parquet() => {
            found.columns = parquet::columns(ctx, source, first).await?;
            found.rows = RowCount::Exact(footers(ctx, &files).await?);
        }
        Some(first) if format.has_rows() => found.add_records(ctx, source, first).await?,
        // Only a parser can count them.
        Some(_) => {}
    }
    Ok(found)
}

/// The names of the columns of files of records, by the beginning of the `first`.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn column_names(
    ctx: &SessionContext,
    source: &Source,
    first: &SourceFile,
) -> Result<Vec<String>> {
    let head = first.head(ctx, SAMPLED_BYTES).await?;
    let text = encoding::text(&head.bytes, source.encoding);
    let columns = match source.format {
        Format::Csv => delimited::columns(&text, head.whole, source.csv),
        Format::Jsonl => json_lines::columns(&text, head.whole),
        _ => Vec::new(),
    };
    // Arrays are no values of a column.
    Ok(columns
        .into_iter()
        .filter(|column| !column.kind.contains("array"))
        .map(|column| column.name)
        .collect())
}

/// The rows of Parquet files.
async fn footers(ctx: &SessionContext, files: &[SourceFile]) -> Result<u64> {
    let full = files.iter().filter(|file| file.size() > 0);
    let rows = stream::iter(full).map(|file| async move { Ok(ParquetFile::open(ctx, file).await?.rows()) });
    rows.buffered(CONCURRENT_FOOTERS).try_fold(0, |all, rows| async move { Ok(all + rows) }).await
}

impl InspectedContents {
    /// Counts the words of the first texts.
    async fn add_texts(&mut self, ctx: &SessionContext, source: &Source, listed: &Listed) -> Result<()> {
        let read = source::read(&in_order(ctx), source, listed, ReadRequest::all()).await?;
        let carried = (0..read.types.columns.len()).map(|at| ident(schema::carried(at)));
        let frame = read.frame.select([ident("text")].into_iter().chain(carried).collect::<Vec<_>>())?;
        let mut rows = frame.limit(0, Some(SAMPLED as usize))?.execute_stream().await?;
        let (mut words, mut bytes) = (0, 0);
        // Whether values were numbers, and whether some were not.
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
        self.carried = read
            .types
            .columns
            .into_iter()
            .zip(met)
            .map(|(column, met)| {
                let read_as = match (&column.data_type, met) {
                    (DataType::Utf8, [true, false]) => "numbers".to_owned(),
                    (DataType::Utf8, [false, true]) => "texts".to_owned(),
                    (DataType::Utf8, [true, true]) => {
                        "numbers and texts, which have no common order".to_owned()
                    }
                    (DataType::Utf8, [false, false]) => "nothing: no value in the first documents".to_owned(),
                    (other, _) => other.to_string(),
                };
                (column.name, read_as)
            })
            .collect();
        Ok(())
    }

    /// Adds the columns and the number of rows of files of records, by the beginning of the `first`.
    async fn add_records(&mut self, ctx: &SessionContext, source: &Source, first: &SourceFile) -> Result<()> {
        let head = first.head(ctx, SAMPLED_BYTES).await?;
        let text = encoding::text(&head.bytes, source.encoding);
        let rows = match source.format {
            Format::Csv => {
                self.columns = delimited::columns(&text, head.whole, source.csv);
                delimited::rows(&text, head.whole, source.csv)
            }
            _ => {
                self.columns = json_lines::columns(&text, head.whole);
                json_lines::rows(&text, head.whole)
            }
        };
        self.rows = match head.whole && self.files == 1 {
            true => RowCount::Exact(rows),
            false => {
                let of_byte = rows as f64 / head.stored.max(1) as f64;
                RowCount::About((of_byte * self.bytes as f64).round() as u64)
            }
        };
        Ok(())
    }
}
