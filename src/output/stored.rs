//! A finished output, as its manifest tells of it.

use datafusion::prelude::{DataFrame, SessionContext};

use super::manifest::{KnownOutput, Origin, Run};
use super::read::{self, ManifestTable};
use super::{Layout, check};
use crate::error::{Context, Error, Result};
use crate::job::{self, Job, fingerprint};
use crate::schema::{Table, contract};
use crate::source::{self, Listed};

/// A finished output of this program's format, all of whose files are there.
#[derive(Debug, Clone)]
pub struct Stored {
    layout: Layout,
    manifest: Run,
}

impl Stored {
    /// The output at `url`. Reads only the manifest, and the sizes of the files that it names.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) when there is no finished output, its manifest is of another version, or a
    /// file that it names is gone or has another size.
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let layout = Layout::open(session, url)?;
        loop {
            let Some(manifest) = layout.manifest().await? else {
                return Err(Error::input(format!(
                    "{url} holds no finished output (no manifest.json): name what a job has as output.url, and run that job to its \
                     end"
                )));
            };
            manifest.check_format(url)?;
            let damage = check::sizes(&layout, &manifest.files().collect::<Vec<_>>()).await?;
            if damage.is_empty() {
                return Ok(Self { layout, manifest });
            }
            if check::is_current(&layout, &manifest).await? {
                return Err(check::damaged(&layout, &damage));
            }
        }
    }

    /// Where it is.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the run wrote of itself.
    pub(crate) fn manifest(&self) -> &Run {
        &self.manifest
    }

    /// The job that was run, every default filled in.
    ///
    /// # Errors
    /// When another version of this program wrote it, or this program would not have run it.
    pub fn job(&self) -> Result<Job> {
        self.read_job(&self.manifest.job)
    }

    /// The run that cut the texts: its own, or that of the output whose sketches it took.
    pub(crate) fn origin(&self) -> Origin {
        let Run { origin, job, fingerprint, known, .. } = &self.manifest;
        let alone = |known: &KnownOutput| KnownOutput { merged: Vec::new(), ..known.clone() };
        let known = || known.iter().map(alone).collect();
        let own = || Origin { job: job.clone(), fingerprint: fingerprint.clone(), known: known() };
        origin.clone().unwrap_or_else(own)
    }

    /// The job that read the texts, and the files of its source, which are what they were then. Messages begin with the reason
    /// `why` the source is needed, and end with what else helps, `or`.
    ///
    /// # Errors
    /// As [`Self::job`], and [`Kind::Input`](crate::error::Kind::Input) if the source is gone or has changed.
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
        self.source_of(session, &self.origin(), why, or).await
    }

    async fn source_of(
        &self,
        session: &SessionContext,
        origin: &Origin,
        why: &str,
        or: &str,
    ) -> Result<(Job, Listed)> {
        let job = self.read_job(&origin.job)?;
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

    /// The same for an output whose texts are in several sources.
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
            sources.push(self.source_of(session, &origin, why, or).await?);
        }
        Ok(sources)
    }

    /// The runs that cut the texts: one, or those of all outputs that this one is merged from.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match &self.manifest.origins {
            origins if origins.is_empty() => vec![self.origin()],
            origins => origins.clone(),
        }
    }

    /// The sources that the documents were read from, as the jobs named them.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where a job in the manifest names none.
    pub(crate) fn read_sources(&self) -> Result<Vec<job::Source>> {
        let read = |origin: Origin| {
            let source = origin.job.get("source").cloned().unwrap_or_default();
            serde_json::from_value(source).map_err(|e| self.unreadable_job(e))
        };
        self.origins().into_iter().map(read).collect()
    }

    fn unreadable_job(&self, error: serde_json::Error) -> Error {
        Error::input(format!(
            "the job in the manifest cannot be read: resemblance {} wrote it, and this is {}; run the job again with --overwrite",
            self.manifest.resemblance,
            env!("CARGO_PKG_VERSION")
        ))
        .because(error)
    }

    fn read_job(&self, written: &serde_json::Value) -> Result<Job> {
        let job: Job = serde_json::from_value(written.clone()).map_err(|e| self.unreadable_job(e))?;
        job.check().map_err(|e| {
            Error::input(
                "the job in the manifest is not valid, so somebody changed it: run the job again with --overwrite",
            )
            .because(e)
        })?;
        Ok(job)
    }

    /// A table, to be read; none where a job of its kind writes none.
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
        let schema = contract(table).over(&self.manifest.source, self.manifest.columns()?).arrow_schema();
        read::provider(&self.layout, &written.files, schema).map(Some)
    }

    /// The rows of a table to compute on, their numbers unsigned: see [`read::unsigned`]. Reads nothing yet.
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
