//! The files of the sources. Chooses their paths in the result, and divides them into parts to rewrite.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job::{self, Format, Job, Source};
use crate::output::{APPLIED, Layout};
use crate::rewrite::work::{FinishedPart, finished_part};
use crate::rewrite::{FileToWrite, PartToWrite, Rewrite, SourceRecord};
use crate::source::{Listed, Rewriting, SourceFile, TextPlace, format_of};
use crate::{address, delta};

/// Returns the files to write for each source, with their paths in the result. A file in several sources is written only for the first of
/// these sources. Fails with `Kind::Job` if two files would have the same path, or if `apply` itself needs the path. Also fails if two
/// sources read different documents from one file.
pub(super) fn paths(sources: &[(Job, Listed)]) -> Result<Vec<Vec<(SourceFile, String)>>> {
    let files = each_once(sources)?;
    let below = match files.as_slice() {
        // If several URLs contain files with the same name, the names are whole paths.
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

/// Returns the files of each source that are not in an earlier source.
fn each_once(sources: &[(Job, Listed)]) -> Result<Vec<Vec<SourceFile>>> {
    let mut seen: BTreeMap<String, &Source> = BTreeMap::new();
    let mut files = Vec::with_capacity(sources.len());
    for (job, listed) in sources {
        let mut of_source = Vec::new();
        for file in listed.files() {
            let other = seen.insert(file.path().to_owned(), &job.source);
            // If two sources read different documents from a file, both entries are kept here. Their equal paths are then refused.
            if !other.is_some_and(|other| same_documents(other, &job.source)) {
                of_source.push(file);
            }
        }
        files.push(of_source);
    }
    Ok(files)
}

/// Whether both sources read the same document from the same row. They may read different rows of a file.
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

/// Returns the longest common folder of the paths, with a final `/`. Returns an empty text if the paths have no common folder.
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
    if shared.is_empty() { String::new() } else { shared.join("/") + "/" }
}

/// Returns a relative path that cannot lead out of a folder.
fn relative(name: &str) -> String {
    let name = address::scheme(name).map_or(name, |(_, rest)| rest);
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    parts.join("/")
}

/// A part ends after the file with which it reaches this number of bytes. A file is never divided.
const PART_BYTES: u64 = 8 << 20;
/// The maximum number of files in a part.
const PART_FILES: usize = 100;

/// The name of the stage in the engine and in progress reports.
const STEP: &str = "rewrite";

pub(super) struct SourceToWrite {
    pub source: job::Source,
    pub text: TextPlace,
    pub files: Vec<FileToWrite>,
}

/// The result after all files are written.
pub(super) struct Done {
    pub files: Vec<SourceRecord>,
    /// The number of files that an earlier attempt had written.
    pub reused: u64,
}

/// Writes the files of `sources` as the last stage, with the number `stage`. `rewrite` contains the settings and no parts.
pub(super) async fn write(
    rewrite: Rewrite,
    sources: Vec<SourceToWrite>,
    engine: &dyn Engine,
    target: &Layout,
    (control, stage): (&RunControl, usize),
) -> Result<Done> {
    let (mut done, mut ahead, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (origin, SourceToWrite { source, text, files }) in (0..).zip(sources) {
        let sizes: Vec<u64> = files.iter().map(|file| file.file.size()).collect();
        bytes += sizes.iter().sum::<u64>();
        for range in parts(&sizes) {
            let number = done.len();
            let finished = finished_part(target, number, &rewrite.fingerprint).await?;
            if finished.is_none() {
                let (source, text, files) = (source.clone(), text.clone(), files[range].to_vec());
                ahead.push(PartToWrite { number, origin, source, text, files });
            }
            done.push(finished);
        }
    }
    let began = Instant::now();
    control.progress.stage_begins(STEP, stage, stage);
    let reused = done.iter().flatten().map(|part| part.files.len() as u64).sum();
    if !ahead.is_empty() {
        engine.prepare(control).await?;
        let fingerprint = rewrite.fingerprint.clone();
        let numbers: Vec<usize> = ahead.iter().map(|part| part.number).collect();
        let plan = Rewrite { parts: ahead.into(), ..rewrite }.plan(engine.partitions(bytes))?;
        engine.run(STEP, plan, &engine.config(), control).await?;
        for number in numbers {
            done[number] = finished_part(target, number, &fingerprint).await?;
        }
    }
    let all: Option<Vec<FinishedPart>> = done.into_iter().collect();
    let Some(all) = all else {
        return Err(Error::input(format!(
            "another process changed files in {}: let only one process at a time write there",
            target.shown()
        )));
    };
    let rows = all.iter().flat_map(|part| &part.files).map(|file| file.counts.read).sum();
    control.progress.stage_ends(STEP, rows, began.elapsed().as_secs_f64(), false);
    Ok(Done { files: all.into_iter().flat_map(|part| part.files).collect(), reused })
}

/// Divides files with these sizes into parts. The parts depend only on the sizes, so every attempt has the same parts.
fn parts(sizes: &[u64]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, size) in sizes.iter().enumerate() {
        bytes += size;
        if bytes >= PART_BYTES || at + 1 - from >= PART_FILES {
            parts.push(from..at + 1);
            (from, bytes) = (at + 1, 0);
        }
    }
    if from < sizes.len() {
        parts.push(from..sizes.len());
    }
    parts
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

    #[test]
    fn every_file_is_in_one_part() {
        assert!(parts(&[]).is_empty());
        assert_eq!(parts(&[1; 250]), [0..100, 100..200, 200..250]);
        assert_eq!(parts(&[PART_BYTES, 1, PART_BYTES, 5]), [0..1, 1..3, 3..4]);
    }
}
