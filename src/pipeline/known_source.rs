//! The documents of a second source.
//!
//! They are read once: cut, signed and held against what is known of the job's own documents, and only those that may be
//! similar to one are kept, with their sketches. Their keys are turned, since an id may be in both sources.

use datafusion::prelude::{DataFrame, SessionContext};

use super::numbers::{first_ids, keys_of};
use super::overlap;
use super::steps::Steps;
use super::tables::WorkTable;
use super::texts::refuse_duplicates;
use crate::error::{Context, Error, Result};
use crate::job::{self, InputFile, Job, fingerprint};
use crate::output::Layout;
use crate::output::manifest::KnownOutput;
use crate::schema::SourceTypes;
use crate::source::{self, Listed};
use crate::stage;

/// Duplicate ids that an error names.
const NAMED: usize = 5;

/// A second source, whose documents are known.
#[derive(Debug)]
pub(super) struct KnownSource {
    source: job::Source,
    listed: Listed,
    /// The documents as [`stage::documents`] has them.
    documents: DataFrame,
    types: SourceTypes,
    /// Tells these documents, cut as the job says, from others.
    fingerprint: String,
}

impl KnownSource {
    /// Lists and opens `source`, whose texts are cut as `job` says.
    ///
    /// # Errors
    /// As [`source::list`] and [`source::open`].
    pub(super) async fn open(session: &SessionContext, source: &job::Source, job: &Job) -> Result<Self> {
        let why = || "against.source cannot be read".to_owned();
        let listed = source::list(session, source).await.context(why)?;
        let read = source::open_cut(session, source, &listed, None, &job.shingle).await.context(why)?;
        let documents = stage::documents::documents(read.frame)?;
        let fingerprint = fingerprint(&job.of_known_source(source), &listed.inputs());
        Ok(Self { source: source.clone(), listed, documents, types: read.types, fingerprint })
    }

    pub(super) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        overlap::refuse_urls(output, &self.source, "output.url")?;
        overlap::refuse_files(output, &self.listed, "output.url")
    }

    pub(super) fn check_types(&self, types: &SourceTypes) -> Result<()> {
        if self.types.id == types.id {
            return Ok(());
        }
        Err(Error::job(format!(
            "ids are of type {:?} in against.source and of type {:?} in the source: give source.id and against.source.id columns of \
             the same type",
            self.types.id, types.id
        )))
    }

    pub(super) fn record(&self) -> KnownOutput {
        let (output, fingerprint) = (self.source.urls.join(", "), self.fingerprint.clone());
        KnownOutput { output, fingerprint, merged: Vec::new() }
    }

    pub(super) fn inputs(&self) -> Vec<InputFile> {
        self.listed.inputs()
    }

    /// The documents, as [`stage::documents`] has them, also those whose id came before.
    pub(super) fn documents(&self) -> DataFrame {
        self.documents.clone()
    }

    /// The source, and its files.
    pub(super) fn files(&self) -> (&job::Source, &Listed) {
        (&self.source, &self.listed)
    }

    /// The column that says which group a document is of.
    pub(super) fn group(&self) -> Option<&str> {
        self.source.group.as_deref()
    }

    /// What connects documents: the scores and the copies of this run.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn edges(&self, steps: &Steps<'_>) -> Result<DataFrame> {
        stage::known::connections(steps.table(WorkTable::Scores)?, steps.table(WorkTable::Members)?, None)
    }
}

/// Ends the run where two of the second source's documents have one key, or one of each source has.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with their ids.
pub(super) async fn refuse_same_keys(steps: &Steps<'_>) -> Result<()> {
    let known = steps.table(WorkTable::KnownKeys)?;
    let repeated = keys_of(stage::duplicates::repeated(known.clone(), NAMED)?).await?;
    refuse_duplicates(known.clone(), &repeated, "against.source").await?;
    let same = first_ids(stage::known::same(known, steps.table(WorkTable::Keys)?)?, NAMED).await?;
    match same.is_empty() {
        true => Ok(()),
        false => Err(Error::input(format!(
            "documents of against.source have the 64-bit keys that documents of the source have, by chance: {}: give one of them \
             another id",
            same.join(", ")
        ))),
    }
}
