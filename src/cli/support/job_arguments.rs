//! The arguments that name a job.

use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::error::Result;
use crate::job;
use crate::output::Stored;

/// A job file and the keys that are set over it.
#[derive(clap::Args)]
pub(in crate::cli) struct JobArguments {
    /// The job file (TOML)
    #[arg(value_name = "JOB.toml")]
    job: std::path::PathBuf,
    /// Set a key of the job, such as `--set score.threshold=0.9`; a value that is not TOML is taken as a string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl JobArguments {
    /// The job, resolved.
    ///
    /// # Errors
    /// When it cannot be read or breaks a rule.
    pub(in crate::cli) fn load(&self) -> Result<job::Job> {
        job::Job::load(&self.job, &self.sets)
    }

    /// The job, resolved; where it reuses a finished output, the manifest of that is read for it.
    ///
    /// # Errors
    /// As [`Self::load`], and when the output that it reuses cannot be read.
    pub(in crate::cli) fn load_over_output(&self) -> Result<job::Job> {
        let draft = job::Draft::read(&self.job, &self.sets)?;
        let Some(url) = draft.reuse()? else { return draft.resolve(None) };
        draft.resolve(Some(&made_by(&url)?))
    }

    /// Whether the job is still valid with one more `KEY=VALUE`.
    pub(in crate::cli) fn takes(&self, set: &str) -> bool {
        let sets: Vec<String> = self.sets.iter().cloned().chain([set.to_owned()]).collect();
        job::Draft::read(&self.job, &sets).and_then(|draft| draft.resolve(None)).is_ok()
    }

    /// The name of the job file without its ending: the job's name until its file has been read.
    pub(in crate::cli) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}

/// The job that made the finished output at `url`.
///
/// # Errors
/// As [`Stored::open`].
pub(in crate::cli) fn made_by(url: &str) -> Result<job::Job> {
    on_session(MANIFEST_MEMORY, async |session, _| Ok(Stored::open(session, url).await?.job().clone()))
}
