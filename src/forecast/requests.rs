//! Requests to an object store.

use super::sample::{SourceSample, is_remote};
use super::view::{Amount, Forecast, Requests};
use crate::job::Job;
use crate::source::format_of;

/// Files in one page of a listing.
const LISTED: u64 = 1_000;
/// Bytes that a write sends at once.
const PART: u64 = 8 << 20;
/// Bytes that a read asks for at once.
const READ: u64 = 32 << 20;
/// Requests that the claim, the manifests and the checks of a run take, and those of each stage.
const OF_RUN: u64 = 30;
const OF_STAGE: u64 = 4;
/// Reads of a file of a stage: its size, its footer and its columns, by each stage that needs it.
const OF_FILE: u64 = 8;
/// How far the numbers may be off.
const FEWER: f64 = 0.3;
const MORE: f64 = 3.0;

/// The requests of a run; `None` if neither source nor output is in an object store.
pub(super) fn of(job: &Job, sample: &SourceSample, forecast: &Forecast) -> Option<Requests> {
    let output = is_remote(&job.output.url);
    if !sample.is_remote && !output {
        return None;
    }
    let (mut reads, mut writes) = (0, 0);
    if sample.is_remote {
        // The texts of candidates are read once more.
        let passes = if forecast.pairs.value > 0 { 2 } else { 1 };
        let parquet = format_of(job.source.format).is_parquet();
        let of_file = |(bytes, groups): &(u64, u64)| match parquet {
            true => 1 + passes * groups,
            false => passes * bytes.div_ceil(READ).max(1),
        };
        reads += job.source.urls.len() as u64 + sample.files.len() as u64 / LISTED;
        reads += sample.files.iter().map(of_file).sum::<u64>();
    }
    if output {
        let files = job.engine.thread_count() as u64;
        for stage in &forecast.stages {
            let bytes = stage.written_bytes.value;
            let parts = bytes.div_ceil(PART);
            // Large files begin, have parts, and are completed.
            writes += if parts > files { parts + 2 * files } else { files } + OF_STAGE;
            reads += OF_FILE * files + parts + OF_STAGE;
        }
        reads += OF_RUN;
        writes += OF_RUN;
    }
    let about = |number: u64| Amount::ranged([1.0, FEWER, MORE].map(|factor| factor * number as f64));
    Some(Requests { reads: about(reads), writes: about(writes) })
}
