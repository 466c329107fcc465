//! Addresses of inputs and outputs: paths and URLs.

pub(crate) mod secrets;

use std::io;
#[cfg(feature = "cluster")]
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Component, Path, PathBuf};

use url::{Host, Url};

use crate::error::spelling::nearest;
use crate::error::{Error, Result};
pub(crate) use secrets::masked;

/// The folder in a result of `apply` for everything except the kept documents. Readers of datasets skip names that start with `_`.
pub(crate) const APPLIED: &str = "_resemblance";

/// Splits a URL into its scheme and the rest. Returns `None` for a path.
pub(crate) fn scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once("://")?;
    let legal = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    legal.then_some((scheme, rest))
}

/// Returns the local path of a path or a `file` URL. Returns `None` for the URL of an object store.
pub(crate) fn local_path(address: &str) -> Option<PathBuf> {
    match scheme(address) {
        None => Some(PathBuf::from(address)),
        Some(_) => url(address).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok(),
    }
}

/// Returns the beginning of a message that says that a local path does not exist. The message proposes a similar name in the same folder.
/// Returns `None` for an existing path and for a URL of an object store.
pub(crate) fn missing(address: &str) -> Option<String> {
    let path = local_path(address)?;
    if !matches!(path.try_exists(), Ok(false)) {
        return None;
    }
    if let Ok(target) = path.read_link() {
        return Some(format!(
            "`{address}` is a symbolic link to `{}`, which does not exist",
            target.display()
        ));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    if !folder.exists() {
        return Some(format!("there is no `{address}`, because there is no folder `{}`", folder.display()));
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let near = nearest(&name, names.iter().map(String::as_str));
    let near = near.map(|near| format!("; near it is `{}`", path.with_file_name(near).display()));
    Some(format!("there is no `{address}`{}", near.unwrap_or_default()))
}

/// The schemes of object stores.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// Refuses an address that contains credentials, or only one slash after the scheme. The error is the predicate of a sentence about the
/// address, and does not repeat the address.
pub(crate) fn check(address: &str) -> std::result::Result<(), &'static str> {
    let Some((scheme, rest)) = scheme(address) else {
        let is_url = address.split_once(":/").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme));
        return if is_url {
            Err("has one `/` after its scheme: expected `s3://bucket/path`")
        } else {
            Ok(())
        };
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("file") {
        if authority.contains(['@', ':']) {
            return Err(
                "names a user or a port in a `file` URL (not shown here, since it may be a secret): expected a path, \
                 or `file:///path`",
            );
        }
        return Ok(());
    }
    // Azure URLs contain a container before the `@`: `abfss://container@account.dfs.core.windows.net/`.
    let container = scheme.to_ascii_lowercase().starts_with("abfs") && authority.matches('@').count() == 1;
    if authority.contains(':') || authority.contains('@') && !container {
        return Err(
            "holds more than a bucket between `://` and the next `/` (not shown here, since it may be a secret): \
             expected `s3://bucket/path`, with the credentials in environment variables such as AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY",
        );
    }
    if rest.contains(['?', '#']) {
        return Err(
            "holds `?` or `#` (not shown here, since it may be a presigned query): expected `s3://bucket/path`, with \
             the credentials in environment variables; to reach an object with such a name, use a pattern with `*`",
        );
    }
    Ok(())
}

/// Parses an address with a scheme as a URL. The path of a `file` URL must be percent-encoded. The key of an object is taken as it is
/// written, as in the command-line tools of object stores. Fails with `Kind::Job` if the address is not a URL or contains credentials.
pub(crate) fn url(address: &str) -> Result<Url> {
    check(address).map_err(|why| Error::job(format!("a URL {why}")))?;
    let written = match scheme(address) {
        Some((scheme, _)) if !scheme.eq_ignore_ascii_case("file") => address.replace('%', "%25"),
        _ => address.to_owned(),
    };
    Url::parse(&written).map_err(|e| Error::job(format!("`{address}` is not a URL")).because(e))
}

/// Makes a local path absolute and removes `.` and `..` from it. The path need not exist. Existing symbolic links are followed, because
/// `..` after a link means the parent of the target of the link.
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

/// The wildcard characters in local paths.
const WILD: &[char] = &['*', '?', '['];

/// Makes an address independent of the working directory. URLs and absolute paths do not change, even if they contain patterns. A pattern
/// remains relative if the path of the working directory contains wildcards.
pub(crate) fn absolute_address(address: &str) -> io::Result<String> {
    let path = Path::new(address);
    let has_parent = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    if scheme(address).is_some() || path.is_absolute() && !has_parent(path) {
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

/// Parses and resolves the `HOST:PORT` of this machine.
#[cfg(feature = "cluster")]
pub(crate) fn socket_address(text: &str) -> std::result::Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|e| format!("expected HOST:PORT: {e}"))?;
    addresses.next().ok_or_else(|| "no such host".into())
}

/// Parses `HOST:PORT` without resolving the host. Ignores the prefix `df://`.
pub(crate) fn host_port(text: &str) -> std::result::Result<(String, u16), String> {
    let parts = text.strip_prefix("df://").unwrap_or(text).rsplit_once(':');
    match parts.and_then(|(host, port)| Some((Host::parse(host).ok()?, port.parse().ok()?))) {
        Some((host, port)) if port > 0 => Ok((host.to_string(), port)),
        _ => Err("expected HOST:PORT, such as localhost:50050 or [::1]:50050".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        for address in [
            "s3://AKIA:hush@bucket/a",
            "s3://AKIA:hu/sh@bucket/a",
            "s3://hush@bucket/a",
            "https://user:hush@example.org/a",
            "https://example.org/a?X-Amz-Signature=hush",
            "s3://bucket/a?X-Amz-Signature=hush",
            "abfss://container:hush@account.dfs.core.windows.net/a",
            "S3://hush`'\" x@bucket/a",
            "file://user:hush@host/a",
            "FILE://hush@host/a",
        ] {
            let message = url(address).unwrap_err().to_string();
            assert!(!message.contains("hush"), "{message}");
        }
        for address in [
            "s3://bucket",
            "s3://bucket/user@example.org/12:30.csv",
            "abfss://container@account.dfs.core.windows.net/a",
            "file:///a?b",
            "plain/path?*[",
        ] {
            assert_eq!(check(address), Ok(()), "{address}");
        }
    }

    #[test]
    fn a_key_is_not_decoded() {
        for key in ["a b", "a%20b", "ä/ö", "100%"] {
            let url = url(&format!("s3://bucket/{key}")).unwrap();
            assert_eq!(object_store::path::Path::from_url_path(url.path()).unwrap().as_ref(), key);
        }
    }

    #[test]
    fn an_address_does_not_depend_on_the_working_directory() {
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
