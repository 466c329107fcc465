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

#[cfg(test)]
mod tests {
    use super::*;

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
