//! The local disk: paths of its files, and the entries of its folders. DataFusion's object store skips special files and broken links, and
//! fails at a name that is not UTF-8. [`entries`] lists all of them. Tables and object stores accept only valid text, so other names are
//! escaped and decoded again to open the file.

use std::fs::Metadata;
use std::io;
use std::path::{Path as LocalPath, PathBuf};

use object_store::ObjectMeta;
use object_store::path::Path;
use url::Url;
use walkdir::WalkDir;

use crate::error::{Context, Error, Result};

/// The URL of the local disk's object store.
pub(in crate::source) const LOCAL: &str = "file:///";

/// Returns the local path of a `location` in the object store of the local disk.
pub(in crate::source) fn local_path(location: &Path) -> Option<PathBuf> {
    let mut url = Url::parse(LOCAL).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(location.as_ref().split('/'));
    url.to_file_path().ok().map(unescaped)
}

/// Returns the metadata of a local file at `location`. The metadata contains no e_tag.
pub(in crate::source) fn local_meta(location: Path, found: &Metadata) -> io::Result<ObjectMeta> {
    let last_modified = found.modified()?.into();
    Ok(ObjectMeta { location, last_modified, size: found.len(), e_tag: None, version: None })
}

/// Returns a local path as text. If the path contains invalid UTF-8 or control characters, each of these bytes and each backslash is
/// escaped as in `\xE9`.
fn escaped(path: &LocalPath) -> String {
    if let Some(plain) = path.to_str().filter(|text| !text.contains(|c: char| c.is_ascii_control())) {
        return plain.to_owned();
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_ascii_control() || character == '\\' {
                text.push_str(&format!("\\x{:02X}", u32::from(character)));
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

/// Reverts [`escaped`]. Components that exist under their escaped name are kept.
fn unescaped(path: PathBuf) -> PathBuf {
    if !path.to_string_lossy().contains("\\x") {
        return path;
    }
    path.components().fold(PathBuf::new(), |above, part| {
        let (literal, part) = (above.join(part), LocalPath::new(part.as_os_str()));
        match part.to_str().and_then(unescaped_name) {
            Some(name) if !literal.exists() => above.join(name),
            _ => literal,
        }
    })
}

/// Returns a name as it was before escaping, or `None` if the name is not escaped.
#[cfg(unix)]
fn unescaped_name(escaped: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let (start, rest) = escaped.split_once("\\x")?;
    let mut name = start.as_bytes().to_vec();
    for part in rest.split("\\x") {
        let (digits, rest) = part.split_at_checked(2)?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        name.extend_from_slice(rest.as_bytes());
    }
    Some(std::ffi::OsString::from_vec(name).into())
}

/// Names are byte strings only on Unix.
#[cfg(not(unix))]
fn unescaped_name(_: &str) -> Option<PathBuf> {
    None
}

#[derive(Debug)]
pub(super) enum EntryType {
    File(ObjectMeta),
    /// The name starts with `.` or `_`. The contents of such folders are not listed.
    Hidden {
        folder: bool,
    },
    /// A named pipe, a socket or a device.
    Special,
    /// A broken symbolic link.
    DanglingLink,
    /// A symbolic link to a folder that contains the link.
    LoopingLink,
}

/// Returns the file at `location` on the local disk. Returns `None` if the location is a folder or does not exist.
pub(super) async fn file(location: &Path) -> io::Result<Option<ObjectMeta>> {
    let Some(path) = local_path(location) else { return Ok(None) };
    match tokio::fs::metadata(path).await {
        Ok(found) if found.is_file() => local_meta(location.clone(), &found).map(Some),
        Ok(_) => Ok(None),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Lists everything below `prefix` on the local disk except folders, in any order. A missing folder results in an empty list. Fails with
/// `Kind::Input` if a folder or file cannot be accessed.
pub(super) async fn entries(prefix: &Path) -> Result<Vec<(String, EntryType)>> {
    let Some(root) = local_path(prefix) else {
        return Err(Error::bug(format!("`{prefix}` is not a local path")));
    };
    let prefix = prefix.as_ref().to_owned();
    tokio::task::spawn_blocking(move || walk(&root, &prefix))
        .await
        .map_err(|e| Error::bug("listing a folder did not end").because(e))?
}

fn walk(root: &LocalPath, prefix: &str) -> Result<Vec<(String, EntryType)>> {
    let mut entries = Vec::new();
    let mut walk = WalkDir::new(root).follow_links(true).min_depth(1).into_iter();
    while let Some(next) = walk.next() {
        let (path, kind) = match next {
            Ok(entry) => {
                let file_type = entry.file_type();
                let name = entry.file_name().as_encoded_bytes();
                let kind = if name.starts_with(b".") || name.starts_with(b"_") {
                    if file_type.is_dir() {
                        walk.skip_current_dir();
                    }
                    EntryType::Hidden { folder: file_type.is_dir() }
                } else if file_type.is_dir() {
                    continue;
                } else if file_type.is_file() {
                    let location = location(prefix, root, entry.path())?;
                    let meta = entry.metadata().map_err(io::Error::from);
                    let meta = meta.and_then(|found| local_meta(location, &found));
                    EntryType::File(
                        meta.context(|| format!("`{}` cannot be accessed", entry.path().display()))?,
                    )
                } else {
                    EntryType::Special
                };
                (entry.into_path(), kind)
            }
            Err(error) => match broken_entry(root, error)? {
                Some(entry) => entry,
                None => continue,
            },
        };
        entries.push((name(root, &path), kind));
    }
    Ok(entries)
}

/// Returns the entry that the walk could not follow, or `None` if the entry no longer exists.
fn broken_entry(root: &LocalPath, error: walkdir::Error) -> Result<Option<(PathBuf, EntryType)>> {
    let path = error.path().unwrap_or(root).to_owned();
    if error.loop_ancestor().is_some() {
        return Ok(Some((path, EntryType::LoopingLink)));
    }
    let is_link = || path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    match error.io_error().map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) if is_link() => Ok(Some((path, EntryType::DanglingLink))),
        Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        // A link that points to itself.
        Some(kind) if kind != io::ErrorKind::PermissionDenied && is_link() => {
            Ok(Some((path, EntryType::LoopingLink)))
        }
        _ => Err(io::Error::from(error)).context(|| format!("`{}` cannot be listed", path.display())),
    }
}

fn location(prefix: &str, root: &LocalPath, path: &LocalPath) -> Result<Path> {
    let name = name(root, path);
    let other = root.join(&name);
    if other != path && other.exists() {
        return Err(Error::input(format!(
            "`{}` has the same name as the escaped form of another file's name, which is not UTF-8 or has control characters: rename one of them",
            other.display()
        )));
    }
    let location = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
    Ok(Path::parse(location).map_err(object_store::Error::from)?)
}

fn name(root: &LocalPath, path: &LocalPath) -> String {
    let name = escaped(path.strip_prefix(root).unwrap_or(path));
    if std::path::MAIN_SEPARATOR == '/' { name } else { name.replace(std::path::MAIN_SEPARATOR, "/") }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn escaping_is_reversible() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            (&b"a b"[..], "a b"),
            (b"back\\slash", "back\\slash"),
            (b"caf\xE9", "caf\\xE9"),
            (b"tab\there\\x41", "tab\\x09here\\x5Cx41"),
        ] {
            let path = folder.path().join(OsStr::from_bytes(name));
            assert_eq!(escaped(LocalPath::new(OsStr::from_bytes(name))), text);
            std::fs::write(&path, name).unwrap();
            assert_eq!(unescaped(folder.path().join(text)), path);
        }
        // A name that only looks like an escaped name.
        std::fs::write(folder.path().join("x\\x41"), "").unwrap();
        assert_eq!(unescaped(folder.path().join("x\\x41")), folder.path().join("x\\x41"));
    }

    #[test]
    fn every_entry_is_listed_with_its_type() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("sub/.git")).unwrap();
        for name in ["a", "issue#42", "sub/b", "_x", "sub/.git/c", "new\nline"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::write(root.join(OsStr::from_bytes(b"caf\xE9")), "x").unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("self", at("self")).unwrap();
        symlink(&root, at("sub/up")).unwrap();
        symlink(at("a"), at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();

        let prefix = Path::from_absolute_path(&root).unwrap();
        let mut entries: Vec<(String, String)> = walk(&root, prefix.as_ref())
            .unwrap()
            .into_iter()
            .map(|(name, kind)| match kind {
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
        assert_eq!(entries, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
        assert!(walk(&at("nowhere"), "nowhere").unwrap().is_empty());
    }
}
