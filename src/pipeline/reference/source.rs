//! Reference documents of a second source.
//!
//! They are read once, and only those that may match a new document are kept, with their sketches.

use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::{Context, Error, Result};
use crate::frames;
use crate::job::{self, InputFile, Job, fingerprint};
use crate::output::Layout;
use crate::output::manifest::{ReferenceOutput, Run as Manifest};
use crate::pipeline::overlap;
use crate::schema::SourceTypes;
use crate::source::{self, InputComparison, Listed, ReadRequest};

/// A second source.
#[derive(Debug)]
pub(crate) struct SecondSource {
    source: job::Source,
    listed: Listed,
    /// The documents as [`frames::documents`] returns them.
    documents: DataFrame,
    types: SourceTypes,
    /// The fingerprint of a run over this source alone, by the settings of the job.
    fingerprint: String,
}

impl SecondSource {
    /// Lists and opens `source`, whose texts are cut by the rules of `job`.
    ///
    /// # Errors
    /// As [`source::list`] and [`source::open`].
    pub(crate) async fn open(session: &SessionContext, source: &job::Source, job: &Job) -> Result<Self> {
        let why = || "against.source cannot be read".to_owned();
        let listed = source::list(session, source).await.context(why)?;
        let request = ReadRequest::all().cut(&job.shingle);
        let read = source::read(session, source, &listed, request).await.context(why)?;
        let documents = frames::documents::documents(read.frame)?;
        let fingerprint = fingerprint(&job.of_second_source(source), &listed.inputs());
        Ok(Self { source: source.clone(), listed, documents, types: read.types, fingerprint })
    }

    pub(crate) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        overlap::refuse_urls(output, &self.source, "output.url")?;
        overlap::refuse_files(output, &self.listed, "output.url")
    }

    pub(crate) fn check_types(&self, types: &SourceTypes) -> Result<()> {
        if self.types.id == types.id {
            return Ok(());
        }
        Err(Error::job(format!(
            "ids are {} in against.source and {} in the source: give source.id and against.source.id columns of the same type",
            self.types.id, types.id
        )))
    }

    pub(crate) fn record(&self) -> ReferenceOutput {
        let (output, fingerprint) = (self.source.urls.join(", "), self.fingerprint.clone());
        ReferenceOutput { output, fingerprint, merged: Vec::new(), applied: None, passages: false }
    }

    /// See [`ReferenceDocuments::record_as_read`](super::ReferenceDocuments::record_as_read).
    pub(super) fn record_as_read(&self, job: &Job, finished: &Manifest) -> ReferenceOutput {
        let inputs = InputComparison::new(&self.listed, &finished.inputs).inputs;
        ReferenceOutput {
            fingerprint: fingerprint(&job.of_second_source(&self.source), &inputs),
            ..self.record()
        }
    }

    /// See [`ReferenceDocuments::is_as_read`](super::ReferenceDocuments::is_as_read).
    pub(super) async fn is_as_read(&self, session: &SessionContext, finished: &Manifest) -> Result<bool> {
        let as_read = InputComparison::new(&self.listed, &finished.inputs);
        Ok(as_read.different_content(session, &self.source).await?.is_none())
    }

    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        self.listed.inputs()
    }

    /// The documents as [`frames::documents`] returns them, repeated ids included.
    pub(crate) fn documents(&self) -> DataFrame {
        self.documents.clone()
    }

    /// The source, and its files.
    pub(crate) fn files(&self) -> (&job::Source, &Listed) {
        (&self.source, &self.listed)
    }

    /// The column of a document's group.
    pub(crate) fn group(&self) -> Option<&str> {
        self.source.group.as_deref()
    }
}
