//! Local paths for object stores: absolute, without `.` and `..`.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The absolute form of `path`, without `.` and `..`. It need not exist.
///
/// Symbolic links are followed as far as the path exists, because `..` behind a link is the parent of the link's target.
///
/// # Errors
/// When the working directory is unknown, or an existing part cannot be read.
pub(crate) fn absolute(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut plain = PathBuf::new();
    let mut exists = true;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
        if exists && !matches!(part, Component::Prefix(_)) {
            match plain.canonicalize() {
                Ok(real) => plain = real,
                Err(e) if e.kind() == io::ErrorKind::NotFound => exists = false,
                Err(e) => return Err(e),
            }
        }
    }
    Ok(plain)
}

/// Characters that make a part of a path a pattern.
const WILD: &[char] = &['*', '?', '['];

/// `address` as any process can read it, whatever its working directory: a relative path becomes an absolute one. URLs, absolute
/// paths and the patterns in them stay as they are.
///
/// A pattern below a working directory whose own path has wildcards stays relative, because no absolute path would mean the same.
///
/// # Errors
/// When the working directory is unknown, or a part of a path with `..` cannot be read.
pub(crate) fn absolute_address(address: &str) -> io::Result<String> {
    let path = Path::new(address);
    let has_parent = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    if super::scheme(address).is_some() || path.is_absolute() && !has_parent(path) {
        return Ok(address.to_owned());
    }
    let wild = if path.exists() { None } else { address.find(WILD) };
    let start = wild.map_or(address.len(), |at| address[..at].rfind('/').map_or(0, |slash| slash + 1));
    let (base, pattern) = address.split_at(start);
    let base = Path::new(if base.is_empty() { "./" } else { base });
    let mut whole = if has_parent(base) { absolute(base)? } else { std::path::absolute(base)? };
    if base.as_os_str().as_encoded_bytes().ends_with(b"/") {
        whole.push("");
    }
    match whole.to_str() {
        Some(whole) if pattern.is_empty() || !whole.contains(WILD) => Ok(format!("{whole}{pattern}")),
        _ => Ok(address.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_from_any_working_directory() {
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        let above = Path::new(here).parent().unwrap().to_str().unwrap();
        for (address, expected) in [
            ("data", format!("{here}/data")),
            ("./data/", format!("{here}/data/")),
            ("data/*.csv", format!("{here}/data/*.csv")),
            ("**/[ab].csv", format!("{here}/**/[ab].csv")),
            (".", here.to_owned()),
            ("../a/", format!("{above}/a/")),
            ("/a/./b/*", "/a/./b/*".to_owned()),
            ("s3://bucket/../a", "s3://bucket/../a".to_owned()),
            ("file:///a", "file:///a".to_owned()),
        ] {
            assert_eq!(absolute_address(address).unwrap(), expected, "{address}");
            assert_eq!(absolute_address(&expected).unwrap(), expected, "{address}");
        }
    }

    #[test]
    fn parents_are_resolved_whether_they_exist_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        assert_eq!(absolute(real.join("a/../b/./c")).unwrap(), real.join("b/c"));
        assert_eq!(absolute(real.join("x/y/../z")).unwrap(), real.join("x/z"));
        assert_eq!(absolute("/..").unwrap(), Path::new("/"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_before_its_parent_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("far/away")).unwrap();
        std::os::unix::fs::symlink(real.join("far/away"), real.join("link")).unwrap();
        assert_eq!(absolute(real.join("link/../b")).unwrap(), real.join("far/b"));
    }
}
