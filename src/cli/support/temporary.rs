//! Folders for the tables of commands whose tables are removed when they end, and the error for a full disk: which folders are on it,
//! how much is free there, and how much is needed.

use std::path::{Component, Path, PathBuf};

use crate::address::{self, local_path};
use crate::cli::support::print;
use crate::engine::spills::{self, SpillFolder};
use crate::environment::Environment;
use crate::error::library_errors::is_full_disk;
use crate::error::{Error, Result, chain};
use crate::{job, machine};

/// Folders for the tables while the command runs: the system's folder for temporary files, then others.
pub(in crate::cli) fn folders() -> Vec<PathBuf> {
    let mut folders = vec![std::env::temp_dir()];
    folders.extend(Environment::of_process().cache_folders());
    if cfg!(unix) {
        folders.extend(["/var/tmp", "/tmp", "/dev/shm"].map(PathBuf::from));
    }
    folders
}

/// A new folder in the first of `folders` that lies in none of `paths`, because files written below a searched folder would be
/// searched too.
pub(in crate::cli) fn apart(paths: &[String], folders: Vec<PathBuf>) -> Result<SpillFolder> {
    let searched = paths.iter().filter_map(|path| searched_folder(path)).collect::<Vec<_>>();
    let mut failed = None;
    for folder in folders {
        // A folder that is missing or cannot be read cannot be written to.
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

/// The folder that is searched for `path`, with links resolved; `None` for a URL of another machine.
fn searched_folder(path: &str) -> Option<PathBuf> {
    let path = match address::scheme(path) {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
            address::url(path).ok()?.to_file_path().ok()?
        }
        Some(_) => return None,
        None => PathBuf::from(path),
    };
    // Of a pattern, the folder before its first wildcard.
    let wild = |part: Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let plain: PathBuf = match path.exists() {
        true => path,
        false => path.components().take_while(|part| !wild(*part)).collect(),
    };
    local_path::absolute(plain).ok()
}

/// A folder that a command writes to.
#[derive(Debug, Clone)]
pub(in crate::cli) struct WriteFolder {
    /// The key or option that names it.
    pub setting: &'static str,
    pub folder: PathBuf,
}

impl WriteFolder {
    /// The local folder that `url` names; `None` for one in an object store.
    pub(in crate::cli) fn of_url(setting: &'static str, url: &str) -> Option<Self> {
        let folder = match address::scheme(url) {
            None => PathBuf::from(url),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
                address::url(url).ok()?.to_file_path().ok()?
            }
            Some(_) => return None,
        };
        Some(Self { setting, folder })
    }

    /// The folder for spills.
    pub(in crate::cli) fn of_spills(engine: &job::Engine) -> Self {
        let folder = engine.spill.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
        Self { setting: "engine.spill", folder }
    }
}

/// Whether an error comes from a full disk.
pub(in crate::cli) fn is_full(error: &Error) -> bool {
    chain(error).any(|cause| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(kind, Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
            || is_full_disk(&cause.to_string())
    })
}

/// The error of a command that writes to `places`, and `needed` bytes in all if that is known. If a disk is full, it says so first.
pub(in crate::cli) fn explain(error: Error, places: &[WriteFolder], needed: Option<u64>) -> Error {
    if !is_full(&error) {
        return error;
    }
    let free: Vec<String> = places.iter().map(free).collect();
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

fn free(place: &WriteFolder) -> String {
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
    fn the_tables_are_kept_apart_from_what_is_searched() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for folder in ["searched/tmp", "searched/deeper", "elsewhere"] {
            std::fs::create_dir_all(real.join(folder)).unwrap();
        }
        let folders =
            || ["searched/tmp", "missing", "searched", "elsewhere"].map(|name| real.join(name)).to_vec();
        let path = |name: &str| real.join(name).to_string_lossy().into_owned();
        let chosen = |paths: &[String]| {
            apart(paths, folders()).map(|folder| {
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
    fn a_full_disk_is_named_with_its_free_space() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("not/yet").display().to_string();
        let places = [WriteFolder::of_url("output.url", &url).unwrap()];
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let said = explain(Error::from(full), &places, Some(3 << 30));
        assert_eq!(said.kind(), Kind::Input);
        let text = said.to_string();
        assert!(text.starts_with("a disk is full: ") && text.contains("not/yet (output.url)"), "{text}");
        assert!(text.contains("about 3.0 GiB are needed"), "{text}");
        let other = explain(Error::input("the file is gone"), &places, None);
        assert_eq!(other.to_string(), "the file is gone");
        assert!(WriteFolder::of_url("output.url", "s3://bucket/a").is_none());
        assert!(WriteFolder::of_url("output.url", "file:///tmp/a").is_some());
    }
}
