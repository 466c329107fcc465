//! Lists the source files of finished outputs, and checks that they have not changed since.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, SessionContext, col};

use crate::error::{Context, Error, Result};
use crate::frames::{self, number, renamed, utf8};
use crate::job::{Job, Source, fingerprint};
use crate::output::Stored;
use crate::output::manifest::{DecisionsFile, Origin, read_job};
use crate::schema::Table;
use crate::source::{self, InputComparison, Listed, ReadRequest};

/// The new locations of moved sources. `of` names the output or result that was made from them. `places` contains one location per URL,
/// or none if the sources were not moved.
#[derive(Clone, Copy)]
pub(crate) struct Moved<'a> {
    pub(crate) of: &'a str,
    pub(crate) places: &'a [String],
}

pub(crate) fn numbered(sources: &[(Job, Listed)]) -> impl Iterator<Item = (u64, &Source, &Listed)> {
    (0..).zip(sources).map(|(origin, (job, listed))| (origin, &job.source, listed))
}

impl Stored {
    /// Returns the job that read the texts, and the files of its source. Messages start with `why`, the reason why the source is needed,
    /// and end with `or`, an alternative. Fails with `Kind::Input` if the source is missing or has changed.
    pub(crate) async fn source(&self, why: &str, or: &str) -> Result<(Job, Listed)> {
        if !self.manifest().origins.is_empty() {
            return Err(Error::input(format!(
                "{why}, and {} is merged from several outputs: name the one that read the document",
                self.layout().shown()
            )));
        }
        let origin = self.origin();
        let job = read_job(&origin.job, &self.manifest().resemblance)?;
        Self::source_of(self.session(), &origin, job, self.places(), (why, or)).await
    }

    /// Implements [`Self::source`] for the `job` of one origin. `places` contains the new locations of moved files.
    async fn source_of(
        session: &SessionContext,
        origin: &Origin,
        job: Job,
        places: &[String],
        (why, or): (&str, &str),
    ) -> Result<(Job, Listed)> {
        let listed = source::list_again(session, &job.source, places, &origin.inputs).await;
        let listed = listed.context(|| {
            if !places.is_empty() {
                return format!("{why}, and the source is not where --source says: correct --source");
            }
            format!(
                "{why}, and its source cannot be read again: bring it back, or run the job again with --overwrite{or}"
            )
        })?;
        let changed = |how: &str| {
            Err(Error::input(format!(
                "{why}, and its source has changed since it was made: {how}; run the job again with --overwrite{or}"
            )))
        };
        let as_read = InputComparison::new(&listed, &origin.inputs);
        let mut inputs = as_read.inputs.clone();
        inputs.extend(Origin::reference_inputs(&origin.reference_outputs));
        inputs.extend(origin.decisions.as_ref().map(DecisionsFile::input));
        if fingerprint(&job, &inputs)? != origin.fingerprint {
            // `origin.inputs` also contains the files of a second source, so a file that `listed` lacks may still exist.
            let gone = as_read.gone.as_deref().filter(|_| job.second_source().is_none());
            let how = as_read.difference.as_deref().or(gone).map_or_else(
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

    /// Returns the rows (source: Utf8, position: UInt64) of `sources` that `forget` left out of the output: its tables contain all other
    /// documents. Returns `None` if no row was left out.
    pub(crate) async fn forgotten_rows(&self, sources: &[(Job, Listed)]) -> Result<Option<DataFrame>> {
        if self.manifest().counts.forgotten_documents.is_none() {
            return Ok(None);
        }
        let place = || vec![utf8("source"), number(col("position")).alias("position")];
        let mut rows = Vec::with_capacity(sources.len());
        for (job, listed) in sources {
            let read = source::read(self.session(), &job.source, listed, ReadRequest::all()).await?.frame;
            rows.push(Ok(read.select(place())?));
        }
        let rows = frames::union(rows)?.ok_or_else(|| Error::bug("an output has no source"))?;
        let known = [Table::Documents, Table::Rejects].map(|table| Ok(self.table(table)?.select(place())?));
        let known = frames::union(known)?.ok_or_else(|| Error::bug("there are tables"))?;
        let known = known.select(renamed([("source", "known_source"), ("position", "known_position")]))?;
        let (left, right) = (&["known_source", "known_position"], &["source", "position"]);
        Ok(Some(known.join(rows.distinct()?, JoinType::RightAnti, left, right, None)?))
    }

    /// Returns the jobs that read texts of an output, and the files of their sources, like [`Self::source`]. A merged output has several
    /// such jobs.
    pub(crate) async fn sources(&self, why: &str, or: &str) -> Result<Vec<(Job, Listed)>> {
        let places = Moved { of: self.layout().shown(), places: self.places() };
        let version = &self.manifest().resemblance;
        Self::sources_of(self.session(), &self.origins(), version, places, (why, or)).await
    }

    /// Implements [`Self::sources`] for `origins`. `resemblance` is the version of this program that recorded them. Fails with
    /// `Kind::Job` if the numbers of places and of URLs differ.
    pub(crate) async fn sources_of(
        session: &SessionContext,
        origins: &[Origin],
        resemblance: &str,
        Moved { of, mut places }: Moved<'_>,
        (why, or): (&str, &str),
    ) -> Result<Vec<(Job, Listed)>> {
        let jobs = origins.iter().map(|origin| read_job(&origin.job, resemblance));
        let jobs = jobs.collect::<Result<Vec<Job>>>()?;
        let urls: Vec<&str> = jobs.iter().flat_map(|job| &job.source.urls).map(String::as_str).collect();
        if !places.is_empty() && places.len() != urls.len() {
            return Err(Error::job(format!(
                "{of} was made of {}: expected one --source for each, in this order, and got {}",
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
}
