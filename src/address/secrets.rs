//! Masks secrets in shown text: users, passwords and queries in URLs, and the values of secret environment variables.
//!
//! The end of a URL in a sentence is uncertain, because a password may contain quotes and spaces. Therefore, [`remember`] finds secrets in
//! arguments and in values of the job file, where the bounds of a URL are known. [`masked`] masks these secrets everywhere. It also masks
//! text that looks like a URL with a password or a query.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use parking_lot::RwLock;
use url::form_urlencoded;

const MASK: &str = "***";

/// The minimum length of a secret that is masked outside URLs. Shorter secrets may be ordinary words.
const MIN_LENGTH: usize = 4;

/// The minimum length of a variable's value that is masked. Shorter values may be ordinary words.
const MIN_VALUE: usize = 8;

/// The maximum number of secrets to remember.
const MAX_KNOWN: usize = 10_000;

/// The remembered secrets in all spellings.
static KNOWN: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// Remembers the possible secrets in the URLs inside `text`, which a user entered.
pub(crate) fn remember(text: &str) {
    let found = secrets(text);
    if !found.is_empty() {
        insert(found.into_iter());
    }
}

fn insert(secrets: impl Iterator<Item = String>) {
    let mut known = KNOWN.write();
    for secret in secrets {
        for form in forms(&secret) {
            if known.len() < MAX_KNOWN {
                known.insert(form);
            }
        }
    }
}

pub(crate) fn remember_secret(secret: &str) {
    if secret.len() >= MIN_VALUE && !KNOWN.read().contains(secret) {
        insert(std::iter::once(secret.to_owned()));
    }
}

/// Remembers the value of a secret environment variable, and the keys or headers inside the value.
pub(crate) fn remember_value(value: &str) {
    remember_secret(value);
    if let Ok(serde_json::Value::Object(entries)) = serde_json::from_str(value) {
        let keys = entries.iter().filter(|(name, _)| name.to_ascii_lowercase().contains("key"));
        keys.filter_map(|(_, key)| key.as_str()).for_each(remember_secret);
    }
    for (_, header) in value.split(',').filter_map(|header| header.split_once('=')) {
        let header = percent_encoding::percent_decode_str(header.trim()).decode_utf8_lossy();
        remember_secret(&header);
        // The last word is the secret without its authentication scheme, such as `Bearer`.
        remember_secret(header.rsplit(' ').next().unwrap_or_default());
    }
}

/// Masks remembered secrets, and possible secrets in URLs.
pub(crate) fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    let known = KNOWN.read();
    let mut present: Vec<&String> = known.iter().filter(|secret| text.contains(secret.as_str())).collect();
    // Longer secrets are masked first, because a secret may contain another secret.
    present.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in present {
        let mask = if secret.ends_with('@') { "***@" } else { MASK };
        text = text.replace(secret.as_str(), mask);
    }
    masked_urls(&text)
}

fn secrets(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        // A password may contain any character, so the URL ends only at the scheme of the next URL.
        let end = after.find("://").map_or(after.len(), |next| next - scheme(&after[..next]).len());
        add_secrets(scheme(before), &after[..end], &mut found);
        rest = after;
    }
    // A URL with `://` in its password looks like two URLs.
    if let (Some(first), Some(at)) = (text.find("://"), text.rfind('@'))
        && text.matches("://").count() > 1
        && first + 3 < at
        && !found.is_empty()
    {
        found.insert(text[first + 3..=at].to_owned());
    }
    found
}

/// Adds the possible secrets in the URL `scheme://url` to `found`. `url` can include text that follows the URL.
fn add_secrets(scheme: &str, url: &str, found: &mut BTreeSet<String>) {
    let mut insert = |secret: &str| {
        if secret.len() >= MIN_LENGTH || secret.ends_with('@') && secret.len() > 1 {
            found.insert(secret.to_owned());
        }
    };
    if has_user(scheme, url) {
        for (at, _) in url.match_indices('@') {
            insert(&url[..=at]);
            insert(&url[..at]);
            if let Some((_, password)) = url[..at].split_once(':') {
                insert(password);
                insert(&basic(&url[..at]));
            }
        }
        if !url.contains('@')
            && let Some((_, password)) = authority(url).split_once(':')
        {
            insert(password);
        }
    }
    if scheme.eq_ignore_ascii_case("file") {
        return;
    }
    if let Some((_, query)) = url.split_once('?') {
        insert(query);
        // Quotes or brackets may follow the URL.
        let query = query.split(['"', '\'', '`', ' ', '\n']).next().unwrap_or_default();
        insert(query);
        query
            .split(['&', ';', '#'])
            .filter_map(|pair| pair.split_once('='))
            .for_each(|(_, value)| insert(value));
    }
}

/// Encodes a user and a password as in the HTTP header for basic authentication.
fn basic(user: &str) -> String {
    BASE64.encode(percent_encoding::percent_decode_str(user).collect::<Vec<u8>>())
}

/// Returns the spellings of a secret: plain, quoted as in Rust and JSON, and encoded as in URLs and XML.
fn forms(secret: &str) -> BTreeSet<String> {
    let unquoted = |quoted: String| quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
    let mut forms = BTreeSet::from([secret.to_owned(), unquoted(format!("{secret:?}"))]);
    forms.insert(crate::error::visible::visible(secret).into_owned());
    if let Ok(json) = serde_json::to_string(secret) {
        forms.insert(unquoted(json));
    }
    forms.insert(form_urlencoded::byte_serialize(secret.as_bytes()).collect());
    forms.insert(quick_xml::escape::escape(secret).into_owned());
    // URL parsers remove these characters.
    forms.insert(secret.replace(['\t', '\n', '\r'], ""));
    if let Ok(mut url) = url::Url::parse("http://host/")
        && url.set_password(Some(secret.trim_end_matches('@'))).is_ok()
        && let Some(password) = url.password()
    {
        forms.insert(password.to_owned());
    }
    forms.retain(|form| form.len() >= MIN_LENGTH || form.ends_with('@'));
    forms
}

/// Returns the URL scheme at the end of `text`.
fn scheme(text: &str) -> &str {
    let letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    &text[text.trim_end_matches(letter).len()..]
}

fn authority(url: &str) -> &str {
    url.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Returns whether a URL can contain `name@` or `name:password@` before its host.
fn has_user(scheme: &str, url: &str) -> bool {
    let authority = authority(url);
    // Azure URLs contain a container before the `@`.
    let container = scheme.to_ascii_lowercase().starts_with("abfs")
        && authority.matches('@').count() == 1
        && !authority.contains(':');
    if authority.contains('@') {
        return !container;
    }
    // A password may contain a slash, which looks like the end of the host. A port is not a password.
    let address = authority.starts_with('[');
    match authority.split_once(':') {
        Some((_, port)) => !address && !port.chars().all(|c| c.is_ascii_digit()),
        None => false,
    }
}

fn masked_urls(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        masked.push_str(before);
        let scheme = scheme(&before[..at]);
        let end = after.find(|c: char| c.is_whitespace() || "`'\"<>".contains(c)).unwrap_or(after.len());
        let (url, behind) = after.split_at(end);
        let url = match url.rsplit_once('@') {
            Some((_, place)) if has_user(scheme, url) => {
                masked.push_str("***@");
                place
            }
            _ => url,
        };
        match url.split_once('?') {
            Some((path, _)) if !scheme.eq_ignore_ascii_case("file") => {
                masked.push_str(path);
                masked.push_str("?***");
            }
            _ => masked.push_str(url),
        }
        rest = behind;
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_in_texts_are_masked() {
        assert_eq!(masked("at `s3://k:s/e@b/c`, ok"), "at `s3://***@b/c`, ok");
        assert_eq!(masked("at `s3://key@b/c`, ok"), "at `s3://***@b/c`, ok");
        assert_eq!(masked("GET http://h/p?X=1 failed"), "GET http://h/p?*** failed");
        for plain in [
            "s3://bucket/a@b and mail@example.org",
            "abfss://container@account.dfs.core.windows.net/a",
            "http://localhost:9091/a@b and http://[::1]:9091/a@b",
            "file:///a?b",
        ] {
            assert_eq!(masked(plain), plain);
        }
    }

    #[test]
    fn remembered_secrets_are_masked_in_every_spelling() {
        for secret in [
            "s3://key:t0psecret with spaces@bucket/a",
            "s3://t0psecret`with'quotes\"@bucket/a",
            "S3://key:t0psecret/slash@bucket/a@b",
            "s3://key:t0psecret://colons@bucket/a",
            "s3://key:t0psecret@at@bucket/a",
            "s3://key:t0psecret\nline\ttab@bucket/a",
            "https://host/a?X-Amz-Signature=t0psecret'with\"quotes",
            "[\"s3://bucket/a\", \"s3://key:t0psecret'2\\\"x@bucket/b\"]",
            "abfss://container:t0psecret `x@account/a",
            "s3://key:t0psecret",
        ] {
            remember(secret);
            let json = serde_json::to_string(secret).unwrap();
            for text in
                [secret.to_owned(), format!("{secret:?}"), json, format!("cannot read `{secret}`: no")]
            {
                let shown = masked(&text);
                assert!(!shown.contains("t0psecret"), "{text} is shown as {shown}");
            }
            if let Ok(url) = url::Url::parse(secret) {
                let shown = masked(&format!("{url} {url:?} {:?}", url.password()));
                assert!(!shown.contains("t0psecret"), "{url} is shown as {shown}");
            }
        }
    }

    #[test]
    fn plain_addresses_are_not_remembered() {
        for plain in [
            "s3://bucket/user@example.org/12:30.csv",
            "http://localhost:9091/metrics/job/nightly",
            "df://scheduler:50050",
            "abfss://container@account.dfs.core.windows.net/a",
            "file:///data/a?b=plain",
            "mail@example.org, 12:30",
        ] {
            assert_eq!(secrets(plain), BTreeSet::new(), "{plain}");
        }
    }
}
