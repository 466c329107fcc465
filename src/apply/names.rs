//! Where a file of the source goes in the result: to the path that it has in the source.

use std::collections::BTreeSet;

use crate::address;
use crate::error::{Error, Result};
use crate::job::Format;
use crate::source::{Rewriting, SourceFile, format_of};

/// The paths of files in the folder of those that stay, in the order of the files.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where two files would have one path.
pub(super) fn paths(files: &[SourceFile], format: Format) -> Result<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut paths = Vec::with_capacity(files.len());
    for file in files {
        let mut path = relative(file.name());
        if matches!(format_of(format).rewriting, Rewriting::AsParquet) {
            path.push_str(".parquet");
        }
        if path.is_empty() || !seen.insert(path.clone()) {
            return Err(Error::job(format!(
                "{} and another file of the source would both be written to kept/{path}: run a job over each folder",
                file.path()
            )));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// A name without what leads out of a folder: files of two URLs that share their names go by their whole paths.
fn relative(name: &str) -> String {
    let name = address::scheme(name).map_or(name, |(_, rest)| rest);
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for (name, expected) in [
            ("day=1/a b.parquet", "day=1/a b.parquet"),
            ("s3://bucket/a/x.csv", "bucket/a/x.csv"),
            ("/data/a/x.csv", "data/a/x.csv"),
            ("../a/./x.csv", "a/x.csv"),
            ("a..b/x", "a..b/x"),
        ] {
            assert_eq!(relative(name), expected);
        }
    }
}
