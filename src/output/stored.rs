//! A finished output: its manifest, its job and its tables.

use datafusion::prelude::{DataFrame, SessionContext};

use super::Layout;
use super::check::{self, Depth};
use super::manifest::{KnownOutput, Origin, Run, read_job};
use super::read::{self, ManifestTable};
use crate::error::{Context, Error, Result};
use crate::job::{self, Job, fingerprint};
use crate::schema::{Table, contract};
use crate::source::{self, Listed};

/// A finished output of this program's format, whose files all exist.
#[derive(Debug, Clone)]
pub struct Stored {
    layout: Layout,
    manifest: Run,
    job: Job,
}

impl Stored {
    /// The output at `url`. Reads only the manifest, and the sizes of the files that it names.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) when there is no finished output, its manifest is of another version or its job cannot be read, or a
    /// file that it names is gone or has another size.
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let layout = Layout::open(session, url)?;
        let depth = |manifest: &Run| {
            manifest.check_format(url)?;
            Ok(Depth::Sizes)
        };
        let checked = check::result(&layout, depth, &check::unseen);
        let Some((manifest, damage)) = checked.await? else { return Err(layout.unfinished().await?) };
        match damage.is_empty() {
            true => Ok(Self { job: manifest.job()?, layout, manifest }),
            false => Err(check::damaged(&layout, &damage)),
        }
    }

    /// The layout of the output.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The manifest of the run.
    pub(crate) fn manifest(&self) -> &Run {
        &self.manifest
    }

    /// The job that was run, every default filled in.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The run that read the texts: its own, or that of the output whose sketches it reused.
    pub(crate) fn origin(&self) -> Origin {
        let Run { origin, job, fingerprint, known, .. } = &self.manifest;
        let alone = |known: &KnownOutput| KnownOutput { merged: Vec::new(), ..known.clone() };
        let known = || known.iter().map(alone).collect();
        let own = || Origin { job: job.clone(), fingerprint: fingerprint.clone(), known: known() };
        origin.clone().unwrap_or_else(own)
    }

    /// The job that read the texts and the files of its source, which have not changed since. Messages begin with `why` the
    /// source is needed, and end with the alternative `or`.
    ///
    /// # Errors
    /// As [`Run::job`], and [`Kind::Input`](crate::error::Kind::Input) if the source is gone or has changed.
    pub(crate) async fn source(
        &self,
        session: &SessionContext,
        why: &str,
        or: &str,
    ) -> Result<(Job, Listed)> {
        if !self.manifest.origins.is_empty() {
            return Err(Error::input(format!(
                "{why}, and {} is merged from several outputs: name the one that read the document",
                self.layout.shown()
            )));
        }
        Self::source_of(session, &self.origin(), &self.manifest.resemblance, why, or).await
    }

    /// As [`Self::source`], for an origin in a manifest of the program's version `resemblance`.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub(crate) async fn source_of(
        session: &SessionContext,
        origin: &Origin,
        resemblance: &str,
        why: &str,
        or: &str,
    ) -> Result<(Job, Listed)> {
        let job = read_job(&origin.job, resemblance)?;
        let listed = source::list(session, &job.source)
            .await
            .context(|| format!("{why}, and its source cannot be read again"))?;
        let mut inputs = listed.inputs();
        inputs.extend(Origin::known_inputs(&origin.known));
        if fingerprint(&job, &inputs) != origin.fingerprint {
            return Err(Error::input(format!(
                "{why}, and {} has changed since it was made: run the job again with --overwrite{or}",
                job.source.urls.join(", ")
            )));
        }
        Ok((job, listed))
    }

    /// The jobs that read the texts of an output, also of a merged one, and the files of their sources: see [`Self::source`].
    ///
    /// # Errors
    /// As [`Self::source`].
    pub(crate) async fn sources(
        &self,
        session: &SessionContext,
        why: &str,
        or: &str,
    ) -> Result<Vec<(Job, Listed)>> {
        let mut sources = Vec::new();
        for origin in self.origins() {
            sources.push(Self::source_of(session, &origin, &self.manifest.resemblance, why, or).await?);
        }
        Ok(sources)
    }

    /// The runs that read the texts: one, or those of all outputs that this one is merged from.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match &self.manifest.origins {
            origins if origins.is_empty() => vec![self.origin()],
            origins => origins.clone(),
        }
    }

    /// The sources that the documents were read from, as the jobs named them.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where a job in the manifest cannot be read.
    pub(crate) fn read_sources(&self) -> Result<Vec<job::Source>> {
        self.origins()
            .iter()
            .map(|origin| Ok(read_job(&origin.job, &self.manifest.resemblance)?.source))
            .collect()
    }

    /// The provider of a table; `None` if the job does not write it.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the manifest does not name it.
    pub(crate) fn provider(&self, table: Table) -> Result<Option<ManifestTable>> {
        let Some(written) = self.manifest.tables.get(table.name()) else {
            if table.is_optional() {
                return Ok(None);
            }
            let shown = self.layout.shown();
            return Err(Error::input(format!("the manifest of {shown} does not name the table {table}")));
        };
        let schema = contract(table).over(&self.manifest.source, self.job.columns()).arrow_schema();
        read::provider(&self.layout, &written.files, schema).map(Some)
    }

    /// The rows of a table with its unsigned numbers: see [`read::unsigned`]. Lazy.
    ///
    /// # Errors
    /// When the output has no such table.
    pub(crate) fn table(&self, session: &SessionContext, table: Table) -> Result<DataFrame> {
        let Some(provider) = self.provider(table)? else {
            return Err(Error::input(format!("{} holds no table {table}", self.layout.shown())));
        };
        read::unsigned(session.read_table(std::sync::Arc::new(provider))?, table)
    }
}
