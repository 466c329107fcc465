//! Files that commands write where the user says: new ones, or those that an earlier command wrote. No other file is replaced,
//! and no link is followed.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::output::partial_file;

/// The mark of a kind of file, by which a later command recognises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct FileMark {
    /// The first characters of every such file.
    pub(in crate::cli) beginning: &'static str,
    /// The kind in words.
    pub(in crate::cli) what: &'static str,
}

impl FileMark {
    fn is_in(self, path: &Path) -> io::Result<bool> {
        let mut beginning = Vec::new();
        File::open(path)?.take(self.beginning.len() as u64).read_to_end(&mut beginning)?;
        Ok(beginning == self.beginning.as_bytes())
    }
}

/// A file that an argument names.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct OwnFile {
    argument: &'static str,
    path: PathBuf,
    mark: FileMark,
}

impl OwnFile {
    /// The file `path`, which `argument` names.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if its folder does not exist, or the file does and is not ours.
    pub(in crate::cli) fn at(
        argument: &'static str,
        path: impl Into<PathBuf>,
        mark: FileMark,
    ) -> Result<Self> {
        let path = path.into();
        if path.file_name().is_none() {
            return Err(Error::job(format!("{argument}: expected the path of a file")));
        }
        if !folder(&path).is_dir() {
            let folder = folder(&path).display();
            return Err(Error::job(format!("{argument}: there is no folder {folder}: create it first")));
        }
        let file = Self { argument, path, mark };
        file.is_there()?;
        Ok(file)
    }

    /// The path.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file exists.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if it is not ours, nor empty.
    fn is_there(&self) -> Result<bool> {
        let Self { argument, path, mark } = self;
        let shown = path.display();
        let cannot = || format!("{argument}: cannot read {shown}");
        let found = match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            found => found.context(cannot)?,
        };
        let what = match found {
            found if found.is_dir() => "is a folder: expected a file".to_owned(),
            found if found.is_symlink() => "is a link: name the file itself".to_owned(),
            found if !found.is_file() => "is no plain file: name another one".to_owned(),
            found if found.len() == 0 || mark.is_in(path).context(cannot)? => return Ok(true),
            _ => format!("exists and is not {}: name another file, or remove it", mark.what),
        };
        Err(Error::job(format!("{argument}: {shown} {what}")))
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// As [`Self::at`], or when it cannot be written.
    pub(in crate::cli) fn write(&self, text: &str) -> Result<()> {
        write(&self.path, text.as_bytes(), self.is_there()?)
    }
}

/// Writes a file atomically, and over one of its name only if it `replaces` it.
///
/// # Errors
/// When it cannot be written.
pub(in crate::cli) fn write(path: &Path, content: &[u8], replaces: bool) -> Result<()> {
    let written = || -> io::Result<()> {
        // Collectors of files match no name of this ending. They may be other users.
        let mut file = partial_file(folder(path), "")?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        if replaces {
            file.persist(path)?;
        } else {
            file.persist_noclobber(path)?;
        }
        Ok(())
    };
    written().context(|| format!("cannot write {}", path.display()))
}

/// The folder of a file.
pub(in crate::cli) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
