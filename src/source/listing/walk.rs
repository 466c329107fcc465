//! Lists folders of this machine.
//!
//! The engine's store of local files silently leaves out special files and broken links, and fails at the first name that is not
//! UTF-8. Here every entry is listed.

use std::io;
use std::path::{Path as LocalPath, PathBuf};
use std::time::SystemTime;

use object_store::ObjectMeta;
use object_store::path::Path;
use walkdir::WalkDir;

use crate::error::{Context, Error, Result};
use crate::source::local_names::escaped;
use crate::source::local_names::local_path;

/// An entry of a folder, with its path relative to that folder.
#[derive(Debug)]
pub(super) struct FolderEntry {
    pub name: String,
    pub what: EntryType,
}

/// The type of an entry.
#[derive(Debug)]
pub(super) enum EntryType {
    File(ObjectMeta),
    /// A file or folder whose name starts with `.` or `_`; such folders are not searched.
    Hidden {
        folder: bool,
    },
    /// A named pipe, a socket or a device.
    Special,
    /// A broken symbolic link.
    DanglingLink,
    /// A symbolic link to a folder that it is in.
    LoopingLink,
}

/// The file at `location` of the local disk; `None` if there is a folder or nothing.
///
/// # Errors
/// When it cannot be accessed.
pub(super) async fn file(location: &Path) -> io::Result<Option<ObjectMeta>> {
    let Some(path) = local_path(location.as_ref()) else { return Ok(None) };
    match tokio::fs::metadata(path).await {
        Ok(found) if found.is_file() => Ok(Some(meta(location.clone(), found.len(), found.modified()?))),
        Ok(_) => Ok(None),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Everything below `prefix` of the local disk but folders, in no order; nothing where there is no such folder.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where a folder or file cannot be accessed.
pub(super) async fn below(prefix: &Path) -> Result<Vec<FolderEntry>> {
    let Some(root) = local_path(prefix.as_ref()) else {
        return Err(Error::bug(format!("`{prefix}` is not a path on this machine")));
    };
    let prefix = prefix.as_ref().to_owned();
    tokio::task::spawn_blocking(move || walk(&root, &prefix))
        .await
        .map_err(|e| Error::bug("listing a folder did not end").because(e))?
}

fn walk(root: &LocalPath, prefix: &str) -> Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    let mut walk = WalkDir::new(root).follow_links(true).min_depth(1).into_iter();
    while let Some(met) = walk.next() {
        let (path, what) = match met {
            Ok(entry) => {
                let kind = entry.file_type();
                let name = entry.file_name().as_encoded_bytes();
                let what = if name.starts_with(b".") || name.starts_with(b"_") {
                    if kind.is_dir() {
                        walk.skip_current_dir();
                    }
                    EntryType::Hidden { folder: kind.is_dir() }
                } else if kind.is_dir() {
                    continue;
                } else if kind.is_file() {
                    let shown = || format!("`{}` cannot be accessed", entry.path().display());
                    let found = entry.metadata().map_err(io::Error::from).context(shown)?;
                    let modified = found.modified().context(shown)?;
                    EntryType::File(meta(location(prefix, root, entry.path())?, found.len(), modified))
                } else {
                    EntryType::Special
                };
                (entry.into_path(), what)
            }
            Err(error) => match unfollowed(root, error)? {
                Some(met) => met,
                None => continue,
            },
        };
        entries.push(FolderEntry { name: name(root, &path), what });
    }
    Ok(entries)
}

/// The entry at which the walk failed, if the walk can go on; `None` if the entry is gone.
fn unfollowed(root: &LocalPath, error: walkdir::Error) -> Result<Option<(PathBuf, EntryType)>> {
    let path = error.path().unwrap_or(root).to_owned();
    if error.loop_ancestor().is_some() {
        return Ok(Some((path, EntryType::LoopingLink)));
    }
    let is_link = || path.symlink_metadata().is_ok_and(|met| met.is_symlink());
    match error.io_error().map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) if is_link() => Ok(Some((path, EntryType::DanglingLink))),
        Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        // A link to itself.
        Some(kind) if kind != io::ErrorKind::PermissionDenied && is_link() => {
            Ok(Some((path, EntryType::LoopingLink)))
        }
        _ => Err(io::Error::from(error)).context(|| format!("`{}` cannot be listed", path.display())),
    }
}

/// Where the local disk's store has `path`.
fn location(prefix: &str, root: &LocalPath, path: &LocalPath) -> Result<Path> {
    let name = name(root, path);
    let other = root.join(&name);
    if other != path && other.exists() {
        return Err(Error::input(format!(
            "`{}` has the name that another file gets, whose name is not UTF-8 or holds control characters: rename one of them",
            other.display()
        )));
    }
    let location = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
    Ok(Path::parse(location).map_err(object_store::Error::from)?)
}

/// The path below `root` as text.
fn name(root: &LocalPath, path: &LocalPath) -> String {
    let name = escaped(path.strip_prefix(root).unwrap_or(path));
    if std::path::MAIN_SEPARATOR == '/' { name } else { name.replace(std::path::MAIN_SEPARATOR, "/") }
}

fn meta(location: Path, size: u64, modified: SystemTime) -> ObjectMeta {
    ObjectMeta { location, last_modified: modified.into(), size, e_tag: None, version: None }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn everything_that_is_met_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("sub/.git")).unwrap();
        for name in ["a", "issue#42", "sub/b", "_x", "sub/.git/c", "new\nline"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::write(root.join(std::ffi::OsStr::from_bytes(b"caf\xE9")), "x").unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("self", at("self")).unwrap();
        symlink(&root, at("sub/up")).unwrap();
        symlink(at("a"), at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();

        let prefix = Path::from_absolute_path(&root).unwrap();
        let mut entries: Vec<(String, String)> = walk(&root, prefix.as_ref())
            .unwrap()
            .into_iter()
            .map(|FolderEntry { name, what }| match what {
                EntryType::File(meta) => (name, format!("{} bytes", meta.size)),
                other => (name, format!("{other:?}")),
            })
            .collect();
        entries.sort();
        let expected = [
            ("_x", "Hidden { folder: false }"),
            ("a", "1 bytes"),
            ("caf\\xE9", "1 bytes"),
            ("dangling", "DanglingLink"),
            ("issue#42", "8 bytes"),
            ("link", "1 bytes"),
            ("new\\x0Aline", "8 bytes"),
            ("self", "LoopingLink"),
            ("socket", "Special"),
            ("sub/.git", "Hidden { folder: true }"),
            ("sub/b", "5 bytes"),
            ("sub/up", "LoopingLink"),
        ];
        assert_eq!(entries, expected.map(|(name, what)| (name.to_owned(), what.to_owned())));
        assert!(walk(&at("nowhere"), "nowhere").unwrap().is_empty());
    }
}
