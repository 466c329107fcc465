//! Local file names that are not valid UTF-8 or contain control characters.
//!
//! Tables and object stores only accept names that are valid text. Other names are escaped, and decoded again to open the
//! file.

use std::path::{Path, PathBuf};

use url::Url;

/// The URL of the local disk's store.
pub(super) const LOCAL: &str = "file:///";

/// The path on this machine of a `location` in the store of the local disk.
pub(super) fn local_path(location: &str) -> Option<PathBuf> {
    let mut url = Url::parse(LOCAL).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(location.split('/'));
    url.to_file_path().ok().map(unescaped)
}

/// The name or path as text. If it is not UTF-8 or holds control characters, these bytes and backslashes are written as `\xE9`.
pub(super) fn escaped(path: &Path) -> String {
    if let Some(plain) = path.to_str().filter(|text| !text.contains(|c: char| c.is_ascii_control())) {
        return plain.to_owned();
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_ascii_control() || character == '\\' {
                true => text.push_str(&format!("\\x{:02X}", u32::from(character))),
                false => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

/// The path of a file whose name may be escaped. A part of `path` that exists as it is written is not escaped.
fn unescaped(path: PathBuf) -> PathBuf {
    if !path.to_string_lossy().contains("\\x") {
        return path;
    }
    path.components().fold(PathBuf::new(), |above, part| {
        let (literal, part) = (above.join(part), Path::new(part.as_os_str()));
        match part.to_str().and_then(bytes) {
            Some(bytes) if !literal.exists() => above.join(bytes),
            _ => literal,
        }
    })
}

/// The bytes of an escaped name; `None` for other names.
#[cfg(unix)]
fn bytes(escaped: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let mut parts = escaped.split("\\x");
    let mut name = parts.next()?.as_bytes().to_vec();
    let before = name.len();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        name.extend_from_slice(rest.as_bytes());
    }
    (name.len() > before).then(|| std::ffi::OsString::from_vec(name).into())
}

/// Only on Unix names are bytes.
#[cfg(not(unix))]
fn bytes(_: &str) -> Option<PathBuf> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn an_escaped_name_is_that_of_one_file() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            (&b"a b"[..], "a b"),
            (b"back\\slash", "back\\slash"),
            (b"caf\xE9", "caf\\xE9"),
            (b"tab\there\\x41", "tab\\x09here\\x5Cx41"),
        ] {
            let path = folder.path().join(OsStr::from_bytes(name));
            assert_eq!(escaped(Path::new(OsStr::from_bytes(name))), text);
            std::fs::write(&path, name).unwrap();
            assert_eq!(unescaped(folder.path().join(text)), path);
        }
        // A name that only looks escaped.
        std::fs::write(folder.path().join("x\\x41"), "").unwrap();
        assert_eq!(unescaped(folder.path().join("x\\x41")), folder.path().join("x\\x41"));
    }
}
