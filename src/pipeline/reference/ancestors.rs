//! The lineage of outputs: the outputs that a run was made against. Checks that outputs can be used together.
//!
//! A merge does not compare documents, so each output must have been made against all outputs before it. A merged output replaces the
//! outputs that were merged into it.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::prelude::{DataFrame, col};

use crate::error::{Error, Result};
use crate::job::{InputFile, Job, NewPairs, Source, fingerprint};
use crate::output::Stored;
use crate::output::manifest::{ReferenceOutput, Run, read_job};

/// Returns for each of `outputs` the outputs that it was made against. If one of `outputs` contains the documents of a second source, it
/// takes the place of that source. Fails with `Kind::Input` if a job in a manifest cannot be read.
pub(crate) fn made_against(outputs: &[Stored]) -> Result<Vec<Vec<ReferenceOutput>>> {
    let against = |stored: &Stored| {
        let mut against = stored.manifest().reference_outputs.clone();
        if let (Some(second), Some(record)) = (stored.job().second_source(), against.first_mut()) {
            for other in outputs {
                if holds_source(other, stored.job(), second, &record.fingerprint)? {
                    record.fingerprint.clone_from(&other.manifest().fingerprint);
                    break;
                }
            }
        }
        Ok(against)
    };
    outputs.iter().map(against).collect()
}

/// Whether `output` contains the documents of `second`, the second source of the job `made`. `recorded` is the fingerprint of that source
/// in the manifest. The job of `output` may name other columns and another group, since they do not affect which documents it contains.
fn holds_source(output: &Stored, made: &Job, second: &Source, recorded: &str) -> Result<bool> {
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
    Ok(fingerprint(&made.second_source_job(&source), &files)? == recorded)
}

/// Checks that every output comes after the outputs that it was made `against`, since its clusters contain their documents. Also checks
/// that no run is included twice. `named_by` is the setting that names the outputs. Fails with `Kind::Job`, with the two outputs.
pub(crate) fn check_order(
    outputs: &[Stored],
    against: &[Vec<ReferenceOutput>],
    named_by: &str,
) -> Result<()> {
    // The URL of each output, by the fingerprint of its run. A merged output also has an entry for every run that was merged into it.
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
            let advice = if named.values().any(|name| name == output) {
                format!("which holds another result now: run the job of {shown} again")
            } else {
                format!(
                    "which {named_by} does not name before it: name both, in the order in which they were made"
                )
            };
            return Err(Error::job(format!("{shown} was made by a run against {output}, {advice}")));
        }
        for run in std::iter::once(&manifest.fingerprint).chain(&manifest.merged) {
            if let Some(other) = named.insert(run, shown) {
                return Err(Error::job(format!(
                    "{other} and {shown} hold the documents of the same run, so {named_by} names them twice: name one of the two"
                )));
            }
        }
    }
    Ok(())
}

/// Returns the reason why the job `made` did not compare its new documents with each other, and the advice.
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

/// Checks that every two documents in the outputs were compared. `against` is the result of [`made_against`]. Fails with `Kind::Job`,
/// with the outputs, if pairs are missing.
pub(crate) fn check_compared(outputs: &[Stored], against: &[Vec<ReferenceOutput>]) -> Result<()> {
    for (at, (later, seen)) in outputs.iter().zip(against).enumerate() {
        let shown = later.layout().shown();
        if let Some([why, advice]) = own_pairs_missing(later.job()) {
            let against: Vec<&str> =
                later.manifest().reference_outputs.iter().map(|of| of.output.as_str()).collect();
            let against = match against.as_slice() {
                [] => String::new(),
                outputs => format!(" against {}", outputs.join(", ")),
            };
            return Err(Error::job(format!(
                "{shown} was made{against} with {why}, and their pairs are missing: {advice}"
            )));
        }
        let seen = KnownFingerprints::new(seen);
        if let Some(unseen) = outputs.iter().take(at).find(|earlier| !seen.has(earlier.manifest())) {
            let unseen = unseen.layout().shown();
            return Err(Error::job(format!(
                "{shown} was not made against all documents of {unseen}, so pairs between the two are missing: run the job of {shown} \
                 again with {unseen} in against.output"
            )));
        }
    }
    Ok(())
}

/// The fingerprints of the runs that an output was made against.
pub(crate) struct KnownFingerprints<'a>(BTreeSet<&'a str>);

impl<'a> KnownFingerprints<'a> {
    pub(crate) fn new(against: &'a [ReferenceOutput]) -> Self {
        let runs = |output: &'a ReferenceOutput| std::iter::once(&output.fingerprint).chain(&output.merged);
        Self(against.iter().flat_map(runs).map(String::as_str).collect())
    }

    /// Whether the output was made against `other`, or against all outputs that were merged into `other`.
    pub(crate) fn has(&self, other: &Run) -> bool {
        self.0.contains(other.fingerprint.as_str())
            || (!other.merged.is_empty() && other.merged.iter().all(|run| self.0.contains(run.as_str())))
    }
}

/// Checks that all `outputs` have the same frequent shingles. Fails with `Kind::Job`, with two outputs that differ.
pub(crate) async fn same_frequent<'a>(outputs: impl Iterator<Item = &'a Stored>) -> Result<()> {
    let mut first: Option<(&Stored, DataFrame)> = None;
    for stored in outputs {
        let Some(frequent) = stored.frequent_shingles()? else { continue };
        let shingles = frequent.select(vec![col("shingle")])?;
        let Some((other, known)) = &first else {
            first = Some((stored, shingles));
            continue;
        };
        let differ = known.clone().except(shingles.clone())?.union(shingles.except(known.clone())?)?;
        if differ.limit(0, Some(1))?.count().await? > 0 {
            let [one, other] = [stored, *other].map(|stored| stored.layout().shown());
            return Err(Error::job(format!(
                "the tables `frequent_shingles` of {other} and {one} differ, so their signatures cannot be compared \
                 (shingle.max_frequency): run the job of {one} again with against.output = {other}, so that it uses its table"
            )));
        }
    }
    Ok(())
}
