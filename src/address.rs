//! Addresses of inputs and outputs: what a URL may hold, and how it reads where it should not be shown whole.

use url::Url;

use crate::error::{Error, Result};
pub(crate) use crate::secrets::masked;

/// Scheme and rest of a URL; none for a path.
pub(crate) fn scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once("://")?;
    let legal = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    legal.then_some((scheme, rest))
}

/// What is wrong with an address that carries credentials; such an address is not repeated.
///
/// # Errors
/// A sentence that follows the name of what holds the address.
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
    // A container stands where others have a user: `abfss://container@account.dfs.core.windows.net/`.
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

/// The URL of an address with a scheme. The path of a `file` URL is percent-encoded, as the standard has it; the key of
/// an object is taken as it is written, as the stores' own commands take it.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for an address that makes no URL or carries credentials.
pub(crate) fn url(address: &str) -> Result<Url> {
    check(address).map_err(|said| Error::job(format!("a URL {said}")))?;
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
            let said = url(address).unwrap_err().to_string();
            assert!(!said.contains("hush"), "{said}");
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
