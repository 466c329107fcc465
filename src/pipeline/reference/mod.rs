//! The reference documents of a run, from earlier outputs or from a second source. New documents are compared with them.

pub(super) mod ancestors;
pub(super) mod chain;
mod documents;
pub(crate) mod first_day;
pub(super) mod outputs;

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};

use super::overlap;
use crate::error::{Context, Error, Result};
use crate::frames::{self, columns, groups, utf8};
use crate::job::{InputFile, Job, Reference, Source, fingerprint};
use crate::origins::numbered;
use crate::output::Layout;
use crate::output::manifest::{ReferenceOutput, Run as Manifest};
use crate::schema::{SourceTypes, carried};
use crate::source::{self, InputComparison, Listed, ReadRequest};
use chain::union;
use outputs::ReferenceOutputs;

pub(crate) enum ReferenceDocuments {
    Outputs(ReferenceOutputs),
    Source(Box<SecondSource>),
}

impl ReferenceDocuments {
    /// Opens the reference documents in the section `[against]`, if the job has this section.
    pub(crate) async fn find(session: &SessionContext, job: &Job) -> Result<Option<Self>> {
        Ok(Some(match job.reference() {
            None => return Ok(None),
            Some(Reference::Source(source)) => {
                Self::Source(Box::new(SecondSource::open(session, source, job).await?))
            }
            Some(Reference::Outputs { urls, .. }) => {
                Self::Outputs(ReferenceOutputs::open(session, urls, job).await?)
            }
        }))
    }

    /// Refuses an output that overlaps with an input. Fails with `Kind::Job`, with both.
    pub(crate) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        match self {
            Self::Outputs(outputs) => outputs.chain.refuse_overlap(output, "output.url"),
            Self::Source(second) => {
                overlap::refuse_urls(output, &second.source, "output.url")?;
                overlap::refuse_files(output, &second.listed, "output.url")
            }
        }
    }

    /// Checks that ids have the same type as in the source of new documents, and that the columns that order documents can be compared.
    /// Fails with `Kind::Job` if the types do not fit.
    pub(crate) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        match self {
            Self::Outputs(outputs) => outputs.check_types(job, types),
            Self::Source(second) if second.types.id != types.id => Err(Error::job(format!(
                "ids are {} in against.source and {} in the source: give source.id and against.source.id columns of the same type",
                second.types.id, types.id
            ))),
            Self::Source(_) => Ok(()),
        }
    }

    pub(crate) fn record(&self) -> Vec<ReferenceOutput> {
        match self {
            Self::Outputs(outputs) => outputs.chain.record(),
            Self::Source(source) => vec![source.record()],
        }
    }

    /// Like [`Self::record`], but assumes that rewritten files of a second source have the contents that the run of `finished` read.
    pub(crate) fn record_as_read(&self, job: &Job, finished: &Manifest) -> Result<Vec<ReferenceOutput>> {
        match self {
            Self::Outputs(_) => Ok(self.record()),
            Self::Source(second) => {
                let inputs = InputComparison::new(&second.listed, &finished.inputs).inputs;
                let fingerprint = fingerprint(&job.second_source_job(&second.source), &inputs)?;
                Ok(vec![ReferenceOutput { fingerprint, ..second.record() }])
            }
        }
    }

    /// Whether rewritten files of a second source have the contents that the run of `finished` read.
    pub(crate) async fn is_as_read(&self, session: &SessionContext, finished: &Manifest) -> Result<bool> {
        match self {
            Self::Outputs(_) => Ok(true),
            Self::Source(second) => {
                let as_read = InputComparison::new(&second.listed, &finished.inputs);
                Ok(as_read.different_content(session, &second.source).await?.is_none())
            }
        }
    }

    /// The files of a second source, if there is one.
    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        match self {
            Self::Outputs(_) => Vec::new(),
            Self::Source(source) => source.listed.inputs(),
        }
    }

    /// The sources from which texts are read, with their numbers in the column `origin`.
    pub(super) fn sources(&self) -> Vec<(u64, &Source, &Listed)> {
        match self {
            Self::Outputs(outputs) => outputs.sources(),
            Self::Source(second) => vec![(0, &second.source, &second.listed)],
        }
    }

    pub(crate) fn outputs(&self) -> Option<&ReferenceOutputs> {
        match self {
            Self::Outputs(outputs) => Some(outputs),
            Self::Source(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct SecondSource {
    pub(super) source: Source,
    pub(super) listed: Listed,
    /// The documents as [`frames::documents`] returns them, including documents that repeat an earlier document's id.
    pub(super) documents: DataFrame,
    types: SourceTypes,
    /// The fingerprint of a run that would read only this source with the settings of the job.
    fingerprint: String,
}

impl SecondSource {
    /// Lists and opens `source`. Its texts are split into shingles with the settings of `job`.
    async fn open(session: &SessionContext, source: &Source, job: &Job) -> Result<Self> {
        let why = || "against.source cannot be read".to_owned();
        let listed = source::list(session, source).await.context(why)?;
        let request = ReadRequest { wanted: None, shingle: Some(&job.shingle) };
        let read = source::read(session, source, &listed, request).await.context(why)?;
        let documents = frames::documents::documents(read.frame)?;
        let fingerprint = fingerprint(&job.second_source_job(source), &listed.inputs())?;
        Ok(Self { source: source.clone(), listed, documents, types: read.types, fingerprint })
    }

    fn record(&self) -> ReferenceOutput {
        let (output, fingerprint) = (self.source.urls.join(", "), self.fingerprint.clone());
        ReferenceOutput { output, fingerprint, merged: Vec::new(), applied: None, passages: false }
    }
}

/// The reference documents of `job` for samples, in the columns of [`with_group`]. `types` are the types of the columns in the job's
/// source.
pub(crate) async fn reference_texts(
    session: &SessionContext,
    job: &Job,
    types: &SourceTypes,
) -> Result<Option<DataFrame>> {
    let Some(reference) = ReferenceDocuments::find(session, job).await? else { return Ok(None) };
    reference.check_types(job, types)?;
    Ok(Some(match reference {
        ReferenceDocuments::Outputs(outputs) => texts_of_outputs(session, &outputs, job).await?,
        ReferenceDocuments::Source(second) => {
            let SecondSource { source, listed, .. } = &*second;
            let read = source::read(session, source, listed, ReadRequest::all()).await?.frame;
            frames::reference::with_second_source_keys(with_group(read, source, source.group.as_deref())?)?
        }
    }))
}

/// Selects (source, position, id: Utf8, text, doc, reason, group) from the rows of a source. `group` is null if the source does not carry
/// the column `group`.
pub(crate) fn with_group(read: DataFrame, source: &Source, group: Option<&str>) -> Result<DataFrame> {
    let at = source.columns.iter().position(|column| Some(column.as_str()) == group);
    let mut all = vec![utf8("source"), col("position"), utf8("id")];
    all.extend(columns(["text", "doc", "reason"]));
    all.push(groups::group(at.map(carried).as_deref()));
    Ok(frames::documents::documents(read)?.select(all)?)
}

/// Reads the documents in reference outputs that no later output replaced, from the sources of the outputs.
async fn texts_of_outputs(
    session: &SessionContext,
    outputs: &ReferenceOutputs,
    job: &Job,
) -> Result<DataFrame> {
    let mut read = Vec::new();
    for (at, stored) in outputs.chain.outputs.iter().enumerate() {
        let sources = stored.sources("the texts of the documents of against.output are read", "").await?;
        for (origin, source, listed) in numbered(&sources) {
            let frame = source::read(session, source, listed, ReadRequest::all()).await?.frame;
            let texts = with_group(frame, source, job.source.group.as_deref())?;
            read.push(Ok(texts.with_column("origin", lit(outputs.chain.first_origin(at) + origin))?));
        }
    }
    let live = outputs.chain.live(|at, _| {
        Ok(vec![
            outputs.chain.origin(at).alias("live_origin"),
            cast(col("source"), DataType::Utf8).alias("live_source"),
            col("position").alias("live_position"),
            col("doc"),
        ])
    })?;
    let live = live.with_column_renamed("doc", "live_doc")?;
    let left = &["live_origin", "live_source", "live_position", "live_doc"];
    let right = &["origin", "source", "position", "doc"];
    let texts = live.join(union(read.into_iter())?, JoinType::RightSemi, left, right, None)?;
    Ok(texts.drop_columns(&["origin"])?)
}
