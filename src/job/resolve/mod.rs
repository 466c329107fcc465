//! A job file becomes a job that cannot be invalid: a file for the sections that belong together.

mod against;
mod clusters;
mod engine;
mod output;
mod search;
mod sketches;
mod source;
mod wrong;

use super::file::{self, File};
use super::{Family, Job, Minhash, Modulus, Normalize, Reuse, Score};
use crate::error::{Error, Result};
use against::against_of;
use clusters::{alarms_of, clusters_of};
use engine::engine_of;
use output::output_of;
use search::{candidates_of, lsh_of, score_of};
use sketches::{MERSENNE_31, ONES_32, coefficients_of, minhash_of, shingle_of, short_of};
use source::{reuse_of, reused_source, source_of};

pub(crate) use engine::MAX_THREADS;
pub(crate) use sketches::{MAX_PERMUTATIONS, MAX_SHINGLE_SIZE};
#[cfg(test)]
pub(crate) use source::DOCUMENTS_COLUMNS;
pub(super) use source::reuse;
pub(super) use wrong::Wrong;
use wrong::{Checked, wrong};

impl Job {
    /// Holds a job that was read back, as from the manifest of an output, against the rules for job files: anybody may have
    /// written it. What was read and where it went is not looked at.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
    pub fn check(&self) -> Result<()> {
        checked(self).map_err(|Wrong { key, said }| Error::job(format!("`{key}` {said}")))
    }
}

/// Writes the sections as a job file would have them, and resolves them again.
fn checked(job: &Job) -> Checked<()> {
    let Job {
        name: _,
        source: _,
        reuse: _,
        merge: _,
        shingle,
        minhash,
        lsh,
        candidates,
        against: _,
        score,
        clusters: _,
        alarms: _,
        output: _,
        engine: _,
    } = job;
    shingle_of(file::Shingle {
        normalize: shingle.normalize.iter().map(Normalize::to_string).collect(),
        unit: shingle.unit,
        words: shingle.words,
        size: Some(shingle.size),
        separator: shingle.separator.clone(),
        hash: shingle.hash,
        min_words: shingle.min_words,
        short: shingle.short,
    })?;
    let (family, modulus) = match minhash.family {
        Family::MultiplyShift => (file::Family::MultiplyShift, None),
        Family::OnePermutation => (file::Family::OnePermutation, None),
        Family::Linear(modulus) => {
            let modulus = match modulus {
                Modulus::Is(MERSENNE_31) => file::Modulus::Name("2^31-1".into()),
                Modulus::Is(ONES_32) => file::Modulus::Name("2^32-1".into()),
                Modulus::Is(number) => file::Modulus::Number(i64::try_from(number).unwrap_or(i64::MAX)),
                Modulus::NextPrime => file::Modulus::Name("next-prime".into()),
            };
            (file::Family::Linear, Some(modulus))
        }
    };
    let Minhash { permutations, seed, ref coefficients, .. } = *minhash;
    // The coefficients were read when the job was resolved, and are looked at as they are.
    let resolved =
        minhash_of(file::Minhash { permutations, seed, family, modulus, coefficients: None }, shingle.hash)?;
    coefficients_of(coefficients.as_deref(), permutations, resolved.family)?;
    let Score { threshold, measure, by, prefilter } = *score;
    score_of(&file::Score { threshold, measure, by, prefilter }, candidates.method)?;
    short_of(shingle, score)?;
    let lsh = file::Lsh {
        bands: Some(lsh.bands),
        rows: Some(lsh.rows),
        choose: None,
        target_recall: None,
        bucket_hash: lsh.bucket_hash,
        table_size: lsh.table_size,
        hot_bucket: Some(lsh.hot_bucket),
    };
    lsh_of(&lsh, permutations, score.threshold, candidates.method)?;
    Ok(())
}

/// The job that `file` describes: defaults filled in, every rule checked, bands and rows chosen.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job), with the key and what is allowed there.
pub fn resolve(file: File) -> Result<Job> {
    job(file, None).map_err(|Wrong { key, said }| Error::job(format!("`{key}` {said}")))
}

/// The job that `file` describes. Where its source is a finished output, `made` is the job that made that one.
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
        alarms,
        output,
        engine,
    } = file;
    let reused = reuse_of(&source, shingle.is_some(), minhash.is_some())?;
    let (source, shingle, minhash) = match (&reused, made) {
        (None, _) => {
            let shingle = shingle_of(shingle.unwrap_or_default())?;
            let minhash = minhash_of(minhash.unwrap_or_default(), shingle.hash)?;
            (source_of(source)?, shingle, minhash)
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
    let score = score_of(&score, candidates.method)?;
    short_of(&shingle, &score)?;
    let against = against.map(|against| against_of(against, reused.is_some(), &shingle)).transpose()?;
    let candidates = candidates_of(&candidates, &source, against.as_ref())?;
    let lsh = lsh_of(&lsh, minhash.permutations, score.threshold, candidates.method)?;
    let clusters = clusters_of(clusters, &source, against.as_ref())?;
    let alarms = alarms_of(alarms, &source)?;
    let output = output_of(output, &source)?;
    let engine = engine_of(engine)?;
    let name = name.unwrap_or_else(|| "unnamed".into());
    let keeps_shingles = made.is_some_and(|made| made.output.keep.shingles());
    let reuse = reused.map(|output| Reuse { output, keeps_shingles });
    Ok(Job {
        name,
        source,
        reuse,
        merge: None,
        shingle,
        minhash,
        lsh,
        candidates,
        against,
        score,
        clusters,
        alarms,
        output,
        engine,
    })
}
