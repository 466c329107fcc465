//! Resolves a job file to a job that cannot be invalid: one module per group of sections.

mod against;
mod clusters;
mod engine;
mod frequency;
mod output;
mod passages;
mod rows;
mod search;
mod sketches;
mod source;
mod wrong;

use super::file::File;
use super::{Input, Job, Method, Reuse};
use crate::error::{Error, Result};
use against::{against_of, check_id};
use clusters::{check_alarms, clusters_of};
use engine::engine_of;
use frequency::{check_frequency, frequency_of};
use output::{check_buckets, check_output};
use passages::passages_of;
use search::{check_candidates, check_lsh, check_score, lsh_of};
use sketches::{bits_of, check_minhash, check_shingle, check_short, minhash_of, shingle_of};
use source::{reuse_of, reused_source, source_of};

pub(crate) use sketches::MAX_SHINGLE_SIZE;
pub(super) use source::reuse;
pub(super) use wrong::Wrong;
use wrong::{Checked, wrong};

impl Job {
    /// Checks a job from the manifest of an output by the rules for job files, since anyone may have changed it. Its
    /// source and its output are not checked.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
    pub fn check(&self) -> Result<()> {
        checked(self).map_err(|Wrong { key, fault }| Error::job(format!("`{key}` {fault}")))
    }
}

fn checked(job: &Job) -> Checked<()> {
    check_shingle(&job.shingle)?;
    job.max_frequency.map_or(Ok(()), check_frequency)?;
    check_minhash(&job.minhash, job.shingle.hash)?;
    check_score(&job.score, job.candidates.method)?;
    check_short(&job.shingle, &job.score)?;
    check_lsh(&job.lsh, job.minhash.permutations)
}

/// The job that `file` describes: defaults filled in, every rule checked, bands and rows chosen.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
pub fn resolve(file: File) -> Result<Job> {
    job(file, None).map_err(|Wrong { key, fault }| Error::job(format!("`{key}` {fault}")))
}

/// The job of `file`. If its source is a finished output, `made` is the job that made that one.
pub(super) fn job(file: File, made: Option<&Job>) -> Checked<Job> {
    let File {
        name,
        source,
        shingle,
        minhash,
        lsh,
        candidates,
        against,
        score,
        clusters,
        passages,
        alarms,
        output,
        engine,
    } = file;
    let reused = reuse_of(&source, shingle.is_some(), minhash.is_some())?;
    let max_frequency = match made {
        Some(made) if reused.is_some() => made.max_frequency,
        _ => shingle.as_ref().and_then(|shingle| shingle.max_frequency),
    };
    let bits = minhash.as_ref().and_then(|minhash| minhash.bits);
    let (source, shingle, mut minhash) = match (&reused, made) {
        (None, _) => {
            let shingle = shingle_of(shingle.unwrap_or_default())?;
            let minhash = minhash_of(minhash.unwrap_or_default(), shingle.hash)?;
            let by_default = source.id.is_none();
            let source = source_of(source)?;
            check_id(by_default, &source, against.as_ref())?;
            (source, shingle, minhash)
        }
        (Some(_), Some(made)) => {
            (reused_source(made, source.group)?, made.shingle.clone(), made.minhash.clone())
        }
        (Some(_), None) => {
            return wrong(
                "source.format",
                "is \"output\", which `resemblance run` and `check` alone can read: expected the format of the files that hold \
                 the texts",
            );
        }
    };
    check_score(&score, candidates.method)?;
    check_short(&shingle, &score)?;
    let against = against.map(|against| against_of(against, reused.is_some(), &shingle)).transpose()?;
    let max_frequency = frequency_of(max_frequency, &shingle)?;
    check_candidates(&candidates, &source, against.as_ref(), passages.is_some())?;
    let lsh = lsh_of(&lsh, minhash.permutations, score.least_jaccard(), candidates.method)?;
    if reused.is_none() {
        let bands = (candidates.method == Method::Lsh).then_some(&lsh);
        minhash.bits = bits_of(bits, minhash.family, bands)?;
        check_minhash(&minhash, shingle.hash)?;
    }
    let clusters = clusters_of(clusters, &source, &score)?;
    let passages = passages.map(|passages| passages_of(&passages)).transpose()?;
    check_alarms(&alarms, &source)?;
    check_output(&output, &source)?;
    check_buckets(&output, candidates.method)?;
    let engine = engine_of(engine)?;
    let name = name.unwrap_or_else(|| "unnamed".into());
    let keeps_shingles = made.is_some_and(|made| made.output.keep.shingles());
    let input = match reused {
        Some(output) => Input::Reuse(Reuse { output, keeps_shingles }),
        None => Input::Read,
    };
    Ok(Job {
        name,
        source,
        input,
        shingle,
        max_frequency,
        minhash,
        lsh,
        candidates,
        against,
        score,
        clusters,
        passages,
        alarms,
        output,
        engine,
    })
}
