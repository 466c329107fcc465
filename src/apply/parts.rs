//! The files of the source in parts: each is a task, and is recorded when it is done.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, TryStreamExt, stream};

use super::manifest::{Part, SourceRecord};
use super::work::Work;
use super::{one_file, target};
use crate::error::{Error, Result};
use crate::source::SourceFile;

/// Bytes or files after which a part ends. A file is never divided.
const PART_BYTES: u64 = 8 << 20;
const PART_FILES: usize = 100;

/// All files of the source, written.
pub(super) struct Done {
    /// In their order.
    pub files: Vec<SourceRecord>,
    /// Those of them that an earlier attempt had written.
    pub reused: u64,
}

/// Writes files of the source, each under its path, so many parts at once.
///
/// # Errors
/// The first one of a file. Parts that are done stay recorded.
pub(super) async fn write(
    work: Arc<Work>,
    files: Vec<(SourceFile, String)>,
    fingerprint: &str,
    tasks: usize,
) -> Result<Done> {
    let parts = parts(&files.iter().map(|(file, _)| file.size()).collect::<Vec<_>>());
    let files: Arc<[(SourceFile, String)]> = files.into();
    let count = files.len();
    let run = |(number, range): (usize, Range<usize>)| {
        let (work, files, key) = (Arc::clone(&work), Arc::clone(&files), fingerprint.to_owned());
        let task = SpawnedTask::spawn(async move { part(&work, number, &files[range], key).await });
        async move {
            let ended = task.join().await;
            ended
                .map_err(|e| Error::bug("a file was not written to its end").because(e))?
                .map(|done| (number, done))
        }
    };
    let mut running = stream::iter(parts.into_iter().enumerate()).map(run).buffer_unordered(tasks.max(1));
    let (mut done, mut written, mut reused) = (Vec::new(), 0, 0);
    while let Some((number, (part, is_reused))) = running.try_next().await? {
        written += part.files.len();
        reused += if is_reused { part.files.len() as u64 } else { 0 };
        tracing::info!(written, files = count, "files written");
        done.push((number, part.files));
    }
    done.sort_by_key(|(number, _)| *number);
    Ok(Done { files: done.into_iter().flat_map(|(_, files)| files).collect(), reused })
}

/// A part, and whether an earlier attempt had done it.
async fn part(
    work: &Work,
    number: usize,
    files: &[(SourceFile, String)],
    fingerprint: String,
) -> Result<(Part, bool)> {
    if let Some(part) = target::finished_part(&work.target, number, &fingerprint).await? {
        return Ok((part, true));
    }
    let mut records = Vec::with_capacity(files.len());
    for (file, path) in files {
        records.push(one_file::write(work, file, path).await?);
    }
    let part = Part { fingerprint, files: records };
    target::put_part(&work.target, number, &part).await?;
    Ok((part, false))
}

/// Files of these sizes in parts, which depend on nothing else: another attempt has the same ones.
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
    fn every_file_is_in_one_part() {
        assert!(parts(&[]).is_empty());
        assert_eq!(parts(&[1; 250]), [0..100, 100..200, 200..250]);
        assert_eq!(parts(&[PART_BYTES, 1, PART_BYTES, 5]), [0..1, 1..3, 3..4]);
    }
}
