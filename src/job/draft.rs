//! A job file that is read and not resolved yet: a job over a finished output takes settings from the job that made the
//! output.

use std::path::Path;

use super::document::JobDocument;
use super::file::JobFile;
use super::resolve;
use super::wrong::Wrong;
use super::{Format, Job};
use crate::address;
use crate::error::{Error, Result};

impl Job {
    /// Reads the job file at `path`, applies `sets` (each `KEY=VALUE`) and resolves it. Reads no data, but the small
    /// files that the job names for its settings, such as a list of stop words. A job over a finished output is
    /// refused: it is resolved as a [`Draft`].
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the file, the line (or the override), the key, and what is allowed
    /// there.
    pub fn load(path: impl AsRef<Path>, sets: &[String]) -> Result<Job> {
        Draft::read(path, sets)?.resolve(None)
    }
}

/// A job file as it was read, with its overrides.
#[derive(Debug)]
pub struct Draft {
    /// The path in messages.
    shown: String,
    text: String,
    sets: Vec<String>,
    file: JobFile,
}

impl Draft {
    /// Reads the job file at `path` and applies `sets` (each `KEY=VALUE`). A job without a name gets the name of the
    /// file.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if it cannot be read or is not a job file, with the line (or the
    /// override), the key, and what is allowed there.
    pub fn read(path: impl AsRef<Path>, sets: &[String]) -> Result<Self> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let is_data = Format::of_ending(&shown).is_some_and(|format| format != Format::Text);
        if is_data || path.is_dir() {
            return Err(Error::job(format!(
                "{shown} is not a job file, which is TOML: `resemblance find {shown}` compares data without one, and `resemblance init \
                 {shown}` writes one for them"
            )));
        }
        if let Some(missing) = address::missing(&shown) {
            return Err(Error::job(format!("{missing}: name a job file")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::job(format!("cannot read the job file {shown}")).because(e))?;
        let mut file: JobFile = JobDocument::parse(&text, &shown, sets)?.read()?;
        if file.name.is_none() {
            file.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        Ok(Self { shown, text, sets: sets.to_vec(), file })
    }

    /// The finished output whose sketches the job reuses; `None` if it reads texts.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the job sets a key that the output decides.
    pub fn reuse(&self) -> Result<Option<String>> {
        resolve::reuse(&self.file).map_err(|wrong| self.error(wrong))
    }

    /// The job. If it reuses an output, `made` is the job that made that one.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the file, the line (or the override), the key, and what is allowed there.
    pub fn resolve(&self, made: Option<&Job>) -> Result<Job> {
        resolve::job(self.file.clone(), made).map_err(|wrong| self.error(wrong))
    }

    fn error(&self, Wrong { key, fault }: Wrong) -> Error {
        match JobDocument::parse(&self.text, &self.shown, &self.sets) {
            Ok(document) => document.error(&key, &fault),
            Err(error) => error,
        }
    }
}
