//! The outcome of a run, and the result that its output may already hold.

use super::difference::{RunReads, difference};
use crate::error::{Error, Result};
use crate::job::{self, Job};
use crate::output::Layout;
use crate::output::check::{self, CheckDepth};
use crate::output::manifest::Run as Manifest;
use crate::output::process::boot;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The manifest of the output.
    pub manifest: Manifest,
    /// Whether the output was finished before this run, which then did nothing.
    pub already_finished: bool,
    /// Stages that an earlier run had finished.
    pub stages_reused: usize,
}

/// What happens to an output that holds another result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// The run ends with an error.
    Fail,
    /// The result is replaced when the new one is complete.
    Overwrite,
}

/// The result of `job` over what it `reads`, by its fingerprint, if the output holds it already; `None` if the
/// output holds no finished result.
///
/// # Errors
/// If the result is that of another job or of another format, or is damaged.
pub(super) async fn finished(
    output: &Layout,
    fingerprint: &str,
    job: &Job,
    reads: RunReads,
) -> Result<Option<Outcome>> {
    let depth = |manifest: &Manifest| {
        manifest.check_format(output.shown())?;
        if manifest.fingerprint != fingerprint {
            let place = match job.input {
                job::Input::Merge(_) => "name another folder with --to",
                job::Input::Read | job::Input::Reuse(_) => "choose another output.url",
            };
            return Err(Error::job(format!(
                "{} holds the result {}: {place}, or replace it with --overwrite",
                output.shown(),
                difference(job, &reads, manifest)
            )));
        }
        // Files are not synced one by one, so a power cut may have damaged them. Only if the machine that wrote them
        // has not restarted are their sizes enough.
        let same_start = manifest.boot.is_some() && manifest.boot == boot();
        Ok(if output.folder().is_some() && !same_start { CheckDepth::Bytes } else { CheckDepth::Sizes })
    };
    match check::result(output, depth, &check::unseen).await? {
        None => Ok(None),
        Some((manifest, damage)) if damage.is_empty() => {
            Ok(Some(Outcome { manifest, already_finished: true, stages_reused: 0 }))
        }
        Some((_, damage)) => Err(check::damaged(output, &damage)),
    }
}
