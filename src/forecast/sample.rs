//! Samples the documents of a source into Parquet files.
//!
//! Blocks are drawn first. A block is a row group of a Parquet file. In other formats, or if the job has a condition, a block is a whole
//! file. The drawn blocks contain several times as many documents as the sample, which is then drawn from them. The smaller sample is a
//! subset of the larger one, because only the seed and the position of a document decide whether it is drawn.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions::string::expr_fn::concat;
use datafusion::prelude::{DataFrame, SessionContext, cast as converted, col, ident, lit, when};
use futures::TryStreamExt;
use parquet::file::properties::WriterProperties;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::view::Amount;
use crate::address;
use crate::error::visible::shortened;
use crate::error::{Error, Result};
use crate::evaluate::MAX_EVALUATED;
use crate::frames::utf8;
use crate::inspect::{self, InspectedContents, RowCount};
use crate::job::{self, Format, Job, LimitSize, Source, SourceId, whole};
use crate::output::NewFile;
use crate::schema::{SourceTypes, carried};
use crate::source::{self, Listed, ParquetFile, ReadRequest, Selection, SourceFile, format_of};
use crate::udf::expr_fn::document_key;

/// The larger sample has this many times as many documents as the smaller one.
pub(super) const TIMES: u64 = 4;
/// The first columns of a sample. The columns in `source.columns` follow.
const ID: &str = "resemblance_id";
const TEXT: &str = "resemblance_text";
/// About this many times as many documents are read as the sample has.
const READ_FACTOR: f64 = 8.0;
/// The assumed bytes per document, while the number of documents is unknown.
const GUESSED_BYTES: f64 = 1_000.0;
/// If the drawn files contain this many times as many documents as wanted, only their beginnings are read.
const TOO_LONG: f64 = 4.0;
const ROW_GROUPS: u64 = 64;
/// The approximate number of texts that are kept to find risks.
const TEXTS: f64 = 5_000.0;
const TEXT_BYTES: usize = 200_000;
/// The approximate maximum number of bytes in all kept texts.
const TEXTS_BYTES: usize = 256 << 20;
const BEGINNING: usize = 100;

/// The settings of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct ForecastSettings {
    /// Approximate number of documents to sample
    #[arg(long, value_name = "N", default_value = "20000", value_parser = whole(1..=MAX_EVALUATED as u64))]
    pub sample: u64,
    /// The seed of the sample
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Also estimate the seconds on a cluster that runs N tasks concurrently
    #[arg(long, value_name = "N")]
    pub tasks: Option<NonZeroU64>,
}

pub(super) struct SourceSample {
    /// The number of documents in the sample, including documents that cannot be compared.
    pub(super) rows: u64,
    pub(super) documents: Amount,
    /// The number of documents that were read to draw the sample.
    pub(super) read: u64,
    pub(super) files_read: u64,
    /// The number of bytes and of row groups of each file in the source. Only Parquet files have row groups.
    pub(super) files: Vec<(u64, u64)>,
    pub(super) is_remote: bool,
    /// The number of bytes in the largest document, and the beginning of its text, or its path if every file is a document.
    pub(super) largest: (u64, String),
    pub(super) texts: Vec<String>,
    pub(super) notes: Vec<String>,
    source: Source,
}

/// A part of a file that is drawn as a whole.
struct FileBlock {
    file: usize,
    /// The index of the first row.
    first: u64,
    documents: f64,
}

impl SourceSample {
    pub(super) fn share(&self) -> f64 {
        (self.rows as f64 / self.documents.value.max(1) as f64).min(1.0)
    }

    /// Returns the source of a job over the sample at `path`.
    pub(super) fn source(&self, path: &Path) -> Source {
        Source {
            format: Format::Parquet,
            urls: vec![path.to_string_lossy().into_owned()],
            table_versions: Vec::new(),
            id: SourceId::Columns(vec![ID.to_owned()]),
            text: vec![TEXT.to_owned()],
            condition: None,
            limit: None,
            encoding: job::Encoding::default(),
            ..self.source.clone()
        }
    }
}

pub(super) const FILES: [&str; 2] = ["small.parquet", "large.parquet"];

/// Writes two samples of the source of `job` to `folder`. Unreadable documents have no text there, so that the runs reject them.
pub(super) async fn take(
    session: &SessionContext,
    job: &Job,
    settings: &ForecastSettings,
    folder: &Path,
) -> Result<SourceSample> {
    let source = Source { limit: None, ..job.source.clone() };
    let listed = source::list(session, &source).await?;
    let files: Vec<SourceFile> = listed.files().collect();
    let (blocks, groups) = blocks(session, &source, &files).await?;
    let splits: u64 = if is_parquet(&source) { groups.iter().sum() } else { files.len() as u64 };
    let mut sample = SourceSample {
        rows: 0,
        documents: Amount::default(),
        read: 0,
        files_read: 0,
        files: files.iter().map(SourceFile::size).zip(groups).collect(),
        is_remote: source.urls.iter().any(|url| is_remote(url)),
        largest: (0, String::new()),
        texts: Vec::new(),
        notes: Vec::new(),
        source,
    };
    let (frames, types) = sample.draw(session, &listed, &files, blocks, settings).await?;
    if let Some(limit) = job.source.limit {
        sample.notes.push(
            "source.limit: the time for rows that are read and left out is not part of the forecast".into(),
        );
        let limited = |of: u64| match limit.size {
            LimitSize::Documents(most) => of.min(most),
            LimitSize::Percent(percent) => (of as f64 * (percent / 100.0)).round() as u64,
        };
        let Amount { value, low, high } = sample.documents;
        sample.documents = Amount { value: limited(value), low: limited(low), high: limited(high) };
        sample.read = sample.read.min(sample.documents.value);
    }
    sample.write(frames, &types, settings, splits, folder).await?;
    if sample.rows == 0 {
        return Err(Error::input(format!(
            "{} has no document{}: nothing can be planned",
            sample.source.urls.join(", "),
            if sample.source.condition.is_some() { " that meets source.where" } else { "" }
        )));
    }
    if format_of(sample.source.format).is_one_document()
        && let Some(largest) = files.iter().max_by_key(|file| file.size())
    {
        sample.largest = (largest.size(), largest.path().to_owned());
    }
    Ok(sample)
}

fn is_parquet(source: &Source) -> bool {
    format_of(source.format).is_parquet()
}

/// Returns the blocks of a source, and the number of row groups in each file.
async fn blocks(
    session: &SessionContext,
    source: &Source,
    files: &[SourceFile],
) -> Result<(Vec<FileBlock>, Vec<u64>)> {
    let (mut blocks, mut groups) = (Vec::new(), vec![0; files.len()]);
    if is_parquet(source) {
        for (file, listed) in files.iter().enumerate().filter(|(_, file)| file.size() > 0) {
            let footer = ParquetFile::open(session, listed).await?;
            let mut first = 0;
            for group in footer.metadata.row_groups() {
                let rows = group.num_rows().cast_unsigned();
                blocks.push(FileBlock { file, first, documents: rows as f64 });
                first += rows;
                groups[file] += 1;
            }
        }
        return Ok((blocks, groups));
    }
    let InspectedContents { rows, bytes, .. } = inspect::contents(session, source).await?;
    let of_document = match rows {
        RowCount::Exact(rows) | RowCount::About(rows) if rows > 0 => bytes as f64 / rows as f64,
        _ => GUESSED_BYTES,
    };
    let is_one_document = format_of(source.format).is_one_document();
    let documents = |file: &SourceFile| if is_one_document { 1.0 } else { file.size() as f64 / of_document };
    let of_files = files.iter().enumerate();
    Ok((
        of_files.map(|(at, file)| FileBlock { file: at, first: 0, documents: documents(file) }).collect(),
        groups,
    ))
}

impl SourceSample {
    /// Draws blocks. Returns frames with their documents, which are to be read one after the other.
    async fn draw(
        &mut self,
        session: &SessionContext,
        listed: &Listed,
        files: &[SourceFile],
        mut blocks: Vec<FileBlock>,
        settings: &ForecastSettings,
    ) -> Result<(Vec<DataFrame>, SourceTypes)> {
        let source = &self.source;
        // If the job has a condition, blocks are whole files.
        let by_groups = is_parquet(source) && source.condition.is_none();
        let format = format_of(source.format);
        let factor = if format.is_one_document() { 1.0 } else { READ_FACTOR };
        let wanted = settings.sample as f64 * factor;
        blocks.sort_by_key(|block| {
            let first = if by_groups { block.first } else { 0 };
            let place = format!("{}:{first}", files[block.file].path());
            (xxh3_64_with_seed(place.as_bytes(), settings.seed), block.first)
        });
        let all: f64 = blocks.iter().map(|block| block.documents).sum();
        let (mut drawn, mut chosen, mut rows) = (0.0, BTreeSet::new(), Selection::default());
        for &FileBlock { file, first, documents } in &blocks {
            // If files are read as a whole, all blocks of a chosen file are drawn.
            if drawn < wanted || (!by_groups && chosen.contains(&file)) {
                drawn += documents;
                chosen.insert(file);
                if by_groups {
                    (first..first + documents as u64).for_each(|row| rows.insert(files[file].path(), row));
                }
            }
        }
        let is_whole = drawn >= all;
        let chosen: Vec<SourceFile> = chosen.into_iter().map(|at| files[at].clone()).collect();
        let read = if is_whole {
            // Reads the whole listing, because only this read includes files that have no name in outputs.
            source::read(session, source, listed, ReadRequest::all()).await?
        } else if by_groups {
            source::read(session, source, listed, ReadRequest { wanted: Some(rows), shingle: None }).await?
        } else {
            source::read(session, source, &Listed::from_files(&chosen), ReadRequest::all()).await?
        };
        let too_long = format.has_rows() && drawn > TOO_LONG * wanted;
        let mut frames = vec![read.frame];
        if too_long {
            frames.clear();
            let each = (wanted / chosen.len() as f64).ceil() as usize;
            for file in &chosen {
                let listed = Listed::from_files(std::slice::from_ref(file));
                let beginning = source::read(session, source, &listed, ReadRequest::all()).await?;
                frames.push(beginning.frame.limit(0, Some(each))?);
            }
        }
        for frame in &frames {
            self.read += frame.clone().count().await? as u64;
        }
        self.files_read = chosen.len() as u64;
        // Files contain different numbers of documents per byte, so the error shrinks with the number of files that were read.
        let off = (0.5 / (chosen.len().max(1) as f64).sqrt()).clamp(0.05, 0.3);
        let scaled = self.read as f64 * all / drawn.max(1.0);
        let is_known = by_groups || (format.is_one_document() && source.condition.is_none());
        self.documents = if too_long {
            let note = "the files of the source are long, and only the beginnings of some were read";
            self.notes.push(note.to_owned());
            Amount::ranged([1.0, 0.75, 1.25].map(|factor| factor * all))
        } else if is_whole || is_known {
            Amount::exact(if is_whole { self.read } else { all as u64 })
        } else {
            Amount::ranged([scaled, (scaled * (1.0 - off)).max(self.read as f64), scaled * (1.0 + off)])
        };
        Ok((frames, read.types))
    }
}

/// Returns whether a URL is in an object store.
pub(super) fn is_remote(url: &str) -> bool {
    address::scheme(url).is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
}

impl SourceSample {
    async fn write(
        &mut self,
        frames: Vec<DataFrame>,
        types: &SourceTypes,
        settings: &ForecastSettings,
        splits: u64,
        folder: &Path,
    ) -> Result<()> {
        let mut fields = vec![Field::new(ID, types.id.arrow(), true), Field::new(TEXT, DataType::Utf8, true)];
        let carries = self.source.columns.iter().zip(&types.columns);
        fields.extend(carries.map(|(name, column)| Field::new(name, column.data_type.clone(), true)));
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let group = settings.sample / splits.clamp(1, ROW_GROUPS);
        let mut small = create(&folder.join(FILES[0]), &schema, group / TIMES)?;
        let mut large = create(&folder.join(FILES[1]), &schema, group)?;
        let read = self.read.max(1) as f64;
        let share = (settings.sample.min(self.documents.value) as f64 / read).min(1.0);
        let last = |share: f64| (share * u64::MAX as f64) as u64;
        let (last_small, last_text) = (last(share / TIMES as f64), last(TEXTS / read));
        let place = vec![lit(format!("{}:", settings.seed)), col("source"), lit(":")];
        let position = converted(col("position"), DataType::Utf8View);
        let rank = document_key(concat([place, vec![position]].concat()));
        let text = when(col("defect").is_null(), utf8("text").unalias()).end()?;
        let mut columns = vec![rank.clone().alias("rank"), ident("id"), text.alias("text")];
        columns.extend((0..types.columns.len()).map(|at| ident(carried(at))));
        let mut held = 0;
        for frame in frames {
            let drawn = frame.filter(rank.clone().lt_eq(lit(last(share))))?.select(columns.clone())?;
            // Reads the partitions in order, so that the sample is reproducible.
            for mut rows in drawn.execute_stream_partitioned().await? {
                while let Some(batch) = rows.try_next().await? {
                    let ranks = as_uint64_array(batch.column(0))?;
                    let documents = batch.columns()[1..].iter().zip(schema.fields());
                    let documents = documents.map(|(column, field)| cast(column, field.data_type()));
                    let documents =
                        RecordBatch::try_new(Arc::clone(&schema), documents.collect::<Result<_, _>>()?)?;
                    let is_small = ranks.iter().map(|rank| rank.map(|rank| rank <= last_small)).collect();
                    self.rows += documents.num_rows() as u64;
                    large.write(&documents)?;
                    small.write(&filter_record_batch(&documents, &is_small)?)?;
                    let texts = as_string_array(documents.column(1))?;
                    for (rank, text) in ranks.values().iter().zip(texts) {
                        let Some(text) = text else { continue };
                        if text.len() as u64 > self.largest.0 {
                            self.largest = (text.len() as u64, beginning(text, BEGINNING));
                        }
                        if *rank <= last_text && text.len() <= TEXT_BYTES && held <= TEXTS_BYTES {
                            held += text.len();
                            self.texts.push(text.to_owned());
                        }
                    }
                }
            }
        }
        large.finish(false)?;
        small.finish(false)?;
        Ok(())
    }
}

fn create(path: &Path, schema: &SchemaRef, group: u64) -> Result<NewFile> {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(group.max(1) as usize));
    NewFile::create(path, Arc::clone(schema), properties)
}

/// Returns the beginning of a text, with single spaces as white space.
pub(super) fn beginning(text: &str, characters: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&words, characters).into_owned()
}
