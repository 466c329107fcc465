//! The lineage of outputs: which outputs a run was made against.
//!
//! Merging compares nothing, so each output must have been made against all those before it. A merged output replaces
//! the outputs that it was merged from.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::job::{InputFile, Job, NewPairs, Source, fingerprint};
use crate::output::Stored;
use crate::output::manifest::{ReferenceOutput, Run, read_job};

/// The outputs that each of `outputs` was made against. If that is a second source, an output of this source among `outputs` takes its
/// place.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a job in a manifest cannot be read.
pub(crate) fn made_against(outputs: &[Stored]) -> Result<Vec<Vec<ReferenceOutput>>> {
    let of_one = |stored: &Stored| {
        let mut against = stored.manifest().reference_outputs.clone();
        if let (Some(second), Some(record)) = (stored.job().second_source(), against.first_mut()) {
            for other in outputs {
                if is_of(other, stored.job(), second, &record.fingerprint)? {
                    record.fingerprint.clone_from(&other.manifest().fingerprint);
                    break;
                }
            }
        }
        Ok(against)
    };
    outputs.iter().map(of_one).collect()
}

/// Whether `output` holds the documents of `second`, the second source of the job `made`. `recorded` is the fingerprint of that source in
/// the manifest. The job of `output` may name other columns and another group: they decide no document.
fn is_of(output: &Stored, made: &Job, second: &Source, recorded: &str) -> Result<bool> {
    if !output.manifest().merged.is_empty() {
        return Ok(false);
    }
    let origin = output.origin();
    let job = read_job(&origin.job, &output.manifest().resemblance)?;
    if job.against.is_some() {
        return Ok(false);
    }
    let source = Source { columns: second.columns.clone(), group: second.group.clone(), ..job.source };
    let files = origin.inputs.iter().filter(|file| file.modified.is_some());
    let files: Vec<InputFile> = files.map(InputFile::as_listed).collect();
    Ok(fingerprint(&made.of_second_source(&source), &files) == recorded)
}

/// Checks that every output comes after those that it was made `against`, since its clusters have documents of those, and
/// that no run's documents are repeated. `named_by` is the setting that names the outputs.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with both outputs.
pub(crate) fn check_order(
    outputs: &[Stored],
    against: &[Vec<ReferenceOutput>],
    named_by: &str,
) -> Result<()> {
    // The URLs of outputs, by the fingerprints of their runs and of the runs that they were merged from.
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for (stored, against) in outputs.iter().zip(against) {
        let (manifest, shown) = (stored.manifest(), stored.layout().shown());
        let is_named = |output: &&ReferenceOutput| {
            let merged = &output.merged;
            named.contains_key(output.fingerprint.as_str())
                || (!merged.is_empty() && merged.iter().all(|run| named.contains_key(run.as_str())))
        };
        if let Some(ReferenceOutput { output, .. }) = against.iter().find(|output| !is_named(output)) {
            if stored.job().second_source().is_some() {
                return Err(Error::job(format!(
                    "{shown} was made with against.source, and {named_by} names no output of that source ({output}) before it: run a \
                     job with {output} as its source and with the other settings of {shown}, and name its output before {shown}; if \
                     the files have changed since, run the job of {shown} again first"
                )));
            }
            return Err(Error::job(match named.values().any(|name| name == output) {
                true => format!(
                    "{shown} was made by a run against {output}, which holds another result now: run the job of {shown} again"
                ),
                false => format!(
                    "{shown} was made by a run against {output}, which {named_by} does not name before it: name both, in the order \
                     in which they were made"
                ),
            }));
        }
        for run in std::iter::once(&manifest.fingerprint).chain(&manifest.merged) {
            if let Some(other) = named.insert(run, shown) {
                return Err(Error::job(format!(
                    "{other} and {shown} hold the documents of one run, so {named_by} names these twice: name one of the two"
                )));
            }
        }
    }
    Ok(())
}

/// Why the documents of an output of the job `made` were not compared with each other, and what to do; `None` if they were.
pub(super) fn own_pairs_missing(made: &Job) -> Option<[&'static str; 2]> {
    if !made.candidates.method.compares() {
        return Some([
            "candidates.method = \"none\", so its documents were not compared with each other",
            "run its job again with another method",
        ]);
    }
    (made.new_pairs() == Some(NewPairs::WithReference)).then_some([
        "against.pairs = \"new-old\", so its documents were not compared with each other",
        "run its job again with \"new-old+new-new\"",
    ])
}

/// Checks that every two documents of the outputs, which were made `against` these, were compared.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with the two outputs whose pairs are missing.
pub(crate) fn check_compared(outputs: &[Stored], against: &[Vec<ReferenceOutput>]) -> Result<()> {
    for (at, (later, seen)) in outputs.iter().zip(against).enumerate() {
        let shown = later.layout().shown();
        if let Some([why, what_to_do]) = own_pairs_missing(later.job()) {
            let against: Vec<&str> =
                later.manifest().reference_outputs.iter().map(|of| of.output.as_str()).collect();
            let against = match against.as_slice() {
                [] => String::new(),
                outputs => format!(" against {}", outputs.join(", ")),
            };
            return Err(Error::job(format!(
                "{shown} was made{against} with {why}, and their pairs are missing: {what_to_do}"
            )));
        }
        let seen = KnownFingerprints::of(seen);
        if let Some(unseen) = outputs.iter().take(at).find(|earlier| !seen.has(earlier.manifest())) {
            let unseen = unseen.layout().shown();
            return Err(Error::job(format!(
                "{shown} was not made against all documents of {unseen}, so pairs of one of these with one of {shown} are missing: run \
                 the job of {shown} again with {unseen} in against.output"
            )));
        }
    }
    Ok(())
}

/// The fingerprints of the outputs that a run was made against.
pub(crate) struct KnownFingerprints<'a>(BTreeSet<&'a str>);

impl<'a> KnownFingerprints<'a> {
    /// Those that it was made `against`: see [`made_against`].
    pub(crate) fn of(against: &'a [ReferenceOutput]) -> Self {
        let of_one = |output: &'a ReferenceOutput| std::iter::once(&output.fingerprint).chain(&output.merged);
        Self(against.iter().flat_map(of_one).map(String::as_str).collect())
    }

    /// Whether the run was made against `other`, or against all that `other` was merged from.
    pub(crate) fn has(&self, other: &Run) -> bool {
        self.0.contains(other.fingerprint.as_str())
            || (!other.merged.is_empty() && other.merged.iter().all(|run| self.0.contains(run.as_str())))
    }
}
