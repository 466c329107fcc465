//! Files of an output on this machine: put at once, and on the disk before their names are.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// Writes a file that is not there yet.
///
/// # Errors
/// [`object_store::Error::AlreadyExists`] where it is there, or what the system says.
pub(super) async fn create(folder: &Path, inside: &str, bytes: &Bytes) -> object_store::Result<()> {
    put(folder, inside, bytes, |staged, path| staged.persist_noclobber(path).map_err(|e| e.error)).await
}

/// Writes a file, replacing what is there.
///
/// # Errors
/// What the system says.
pub(super) async fn replace(folder: &Path, inside: &str, bytes: &Bytes) -> object_store::Result<()> {
    put(folder, inside, bytes, |staged, path| staged.persist(path).map_err(|e| e.error)).await
}

async fn put(
    folder: &Path,
    inside: &str,
    bytes: &Bytes,
    name: impl FnOnce(tempfile::NamedTempFile, &Path) -> io::Result<File> + Send + 'static,
) -> object_store::Result<()> {
    let (path, bytes) = (folder.join(inside), bytes.clone());
    let shown = path.display().to_string();
    let written = tokio::task::spawn_blocking(move || {
        let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
        let mut staged = staged_in(&parent, "")?;
        staged.write_all(&bytes)?;
        // First the bytes and then the name: after a power cut no name stands for less than was written.
        staged.as_file().sync_all()?;
        name(staged, &path)?;
        sync_folder(&parent)
    });
    let error = match written.await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(error) => io::Error::other(error),
    };
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

/// A new file in `folder`, which is made if it is not there. Its name bears `writer`.
fn staged_in(folder: &Path, writer: &str) -> io::Result<tempfile::NamedTempFile> {
    std::fs::create_dir_all(folder)?;
    let prefix = format!("{}{writer}", STAGED.0);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(STAGED.1);
    // As with any new file, the umask decides who may read it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// A file that has not got its name. Dropped, it is removed.
pub(super) struct Staged {
    staged: tempfile::TempPath,
    path: PathBuf,
}

/// Begins a file that will be at `path`. Until then its name bears `writer`.
///
/// # Errors
/// What the system says.
pub(super) async fn stage(path: PathBuf, writer: String) -> io::Result<(File, Staged)> {
    blocking(move || {
        let (file, staged) = staged_in(path.parent().unwrap_or(Path::new("/")), &writer)?.into_parts();
        Ok((file, Staged { staged, path }))
    })
    .await
}

impl Staged {
    /// Gives the file its name, unless another file has it. Its bytes must be on the disk by then.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or what the system says.
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

/// What stands before and behind the random part of a file's name while it is written.
const STAGED: (&str, &str) = (".resemblance-", ".tmp");

/// Whether a file has a name that files have while they are written, in the name of `writer`; that of others is empty.
pub(super) fn is_staged(name: &str, writer: &str) -> bool {
    let rest = name.strip_prefix(STAGED.0).and_then(|rest| rest.strip_prefix(writer));
    let random = rest.and_then(|rest| rest.strip_suffix(STAGED.1));
    random.is_some_and(|random| random.len() == 6 && random.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Puts the names that a folder has on the disk, where the system has that for folders.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Every file under a folder, to any depth, with its size, sorted. Links are not followed. A folder that is not there has
/// none.
///
/// # Errors
/// What the system says, with the folder.
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
            // A file may go while its folder is read.
            _ => found.extend(entry.metadata().ok().map(|meta| (entry.path(), meta.len()))),
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a file. One that is gone already is not an error.
///
/// # Errors
/// What the system says.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes a folder and those in it as far as they are empty.
pub(super) fn remove_empty(folder: &Path) {
    if let Ok(entries) = std::fs::read_dir(folder) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_empty(&entry.path());
            }
        }
    }
    // A folder that is not empty stays, which is right.
    let _ = std::fs::remove_dir(folder);
}
