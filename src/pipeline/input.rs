//! The input of a run: the texts of its source, the sketches of a finished output, or several outputs to merge.

use datafusion::prelude::{DataFrame, SessionContext, col};

use super::overlap;
use super::reference::ReferenceDocuments;
use super::reference::ancestors::same_frequent;
use super::reference::chain::{Chain, first_other, reason_to_read, union};
use super::tables::AllSketches;
use crate::error::{Error, Result};
use crate::frames::documents::{documents, reused, reused_columns};
use crate::job::{self, InputFile, Job, Limit, Reuse, ShingleHash, Source, fingerprint};
use crate::output::manifest::{Origin, Run as Manifest};
use crate::output::{Layout, Stored};
use crate::schema::{SourceTypes, Table};
use crate::source::{self, InputComparison, Listed, ReadRequest};

/// The input of a run: see [`job::Input`].
pub(crate) enum RunInput {
    /// The files of the source.
    Read(Listed),
    Reuse(Box<Reused>),
    Merge(Chain),
}

/// The opened input of the first stage.
pub(crate) struct FirstStageInput {
    /// The documents, with the columns of [`frames::documents`](crate::frames::documents::documents), or of [`reused`] if an output
    /// is read.
    pub(crate) documents: DataFrame,
    /// The types that the source gives to the columns of tables.
    pub(crate) types: SourceTypes,
    /// Every file that is read.
    pub(crate) inputs: Vec<InputFile>,
}

impl RunInput {
    /// Lists the files or opens the outputs that `job` names.
    ///
    /// # Errors
    /// If the files cannot be listed, an output cannot be opened, or `job` cannot use its sketches.
    pub(crate) async fn find(session: &SessionContext, job: &Job) -> Result<Self> {
        Ok(match &job.input {
            job::Input::Read => RunInput::Read(source::list(session, &job.source).await?),
            job::Input::Reuse(reuse) => RunInput::Reuse(Box::new(Reused::open(session, job, reuse).await?)),
            job::Input::Merge(urls) => RunInput::Merge(open_merged(session, urls, job).await?),
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
    pub(crate) fn fingerprint(&self, job: &Job, reference: Option<&ReferenceDocuments>) -> Result<String> {
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

    /// The fingerprint of `job` if it equals the fingerprint of `finished`. Files that were rewritten with the same contents count as
    /// unchanged. `None` if the contents of a file differ.
    ///
    /// # Errors
    /// If a file cannot be read.
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
        let record = reference.map(|reference| reference.record_as_read(job, finished)).transpose()?;
        inputs.extend(Origin::reference_inputs(&record.unwrap_or_default()));
        let fingerprint = fingerprint(job, &inputs)?;
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

    /// Checks that an output that is reused has the same frequent shingles as the reference outputs.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if not.
    pub(crate) async fn check_frequent(&self, reference: Option<&ReferenceDocuments>) -> Result<()> {
        match (self, reference.and_then(ReferenceDocuments::outputs)) {
            (RunInput::Reuse(reused), Some(outputs)) => {
                same_frequent(outputs.chain.outputs.iter().chain([&reused.stored])).await
            }
            _ => Ok(()),
        }
    }

    /// Opens the input for the first stage.
    ///
    /// # Errors
    /// If a file or a table of a finished output cannot be read.
    pub(crate) async fn read(&self, session: &SessionContext, job: &Job) -> Result<FirstStageInput> {
        match self {
            RunInput::Read(listed) => {
                let read =
                    source::read(session, &job.source, listed, ReadRequest::all().cut(&job.shingle)).await?;
                Ok(FirstStageInput {
                    documents: documents(read.frame)?,
                    types: read.types,
                    inputs: read.inputs,
                })
            }
            RunInput::Reuse(reused) => reused.read(job),
            RunInput::Merge(chain) => read_merged(chain, job),
        }
    }

    /// The documents that `limit` draws from the files.
    ///
    /// # Errors
    /// If a file cannot be read.
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
        documents(read.frame)
    }

    /// The files from which texts are read, if texts are read.
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

    /// The outputs that are merged, if the job merges any.
    pub(crate) fn merged(&self) -> Option<&Chain> {
        match self {
            RunInput::Merge(chain) => Some(chain),
            RunInput::Read(_) | RunInput::Reuse(_) => None,
        }
    }

    /// The files or outputs that a manifest names as read.
    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        match self {
            RunInput::Read(listed) => listed.inputs(),
            RunInput::Reuse(reused) => vec![as_input(&reused.stored)],
            RunInput::Merge(chain) => chain.outputs.iter().map(as_input).collect(),
        }
    }

    /// The documents with their sketches, if an output that keeps shingles is reused.
    pub(crate) fn sketches(&self) -> Result<Option<DataFrame>> {
        match self {
            RunInput::Reuse(reused) if reused.stored.job().output.keep.shingles() => {
                reused.stored.table(Table::Documents).map(Some)
            }
            RunInput::Read(_) | RunInput::Reuse(_) | RunInput::Merge(_) => Ok(None),
        }
    }

    /// The table of frequent shingles of an output that is reused, or of merged outputs; `None` if texts are read.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        match self {
            RunInput::Reuse(reused) => reused.stored.frequent_shingles(),
            RunInput::Merge(chain) => chain.frequent_shingles(),
            RunInput::Read(_) => Ok(None),
        }
    }

    /// The earlier runs that read the texts; empty if this run reads them.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match self {
            RunInput::Read(_) => Vec::new(),
            RunInput::Merge(chain) => chain.origins(),
            RunInput::Reuse(reused) => reused.origins.clone(),
        }
    }

    /// The manifests of the outputs whose documents are reused or merged.
    pub(crate) fn earlier(&self) -> Vec<&Manifest> {
        match self {
            RunInput::Read(_) => Vec::new(),
            RunInput::Merge(chain) => chain.outputs.iter().map(Stored::manifest).collect(),
            RunInput::Reuse(reused) => vec![reused.stored.manifest()],
        }
    }
}

/// A finished output as an input file.
fn as_input(stored: &Stored) -> InputFile {
    let path = stored.layout().shown().to_owned();
    let bytes = stored.manifest().files().map(|file| file.bytes).sum();
    InputFile::new(path, bytes, None, Some(stored.manifest().fingerprint.clone()))
}

/// A finished output whose sketches are reused.
pub(crate) struct Reused {
    stored: Stored,
    /// The run that cut the texts, or the runs of the outputs that it is merged from.
    origins: Vec<Origin>,
    /// The files of the texts; `None` if no text is read, since the output keeps shingles.
    listed: Option<Listed>,
}

impl Reused {
    /// Opens an output, and checks that `job` can use its sketches.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if it cannot be read, holds another result than before, or lacks data that the job
    /// needs and its source has changed; [`Kind::Job`](crate::error::Kind::Job) if it lacks data that the job needs.
    async fn open(session: &SessionContext, job: &Job, reuse: &Reuse) -> Result<Self> {
        let Reuse { output: url, keeps_shingles } = reuse;
        let stored = Stored::open(session, url).await?;
        let made = stored.job();
        let same_kept = *keeps_shingles == made.output.keep.shingles();
        // The job may use another carried column as the group.
        let source = Source { group: made.source.group.clone(), ..job.source.clone() };
        let settings = |job: &Job| (job.shingle.clone(), job.max_frequency, job.minhash.clone());
        if !same_kept || settings(made) != settings(job) || made.source != source {
            return Err(Error::input(format!(
                "{url} holds another result than it did when the job file was read: run again"
            )));
        }
        let keep = made.output.keep;
        if !keep.signatures() {
            return Err(Error::input(format!(
                "{url} keeps no signatures (output.keep = \"none\"), so its sketches cannot be used: make it again with \
                 output.keep = \"signatures\""
            )));
        }
        if job.shingle.hash == ShingleHash::Dictionary {
            return Err(Error::job(format!(
                "{url} was made with shingle.hash = \"dictionary\", whose numbers are valid in one run only: read its source instead"
            )));
        }
        if AllSketches::new(job) != AllSketches::Nowhere && !keep.shingles() {
            return Err(Error::job(format!(
                "{url} keeps no shingles, and this job needs the shingles of all documents, since candidates.method is {} and \
                 output.keep is {}: use \"lsh\" and \"signatures\", or read the source instead",
                quoted(job.candidates.method),
                quoted(job.output.keep)
            )));
        }
        let advice = if keep.shingles() { "" } else { KEEP_SHINGLES };
        let listed = match reason_to_read(url, keep.shingles(), job) {
            Some(reason) => Some(stored.source(&reason, advice).await?.1),
            None => None,
        };
        Ok(Self { origins: stored.origins(), listed, stored })
    }

    /// The documents with their sketches, and the rejects.
    fn read(&self, job: &Job) -> Result<FirstStageInput> {
        let types = self.stored.manifest().source.clone();
        let keeps_shingles = self.stored.job().output.keep.shingles();
        let columns = reused_columns(&types, keeps_shingles, col("origin_number"));
        let documents = self.stored.table(Table::Documents)?.select(columns)?;
        let documents = reused(documents, self.stored.table(Table::Rejects)?, &job.lsh)?;
        Ok(FirstStageInput { documents, types, inputs: vec![as_input(&self.stored)] })
    }
}

/// The advice if the source of an output has changed.
const KEEP_SHINGLES: &str = ", with output.keep = \"shingles\" if it should not need the source";

/// A value as it is written in a job file.
fn quoted(value: impl std::fmt::Debug) -> String {
    format!("\"{value:?}\"").to_lowercase()
}

/// Opens the outputs at `urls`, and checks that one run could have found their pairs.
///
/// # Errors
/// The errors of [`Chain::open`] and [`Chain::check_compared`], and [`Kind::Job`](crate::error::Kind::Job) if an output was made with other
/// rules.
async fn open_merged(session: &SessionContext, urls: &[String], job: &Job) -> Result<Chain> {
    let chain = Chain::open(session, urls, "the command", job).await?;
    chain.check_compared()?;
    chain.check_ids().await?;
    let types = chain.types();
    for stored in &chain.outputs {
        let (made, shown) = (stored.job(), stored.layout().shown());
        if let Some(key) = other_rule(made, job) {
            return Err(Error::job(format!(
                "{shown} was made with another `{key}` than the last output, so one run could not have found the pairs of both: make \
                 it again with the same one"
            )));
        }
        if stored.manifest().source != types {
            return Err(Error::job(format!(
                "{shown} has ids of another type, or other columns of the source, than the last output: make it again with the \
                 same source.id and source.columns"
            )));
        }
    }
    Ok(chain)
}

/// The documents of all outputs, without the documents that were replaced, and their rejects.
fn read_merged(chain: &Chain, job: &Job) -> Result<FirstStageInput> {
    let types = chain.types();
    let keeps_shingles = job.output.keep.shingles();
    let documents = chain.live(|at, _| Ok(reused_columns(&types, keeps_shingles, chain.origin(at))))?;
    let rejects = union(chain.outputs.iter().enumerate().map(|(at, stored)| {
        Ok(stored.table(Table::Rejects)?.with_column("origin_number", chain.origin(at))?)
    }))?;
    let documents = reused(documents, rejects, &job.lsh)?;
    Ok(FirstStageInput { documents, types, inputs: chain.outputs.iter().map(as_input).collect() })
}

/// The first key that decides pairs or clusters and differs between two jobs.
fn other_rule(made: &Job, job: &Job) -> Option<&'static str> {
    first_other(&[
        ("candidates.method", made.candidates == job.candidates),
        ("score", made.score == job.score),
        ("source.group", made.source.group == job.source.group),
        ("clusters.method", made.clusters.method == job.clusters.method),
        ("clusters.keep", made.clusters.order() == job.clusters.order()),
        ("clusters.contained", made.clusters.contained == job.clusters.contained),
        ("lsh", (made.lsh.bands, made.lsh.rows) == (job.lsh.bands, job.lsh.rows)),
        ("lsh.bucket_hash", made.lsh.bucket_hash == job.lsh.bucket_hash),
        ("lsh.table_size", made.lsh.table_size == job.lsh.table_size),
        ("output.expand", made.output.expand == job.output.expand),
        ("output.max_expand", made.output.max_expand == job.output.max_expand),
    ])
}
