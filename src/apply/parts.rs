//! The files of the sources in parts: each is recorded when it is done.

use std::ops::Range;
use std::time::Instant;

use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job;
use crate::output::Layout;
use crate::rewrite::record::{FinishedPart, finished_part};
use crate::rewrite::{FileToWrite, PartToWrite, Rewrite, SourceRecord};
use crate::source::TextPlace;

/// Bytes or files after which a part ends. A file is never divided.
const PART_BYTES: u64 = 8 << 20;
const PART_FILES: usize = 100;

/// The name by which the engine knows the plan.
const STEP: &str = "rewrite";

/// The files of a source.
pub(super) struct SourceToWrite {
    pub source: job::Source,
    /// Where the texts are in them.
    pub text: TextPlace,
    /// In the order of their paths.
    pub files: Vec<FileToWrite>,
}

/// All files, written.
pub(super) struct Done {
    /// In their order.
    pub files: Vec<SourceRecord>,
    /// Those of them that an earlier attempt had written.
    pub reused: u64,
}

/// Writes the files of `sources` as `rewrite` says, which has no parts yet. This is `stage` number so many, the last one.
///
/// # Errors
/// The first one of a file. Parts that are done stay recorded.
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
            "what was written to {} was changed by another process: let only one process at a time write there",
            target.shown()
        )));
    };
    let rows = all.iter().flat_map(|part| &part.files).map(|file| file.counts.read).sum();
    control.progress.stage_ends(STEP, rows, began.elapsed().as_secs_f64(), false);
    Ok(Done { files: all.into_iter().flat_map(|part| part.files).collect(), reused })
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
