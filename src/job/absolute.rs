//! The paths of a job, made absolute: what a run records can then be read from any working directory.

use super::{Input, Job, Reference, Source};
use crate::address::absolute_address;
use crate::error::{Context, Result};

impl Job {
    /// The job with absolute paths in the place of relative ones, as manifests and tables have them.
    ///
    /// # Errors
    /// When the working directory is unknown, or a path with `..` cannot be followed.
    pub(crate) fn with_absolute_paths(&self) -> Result<Job> {
        let mut job = self.clone();
        match &mut job.input {
            Input::Read => make_absolute(&mut job.source.urls)?,
            // The source of an output is the one that its manifest has.
            Input::Reuse(reuse) => make_absolute(std::slice::from_mut(&mut reuse.output))?,
            Input::Merge(outputs) => make_absolute(outputs)?,
        }
        match job.against.as_mut().map(|against| &mut against.reference) {
            Some(Reference::Outputs { urls, .. }) => make_absolute(urls)?,
            Some(Reference::Source(source)) => make_absolute(&mut source.urls)?,
            None => {}
        }
        Ok(job)
    }

    /// The job with the URLs of the sources of `made` where only a `/` at the end differs: they name the same folders.
    pub(crate) fn with_places_of(&self, made: &Job) -> Job {
        let mut job = self.clone();
        job.source.take_places_of(&made.source);
        if let Some(Reference::Source(second)) = job.against.as_mut().map(|against| &mut against.reference)
            && let Some(made) = made.second_source()
        {
            second.take_places_of(made);
        }
        job
    }
}

impl Source {
    fn take_places_of(&mut self, made: &Source) {
        let plain = |urls: &[String]| -> Vec<String> {
            urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
        };
        if plain(&self.urls) == plain(&made.urls) {
            self.urls.clone_from(&made.urls);
        }
    }
}

fn make_absolute(addresses: &mut [String]) -> Result<()> {
    for address in addresses {
        *address = absolute_address(address).context(|| format!("`{address}` cannot be made absolute"))?;
    }
    Ok(())
}
