//! Whether a URL of the source can match files of a folder, now or later.

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;

use super::pattern::InputPattern;
use crate::error::Result;

/// The files that a URL of the source can match: a file, a folder, or the matches of a pattern under a folder.
#[derive(Debug)]
pub(crate) struct Reach {
    store: ObjectStoreUrl,
    base: Path,
    pattern: Option<Vec<glob::Pattern>>,
}

impl Reach {
    /// The reach of `url`. Paths are made absolute, and links in them are followed.
    ///
    /// # Errors
    /// When it is neither a path nor a URL.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let pattern = InputPattern::parse(url)?;
        let parts = |glob: &glob::Pattern| {
            // A part that is not a pattern by itself (`**` next to other letters) may match anything.
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

    /// Whether all of it is in the folder `root`.
    pub(crate) fn lies_in(&self, store: &ObjectStoreUrl, root: &Path) -> bool {
        same_store(&self.store, store) && self.base.prefix_matches(root)
    }

    /// Whether it can match files under the folder `root`.
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
        // The pattern matches a folder above the root, the root, or something in it.
        true
    }
}

/// Whether two URLs name one store: `s3a` is another name for `s3`.
pub(crate) fn same_store(a: &ObjectStoreUrl, b: &ObjectStoreUrl) -> bool {
    let plain = |url: &ObjectStoreUrl| {
        let url = url.as_str().trim_end_matches('/').to_owned();
        match url.strip_prefix("s3a://") {
            Some(bucket) => format!("s3://{bucket}"),
            None => url,
        }
    };
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(source: &str, root: &str) -> (bool, bool) {
        let (scheme, rest) = root.split_once("://").unwrap();
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let store = ObjectStoreUrl::parse(format!("{scheme}://{bucket}")).unwrap();
        let (reach, root) = (Reach::of(source).unwrap(), Path::from(path));
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
    }

    #[test]
    fn a_pattern_takes_in_what_it_can_match() {
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
