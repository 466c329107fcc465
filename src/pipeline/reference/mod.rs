//! The reference documents: those of other outputs, or of a second source, with which a run compares its new documents.

pub(super) mod chain;
mod lineage;
pub(super) mod outputs;
pub(super) mod same_frequent;
pub(super) mod same_ids;
pub(super) mod source;
pub(super) mod texts;

use datafusion::prelude::{DataFrame, Expr, SessionContext, lit};

use crate::error::Result;
use crate::frames;
use crate::frames::cluster_id::ClusterId;
use crate::frames::keep::BEFORE;
use crate::job::{InputFile, Job, Reference, Source};
use crate::output::Layout;
use crate::output::manifest::{ReferenceOutput, Run as Manifest};
use crate::pipeline::run_tables::RunTables;
use crate::pipeline::tables::WorkTable;
use crate::schema::SourceTypes;
use crate::source::Listed;
use outputs::ReferenceOutputs;
use source::SecondSource;

/// The reference documents of a run, by where they are.
pub(crate) enum ReferenceDocuments {
    Outputs(ReferenceOutputs),
    Source(Box<SecondSource>),
}

impl ReferenceDocuments {
    /// Opens the reference documents of `[against]` in `job`; `None` if it has no such section.
    ///
    /// # Errors
    /// As [`ReferenceOutputs::open`] and [`SecondSource::open`].
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

    /// Refuses an output that overlaps with an input.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(crate) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        match self {
            Self::Outputs(outputs) => outputs.chain.refuse_overlap(output, "output.url"),
            Self::Source(source) => source.refuse_overlap(output),
        }
    }

    /// Checks that ids have the same type as in the job's own source, and that the columns which order documents can be
    /// compared.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if not.
    pub(crate) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        match self {
            Self::Outputs(outputs) => outputs.check_types(job, types),
            Self::Source(source) => source.check_types(types),
        }
    }

    /// The record of them in a manifest.
    pub(crate) fn record(&self) -> Vec<ReferenceOutput> {
        match self {
            Self::Outputs(outputs) => outputs.record(),
            Self::Source(source) => vec![source.record()],
        }
    }

    /// As [`Self::record`], if the files of a second source that were written again have the contents that the run of `finished`
    /// read.
    pub(crate) fn record_as_read(&self, job: &Job, finished: &Manifest) -> Vec<ReferenceOutput> {
        match self {
            Self::Outputs(_) => self.record(),
            Self::Source(source) => vec![source.record_as_read(job, finished)],
        }
    }

    /// Whether the files of a second source that were written again have the contents that the run of `finished` read.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) async fn is_as_read(&self, session: &SessionContext, finished: &Manifest) -> Result<bool> {
        match self {
            Self::Outputs(_) => Ok(true),
            Self::Source(source) => source.is_as_read(session, finished).await,
        }
    }

    /// The files that are read whole.
    pub(crate) fn inputs(&self) -> Vec<InputFile> {
        match self {
            Self::Outputs(_) => Vec::new(),
            Self::Source(source) => source.inputs(),
        }
    }

    /// The sources from which texts are read, with the numbers that the column `origin` has.
    pub(super) fn sources(&self) -> Vec<(u64, &Source, &Listed)> {
        match self {
            Self::Outputs(outputs) => outputs.sources(),
            Self::Source(second) => {
                let (source, listed) = second.files();
                vec![(0, source, listed)]
            }
        }
    }

    /// The outputs with the reference documents, if these are in outputs.
    pub(crate) fn outputs(&self) -> Option<&ReferenceOutputs> {
        match self {
            Self::Outputs(outputs) => Some(outputs),
            Self::Source(_) => None,
        }
    }

    /// The edges between documents (a, b): the scores and copies of this run, and the clusters of other outputs.
    pub(crate) async fn edges(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        let found = frames::reference::edges(run.table(WorkTable::SCORES)?, run.table(WorkTable::MEMBERS)?)?;
        match self {
            Self::Outputs(outputs) => Ok(found.union(outputs.edges(run).await?)?),
            Self::Source(_) => Ok(found),
        }
    }

    /// The documents that clusters may have, without those that this run replaces: in the columns of
    /// [`by_group::ordered`](crate::pipeline::by_group::ordered), with `set_hash_0`, `set_hash_1` and `before`. The
    /// second value is the `before` of new documents, by which
    /// [`Preference::Reference`](crate::job::Preference::Reference) orders documents, the least number first. `like`
    /// has the types of the columns.
    pub(crate) fn clustered(&self, run: &RunTables<'_>, like: &DataFrame) -> Result<(DataFrame, Expr)> {
        match self {
            Self::Outputs(outputs) => Ok((outputs.clustered(run)?, lit(outputs.place_of_new()))),
            Self::Source(_) => before_new(run.table(WorkTable::REFERENCE)?, run.job, like),
        }
    }

    /// All documents that can be compared, without those that this run replaces, and the `before` of new ones: as
    /// [`Self::clustered`], without hashes for those of a second source.
    pub(crate) fn in_order(&self, run: &RunTables<'_>, like: &DataFrame) -> Result<(DataFrame, Expr)> {
        match self {
            Self::Outputs(_) => self.clustered(run, like),
            Self::Source(_) => before_new(run.table(WorkTable::REFERENCE_KEYS)?, run.job, like),
        }
    }

    /// The rule for the ids of clusters.
    pub(crate) fn cluster_id(&self, run: &RunTables<'_>) -> Result<ClusterId> {
        match self {
            Self::Outputs(outputs) => Ok(ClusterId::Kept(Box::new(outputs.founders(run)?))),
            Self::Source(_) => Ok(ClusterId::LeastNew),
        }
    }
}

/// Documents of a second source, which come before new ones whatever those are, with the `before` of new ones: see
/// [`ReferenceDocuments::clustered`].
fn before_new(documents: DataFrame, job: &Job, like: &DataFrame) -> Result<(DataFrame, Expr)> {
    let documents = documents.with_column(BEFORE, lit(0_u64))?;
    Ok((frames::keep::without_carried(documents, &job.clusters.order(), like)?, lit(1_u64)))
}
