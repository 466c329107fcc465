//! Local files: files that the user names, temporary folders, and the error for a full disk.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};

use crate::address;
use crate::cli::screen::print;
use crate::engine::spills::{self, SpillFolder};
use crate::environment::Environment;
use crate::error::library_errors::is_full_disk;
use crate::error::{Context, Error, Result, chain};
use crate::job::EngineSettings;
use crate::machine;
use crate::output::{partial_file, persist};

/// Identifies a kind of file that this program writes. A command replaces only files of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMark {
    pub(crate) beginning: &'static str,
    /// The noun for files of this kind, in messages.
    pub(crate) noun: &'static str,
}

impl FileMark {
    fn is_in(self, path: &Path) -> io::Result<bool> {
        let mut beginning = Vec::new();
        File::open(path)?.take(self.beginning.len() as u64).read_to_end(&mut beginning)?;
        Ok(beginning == self.beginning.as_bytes())
    }
}

/// A file to write, which an argument names. An existing file is replaced only if it is empty or begins with the mark. Links are not
/// followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnFile {
    argument: &'static str,
    path: PathBuf,
    mark: FileMark,
}

impl OwnFile {
    /// Checks that the file `path`, which `argument` names, can be written. Fails with `Kind::Job` if its folder does not exist, or if
    /// the file exists and must not be replaced.
    pub(crate) fn at(argument: &'static str, path: impl Into<PathBuf>, mark: FileMark) -> Result<Self> {
        let path = path.into();
        if path.file_name().is_none() {
            return Err(Error::job(format!("{argument}: expected the path of a file")));
        }
        if !folder(&path).is_dir() {
            let folder = folder(&path).display();
            return Err(Error::job(format!("{argument}: there is no folder {folder}: create it first")));
        }
        let file = Self { argument, path, mark };
        file.exists()?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file exists. Fails with `Kind::Job` if the file exists and must not be replaced.
    fn exists(&self) -> Result<bool> {
        let Self { argument, path, mark } = self;
        let shown = path.display();
        let cannot = || format!("{argument}: cannot read {shown}");
        let found = match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            found => found.context(cannot)?,
        };
        let fault = match found {
            found if found.is_dir() => "is a folder: expected a file".to_owned(),
            found if found.is_symlink() => "is a link: name the file itself".to_owned(),
            found if !found.is_file() => "is no plain file: name another one".to_owned(),
            found if found.len() == 0 || mark.is_in(path).context(cannot)? => return Ok(true),
            _ => format!("exists and is not {}: name another file, or remove it", mark.noun),
        };
        Err(Error::job(format!("{argument}: {shown} {fault}")))
    }

    pub(crate) fn write(&self, text: &str) -> Result<()> {
        write(&self.path, text.as_bytes(), self.exists()?)
    }
}

/// Writes a file atomically. An existing file is replaced if `replaces` is set, and otherwise an error.
pub(crate) fn write(path: &Path, content: &[u8], replaces: bool) -> Result<()> {
    let written = || -> io::Result<()> {
        let mut file = partial_file(folder(path), "")?;
        file.write_all(content)?;
        persist(file, path, replaces).map(drop)
    };
    written().context(|| format!("cannot write {}", path.display()))
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns folders in which a temporary folder can be created. The system's folder for temporary files comes first.
pub(crate) fn temporary_folders() -> Vec<PathBuf> {
    let mut folders = vec![std::env::temp_dir()];
    folders.extend(Environment::process().cache_folders());
    if cfg!(unix) {
        folders.extend(["/var/tmp", "/tmp", "/dev/shm"].map(PathBuf::from));
    }
    folders
}

/// Creates a temporary folder in the first of `folders` that is outside all `paths`. Inside a path, its files would be read as documents.
pub(crate) fn temporary_folder_outside(paths: &[String], folders: Vec<PathBuf>) -> Result<SpillFolder> {
    let searched = paths.iter().filter_map(|path| searched_folder(path)).collect::<Vec<_>>();
    let mut failed = None;
    for folder in folders {
        let Ok(folder) = folder.canonicalize() else { continue };
        if searched.iter().any(|searched| folder.starts_with(searched)) {
            continue;
        }
        spills::sweep(&folder);
        match SpillFolder::create(&folder) {
            Ok(folder) => return Ok(folder),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    let error = Error::input(
        "every folder for temporary files lies inside the folders to search: set TMPDIR to a folder outside of them",
    );
    Err(match failed {
        Some(e) => error.because(e),
        None => error,
    })
}

/// Returns the local folder in which the files of `path` are searched, with links resolved.
fn searched_folder(path: &str) -> Option<PathBuf> {
    let path = address::local_path(path)?;
    // The files of a pattern are searched in the folder before the first wildcard.
    let wild = |part: Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let plain: PathBuf =
        if path.exists() { path } else { path.components().take_while(|part| !wild(*part)).collect() };
    address::absolute(plain).ok()
}

#[derive(Debug, Clone)]
pub(crate) struct WriteFolder {
    /// The key or option that sets the folder.
    pub setting: &'static str,
    pub folder: PathBuf,
}

impl WriteFolder {
    /// Returns the folder at `url`, unless it is in an object store.
    pub(crate) fn from_url(setting: &'static str, url: &str) -> Option<Self> {
        Some(Self { setting, folder: address::local_path(url)? })
    }

    pub(crate) fn spills(engine: &EngineSettings) -> Self {
        let folder = engine.spill.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
        Self { setting: "engine.spill", folder }
    }
}

pub(crate) fn is_disk_full(error: &Error) -> bool {
    chain(error).any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
            || is_full_disk(&cause.to_string())
    })
}

/// Explains an error that a full disk caused: states the free space of `places`, and the `needed` bytes if they are known. Other errors
/// are returned unchanged.
pub(crate) fn explain_full_disk(error: Error, places: &[WriteFolder], needed: Option<u64>) -> Error {
    if !is_disk_full(&error) {
        return error;
    }
    let free: Vec<String> = places.iter().map(free_space).collect();
    let needed =
        needed.map(|bytes| format!("about {} are needed; ", print::bytes(bytes))).unwrap_or_default();
    let settings: Vec<&str> = places.iter().map(|place| place.setting).collect();
    let message = format!(
        "a disk is full: {}; {needed}free some space, or choose another folder ({}), and run the same command again",
        free.join(", "),
        settings.join(", ")
    );
    Error::new(error.kind(), message).because(error)
}

fn free_space(place: &WriteFolder) -> String {
    let WriteFolder { setting, folder } = place;
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let free = machine::free_bytes(there).map_or("an unknown amount".to_owned(), print::bytes);
    format!("{free} free in {} ({setting})", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn temporary_folders_are_outside_searched_paths() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for folder in ["searched/tmp", "searched/deeper", "elsewhere"] {
            std::fs::create_dir_all(real.join(folder)).unwrap();
        }
        let folders =
            || ["searched/tmp", "missing", "searched", "elsewhere"].map(|name| real.join(name)).to_vec();
        let path = |name: &str| real.join(name).to_string_lossy().into_owned();
        let chosen = |paths: &[String]| {
            temporary_folder_outside(paths, folders()).map(|folder| {
                folder.path().ancestors().nth(2).unwrap().strip_prefix(&real).unwrap().to_owned()
            })
        };
        assert_eq!(chosen(&[path("searched/deeper")]).unwrap(), PathBuf::from("searched/tmp"));
        for searched in
            ["searched", "searched/../searched/", "searched/*.txt", "searched/t*", "searched/[a]/b"]
        {
            assert_eq!(chosen(&[path(searched)]).unwrap(), PathBuf::from("elsewhere"), "{searched}");
        }
        let url = format!("file://{}", path("searched"));
        assert_eq!(chosen(&[url, "s3://bucket/a".into()]).unwrap(), PathBuf::from("elsewhere"));
        let error = chosen(&[path("elsewhere"), path("")]).unwrap_err();
        assert!(error.to_string().contains("TMPDIR"), "{error}");
    }

    #[test]
    fn the_error_of_a_full_disk_has_its_free_space() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("not/yet").display().to_string();
        let places = [WriteFolder::from_url("output.url", &url).unwrap()];
        let full = io::Error::from(ErrorKind::StorageFull);
        let error = explain_full_disk(Error::from(full), &places, Some(3 << 30));
        assert_eq!(error.kind(), Kind::Input);
        let text = error.to_string();
        assert!(text.starts_with("a disk is full: ") && text.contains("not/yet (output.url)"), "{text}");
        assert!(text.contains("about 3.0 GiB are needed"), "{text}");
        let other = explain_full_disk(Error::input("the file is gone"), &places, None);
        assert_eq!(other.to_string(), "the file is gone");
        assert!(WriteFolder::from_url("output.url", "s3://bucket/a").is_none());
        assert!(WriteFolder::from_url("output.url", "file:///tmp/a").is_some());
    }
}
