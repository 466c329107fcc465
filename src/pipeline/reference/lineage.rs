//! The lineage of outputs: which outputs a run was made against.
//!
//! Merging compares nothing, so each output must have been made against all those before it. A merged output replaces
//! the outputs that it was merged from.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::job::{Job, Method, NewPairs};
use crate::output::Stored;
use crate::output::manifest::{ReferenceOutput, Run};

/// Checks that every output comes after those that it was made against, since its clusters have documents of those, and
/// that no run's documents are repeated. `named_by` is the setting that names the outputs.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with both outputs.
pub(crate) fn check_order(outputs: &[Stored], named_by: &str) -> Result<()> {
    // The URLs of outputs, by the fingerprints of their runs and of the runs that they were merged from.
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for stored in outputs {
        let (manifest, shown) = (stored.manifest(), stored.layout().shown());
        let is_named = |output: &&ReferenceOutput| {
            let merged = &output.merged;
            named.contains_key(output.fingerprint.as_str())
                || (!merged.is_empty() && merged.iter().all(|run| named.contains_key(run.as_str())))
        };
        if let Some(ReferenceOutput { output, .. }) =
            manifest.reference_outputs.iter().find(|output| !is_named(output))
        {
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
    if made.candidates.method == Method::None {
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

/// Checks that every two documents of the outputs were compared.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with the two outputs whose pairs are missing.
pub(crate) fn check_compared(outputs: &[Stored]) -> Result<()> {
    for (at, later) in outputs.iter().enumerate() {
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
        let seen = Seen::by(later.manifest());
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
pub(crate) struct Seen<'a>(BTreeSet<&'a str>);

impl<'a> Seen<'a> {
    pub(crate) fn by(run: &'a Run) -> Self {
        let of_one = |output: &'a ReferenceOutput| std::iter::once(&output.fingerprint).chain(&output.merged);
        Self(run.reference_outputs.iter().flat_map(of_one).map(String::as_str).collect())
    }

    /// Whether the run was made against `other`, or against all that `other` was merged from.
    pub(crate) fn has(&self, other: &Run) -> bool {
        self.0.contains(other.fingerprint.as_str())
            || (!other.merged.is_empty() && other.merged.iter().all(|run| self.0.contains(run.as_str())))
    }
}
