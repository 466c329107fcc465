//! What must not be shown: names, passwords and queries in the URLs that somebody passed to this program.
//!
//! A URL in the middle of a sentence has no certain end, and a password may hold quotes and spaces. So what comes in is
//! looked through where its bounds are known ([`remember`]): an argument, a value of the job file. Whatever goes out
//! later is searched for it ([`masked`]), and besides for what looks like a URL with a password or a query.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// What is written where a secret was.
const MASK: &str = "***";

/// Secrets shorter than this are masked only where they stand in a URL: anywhere else they would blot out plain words.
const MIN_LENGTH: usize = 4;

/// Secrets that are remembered, at most: a process that is given more of them keeps the first.
const MAX_KNOWN: usize = 10_000;

/// What is masked wherever it occurs.
static KNOWN: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// Looks through a text of somebody's: what may be secret in its URLs is masked from now on.
pub(crate) fn remember(text: &str) {
    let found = secrets(text);
    if found.is_empty() {
        return;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for secret in found {
        for form in forms(&secret) {
            if known.len() < MAX_KNOWN {
                known.insert(form);
            }
        }
    }
}

/// `text` with what may be secret in its URLs masked, and with every secret masked that was remembered.
pub(crate) fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut present: Vec<&String> = known.iter().filter(|secret| text.contains(secret.as_str())).collect();
    // One may be a part of another.
    present.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in present {
        let mask = if secret.ends_with('@') { "***@" } else { MASK };
        text = text.replace(secret.as_str(), mask);
    }
    masked_urls(&text)
}

/// The parts of the URLs in `text` that may be secret.
fn secrets(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        // Up to the scheme of the next URL, if there is one: a password may hold anything else.
        let end = after.find("://").map_or(after.len(), |next| next - scheme(&after[..next]).len());
        of_url(scheme(before), &after[..end], &mut found);
        rest = after;
    }
    // One whose password holds `://` was taken for two.
    if let (Some(first), Some(at)) = (text.find("://"), text.rfind('@'))
        && text.matches("://").count() > 1
        && first + 3 < at
        && !found.is_empty()
    {
        found.insert(text[first + 3..=at].to_owned());
    }
    found
}

/// What may be secret in the URL `scheme://url`, where `url` may go on behind its end.
fn of_url(scheme: &str, url: &str, found: &mut BTreeSet<String>) {
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
        // What stands behind the URL is not a part of it, as the quotes and brackets of a list.
        let query = query.split(['"', '\'', '`', ' ', '\n']).next().unwrap_or_default();
        insert(query);
        query
            .split(['&', ';', '#'])
            .filter_map(|pair| pair.split_once('='))
            .for_each(|(_, value)| insert(value));
    }
}

/// A secret as it is written by those who show it: as it is, quoted as Rust and JSON quote, and encoded as URLs are.
fn forms(secret: &str) -> BTreeSet<String> {
    let unquoted = |quoted: String| quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
    let mut forms = BTreeSet::from([secret.to_owned(), unquoted(format!("{secret:?}"))]);
    forms.insert(crate::visible::visible(secret).into_owned());
    if let Ok(json) = serde_json::to_string(secret) {
        forms.insert(unquoted(json));
    }
    // Who reads a URL drops these.
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

/// The letters of a scheme at the end of `text`.
fn scheme(text: &str) -> &str {
    let letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    &text[text.trim_end_matches(letter).len()..]
}

fn authority(url: &str) -> &str {
    url.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Whether something like `name@` or `name:password@` stands before a URL's host.
fn has_user(scheme: &str, url: &str) -> bool {
    let authority = authority(url);
    // A container stands where others have a user: `abfss://container@account.dfs.core.windows.net/`.
    let container = scheme.to_ascii_lowercase().starts_with("abfs")
        && authority.matches('@').count() == 1
        && !authority.contains(':');
    if authority.contains('@') {
        return !container;
    }
    // A password may hold the slash that seems to end the host; a port is none.
    let address = authority.starts_with('[');
    match authority.split_once(':') {
        Some((_, port)) => !address && !port.chars().all(|c| c.is_ascii_digit()),
        None => false,
    }
}

/// `text` with names and passwords before `@` masked in what looks like a URL, and its query.
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
    fn what_is_said_hides_what_is_secret() {
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

    /// Each holds `t0psecret`, and none is masked by its looks alone once it is quoted.
    #[test]
    fn what_was_remembered_is_hidden_however_it_is_written() {
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
