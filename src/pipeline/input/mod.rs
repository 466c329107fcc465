//! The input of a run: the texts of its source, the sketches of a finished output, or several outputs to merge.

mod merged;
mod read;
mod reused;

use datafusion::prelude::{DataFrame, SessionContext};

pub(crate) use self::read::FirstStageInput;
use self::read::as_input;
use self::reused::Reused;
use crate::error::{Error, Result};
use crate::frames;
use crate::job::{self, InputFile, Job, Limit, Source, fingerprint};
use crate::output::manifest::{Origin, Run as Manifest};
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::reference::same_frequent::same_frequent;
use crate::schema::Table;
use crate::source::{self, InputComparison, Listed, ReadRequest};

/// The input of a run: see [`job::Input`].
pub(crate) enum RunInput {
    /// The files of the source.
    Read(Listed),
    Reuse(Box<Reused>),
    Merge(Chain),
}

impl RunInput {
    /// Lists the files or opens the outputs that `job` names.
    ///
    /// # Errors
    /// As [`source::list`], [`Reused::open`] and [`merged::open`].
    pub(crate) async fn find(session: &SessionContext, job: &Job) -> Result<Self> {
        Ok(match &job.input {
            job::Input::Read => RunInput::Read(source::list(session, &job.source).await?),
            job::Input::Reuse(reuse) => RunInput::Reuse(Box::new(Reused::open(session, job, reuse).await?)),
            job::Input::Merge(urls) => RunInput::Merge(merged::open(session, urls, job).await?),
        })
    }

    /// Refuses an output that overlaps with an input.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(crate) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        match self {
            RunInput::Read(_) => {}
            RunInput::Reuse(reused) => {
                overlap::refuse_output(output, reused.stored.layout(), "output.url")?;
                for source in reused.stored.read_sources()? {
                    overlap::refuse_urls(output, &source, "output.url")?;
                }
            }
            RunInput::Merge(chain) => chain.refuse_overlap(output, "--to")?,
        }
        match self.listed() {
            Some(listed) => overlap::refuse_files(output, listed, "output.url"),
            None => Ok(()),
        }
    }

    /// The fingerprint of `job` over this input and these reference documents.
    pub(crate) fn fingerprint(&self, job: &Job, reference: Option<&ReferenceDocuments>) -> String {
        let mut inputs = match self {
            RunInput::Read(listed) => listed.inputs(),
            RunInput::Reuse(reused) => {
                let e_tag = Some(reused.stored.manifest().fingerprint.clone());
                vec![InputFile::new("output".into(), 0, None, e_tag)]
            }
            RunInput::Merge(chain) => Origin::reference_inputs(&chain.record()),
        };
        inputs
            .extend(Origin::reference_inputs(&reference.map(ReferenceDocuments::record).unwrap_or_default()));
        fingerprint(job, &inputs)
    }

    /// The fingerprint of `job`, if it is that of `finished`: also where files of the source were written again with the contents
    /// that the run of `finished` read. `None` if a file has other contents.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) async fn fingerprint_of(
        &self,
        session: &SessionContext,
        job: &Job,
        reference: Option<&ReferenceDocuments>,
        finished: &Manifest,
    ) -> Result<Option<String>> {
        let RunInput::Read(listed) = self else { return Ok(None) };
        let as_read = InputComparison::new(listed, &finished.inputs);
        let mut inputs = as_read.inputs.clone();
        let record = reference.map(|reference| reference.record_as_read(job, finished));
        inputs.extend(Origin::reference_inputs(&record.unwrap_or_default()));
        let fingerprint = fingerprint(job, &inputs);
        // Contents are read only if nothing else differs.
        if fingerprint != finished.fingerprint
            || as_read.different_content(session, &job.source).await?.is_some()
        {
            return Ok(None);
        }
        let is_same = match reference {
            Some(reference) => reference.is_as_read(session, finished).await?,
            None => true,
        };
        Ok(is_same.then_some(fingerprint))
    }

    /// Checks that an output which is used again leaves the same shingles out as the reference outputs.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if not.
    pub(crate) async fn check_frequent(&self, reference: Option<&ReferenceDocuments>) -> Result<()> {
        match (self, reference.and_then(ReferenceDocuments::outputs)) {
            (RunInput::Reuse(reused), Some(outputs)) => {
                same_frequent(outputs.stored().iter().chain([&reused.stored])).await
            }
            _ => Ok(()),
        }
    }

    /// Opens it for the first stage.
    ///
    /// # Errors
    /// As [`source::read`], and when a table of a finished output cannot be read.
    pub(crate) async fn read(&self, session: &SessionContext, job: &Job) -> Result<FirstStageInput> {
        match self {
            RunInput::Read(listed) => {
                let read =
                    source::read(session, &job.source, listed, ReadRequest::all().cut(&job.shingle)).await?;
                let documents = frames::documents::documents(read.frame)?;
                Ok(FirstStageInput { documents, types: read.types, inputs: read.inputs })
            }
            RunInput::Reuse(reused) => reused.read(job),
            RunInput::Merge(chain) => merged::read(chain, job),
        }
    }

    /// The documents of the files that are read, as `limit` draws them.
    ///
    /// # Errors
    /// As [`source::read`].
    pub(crate) async fn sample(
        &self,
        session: &SessionContext,
        job: &Job,
        limit: Limit,
    ) -> Result<DataFrame> {
        let RunInput::Read(listed) = self else {
            return Err(Error::bug("there is no source to read texts from"));
        };
        let source = Source { limit: Some(limit), ..job.source.clone() };
        let read = source::read(session, &source, listed, ReadRequest::all().cut(&job.shingle)).await?;
        frames::documents::documents(read.frame)
    }

    /// The files from which texts are read; `None` if no text is read.
    pub(crate) fn listed(&self) -> Option<&Listed> {
        match self {
            RunInput::Read(listed) => Some(listed),
            RunInput::Reuse(reused) => reused.listed.as_ref(),
            RunInput::Merge(_) => None,
        }
    }

    /// The files from which texts are read, as inputs of the fingerprint.
    pub(crate) fn files(&self) -> Vec<InputFile> {
        self.listed().map(Listed::inputs).unwrap_or_default()
    }

    /// The outputs that are merged, if the job does that.
    pub(crate) fn merged(&self) -> Option<&Chain> {
        match self {
            RunInput::Merge(chain) => Some(chain),
            RunInput::Read(_) | RunInput::Reuse(_) => None,
        }
    }

    /// What a manifest names as read: files, or the outputs.
    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        match self {
            RunInput::Read(listed) => listed.inputs(),
            RunInput::Reuse(reused) => vec![as_input(&reused.stored)],
            RunInput::Merge(chain) => chain.outputs().iter().map(as_input).collect(),
        }
    }

    /// The documents with their sketches, if they come from an output that keeps shingles.
    pub(crate) fn sketches(&self) -> Result<Option<DataFrame>> {
        match self {
            RunInput::Reuse(reused) if reused.stored.job().output.keep.shingles() => {
                reused.stored.table(Table::Documents).map(Some)
            }
            RunInput::Read(_) | RunInput::Reuse(_) | RunInput::Merge(_) => Ok(None),
        }
    }

    /// The table of the shingles that did not count in an output that is used again, or in those that are merged; `None` if texts
    /// are read.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        match self {
            RunInput::Reuse(reused) => reused.stored.frequent_shingles(),
            RunInput::Merge(chain) => chain.frequent_shingles(),
            RunInput::Read(_) => Ok(None),
        }
    }

    /// The runs that cut the texts, if they were other ones.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match self {
            RunInput::Read(_) => Vec::new(),
            RunInput::Merge(chain) => chain.origins(),
            RunInput::Reuse(reused) => reused.origins.clone(),
        }
    }

    /// The manifests of the outputs whose documents are taken; empty if files are read.
    pub(crate) fn earlier(&self) -> Vec<&Manifest> {
        match self {
            RunInput::Read(_) => Vec::new(),
            RunInput::Merge(chain) => chain.outputs().iter().map(Stored::manifest).collect(),
            RunInput::Reuse(reused) => vec![reused.stored.manifest()],
        }
    }
}
