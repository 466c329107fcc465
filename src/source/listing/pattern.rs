//! URLs of the job: paths, URLs and patterns.

use std::path::Path as LocalPath;

use datafusion::datasource::listing::ListingTableUrl;
use url::Url;

use crate::address;
use crate::address::local_path;
use crate::error::{Context, Error, Result};

/// A URL of the job, parsed.
pub(super) struct InputPattern {
    /// Where to list.
    pub url: ListingTableUrl,
    /// The pattern that names below `url` must match.
    pub glob: Option<glob::Pattern>,
    /// The path of `url` as the user wrote it.
    pub base: String,
}

impl InputPattern {
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) when it is neither a path nor a URL.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong =
            |e: &dyn std::fmt::Display| Error::input(format!("`{url}` is neither a path nor a URL: {e}"));
        address::check(url).map_err(|why| Error::job(format!("a URL in [source] url {why}")))?;
        let remote = address::scheme(url).is_some();
        // A file whose own name holds `[` or `*` is that file and no pattern.
        let exists = !remote && LocalPath::new(url).exists();
        let (base, pattern) = if exists { (url, None) } else { split_glob(url) };
        let glob = pattern.map(glob::Pattern::new).transpose().map_err(|e| wrong(&e))?;
        let place = if base.is_empty() { "./" } else { base };
        let listing = if remote {
            ListingTableUrl::try_new(address::url(place)?, None)
        } else {
            let mut absolute = local_path::absolute(place).context(|| format!("`{url}` cannot be read"))?;
            if place.ends_with('/') || exists && absolute.is_dir() {
                absolute.push("");
            }
            let exact = Url::from_file_path(&absolute).map_err(|()| wrong(&"it cannot be made absolute"))?;
            ListingTableUrl::try_new(exact, None)
        };
        Ok(Self { url: listing.map_err(|e| wrong(&e))?, glob, base: base.to_owned() })
    }
}

/// `url` without its pattern: the folder in which a pattern looks, with a `/` at its end, and empty for the working directory.
pub(crate) fn without_pattern(url: &str) -> &str {
    let exists = address::scheme(url).is_none() && LocalPath::new(url).exists();
    if exists { url } else { split_glob(url).0 }
}

/// `data/2024-*/x.csv` -> (`data/`, `2024-*/x.csv`): the folder up to the first segment with a wildcard.
///
/// In a URL with a scheme `?` starts a query, and `[` is legal; only `*` is a wildcard there.
pub(super) fn split_glob(url: &str) -> (&str, Option<&str>) {
    let wild: &[char] = if address::scheme(url).is_some() { &['*'] } else { &['*', '?', '['] };
    match url.find(wild) {
        None => (url, None),
        Some(at) => {
            let start = url[..at].rfind('/').map_or(0, |slash| slash + 1);
            (&url[..start], Some(&url[start..]))
        }
    }
}

/// How a name matches a pattern.
pub(super) enum Matched {
    /// The pattern matches the name.
    Whole,
    /// The pattern matches a folder above the file.
    Folder,
    Not,
}

/// Matches as a shell does: `*` stays within a segment, `**` crosses segments, a folder matches with its files, and a pattern that ends
/// in `/` matches only folders.
pub(super) fn matched(glob: &glob::Pattern, name: &str) -> Matched {
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    if !glob.as_str().ends_with('/') && glob.matches_with(name, options) {
        return Matched::Whole;
    }
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if glob.matches_with(above, options) || glob.matches_with(&name[..=above.len()], options) {
            return Matched::Folder;
        }
        folder = above;
    }
    Matched::Not
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_starts_at_the_first_segment_with_a_wildcard() {
        assert_eq!(split_glob("a/b*/c.csv"), ("a/", Some("b*/c.csv")));
        assert_eq!(split_glob("*.csv"), ("", Some("*.csv")));
        assert_eq!(split_glob("a/b.csv"), ("a/b.csv", None));
        assert_eq!(split_glob("s3://bucket/a/*.csv"), ("s3://bucket/a/", Some("*.csv")));
    }

    #[test]
    fn a_star_stays_within_its_folder() {
        let kind = |pattern: &str, name: &str| match matched(&glob::Pattern::new(pattern).unwrap(), name) {
            Matched::Whole => "whole",
            Matched::Folder => "folder",
            Matched::Not => "not",
        };
        assert_eq!(kind("*.csv", "a.csv"), "whole");
        assert_eq!(kind("*.csv", "sub/a.csv"), "not");
        assert_eq!(kind("**/*.csv", "sub/deep/a.csv"), "whole");
        assert_eq!(kind("2024-*", "2024-01/a.csv"), "folder");
        assert_eq!(kind("sci.*/", "sci.med/59001"), "folder");
        assert_eq!(kind("*/sci.*/", "20/sci.med/deep/59001"), "folder");
        assert_eq!(kind("**/", "sci.med/59001"), "folder");
        assert_eq!(kind("sci.*/", "sci.med"), "not");
        assert_eq!(kind("sci.*/", "rec/sci.med/59001"), "not");
    }
}
