//! A finished output: its manifest, its job and its tables.

use datafusion::prelude::{DataFrame, SessionContext};

use super::Layout;
use super::check::{self, Depth};
use super::manifest::{Origin, ReferenceOutput, Run, read_job};
use super::read::{self, ManifestTable};
use crate::error::{Context, Error, Result};
use crate::job::{self, Job, fingerprint};
use crate::schema::{Table, contract};
use crate::source::{self, AsRead, Listed};

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

/// The places to which the sources of the output or result `of` were moved, one for each of their URLs; none if they were not.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) of: &'a str,
    pub(crate) places: &'a [String],
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
            Ok(Depth::Sizes)
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

    /// The job that read the texts and the files of its source, which have not changed since. Messages begin with the
    /// reason `why` the source is needed, and end with the alternative `or`.
    ///
    /// # Errors
    /// As [`Run::job`], and [`Kind::Input`](crate::error::Kind::Input) if the source is gone or has changed.
    pub(crate) async fn source(&self, why: &str, or: &str) -> Result<(Job, Listed)> {
        if !self.manifest.origins.is_empty() {
            return Err(Error::input(format!(
                "{why}, and {} is merged from several outputs: name the one that read the document",
                self.layout.shown()
            )));
        }
        let origin = self.origin();
        let job = read_job(&origin.job, &self.manifest.resemblance)?;
        Self::source_of(&self.session, &origin, job, &self.places, (why, or)).await
    }

    /// As [`Self::source`], for the `job` of an origin, whose files are in `places` if there are any.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub(crate) async fn source_of(
        session: &SessionContext,
        origin: &Origin,
        job: Job,
        places: &[String],
        (why, or): (&str, &str),
    ) -> Result<(Job, Listed)> {
        let listed = match places {
            [] => source::list(session, &job.source).await,
            places => source::list_moved(session, &job.source, places).await,
        };
        let listed = listed.context(|| {
            if !places.is_empty() {
                return format!("{why}, and the source is not where --source says: correct --source");
            }
            let place = match job.source.has_relative_path() {
                true => "run the command in the folder where the job was run, whose paths are relative",
                false => "bring it back",
            };
            format!(
                "{why}, and its source cannot be read again: {place}, or run the job again with --overwrite{or}"
            )
        })?;
        let changed = |how: &str| {
            Err(Error::input(format!(
                "{why}, and its source has changed since it was made: {how}; run the job again with --overwrite{or}"
            )))
        };
        let as_read = AsRead::new(&listed, &origin.inputs);
        let mut inputs = as_read.inputs.clone();
        inputs.extend(Origin::reference_inputs(&origin.reference_outputs));
        if fingerprint(&job, &inputs) != origin.fingerprint {
            // The records have the files of a second source too.
            let gone = as_read.gone().filter(|_| job.second_source().is_none());
            let how = as_read.difference().or(gone).map_or_else(
                || format!("{} has other files, or was written again", job.source.urls.join(", ")),
                str::to_owned,
            );
            return changed(&how);
        }
        match as_read.different_content(session, &job.source).await? {
            Some(how) => changed(&how),
            None => Ok((job, listed)),
        }
    }

    /// The jobs that read the texts of an output, also of a merged one, and the files of their sources: see [`Self::source`].
    ///
    /// # Errors
    /// As [`Self::source`].
    pub(crate) async fn sources(&self, why: &str, or: &str) -> Result<Vec<(Job, Listed)>> {
        let places = Places { of: self.layout.shown(), places: &self.places };
        let version = &self.manifest.resemblance;
        Self::sources_of(&self.session, &self.origins(), version, places, (why, or)).await
    }

    /// As [`Self::sources`], for runs of the version `resemblance`, with the places of their sources.
    ///
    /// # Errors
    /// As [`Self::source`], and [`Kind::Job`](crate::error::Kind::Job) if there are places, but not one for each URL.
    pub(crate) async fn sources_of(
        session: &SessionContext,
        origins: &[Origin],
        resemblance: &str,
        Places { of, mut places }: Places<'_>,
        (why, or): (&str, &str),
    ) -> Result<Vec<(Job, Listed)>> {
        let jobs = origins.iter().map(|origin| read_job(&origin.job, resemblance));
        let jobs = jobs.collect::<Result<Vec<Job>>>()?;
        let urls: Vec<&str> = jobs.iter().flat_map(|job| &job.source.urls).map(String::as_str).collect();
        if !places.is_empty() && places.len() != urls.len() {
            return Err(Error::job(format!(
                "{of} was made of {} URLs ({}), and --source names {}: name a new place for each, in this order",
                urls.len(),
                urls.join(", "),
                places.len()
            )));
        }
        let mut sources = Vec::with_capacity(jobs.len());
        for (origin, job) in origins.iter().zip(jobs) {
            let (own, rest) = places.split_at(places.len().min(job.source.urls.len()));
            places = rest;
            sources.push(Self::source_of(session, origin, job, own, (why, or)).await?);
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
