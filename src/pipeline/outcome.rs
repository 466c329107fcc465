//! How a run ends, and the result that an output may hold already.

use crate::error::{Error, Result};
use crate::output::manifest::Run as Manifest;
use crate::output::process::boot;
use crate::output::{Layout, check};

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the output holds now.
    pub manifest: Manifest,
    /// Whether the output was finished before this run, which then did nothing.
    pub already_finished: bool,
    /// Steps that an earlier run had finished.
    pub steps_reused: usize,
}

/// What to do about an output that holds something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// Another job's result there is an error.
    Fail,
    /// It is replaced, once the new result is whole.
    Overwrite,
}

/// The result that an output holds already; `None` if it holds no finished one.
///
/// # Errors
/// Where it is another job's or of another format, or is damaged.
pub(super) async fn finished(output: &Layout, fingerprint: &str) -> Result<Option<Outcome>> {
    loop {
        let Some(manifest) = output.manifest().await? else { return Ok(None) };
        manifest.check_format(output.shown())?;
        if manifest.fingerprint != fingerprint {
            return Err(Error::job(format!(
                "{} holds the result of another job, or of other inputs: choose another output.url, or replace it with --overwrite",
                output.shown()
            )));
        }
        let files: Vec<_> = manifest.files().collect();
        // Files are not synced one by one, so after a power cut some may have been lost. Whether there was one since the machine
        // wrote them, or whether this is another machine, its start tells.
        let same_start = manifest.boot.is_some() && manifest.boot == boot();
        let damage = match output.folder().is_some() && !same_start {
            true => check::bytes(output, &files).await?,
            false => check::sizes(output, &files).await?,
        };
        if damage.is_empty() {
            return Ok(Some(Outcome { manifest, already_finished: true, steps_reused: 0 }));
        }
        if check::is_current(output, &manifest).await? {
            return Err(check::damaged(output, &damage));
        }
    }
}
