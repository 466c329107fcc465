//! The URLs of a job: paths, URLs and patterns, and the files that they can match.

use std::path::Path as LocalPath;
use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use super::disk::LOCAL;
use crate::address;
use crate::error::{Context, Error, Result};

pub(super) struct InputPattern {
    /// The listed folder, or a file.
    pub url: ListingTableUrl,
    /// The pattern of names below `url`.
    pub glob: Option<glob::Pattern>,
    /// The path of `url` as written in the job.
    pub base: String,
}

impl InputPattern {
    /// Parses a URL of the job. Fails with `Kind::Input` if `url` is neither a path nor a URL.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong =
            |e: &dyn std::fmt::Display| Error::input(format!("`{url}` is neither a path nor a URL: {e}"));
        address::check(url).map_err(|why| Error::job(format!("a URL in [source] url {why}")))?;
        let remote = address::scheme(url).is_some();
        // An existing file is not a pattern, even if its name contains `[` or `*`.
        let exists = !remote && LocalPath::new(url).exists();
        let (base, pattern) = if exists { (url, None) } else { split_glob(url) };
        let glob = pattern.map(glob::Pattern::new).transpose().map_err(|e| wrong(&e))?;
        let place = if base.is_empty() { "./" } else { base };
        let listing = if remote {
            ListingTableUrl::try_new(address::url(place)?, None)
        } else {
            let mut absolute = address::absolute(place).context(|| format!("`{url}` cannot be read"))?;
            if place.ends_with('/') || exists && absolute.is_dir() {
                absolute.push("");
            }
            let exact = Url::from_file_path(&absolute).map_err(|()| wrong(&"it cannot be made absolute"))?;
            ListingTableUrl::try_new(exact, None)
        };
        Ok(Self { url: listing.map_err(|e| wrong(&e))?, glob, base: base.to_owned() })
    }

    pub(super) fn is_local(&self) -> bool {
        self.url.object_store().as_str() == LOCAL
    }

    /// Returns the object store of the URL. `shown` is the name of the URL in errors.
    pub(super) fn store(&self, ctx: &SessionContext, shown: &str) -> Result<Arc<dyn ObjectStore>> {
        let store = ctx.runtime_env().object_store(self.url.object_store());
        store.context(|| format!("no storage is set up for `{shown}`"))
    }
}

/// Removes the pattern from a URL. The result is a folder that ends in `/`, or it is empty and means the working directory.
pub(crate) fn without_pattern(url: &str) -> &str {
    let exists = address::scheme(url).is_none() && LocalPath::new(url).exists();
    if exists { url } else { split_glob(url).0 }
}

/// Splits `data/2024-*/x.csv` into `data/` and `2024-*/x.csv` at the first segment with a wildcard. In a URL with a scheme, only `*` is a
/// wildcard: `?` starts a query and `[` is an ordinary character.
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

pub(super) enum Matched {
    /// The pattern matches the name.
    Whole,
    /// The pattern matches a folder above the file.
    Folder,
    Not,
}

/// Matches a name in the same way as a shell: `*` matches inside a segment, and `**` across segments. A matching folder includes its files,
/// and a pattern that ends in `/` matches only folders.
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

/// The files that a URL of the source can match now or later: a file, a folder, or the matches of a pattern.
#[derive(Debug)]
pub(crate) struct Reach {
    store: ObjectStoreUrl,
    base: Path,
    pattern: Option<Vec<glob::Pattern>>,
}

impl Reach {
    /// Returns the reach of `url`. Paths are made absolute, and links are followed.
    pub(crate) fn new(url: &str) -> Result<Self> {
        let pattern = InputPattern::parse(url)?;
        let parts = |glob: &glob::Pattern| {
            // An invalid segment, such as `a**`, is treated as a pattern that matches everything.
            let any = || glob::Pattern::new("**").unwrap_or_default();
            let parts = glob.as_str().trim_end_matches('/').split('/');
            parts.map(|part| glob::Pattern::new(part).unwrap_or_else(|_| any())).collect()
        };
        Ok(Self {
            store: pattern.url.object_store(),
            base: pattern.url.prefix().clone(),
            pattern: pattern.glob.as_ref().map(parts),
        })
    }

    /// Whether all matching files are in the folder `root`.
    pub(crate) fn lies_in(&self, store: &ObjectStoreUrl, root: &Path) -> bool {
        same_store(&self.store, store) && self.base.prefix_matches(root)
    }

    /// Whether the URL can match files in the folder `root`.
    pub(crate) fn takes_in(&self, store: &ObjectStoreUrl, root: &Path) -> bool {
        if !same_store(&self.store, store) {
            return false;
        }
        let Some(below) = root.prefix_match(&self.base) else { return false };
        let below: Vec<String> = below.map(|part| part.as_ref().to_owned()).collect();
        // Hidden names are skipped.
        if below.iter().any(|part| part.starts_with(['.', '_'])) {
            return false;
        }
        let Some(pattern) = &self.pattern else { return true };
        for (wanted, part) in pattern.iter().zip(&below) {
            if wanted.as_str() == "**" {
                return true;
            }
            if !wanted.matches(part) {
                return false;
            }
        }
        // The pattern matches the root, a folder above it, or files in it.
        true
    }
}

/// Whether two URLs name the same object store. `s3a` is another name for `s3`.
pub(crate) fn same_store(a: &ObjectStoreUrl, b: &ObjectStoreUrl) -> bool {
    let plain = |url: &ObjectStoreUrl| {
        let url = url.as_str().trim_end_matches('/');
        url.strip_prefix("s3a://").map_or_else(|| url.to_owned(), |bucket| format!("s3://{bucket}"))
    };
    plain(a) == plain(b)
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

    fn both(source: &str, root: &str) -> (bool, bool) {
        let (scheme, rest) = root.split_once("://").unwrap();
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let store = ObjectStoreUrl::parse(format!("{scheme}://{bucket}")).unwrap();
        let (reach, root) = (Reach::new(source).unwrap(), Path::from(path));
        (reach.lies_in(&store, &root), reach.takes_in(&store, &root))
    }

    #[test]
    fn folders_overlap_in_both_directions() {
        assert_eq!(both("s3://b/proj/documents/", "s3://b/proj"), (true, false));
        assert_eq!(both("s3://b/proj/", "s3://b/proj/out"), (false, true));
        assert_eq!(both("s3://b/proj", "s3://b/proj"), (true, true));
        assert_eq!(both("s3a://b/proj", "s3://b/proj/x"), (false, true));
        assert_eq!(both("s3://b/", "s3://b"), (true, true));
        assert_eq!(both("s3://b/projects/", "s3://b/proj"), (false, false));
        assert_eq!(both("s3://other/proj/", "s3://b/proj"), (false, false));
        // Hidden folders are skipped.
        assert_eq!(both("s3://b/proj/", "s3://b/proj/_out"), (false, false));
        for (pattern, takes) in [
            ("s3://b/a/*.parquet", false),
            ("s3://b/a/*", true),
            ("s3://b/a/*/", true),
            ("s3://b/*/", true),
            ("s3://b/x*/", false),
            ("s3://b/a/o*/pairs", true),
            ("s3://b/a/*/*/*.parquet", true),
            ("s3://b/a/x*/**", false),
            ("s3://b/**/*.parquet", true),
            ("s3://b/*/out", true),
            ("s3://b/*/in/*", false),
        ] {
            assert_eq!(both(pattern, "s3://b/a/out").1, takes, "{pattern}");
        }
        assert_eq!(both("s3://b/a/out/pairs/part-*", "s3://b/a/out"), (true, false));
    }
}
