//! The documents that are known already, which those of the job's own source are compared with.

use datafusion::prelude::{DataFrame, SessionContext};

use super::known_outputs::KnownOutputs;
use super::known_source::KnownSource;
use super::steps::Steps;
use crate::error::Result;
use crate::job::{InputFile, Job};
use crate::output::Layout;
use crate::output::manifest::KnownOutput;
use crate::schema::SourceTypes;

/// Where known documents are.
#[derive(Debug)]
pub(super) enum Known {
    /// In the outputs of earlier runs.
    Outputs(KnownOutputs),
    /// In a second source.
    Source(Box<KnownSource>),
}

impl Known {
    /// Opens what `job` names; `None` if it names nothing.
    ///
    /// # Errors
    /// As [`KnownOutputs::open`] and [`KnownSource::open`].
    pub(super) async fn find(session: &SessionContext, job: &Job) -> Result<Option<Self>> {
        let Some(against) = &job.against else { return Ok(None) };
        Ok(Some(match &against.source {
            Some(source) => Known::Source(Box::new(KnownSource::open(session, source, job).await?)),
            None => Known::Outputs(KnownOutputs::open(session, &against.outputs, job).await?),
        }))
    }

    /// Refuses an output that overlaps with what is read.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with both.
    pub(super) fn refuse_overlap(&self, output: &Layout) -> Result<()> {
        match self {
            Known::Outputs(outputs) => outputs.earlier.refuse_overlap(output, "output.url"),
            Known::Source(source) => source.refuse_overlap(output),
        }
    }

    /// Makes sure that ids are of one type, here and in the job's own source, and that documents of both have one order.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where they are not.
    pub(super) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        match self {
            Known::Outputs(outputs) => outputs.check_types(job, types),
            Known::Source(source) => source.check_types(types),
        }
    }

    /// What a manifest says of them.
    pub(super) fn record(&self) -> Vec<KnownOutput> {
        match self {
            Known::Outputs(outputs) => outputs.earlier.record(),
            Known::Source(source) => vec![source.record()],
        }
    }

    /// The files that texts of known documents are read from in any case.
    pub(super) fn inputs(&self) -> Vec<InputFile> {
        match self {
            Known::Outputs(_) => Vec::new(),
            Known::Source(source) => source.inputs(),
        }
    }

    /// The outputs that hold them, if outputs do.
    pub(super) fn outputs(&self) -> Option<&KnownOutputs> {
        match self {
            Known::Outputs(outputs) => Some(outputs),
            Known::Source(_) => None,
        }
    }

    /// What connects documents: the scores and the copies of this run, and the clusters of earlier ones: (a, b).
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn edges(&self, steps: &Steps<'_>, job: &Job) -> Result<DataFrame> {
        match self {
            Known::Outputs(outputs) => outputs.edges(steps, job).await,
            Known::Source(source) => source.edges(steps),
        }
    }
}
