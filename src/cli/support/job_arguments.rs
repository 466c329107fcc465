//! The arguments by which a command takes a job.

use crate::cli::support::work::Work;
use crate::engine::session;
use crate::error::Result;
use crate::job;
use crate::output::Stored;

/// Bytes for a session that reads a manifest and no table.
pub(in crate::cli) const LOOKING_MEMORY: u64 = 64 << 20;

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

    /// The same, also of a job over a finished output, whose manifest is read for it.
    ///
    /// # Errors
    /// As [`Self::load`], and where that output cannot be read.
    pub(in crate::cli) fn load_over_output(&self) -> Result<job::Job> {
        let draft = job::Draft::read(&self.job, &self.sets)?;
        let Some(url) = draft.reuse()? else { return draft.resolve(None) };
        let engine = job::Engine::local(LOOKING_MEMORY);
        let work = Work::begin(&engine)?;
        let made = work.run(async { Stored::open(&session::session(&engine)?, &url).await?.job() })?;
        draft.resolve(Some(&made))
    }

    /// What the job is called as long as its file has not been read.
    pub(in crate::cli) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}
