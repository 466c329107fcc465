//! Writes corpora and the list of planted documents as Parquet files.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, StringBuilder, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Corpus, CorpusDocument};
use crate::error::{Context, Error, Result};
use crate::output::ownership;
use crate::pipeline::OnExisting;

/// The most rows of a row group.
const ROW_GROUP: usize = 50_000;
/// Encoded bytes at which a row group ends earlier: each file that is being written holds as many in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// The approximate limits of rows and bytes of text that are generated at a time.
const BATCH: usize = 4_096;
const BATCH_BYTES: usize = 4 << 20;

/// The most files of a corpus: up to this number their names sort like their numbers.
const MAX_FILES: usize = 100_000;

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusFiles {
    /// The files, in the order of their rows.
    pub files: Vec<PathBuf>,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes the documents as Parquet with the columns `id` and `text`: into one file if `out` ends in `.parquet`, else
/// into a folder, as `part-00000.parquet` and so on, `files` of them with equally many documents in a row each.
/// A file gets its name when it is complete. Several threads call `advanced` with the number of documents that they
/// have generated since their last call. [`OnExisting::Overwrite`] replaces the files of an earlier corpus; other files
/// in the folder stay.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if `out` exists or cannot be written, or is one file and `files` is not 1;
/// [`Kind::Input`](crate::error::Kind::Input) if writing fails.
pub fn documents(
    corpus: &Corpus,
    out: &Path,
    files: usize,
    existing: OnExisting,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<CorpusFiles> {
    let paths = paths(out, files)?;
    match paths[0] == out {
        true => check_free(out, existing)?,
        false => make_way(out, existing)?,
    }
    let documents = corpus.settings().documents;
    let bound = |file: usize| (u128::from(documents) * file as u128 / paths.len() as u128) as u64;
    let write =
        |file: usize| write_range(corpus, bound(file)..bound(file + 1), &paths[file], existing, advanced);
    let bytes = in_parallel(paths.len(), &write)?;
    Ok(CorpusFiles { files: paths, rows: documents, bytes })
}

/// Writes one row for each planted document and its original as Parquet: `id_a` < `id_b`,
/// `kind` (`copy`, `near`, `contained`, `identical`), `jaccard` (exact) and `size` (words in a shingle).
///
/// # Errors
/// As [`check_free`]; [`Kind::Input`](crate::error::Kind::Input) if writing fails.
pub(crate) fn truth(corpus: &Corpus, path: &Path, existing: OnExisting) -> Result<CorpusFiles> {
    check_free(path, existing)?;
    let mut file = NewFile::create(path, existing, &pairs(corpus, &[])?)?;
    let (mut rows, mut planted) = (0, corpus.all_planted().peekable());
    while planted.peek().is_some() {
        let some: Vec<CorpusDocument> = planted.by_ref().take(BATCH).collect();
        rows += some.len() as u64;
        file.write(&pairs(corpus, &some)?)?;
    }
    Ok(CorpusFiles { files: vec![path.to_owned()], rows, bytes: file.finish()? })
}

fn pairs(corpus: &Corpus, planted: &[CorpusDocument]) -> Result<RecordBatch> {
    let pair = |p: &CorpusDocument| PlantedPair {
        ids: [corpus.id(p.document), corpus.id(p.of)],
        kind: p.kind.name(),
        jaccard: p.jaccard,
    };
    truth_batch(planted.iter().map(pair).collect(), corpus.settings().shingle)
}

/// A planted document and its original.
pub(in crate::lab) struct PlantedPair {
    pub(in crate::lab) ids: [String; 2],
    pub(in crate::lab) kind: &'static str,
    /// Their exact similarity.
    pub(in crate::lab) jaccard: f64,
}

/// Rows of the table of planted pairs, for shingles of `size` words.
pub(in crate::lab) fn truth_batch(mut pairs: Vec<PlantedPair>, size: usize) -> Result<RecordBatch> {
    pairs.iter_mut().for_each(|pair| pair.ids.sort_unstable());
    let ids = |end: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(pairs.iter().map(|pair| &pair.ids[end])))
    };
    let columns: [(&str, ArrayRef); 5] = [
        ("id_a", ids(0)),
        ("id_b", ids(1)),
        ("kind", Arc::new(StringArray::from_iter_values(pairs.iter().map(|pair| pair.kind)))),
        ("jaccard", Arc::new(Float64Array::from_iter_values(pairs.iter().map(|pair| pair.jaccard)))),
        ("size", Arc::new(UInt64Array::from_iter_values(pairs.iter().map(|_| size as u64)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn paths(out: &Path, files: usize) -> Result<Vec<PathBuf>> {
    match (out.extension().is_some_and(|extension| extension == "parquet"), files) {
        (_, files) if !(1..=MAX_FILES).contains(&files) => {
            Err(Error::job(format!("files is {files}; allowed are 1 to {MAX_FILES}")))
        }
        (true, 1) => Ok(vec![out.to_owned()]),
        (true, _) => Err(Error::job(format!(
            "files is {files}, but {} is one file; name a folder, or leave files at 1",
            out.display()
        ))),
        (false, _) => Ok((0..files).map(|file| out.join(format!("part-{file:05}.parquet"))).collect()),
    }
}

/// Refuses a path that cannot be written: a folder, a file that must not be overwritten, or a file of another program.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the path and its present content.
pub(crate) fn check_free(path: &Path, existing: OnExisting) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::job(format!("{shown} is a folder: expected the name of a file")));
    }
    match (path.symlink_metadata().is_ok(), existing) {
        (false, _) => Ok(()),
        (true, OnExisting::Fail) => {
            Err(Error::job(format!("{shown} is there already; replace it with --overwrite")))
        }
        (true, OnExisting::Overwrite) if ownership::is_generated(path) => Ok(()),
        (true, OnExisting::Overwrite) => Err(Error::job(format!(
            "{shown} was not written by generate under this name, so --overwrite does not replace it: move it away, or choose \
             another place"
        ))),
    }
}

/// Makes the folder, or removes the files of an earlier corpus from it if it holds no others.
fn make_way(folder: &Path, existing: OnExisting) -> Result<()> {
    if !folder.exists() {
        return std::fs::create_dir_all(folder)
            .context(|| format!("cannot create the folder {}", folder.display()));
    }
    if !folder.is_dir() {
        return Err(Error::job(format!(
            "{} is a file; name a folder, or a file that ends in .parquet",
            folder.display()
        )));
    }
    if existing == OnExisting::Fail {
        return Err(Error::job(format!(
            "{} is there already; replace it with --overwrite",
            folder.display()
        )));
    }
    let cannot = || format!("cannot replace what is in {}", folder.display());
    let mut earlier = Vec::new();
    for entry in std::fs::read_dir(folder).context(cannot)? {
        let path = entry.context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet"));
        if number.is_some_and(|number| number.len() == 5 && number.bytes().all(|b| b.is_ascii_digit())) {
            check_free(&path, OnExisting::Overwrite)?;
            earlier.push(path);
        }
    }
    for path in earlier {
        std::fs::remove_file(&path).context(cannot)?;
    }
    Ok(())
}

/// A Parquet file that gets its name when it is complete, and is removed if it never is.
pub(in crate::lab) struct NewFile {
    writer: ArrowWriter<File>,
    partial: Partial,
}

/// The file as it is named while it is written.
struct Partial {
    path: PathBuf,
    partial: PathBuf,
    existing: OnExisting,
}

impl NewFile {
    /// Creates a temporary file, which gets the name `path` when it is complete. It has the columns of `rows`, and no rows yet.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if another process writes it; [`Kind::Input`](crate::error::Kind::Input) if it cannot be
    /// created.
    pub(in crate::lab) fn create(path: &Path, existing: OnExisting, rows: &RecordBatch) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file = match File::create_new(&partial) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::job(format!(
                    "{} is there already: another process writes it, or one was killed; if none does, remove it",
                    partial.display()
                )));
            }
            created => created.context(|| format!("cannot write {}", path.display()))?,
        };
        let partial = Partial { path: path.to_owned(), partial, existing };
        // No dictionaries: ids and texts differ. The footer has the name of this program and of the file.
        let properties = WriterProperties::builder()
            .set_created_by(ownership::generated_as(path))
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .build();
        Ok(Self { writer: ArrowWriter::try_new(file, rows.schema(), Some(properties))?, partial })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if writing fails.
    pub(in crate::lab) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let cannot = || format!("cannot write {}", self.partial.path.display());
        self.writer.write(rows).context(cannot)?;
        if self.writer.in_progress_size() < ROW_GROUP_BYTES {
            return Ok(());
        }
        self.writer.flush().context(cannot)
    }

    /// Gives the file its name, and returns its bytes.
    ///
    /// # Errors
    /// The errors of [`check_free`]; [`Kind::Input`](crate::error::Kind::Input) if it cannot be completed or renamed.
    pub(in crate::lab) fn finish(self) -> Result<u64> {
        let Self { writer, partial: Partial { ref path, ref partial, existing } } = self;
        let cannot = || format!("cannot write {}", path.display());
        writer.close().context(cannot)?;
        check_free(path, existing)?;
        std::fs::rename(partial, path).context(cannot)?;
        std::fs::metadata(path).map(|file| file.len()).context(cannot)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the end there is no such file, and the error of writing is reported.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// Runs `work` for each number under `count`, on as many threads as there are cores, and adds up what it returns.
fn in_parallel(count: usize, work: &(dyn Fn(usize) -> Result<u64> + Sync)) -> Result<u64> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let worker = || -> Result<u64> {
        let mut sum = 0;
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                number if number < count => sum += work(number)?,
                _ => return Ok(sum),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut sum = 0;
        for worker in workers {
            sum += worker.join().map_err(|_| Error::bug("a thread that writes documents panicked"))??;
        }
        Ok(sum)
    })
}

/// Writes these documents as a file, and returns its bytes.
fn write_range(
    corpus: &Corpus,
    mut documents: Range<u64>,
    path: &Path,
    existing: OnExisting,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<u64> {
    let (mut words, mut text) = (Vec::new(), String::new());
    let (mut ids, mut texts) = (StringBuilder::new(), StringBuilder::new());
    let mut batch = || -> Result<RecordBatch> {
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH && bytes < BATCH_BYTES {
            let Some(document) = documents.next() else { break };
            text.clear();
            corpus.text(document, &mut words, &mut text);
            ids.append_value(corpus.id(document));
            texts.append_value(&text);
            rows += 1;
            bytes += text.len();
        }
        let columns: [(&str, ArrayRef); 2] =
            [("id", Arc::new(ids.finish())), ("text", Arc::new(texts.finish()))];
        Ok(RecordBatch::try_from_iter(columns)?)
    };
    let mut rows = batch()?;
    let mut file = NewFile::create(path, existing, &rows)?;
    while rows.num_rows() > 0 {
        file.write(&rows)?;
        advanced(rows.num_rows() as u64);
        rows = batch()?;
    }
    file.finish()
}
