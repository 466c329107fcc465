//! A part of a source, spread over its files, as one Parquet file.
//!
//! Of Parquet, row groups are drawn until they have some times as many rows as the sample, and of those rows the sample is drawn.
//! Of other formats, whole files are drawn. Whether a document is taken depends on the seed and on its place alone.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, SessionContext, ident};
use futures::TryStreamExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::pairs::Share;
use super::sample_file::SampleFile;
use super::view::Amount;
use crate::address;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::inspect::{self, Contents, Rows};
use crate::job::{self, Format, Id, Job, LimitSize, Source};
use crate::kernel::random::SplitMix64;
use crate::schema::{IdType, SourceTypes, carried};
use crate::source::{self, Listed, ParquetFile, Request, Selection, SourceFile};

/// The name of the whole sample in the folder of a forecast.
pub(super) const ALL: &str = "all";
/// The columns of a sample, before those that the job carries.
pub(super) const ID: &str = "resemblance_id";
pub(super) const TEXT: &str = "resemblance_text";
/// Documents that are read are at most about this many times those of the sample, if the source has more.
const READ_FACTOR: u64 = 8;
/// Bytes of a document, where nothing else is known.
const GUESSED_BYTES: f64 = 1_000.0;
/// Files of records that have this many times more bytes than wanted are not read to their end.
const TOO_LONG: f64 = 4.0;
/// Row groups of a sample: as many partitions can read it.
const ROW_GROUPS: u64 = 64;

/// What is sampled, and for which cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Documents of the sample, about.
    pub sample: u64,
    /// The seed that chooses them.
    pub seed: u64,
    /// Tasks of a cluster that run at once.
    pub tasks: Option<u64>,
}

/// A sample of the documents of a source.
pub(super) struct Sample {
    /// Its documents, also those that cannot be compared.
    pub(super) rows: u64,
    /// Those that a parser cannot read.
    pub(super) unreadable: u64,
    /// The documents of the source.
    pub(super) documents: Amount,
    /// Documents that were read for it.
    pub(super) read: u64,
    /// Files that were read for it.
    pub(super) files_read: u64,
    /// Every file of the source: its bytes, and its row groups if it is Parquet.
    pub(super) files: Vec<(u64, u64)>,
    /// Whether the source is in an object store.
    pub(super) is_remote: bool,
    /// Bytes of the largest file that is one document.
    pub(super) largest_file: Option<(String, u64)>,
    pub(super) notes: Vec<String>,
    source: Source,
}

impl Sample {
    /// The share of the documents that it has.
    pub(super) fn share(&self) -> Share {
        let all = self.documents.value.max(1) as f64;
        let of = |part: u64| (part as f64 / all).min(1.0);
        Share { of_all: of(self.rows), read: of(self.read) }
    }

    /// The source of a job over the Parquet files in `folder`.
    pub(super) fn source(&self, folder: &Path) -> Source {
        Source {
            format: Format::Parquet,
            urls: vec![folder.to_string_lossy().into_owned()],
            table_versions: Vec::new(),
            id: Id::Columns(vec![ID.to_owned()]),
            text: vec![TEXT.to_owned()],
            condition: None,
            limit: None,
            encoding: job::Encoding::default(),
            ..self.source.clone()
        }
    }
}

/// What is read of a source.
struct Chosen {
    /// Frames that are read one after the other.
    frames: Vec<DataFrame>,
    types: SourceTypes,
    /// The share of the documents of the frames that the sample has.
    share: f64,
    documents: Amount,
    read: u64,
    files_read: u64,
    notes: Vec<String>,
}

/// Reads a sample of the source of `job`, and writes it to `folder`.
///
/// # Errors
/// When the source cannot be read, or has no document.
pub(super) async fn take(
    session: &SessionContext,
    job: &Job,
    settings: &Settings,
    folder: &Path,
) -> Result<Sample> {
    let source = Source { limit: None, ..job.source.clone() };
    let listed = source::list(session, &source).await?;
    let files: Vec<SourceFile> = listed.files().collect();
    let parquet = match source.format {
        Format::Parquet | Format::Delta => footers(session, &files).await?,
        _ => Vec::new(),
    };
    let chosen = match source.format {
        Format::Parquet | Format::Delta if source.condition.is_none() => {
            of_row_groups(session, &source, &listed, &parquet, settings).await?
        }
        _ => of_files(session, &source, &listed, &files, &parquet, settings).await?,
    };
    let mut notes = chosen.notes.clone();
    let all = chosen.documents;
    let documents = match job.source.limit.map(|limit| limit.size) {
        None => all,
        Some(size) => {
            notes.push(
                "source.limit: the time for rows that are read and left out is not part of the forecast"
                    .into(),
            );
            let limited = |of: u64| match size {
                LimitSize::Documents(most) => of.min(most),
                LimitSize::Share(share) => (of as f64 * share).round() as u64,
            };
            Amount { value: limited(all.value), low: limited(all.low), high: limited(all.high) }
        }
    };
    let groups = parquet.iter().map(|file| file.metadata.row_groups().len() as u64);
    let splits: u64 = if parquet.is_empty() { files.len() as u64 } else { groups.clone().sum() };
    let groups: Vec<u64> = if parquet.is_empty() { vec![0; files.len()] } else { groups.collect() };
    let path = folder.join(ALL);
    let columns: Vec<String> = source.columns.clone();
    let mut writer = Writer::new(&path, &columns, &chosen.types, splits, settings.sample)?;
    let unreadable = copy(&chosen, settings.seed, &mut writer).await?;
    let rows = writer.end()?;
    if rows + unreadable == 0 {
        return Err(Error::input(format!(
            "{} has no document{}: nothing can be planned",
            source.urls.join(", "),
            if source.condition.is_some() { " that meets source.where" } else { "" }
        )));
    }
    let largest = files.iter().max_by_key(|file| file.size()).filter(|_| source.format == Format::Text);
    Ok(Sample {
        rows,
        unreadable,
        documents,
        read: chosen.read.min(documents.value),
        files_read: chosen.files_read,
        files: files.iter().map(SourceFile::size).zip(groups).collect(),
        is_remote: source.urls.iter().any(|url| is_remote(url)),
        largest_file: largest.map(|file| (file.path().to_owned(), file.size())),
        notes,
        source,
    })
}

async fn footers(session: &SessionContext, files: &[SourceFile]) -> Result<Vec<ParquetFile>> {
    let mut footers = Vec::with_capacity(files.len());
    for file in files.iter().filter(|file| file.size() > 0) {
        footers.push(ParquetFile::open(session, file).await?);
    }
    Ok(footers)
}

/// Some row groups, and of these some rows.
async fn of_row_groups(
    session: &SessionContext,
    source: &Source,
    listed: &Listed,
    parquet: &[ParquetFile],
    settings: &Settings,
) -> Result<Chosen> {
    let mut groups = Vec::new();
    for file in parquet {
        let mut first = 0;
        for group in file.metadata.row_groups() {
            let rows = group.num_rows().cast_unsigned();
            groups.push((rank(settings.seed, file.path(), first), file.path(), first, rows));
            first += rows;
        }
    }
    let all: u64 = groups.iter().map(|(.., rows)| rows).sum();
    groups.sort_unstable();
    let mut read = 0;
    groups.retain(|(.., rows)| {
        let needed = read < settings.sample.saturating_mul(READ_FACTOR);
        read += if needed { *rows } else { 0 };
        needed
    });
    let share = share(settings.sample, read);
    let mut wanted = Selection::default();
    for (_, path, first, rows) in &groups {
        let places = (*first..first + rows).filter(|row| is_taken(settings.seed, path, *row, share));
        places.for_each(|row| wanted.insert(path, row));
    }
    let mut files: Vec<&str> = groups.iter().map(|(_, path, ..)| *path).collect();
    files.sort_unstable();
    files.dedup();
    let opened = source::read(session, source, listed, Request::only(wanted)).await?;
    Ok(Chosen {
        frames: vec![opened.frame],
        types: opened.types,
        share: 1.0,
        documents: Amount::exact(all),
        read,
        files_read: files.len() as u64,
        notes: Vec::new(),
    })
}

/// Some files, and some of their documents.
async fn of_files(
    session: &SessionContext,
    source: &Source,
    listed: &Listed,
    files: &[SourceFile],
    parquet: &[ParquetFile],
    settings: &Settings,
) -> Result<Chosen> {
    let Contents { rows: guess, bytes: all_bytes, .. } = inspect::contents(session, source).await?;
    let bytes_of_row = match guess {
        Rows::Exact(rows) | Rows::About(rows) if rows > 0 => all_bytes as f64 / rows as f64,
        _ => GUESSED_BYTES,
    };
    let wanted = match source.format {
        // A file is a document.
        Format::Text => settings.sample as f64 * bytes_of_row,
        _ => (settings.sample.saturating_mul(READ_FACTOR)) as f64 * bytes_of_row,
    };
    let mut order: Vec<&SourceFile> = files.iter().collect();
    order.sort_by_key(|file| rank(settings.seed, file.path(), 0));
    let mut bytes = 0;
    order.retain(|file| {
        let needed = (bytes as f64) < wanted;
        bytes += if needed { file.size() } else { 0 };
        needed
    });
    let mut chosen: Vec<SourceFile> = order.into_iter().cloned().collect();
    chosen.sort_by(|a, b| a.path().cmp(b.path()));
    let files_read = chosen.len() as u64;
    let too_long = matches!(source.format, Format::Csv | Format::Jsonl) && bytes as f64 > TOO_LONG * wanted;
    let whole = chosen.len() == files.len();
    let mut frames = Vec::new();
    let types;
    if too_long {
        let each = settings.sample.saturating_mul(READ_FACTOR).div_ceil(files_read) as usize;
        types = source::read(session, source, &Listed::of(&chosen), Request::all()).await?.types;
        for file in &chosen {
            let listed = Listed::of(std::slice::from_ref(file));
            let opened = source::read(session, source, &listed, Request::all()).await?;
            frames.push(opened.frame.limit(0, Some(each))?);
        }
    } else {
        // The whole listing also has what no output can name.
        let opened = match whole {
            true => source::read(session, source, listed, Request::all()).await?,
            false => source::read(session, source, &Listed::of(&chosen), Request::all()).await?,
        };
        types = opened.types;
        frames.push(opened.frame);
    }
    let mut read = 0;
    for frame in &frames {
        read += frame.clone().count().await? as u64;
    }
    let scaled = |by: f64, off: f64| {
        let value = read as f64 * by;
        Amount::ranged(value, (value * (1.0 - off)).max(read as f64), value * (1.0 + off))
    };
    // Files differ in their documents: the more of them are read, the less that matters.
    let off = (0.5 / (files_read.max(1) as f64).sqrt()).clamp(0.05, 0.3);
    let mut notes = Vec::new();
    let documents = match guess {
        Rows::Exact(rows) if source.condition.is_none() => Amount::exact(rows),
        _ if too_long => {
            notes.push(
                "the files of the source are long, and only the beginnings of some were read".to_owned(),
            );
            let rows = match guess {
                Rows::Exact(rows) | Rows::About(rows) => rows,
                Rows::Unknown => read,
            };
            Amount::ranged(rows as f64, 0.75 * rows as f64, 1.25 * rows as f64)
        }
        _ if whole => Amount::exact(read),
        _ if !parquet.is_empty() => {
            let rows = |file: &&ParquetFile| chosen.iter().any(|one| one.path() == file.path());
            let of_chosen: u64 = parquet.iter().filter(rows).map(ParquetFile::rows).sum();
            let all: u64 = parquet.iter().map(ParquetFile::rows).sum();
            scaled(all as f64 / of_chosen.max(1) as f64, off)
        }
        _ => scaled(all_bytes as f64 / bytes.max(1) as f64, off),
    };
    Ok(Chosen { frames, types, share: share(settings.sample, read), documents, read, files_read, notes })
}

/// Whether a URL is in an object store.
pub(super) fn is_remote(url: &str) -> bool {
    address::scheme(url).is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
}

fn share(sample: u64, of: u64) -> f64 {
    (sample as f64 / of.max(1) as f64).min(1.0)
}

/// A number for a place in a file that looks random.
fn rank(seed: u64, path: &str, row: u64) -> u64 {
    SplitMix64(xxh3_64_with_seed(path.as_bytes(), seed).wrapping_add(row.wrapping_mul(0x9e37_79b9))).next()
}

/// Whether a row is one of a share of all rows.
fn is_taken(seed: u64, path: &str, row: u64, share: f64) -> bool {
    share >= 1.0 || (rank(seed, path, row) as f64) < share * 2f64.powi(64)
}

/// Writes the documents of the sample; those that no parser can read are counted, and not written.
async fn copy(chosen: &Chosen, seed: u64, writer: &mut Writer) -> Result<u64> {
    let mut unreadable = 0;
    for frame in &chosen.frames {
        let mut columns = vec![utf8("source"), ident("position"), utf8("defect"), ident("id"), utf8("text")];
        columns.extend((0..chosen.types.columns.len()).map(|at| ident(carried(at))));
        // In order, so that the sample is the same file each time.
        for partition in frame.clone().select(columns)?.execute_stream_partitioned().await? {
            let mut rows = partition;
            while let Some(batch) = rows.try_next().await? {
                let (files, places) = (as_string_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
                let defects = as_string_array(batch.column(2))?;
                let taken = (0..batch.num_rows()).map(|row| {
                    let taken = is_taken(seed, files.value(row), places.value(row), chosen.share);
                    unreadable += u64::from(taken && defects.is_valid(row));
                    Some(taken && defects.is_null(row))
                });
                let taken = taken.collect();
                let columns: Vec<usize> = (3..batch.num_columns()).collect();
                writer.write(&filter_record_batch(&batch.project(&columns)?, &taken)?)?;
            }
        }
    }
    Ok(unreadable)
}

/// Writes the documents of a sample.
pub(super) struct Writer {
    schema: SchemaRef,
    file: SampleFile,
    rows: u64,
}

impl Writer {
    fn new(folder: &Path, columns: &[String], types: &SourceTypes, splits: u64, sample: u64) -> Result<Self> {
        let id = match types.id {
            IdType::Int64 => DataType::Int64,
            IdType::Utf8 => DataType::Utf8,
        };
        let mut fields = vec![Field::new(ID, id, true), Field::new(TEXT, DataType::Utf8, true)];
        let carried = columns.iter().zip(&types.columns);
        fields.extend(carried.map(|(name, column)| Field::new(name, column.data_type.clone(), true)));
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let group = (sample / splits.clamp(1, ROW_GROUPS)).max(1);
        let file = SampleFile::create(folder, &schema, group as usize)?;
        Ok(Self { schema, file, rows: 0 })
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = rows.columns().iter().zip(self.schema.fields());
        let columns: Vec<ArrayRef> =
            columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
        self.rows += rows.num_rows() as u64;
        self.file.write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    fn end(self) -> Result<u64> {
        self.file.end()?;
        Ok(self.rows)
    }
}
