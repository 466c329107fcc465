//! Opens and checks finished outputs with reference documents.

use arrow::datatypes::DataType;
use datafusion::prelude::{Expr, SessionContext};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::chain::{CONCURRENT_OUTPUTS, Chain, reason_to_read};
use crate::error::{Error, Result};
use crate::job::{Job, Prefer, Preference, Source};
use crate::origins::numbered;
use crate::output::Stored;
use crate::pipeline::tables::AllSketches;
use crate::schema::SourceTypes;
use crate::source::Listed;

pub(crate) struct ReferenceOutputs {
    /// Read documents through [`Self::documents`] and the functions beside it, which skip documents that this run replaces.
    pub(in crate::pipeline) chain: Chain,
    /// For each output, the jobs that read its texts, and their files. `None` if no text of the output is read again.
    sources: Vec<Option<Vec<(Job, Listed)>>>,
}

impl ReferenceOutputs {
    pub(crate) async fn open(session: &SessionContext, urls: &[String], job: &Job) -> Result<Self> {
        let chain = Chain::open(session, urls, "against.output", job).await?;
        chain.check_ids().await?;
        let sources = stream::iter(&chain.outputs).map(|stored| sources(stored, job).boxed());
        let sources = sources.buffered(CONCURRENT_OUTPUTS).try_collect().await?;
        if let Some(group) = &job.source.group {
            chain.check_column(group, "source.group")?;
        }
        for preference in &job.clusters.keep {
            if let Preference::Column { column, .. } = preference
                && job.source.columns.contains(column)
            {
                chain.check_column(column, "clusters.keep")?;
            }
        }
        Ok(Self { chain, sources })
    }

    /// Checks that ids have the same type as in the source, and that the columns of `clusters.keep` can be compared. Fails with
    /// `Kind::Job`, with the output, if a type does not fit.
    pub(crate) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        for stored in &self.chain.outputs {
            let (shown, made) = (stored.layout().shown(), &stored.manifest().source);
            if made.id != types.id {
                return Err(Error::job(format!(
                    "ids are {} in {shown} and {} in the source: give source.id a column of the same type",
                    made.id, types.id
                )));
            }
            for preference in &job.clusters.keep {
                // An entry with a list of values compares the values as texts.
                let Preference::Column { column, prefer: Prefer::Least | Prefer::Most } = preference else {
                    continue;
                };
                let (Some(own), Some(other)) = (types.column(column), made.column(column)) else { continue };
                if !have_common_order(own, other) {
                    return Err(Error::job(format!(
                        "the column `{column}` in clusters.keep is of type {other} in {shown} and of type {own} in the source: give it the \
                         same type in both, or order by another column"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The outputs whose rejects are also reference documents. The expression gives the number of a reject's source in [`Self::sources`].
    pub(crate) fn with_rejects(&self) -> impl Iterator<Item = (Expr, &Stored)> {
        let outputs = self.chain.outputs.iter().enumerate();
        let outputs = outputs.filter(|(at, _)| self.chain.has_rejects(*at));
        outputs.map(|(at, stored)| (self.chain.origin(at), stored))
    }

    /// The sources from which texts are read. The number is the index in [`Chain::origins`].
    pub(crate) fn sources(&self) -> Vec<(u64, &Source, &Listed)> {
        let read = self.sources.iter().enumerate();
        let read = read.filter_map(|(at, sources)| Some((self.chain.first_origin(at), sources.as_deref()?)));
        read.flat_map(|(first, sources)| {
            numbered(sources).map(move |(origin, source, listed)| (first + origin, source, listed))
        })
        .collect()
    }
}

/// The jobs that read the texts of `stored`, and their files. `None` if no text is read.
async fn sources(stored: &Stored, job: &Job) -> Result<Option<Vec<(Job, Listed)>>> {
    let (shown, keeps_shingles) = (stored.layout().shown(), stored.job().output.keep.shingles());
    if !keeps_shingles && AllSketches::new(job) != AllSketches::Nowhere {
        return Err(Error::job(format!(
            "{shown} keeps no shingles, and this job needs the shingles of all documents: use candidates.method = \"lsh\" and \
             output.keep = \"signatures\", or make that output again with output.keep = \"shingles\""
        )));
    }
    let advice = if keeps_shingles { "" } else { KEEP_SHINGLES };
    match reason_to_read(shown, keeps_shingles, job) {
        Some(reason) => stored.sources(&reason, advice).await.map(Some),
        None => Ok(None),
    }
}

/// Whether values of both types can be ordered together, as numbers or as texts. DataFusion would compare other values as texts.
fn have_common_order(a: &DataType, b: &DataType) -> bool {
    a == b || (a.is_numeric() && b.is_numeric()) || (a.is_string() && b.is_string())
}

/// The end of the advice to make a reference output again whose source has changed.
const KEEP_SHINGLES: &str = ", with output.keep = \"shingles\" if later runs should not need the source";
