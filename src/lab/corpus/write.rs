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

use super::{Corpus, Planted};
use crate::error::{Context, Error, Result};
use crate::output::ours;
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
pub struct Written {
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
/// generated since. [`OnExisting::Overwrite`] replaces the files of an earlier corpus; others in the folder stay.
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
) -> Result<Written> {
    let paths = paths(out, files)?;
    match paths[0] == out {
        true => check_free(out, existing)?,
        false => make_way(out, existing)?,
    }
    let documents = corpus.settings().documents;
    let bound = |file: usize| (u128::from(documents) * file as u128 / paths.len() as u128) as u64;
    let write = |file: usize| {
        let range = bound(file)..bound(file + 1);
        let writer = properties(&paths[file]);
        whole(&paths[file], existing, |partial| write_range(corpus, range, partial, writer, advanced))
    };
    let bytes = in_parallel(paths.len(), &write)?;
    Ok(Written { files: paths, rows: documents, bytes })
}

/// Writes one row for each planted document and its original as Parquet: `id_a` < `id_b`,
/// `kind` (`copy`, `near`, `contained`, `identical`), `jaccard` (exact) and `size` (words in a shingle).
///
/// # Errors
/// As [`check_free`]; [`Kind::Input`](crate::error::Kind::Input) if writing fails.
pub(crate) fn truth(corpus: &Corpus, path: &Path, existing: OnExisting) -> Result<Written> {
    check_free(path, existing)?;
    let mut rows = 0;
    let bytes = whole(path, existing, |partial| {
        let mut writer =
            ArrowWriter::try_new(partial, truth_batch(corpus, &[])?.schema(), Some(properties(path)))?;
        let mut planted = corpus.all_planted();
        loop {
            let some: Vec<Planted> = planted.by_ref().take(BATCH).collect();
            if some.is_empty() {
                writer.close()?;
                return Ok(());
            }
            rows += some.len() as u64;
            writer.write(&truth_batch(corpus, &some)?)?;
        }
    })?;
    Ok(Written { files: vec![path.to_owned()], rows, bytes })
}

fn truth_batch(corpus: &Corpus, planted: &[Planted]) -> Result<RecordBatch> {
    let ids = |number: fn(&Planted) -> u64| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(planted.iter().map(|p| corpus.id(number(p)))))
    };
    let size = corpus.settings().shingle as u64;
    let columns: [(&str, ArrayRef); 5] = [
        ("id_a", ids(|p| p.document.min(p.of))),
        ("id_b", ids(|p| p.document.max(p.of))),
        ("kind", Arc::new(StringArray::from_iter_values(planted.iter().map(|p| p.kind.name())))),
        ("jaccard", Arc::new(Float64Array::from_iter_values(planted.iter().map(|p| p.jaccard)))),
        ("size", Arc::new(UInt64Array::from_iter_values(planted.iter().map(|_| size)))),
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
        (true, OnExisting::Overwrite) if ours::is_generated(path) => Ok(()),
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

/// Calls `write` with a file that gets its name when it is complete, and returns its bytes.
fn whole(path: &Path, existing: OnExisting, write: impl FnOnce(File) -> Result<()>) -> Result<u64> {
    let (partial, file) = Partial::create(path, existing)?;
    write(file).context(|| format!("cannot write {}", path.display()))?;
    partial.finish()
}

/// A file that gets its name when it is complete, and is removed if it never is.
pub(in crate::lab) struct Partial {
    path: PathBuf,
    partial: PathBuf,
    existing: OnExisting,
}

impl Partial {
    /// Creates the file that is to get the name `path`.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if it exists; [`Kind::Input`](crate::error::Kind::Input) if it cannot be created.
    pub(in crate::lab) fn create(path: &Path, existing: OnExisting) -> Result<(Self, File)> {
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
        Ok((Self { path: path.to_owned(), partial, existing }, file))
    }

    /// Gives the file its name, and returns its bytes.
    ///
    /// # Errors
    /// As [`check_free`]; [`Kind::Input`](crate::error::Kind::Input) if it cannot be renamed.
    pub(in crate::lab) fn finish(self) -> Result<u64> {
        let cannot = || format!("cannot write {}", self.path.display());
        check_free(&self.path, self.existing)?;
        std::fs::rename(&self.partial, &self.path).context(cannot)?;
        std::fs::metadata(&self.path).map(|file| file.len()).context(cannot)
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

fn write_range(
    corpus: &Corpus,
    mut documents: Range<u64>,
    file: File,
    properties: WriterProperties,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<()> {
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
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties))?;
    while rows.num_rows() > 0 {
        writer.write(&rows)?;
        if writer.in_progress_size() >= ROW_GROUP_BYTES {
            writer.flush()?;
        }
        advanced(rows.num_rows() as u64);
        rows = batch()?;
    }
    writer.close()?;
    Ok(())
}

/// No dictionaries: ids and texts differ. The footer has the name of this program and of the file.
pub(in crate::lab) fn properties(file: &Path) -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(ours::generated_as(file))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build()
}
