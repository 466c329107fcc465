//! Writes the Parquet files of a corpus: the documents and the table of planted documents.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, StringBuilder, UInt64Array};
use parquet::file::properties::WriterProperties;

use super::{Corpus, CorpusDocument};
use crate::error::{Context, Error, Result};
use crate::output::{NewFile, ownership};
use crate::pipeline::OnExisting;

const ROW_GROUP: usize = 50_000;
/// The approximate maximum number of rows to generate at a time.
const BATCH: usize = 4_096;
/// The approximate maximum number of bytes of text that are generated at a time.
const BATCH_BYTES: usize = 4 << 20;

/// The maximum number of files in a corpus. Up to this number, file names sort like their numbers.
pub(crate) const MAX_FILES: usize = 100_000;

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusFiles {
    /// The files, in the order of their rows.
    pub files: Vec<PathBuf>,
    /// The number of rows in all files.
    pub rows: u64,
    /// The number of bytes in all files.
    pub bytes: u64,
}

/// Writes the documents of `corpus` as Parquet files with the columns `id` and `text`.
///
/// If `out` ends in `.parquet`, it becomes the only file. Otherwise `out` becomes a folder with the files `part-00000.parquet`,
/// `part-00001.parquet` and so on. Each of the `files` files contains the same number of consecutive documents, and gets its name when it
/// is complete. Several threads call `advanced` with the number of documents that they wrote since their last call.
/// [`OnExisting::Overwrite`] replaces the files of an earlier corpus and keeps other files.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if `out` must not be overwritten, or if `files` does not fit `out`.
/// Returns [`Kind::Input`](crate::error::Kind::Input) if writing fails.
pub fn write_documents(
    corpus: &Corpus,
    out: &Path,
    files: usize,
    existing: OnExisting,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<CorpusFiles> {
    let paths = paths(out, files)?;
    if paths[0] != out {
        clear_folder(out, existing)?;
    }
    let documents = corpus.documents;
    let bound = |file: usize| (u128::from(documents) * file as u128 / paths.len() as u128) as u64;
    let write =
        |file: usize| write_range(corpus, bound(file)..bound(file + 1), &paths[file], existing, advanced);
    let bytes = in_parallel(paths.len(), &write)?;
    Ok(CorpusFiles { files: paths, rows: documents, bytes })
}

/// Writes the table of planted documents as a Parquet file, one row per planted document. `id_a` and `id_b` are the ids of the document and
/// its original, in ascending order. `kind` is `copy`, `near`, `contained` or `identical`. `jaccard` is the exact similarity, and `size` is
/// the number of words in a shingle. Returns the errors of [`check_free`], and `Kind::Input` if writing fails.
pub(crate) fn write_truth(corpus: &Corpus, path: &Path, existing: OnExisting) -> Result<CorpusFiles> {
    let size = corpus.settings.shingle;
    let mut file = create(path, existing, &truth_batch(Vec::new(), size)?)?;
    let pair = |planted: CorpusDocument| PlantedPair {
        ids: [corpus.id(planted.document), corpus.id(planted.original)],
        kind: planted.kind.name(),
        jaccard: planted.jaccard,
    };
    let (mut rows, mut pairs) = (0, corpus.all_planted().map(pair).peekable());
    while pairs.peek().is_some() {
        let batch = truth_batch(pairs.by_ref().take(BATCH).collect(), size)?;
        rows += batch.num_rows() as u64;
        file.write(&batch)?;
    }
    Ok(CorpusFiles { files: vec![path.to_owned()], rows, bytes: finish(file, existing)? })
}

pub(in crate::lab) struct PlantedPair {
    pub(in crate::lab) ids: [String; 2],
    pub(in crate::lab) kind: &'static str,
    pub(in crate::lab) jaccard: f64,
}

/// Returns `pairs` as rows of the table of planted documents. `size` is the number of words in a shingle.
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
    if out.extension().is_none_or(|extension| extension != "parquet") {
        return Ok((0..files).map(|file| out.join(format!("part-{file:05}.parquet"))).collect());
    }
    if files > 1 {
        return Err(Error::job(format!(
            "files is {files}, but {} is one file; name a folder, or leave files at 1",
            out.display()
        )));
    }
    Ok(vec![out.to_owned()])
}

/// Refuses a folder and an existing file with `Kind::Job`. [`OnExisting::Overwrite`] accepts a file that this program wrote under this
/// name.
pub(crate) fn check_free(path: &Path, existing: OnExisting) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::job(format!("{shown} is a folder: expected the name of a file")));
    }
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    match existing {
        OnExisting::Fail => Err(Error::job(format!("{shown} is there already; replace it with --overwrite"))),
        OnExisting::Overwrite if ownership::is_generated(path) => Ok(()),
        OnExisting::Overwrite => Err(Error::job(format!(
            "{shown} was not written by generate under this name, so --overwrite does not replace it: move it away, or choose \
             another place"
        ))),
    }
}

/// Creates `folder`, or removes the files of an earlier corpus from it.
fn clear_folder(folder: &Path, existing: OnExisting) -> Result<()> {
    let shown = folder.display();
    if !folder.exists() {
        return std::fs::create_dir_all(folder).context(|| format!("cannot create the folder {shown}"));
    }
    if !folder.is_dir() {
        return Err(Error::job(format!("{shown} is a file; name a folder, or a file that ends in .parquet")));
    }
    if existing == OnExisting::Fail {
        return Err(Error::job(format!("{shown} is there already; replace it with --overwrite")));
    }
    let cannot = || format!("cannot replace what is in {shown}");
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
    earlier.iter().try_for_each(std::fs::remove_file).context(cannot)
}

/// Creates an empty file of a corpus, for rows like `rows`.
pub(in crate::lab) fn create(path: &Path, existing: OnExisting, rows: &RecordBatch) -> Result<NewFile> {
    check_free(path, existing)?;
    // Ids and texts are distinct, so dictionaries are useless. The footer contains the names of this program and of the file.
    let properties = WriterProperties::builder()
        .set_created_by(ownership::generated_as(path))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(ROW_GROUP));
    NewFile::create(path, rows.schema(), properties)
}

/// Completes a file of a corpus, gives it its name, and returns its number of bytes.
pub(in crate::lab) fn finish(file: NewFile, existing: OnExisting) -> Result<u64> {
    check_free(&file.path, existing)?;
    file.finish(existing == OnExisting::Overwrite)
}

/// Calls `work` with each number below `count` on up to one thread per core. Returns the sum of the results.
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
        let panicked = |_| Error::bug("a thread that writes documents panicked");
        workers.into_iter().map(|worker| worker.join().map_err(panicked)?).sum()
    })
}

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
        documents_batch(ids.finish(), texts.finish())
    };
    let mut rows = batch()?;
    let mut file = create(path, existing, &rows)?;
    while rows.num_rows() > 0 {
        file.write(&rows)?;
        advanced(rows.num_rows() as u64);
        rows = batch()?;
    }
    finish(file, existing)
}

pub(in crate::lab) fn documents_batch(ids: StringArray, texts: StringArray) -> Result<RecordBatch> {
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
    Ok(RecordBatch::try_from_iter(columns)?)
}
