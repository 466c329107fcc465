//! The arguments by which a command takes a job.

use crate::error::Result;
use crate::job;

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

    /// What the job is called as long as its file has not been read.
    pub(in crate::cli) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}
