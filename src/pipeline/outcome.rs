//! How a run ends, and the result that an output may hold already.

use super::difference::difference;
use crate::error::{Error, Result};
use crate::job::{InputFile, Job};
use crate::output::Layout;
use crate::output::check::{self, Depth};
use crate::output::manifest::Run as Manifest;
use crate::output::process::boot;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the output holds now.
    pub manifest: Manifest,
    /// Whether the output was finished before this run, which then did nothing.
    pub already_finished: bool,
    /// Stages that an earlier run had finished.
    pub stages_reused: usize,
}

/// What to do about an output that holds something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// Another job's result there is an error.
    Fail,
    /// It is replaced, once the new result is whole.
    Overwrite,
}

/// The result of `job` over the files `inputs`, whose fingerprint is given, that an output holds already; `None` if it holds no
/// finished one.
///
/// # Errors
/// Where it is another job's or of another format, or is damaged.
pub(super) async fn finished(
    output: &Layout,
    fingerprint: &str,
    job: &Job,
    inputs: &[InputFile],
) -> Result<Option<Outcome>> {
    let depth = |manifest: &Manifest| {
        manifest.check_format(output.shown())?;
        if manifest.fingerprint != fingerprint {
            return Err(Error::job(format!(
                "{} holds the result {}: choose another output.url, or replace it with --overwrite",
                output.shown(),
                difference(job, inputs, manifest)
            )));
        }
        // Files are not synced one by one, so a power cut may have lost some of them since: only within one start of the
        // machine that wrote them are their sizes enough.
        let same_start = manifest.boot.is_some() && manifest.boot == boot();
        Ok(if output.folder().is_some() && !same_start { Depth::Bytes } else { Depth::Sizes })
    };
    match check::result(output, depth, &check::unseen).await? {
        None => Ok(None),
        Some((manifest, damage)) if damage.is_empty() => {
            Ok(Some(Outcome { manifest, already_finished: true, stages_reused: 0 }))
        }
        Some((_, damage)) => Err(check::damaged(output, &damage)),
    }
}
