//! Addresses of inputs and outputs: their checks and their URLs.

pub(crate) mod local_path;
pub(crate) mod secrets;

use std::path::Path;

use url::Url;

use crate::error::spelling::nearest;
use crate::error::{Error, Result};
pub(crate) use secrets::masked;

/// The folder of a result of `apply` that has everything but the documents that are kept. Readers of datasets skip names that start
/// with `_`.
pub(crate) const APPLIED: &str = "_resemblance";

/// Scheme and rest of a URL; `None` for a path.
pub(crate) fn scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once("://")?;
    let legal = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    legal.then_some((scheme, rest))
}

/// The beginning of the error for a local path that does not exist, with the entry of its folder that is spelled alike; `None` for a
/// path that exists and for URLs of object stores.
pub(crate) fn missing(address: &str) -> Option<String> {
    let path = match scheme(address) {
        None => Path::new(address).to_owned(),
        Some(_) => url(address).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()?,
    };
    if !matches!(path.try_exists(), Ok(false)) {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    if !folder.exists() {
        return Some(format!("there is no `{address}`, since there is no folder `{}`", folder.display()));
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(match nearest(&name, names.iter().map(String::as_str)) {
        Some(near) => {
            format!("there is no `{address}`; near it is `{}`", path.with_file_name(near).display())
        }
        None => format!("there is no `{address}`"),
    })
}

/// Refuses an address with credentials.
///
/// # Errors
/// The end of a sentence, without the address, that begins with the place of the address.
pub(crate) fn check(address: &str) -> std::result::Result<(), &'static str> {
    let Some((scheme, rest)) = scheme(address) else { return Ok(()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("file") {
        return match authority.contains(['@', ':']) {
            true => Err(
                "names a user or a port in a `file` URL (not shown here, since it may be a secret): expected a path, \
                 or `file:///path`",
            ),
            false => Ok(()),
        };
    }
    // A container takes the place of the user: `abfss://container@account.dfs.core.windows.net/`.
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

/// The URL of an address with a scheme. The path of a `file` URL is percent-encoded, as by the standard; the key of an object is
/// not, as in the commands of the stores.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for an address that is not a URL or has credentials.
pub(crate) fn url(address: &str) -> Result<Url> {
    check(address).map_err(|why| Error::job(format!("a URL {why}")))?;
    let written = match scheme(address) {
        Some((scheme, _)) if !scheme.eq_ignore_ascii_case("file") => address.replace('%', "%25"),
        _ => address.to_owned(),
    };
    Url::parse(&written).map_err(|e| Error::job(format!("`{address}` is not a URL")).because(e))
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
    }

    #[test]
    fn addresses_without_them_are_not() {
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
    fn a_key_is_taken_as_it_is_written() {
        for key in ["a b", "a%20b", "ä/ö", "100%"] {
            let url = url(&format!("s3://bucket/{key}")).unwrap();
            assert_eq!(object_store::path::Path::from_url_path(url.path()).unwrap().as_ref(), key);
        }
    }
}
