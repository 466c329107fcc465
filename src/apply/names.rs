//! The path of a file in the result: the one that it has in its source, or, of several folders, in the folder that they share.

use std::collections::{BTreeMap, BTreeSet};

use crate::address;
use crate::delta;
use crate::error::{Error, Result};
use crate::job::{Format, Job, Source};
use crate::output::APPLIED;
use crate::source::{Listed, Rewriting, SourceFile, format_of};

/// The files that each source writes, with their paths in the result. A file of several sources is written by the first of them.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where two files would have one path, or one that `apply` needs, or a row may be several
/// documents.
pub(super) fn paths(sources: &[(Job, Listed)]) -> Result<Vec<Vec<(SourceFile, String)>>> {
    let files = each_once(sources)?;
    let below = match files.as_slice() {
        // Files of several URLs that share their names have whole paths for names.
        [files] if files.iter().all(|file| file.name() != file.path()) => None,
        several => Some(shared_folder(several.iter().flatten().map(SourceFile::path))),
    };
    let mut seen = BTreeSet::new();
    let mut of_file = |format: Format, file: &SourceFile| {
        let mut path = match &below {
            None => relative(file.name()),
            Some(folder) => relative(file.path().strip_prefix(folder.as_str()).unwrap_or(file.path())),
        };
        if matches!(format_of(format).rewriting, Rewriting::AsParquet) {
            path.push_str(".parquet");
        }
        if path.is_empty() || !seen.insert(path.clone()) {
            return Err(Error::job(format!(
                "{} and another file would both be written to {path}: run a job over each folder",
                file.path()
            )));
        }
        let first = path.split('/').next().unwrap_or_default();
        if [APPLIED, delta::FOLDER].contains(&first) {
            return Err(Error::job(format!(
                "{} would be written to {path}, where apply puts files of its own: rename the folder {first}, and run the job again",
                file.path()
            )));
        }
        Ok(path)
    };
    let mut of_source = |(job, _): &(Job, Listed), files: Vec<SourceFile>| {
        let paths = files.into_iter().map(|file| Ok((file.clone(), of_file(job.source.format, &file)?)));
        paths.collect::<Result<Vec<_>>>()
    };
    sources.iter().zip(files).map(|(source, files)| of_source(source, files)).collect()
}

/// The files of each source that no earlier one has.
fn each_once(sources: &[(Job, Listed)]) -> Result<Vec<Vec<SourceFile>>> {
    let mut seen: BTreeMap<String, &Source> = BTreeMap::new();
    let mut files = Vec::with_capacity(sources.len());
    for (job, listed) in sources {
        let mut of_source = Vec::new();
        for file in listed.files() {
            let other = seen.insert(file.path().to_owned(), &job.source);
            // If a row may be several documents, the paths are refused.
            if !other.is_some_and(|other| same_documents(other, &job.source)) {
                of_source.push(file);
            }
        }
        files.push(of_source);
    }
    Ok(files)
}

/// Whether a row that both sources read is the same document in both. They may read other rows of a file.
fn same_documents(one: &Source, other: &Source) -> bool {
    let rows = |source: &Source| Source {
        urls: Vec::new(),
        table_versions: Vec::new(),
        columns: Vec::new(),
        group: None,
        condition: None,
        limit: None,
        ..source.clone()
    };
    rows(one) == rows(other)
}

/// The longest folder that all of these paths lie in, with its `/`; empty if they share no folder.
fn shared_folder<'a>(mut paths: impl Iterator<Item = &'a str>) -> String {
    let Some(first) = paths.next() else { return String::new() };
    let folders = |path: &'a str| -> Vec<&'a str> {
        path.rsplit_once('/').map_or_else(Vec::new, |(folder, _)| folder.split('/').collect())
    };
    let mut shared = folders(first);
    for path in paths {
        let same = shared.iter().zip(folders(path)).take_while(|(a, b)| **a == *b).count();
        shared.truncate(same);
    }
    match shared.is_empty() {
        true => String::new(),
        false => shared.join("/") + "/",
    }
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
    fn the_shared_folder_is_that_of_all() {
        for (paths, expected) in [
            (&["lake/day=1/a.csv", "lake/day=2/a.csv"][..], "lake/"),
            (&["s3://b/day=1/a.csv", "s3://b/day=1/b.csv"], "s3://b/day=1/"),
            (&["/in/one.csv", "/in/oneself/two.csv"], "/in/"),
            (&["/in/a.csv", "/other/a.csv"], "/"),
            (&["a.csv", "in/b.csv"], ""),
            (&["a.csv", "b.csv"], ""),
        ] {
            assert_eq!(shared_folder(paths.iter().copied()), expected, "{paths:?}");
        }
    }

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
