//! Folders for the tables of commands whose tables are removed when they end.

use std::path::{Component, PathBuf};

use crate::address;
use crate::address::local_path;
use crate::engine::spills::{self, SpillFolder};
use crate::environment::Environment;
use crate::error::{Error, Result};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
