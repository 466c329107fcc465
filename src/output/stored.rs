//! A finished output: its manifest, its job and its tables.

use datafusion::prelude::{DataFrame, SessionContext};

use super::Layout;
use super::check::{self, CheckDepth};
use super::manifest::{Origin, ReferenceOutput, Run, read_job};
use super::read::{self, ManifestTable};
use crate::error::{Error, Result};
use crate::job::{self, Job};
use crate::schema::{Table, contract};

/// A finished output of this program's format, whose files all exist.
#[derive(Clone)]
pub struct Stored {
    /// The session in which its tables are read.
    session: SessionContext,
    layout: Layout,
    manifest: Run,
    job: Job,
    /// The places to which the source was moved since, one for each of its URLs; none if it was not.
    places: Vec<String>,
}

impl Stored {
    /// The output at `url`. Reads only the manifest, and the sizes of the files that it names.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) when there is no finished output, its manifest is of another version or its job
    /// cannot be read, or a file that it names is gone or has another size.
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let layout = Layout::open(session, url)?;
        let depth = |manifest: &Run| {
            manifest.check_format(url)?;
            Ok(CheckDepth::Sizes)
        };
        let checked = check::result(&layout, depth, &check::unseen);
        let Some((manifest, damage)) = checked.await? else { return Err(layout.unfinished().await?) };
        match damage.is_empty() {
            true => Ok(Self {
                session: session.clone(),
                job: manifest.job()?,
                layout,
                manifest,
                places: Vec::new(),
            }),
            false => Err(check::damaged(&layout, &damage)),
        }
    }

    /// The same output, whose source was moved to `places`: one for each URL of the source, in their order; none if it was not
    /// moved.
    #[must_use]
    pub(crate) fn with_source_in(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// The session in which its tables are read.
    pub(crate) fn session(&self) -> &SessionContext {
        &self.session
    }

    /// The layout of the output.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The places to which the source was moved since, one for each of its URLs; none if it was not.
    pub(crate) fn places(&self) -> &[String] {
        &self.places
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Run {
        &self.manifest
    }

    /// The job that was run, every default filled in.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The run that read the texts: this one, or the run whose sketches it reused.
    pub(crate) fn origin(&self) -> Origin {
        let Run { origin, job, fingerprint, inputs, reference_outputs, .. } = &self.manifest;
        let alone = |output: &ReferenceOutput| ReferenceOutput { merged: Vec::new(), ..output.clone() };
        let outputs = || reference_outputs.iter().map(alone).collect();
        let own = || Origin {
            job: job.clone(),
            fingerprint: fingerprint.clone(),
            inputs: inputs.clone(),
            reference_outputs: outputs(),
        };
        origin.clone().unwrap_or_else(own)
    }

    /// The runs that read the texts: one, or those of all outputs that this one is merged from.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match &self.manifest.origins {
            origins if origins.is_empty() => vec![self.origin()],
            origins => origins.clone(),
        }
    }

    /// The number of these runs.
    pub(crate) fn origin_count(&self) -> u64 {
        self.manifest.origins.len().max(1) as u64
    }

    /// The sources of the documents, by their names in the jobs.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if a job in the manifest cannot be read.
    pub(crate) fn read_sources(&self) -> Result<Vec<job::Source>> {
        self.origins()
            .iter()
            .map(|origin| Ok(read_job(&origin.job, &self.manifest.resemblance)?.source))
            .collect()
    }

    /// The provider of a table; `None` if the job does not write it.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the manifest does not name it.
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

    /// The rows of a table with its unsigned numbers: see `read::unsigned`. Lazy.
    ///
    /// # Errors
    /// When the output has no such table.
    pub fn table(&self, table: Table) -> Result<DataFrame> {
        let Some(provider) = self.provider(table)? else {
            return Err(Error::input(format!("{} holds no table {table}", self.layout.shown())));
        };
        read::unsigned(self.session.read_table(std::sync::Arc::new(provider))?, table)
    }

    /// The table of the shingles that do not count in this output; `None` if all of them do.
    ///
    /// # Errors
    /// As [`Self::table`].
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.job().max_frequency.map(|_| self.table(Table::FrequentShingles)).transpose()
    }
}
