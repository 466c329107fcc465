//! Atomic writes to the local disk. A file is synced before it gets its final name.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterPropertiesBuilder;
use walkdir::WalkDir;

use crate::error::{Context, Result};

/// Writes a file. Until the file is complete, its name contains `writer`. Replaces an existing file only if `replaces`.
pub(super) async fn put(
    path: PathBuf,
    writer: &str,
    bytes: &Bytes,
    replaces: bool,
) -> object_store::Result<()> {
    let (writer, bytes) = (writer.to_owned(), bytes.clone());
    let shown = path.display().to_string();
    let written = blocking(move || {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let mut staged = staged_in(parent, &writer)?;
        staged.write_all(&bytes)?;
        persist(staged, &path, replaces)?;
        sync_folder(parent)
    });
    let Err(error) = written.await else { return Ok(()) };
    Err(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            object_store::Error::AlreadyExists { path: shown, source: Box::new(error) }
        }
        _ => object_store::Error::Generic {
            store: "local disk",
            source: Box::new(io::Error::new(error.kind(), format!("{shown}: {error}"))),
        },
    })
}

/// Gives a complete file its name. Replaces an existing file only if `replaces`. The bytes are synced before the rename, so that a power
/// cut leaves no incomplete file with this name.
pub(crate) fn persist(complete: tempfile::NamedTempFile, path: &Path, replaces: bool) -> io::Result<File> {
    complete.as_file().sync_all()?;
    let named = if replaces { complete.persist(path) } else { complete.persist_noclobber(path) };
    Ok(named?)
}

/// Creates a temporary file in `folder`, and the folder if it is missing. The name contains `writer`.
fn staged_in(folder: &Path, writer: &str) -> io::Result<tempfile::NamedTempFile> {
    std::fs::create_dir_all(folder)?;
    partial_file(folder, writer)
}

/// Creates a temporary file in `folder` for incomplete content. The name contains `writer`. Dropping the value removes the file.
pub(crate) fn partial_file(folder: &Path, writer: &str) -> io::Result<tempfile::NamedTempFile> {
    let prefix = format!("{}{writer}", STAGED.0);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(STAGED.1);
    // As for any new file, the umask determines who may read the file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// The number of encoded bytes at which a row group of a [`NewFile`] ends early. Each open file holds up to this many bytes in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A Parquet file that gets its name when it is complete. Dropping the value removes an incomplete file.
pub(crate) struct NewFile {
    writer: ArrowWriter<tempfile::NamedTempFile>,
    pub(crate) path: PathBuf,
}

impl NewFile {
    /// Creates an empty file that [`Self::finish`] renames to `path`. Fails with `Kind::Input` if it cannot be created.
    pub(crate) fn create(path: &Path, schema: SchemaRef, by: WriterPropertiesBuilder) -> Result<Self> {
        let partial = partial_file(path.parent().unwrap_or(Path::new("")), "");
        let partial = partial.context(|| format!("cannot write {}", path.display()))?;
        let properties = by.set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let writer = ArrowWriter::try_new(partial, schema, Some(properties))?;
        Ok(Self { writer, path: path.to_owned() })
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let cannot = || format!("cannot write {}", self.path.display());
        self.writer.write(rows).context(cannot)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush().context(cannot)?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name. Replaces an existing file only if `replaces`. Returns the number of bytes. Fails with
    /// `Kind::Input` if the file cannot be completed or renamed.
    pub(crate) fn finish(self, replaces: bool) -> Result<u64> {
        let Self { writer, path } = self;
        let cannot = || format!("cannot write {}", path.display());
        let partial = writer.into_inner().context(cannot)?;
        let file = persist(partial, &path, replaces).context(cannot)?;
        file.metadata().map(|file| file.len()).context(cannot)
    }
}

/// A file without its final name. Dropping the value removes the file.
pub(super) struct Staged {
    staged: tempfile::TempPath,
    path: PathBuf,
}

/// Creates a file that is later renamed to `path`. Until then, its name contains `writer`.
pub(super) async fn stage(path: PathBuf, writer: String) -> io::Result<(File, Staged)> {
    blocking(move || {
        let (file, staged) = staged_in(path.parent().unwrap_or(Path::new("/")), &writer)?.into_parts();
        Ok((file, Staged { staged, path }))
    })
    .await
}

impl Staged {
    /// Renames the file, whose bytes the caller has synced. Returns [`io::ErrorKind::AlreadyExists`] if the final name is taken.
    pub(super) async fn persist(self) -> io::Result<()> {
        blocking(move || {
            self.staged.persist_noclobber(&self.path).map_err(|e| e.error)?;
            sync_folder(self.path.parent().unwrap_or(Path::new("/")))
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// The prefix and the suffix of the name of an unfinished file.
const STAGED: (&str, &str) = (".resemblance-", ".tmp");

/// Whether `name` is the name of an unfinished file of `writer`. `writer` can be empty.
pub(super) fn is_staged(name: &str, writer: &str) -> bool {
    let rest = name.strip_prefix(STAGED.0).and_then(|rest| rest.strip_prefix(writer));
    let random = rest.and_then(|rest| rest.strip_suffix(STAGED.1));
    random.is_some_and(|random| random.len() == 6 && random.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Syncs the entries of a folder, if the system supports that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Lists all files under a folder recursively, with their sizes, sorted by path. Does not follow links. A missing folder counts as empty.
pub(super) fn files_under(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", folder.display()))),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(files_under(&entry.path())?),
            // A file may be removed while its folder is being read.
            _ => found.extend(entry.metadata().ok().map(|meta| (entry.path(), meta.len()))),
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a file. It is not an error if the file is already gone.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes a folder and its subfolders if they are empty.
pub(super) fn remove_empty(folder: &Path) {
    let entries = WalkDir::new(folder).contents_first(true).into_iter().flatten();
    for folder in entries.filter(|entry| entry.file_type().is_dir()) {
        // If the folder is not empty, the call fails and the folder is kept.
        let _ = std::fs::remove_dir(folder.path());
    }
}
