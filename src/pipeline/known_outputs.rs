//! The documents that earlier runs know, and what is needed of them: sketches, texts and clusters.

use arrow::datatypes::DataType;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::by_group;
use super::earlier::{CONCURRENT_OUTPUTS, Earlier};
use super::known_ids::{replaced, replaces};
use super::steps::Steps;
use super::tables::{AllSketches, WorkTable};
use crate::error::{Error, Result};
use crate::job::{Job, Prefer, Preference};
use crate::output::Stored;
use crate::schema::{SourceTypes, Table};
use crate::source::Listed;
use crate::stage::{self, known, merged};

/// The finished outputs whose documents are known.
#[derive(Debug)]
pub(super) struct KnownOutputs {
    pub(super) earlier: Earlier,
    /// For each output, the sources that its texts are in, with the jobs that read them; `None` if no text is read, since the output
    /// keeps shingles.
    sources: Vec<Option<Vec<(Job, Listed)>>>,
    /// The column that says which group a document is of.
    group: Option<String>,
}

impl KnownOutputs {
    /// Opens the outputs at `urls`, whose documents `job` compares its own with.
    ///
    /// # Errors
    /// As [`Earlier::open`], and where texts are needed that are gone or have changed.
    pub(super) async fn open(session: &SessionContext, urls: &[String], job: &Job) -> Result<Self> {
        let earlier = Earlier::open(session, urls, "against.output", job).await?;
        earlier.check_ids(session).await?;
        let outputs = stream::iter(earlier.outputs());
        let sources = outputs.map(|stored| sources_of(session, stored, job).boxed());
        let sources = sources.buffered(CONCURRENT_OUTPUTS).try_collect().await?;
        let group = job.source.group.clone();
        if let Some(group) = &group {
            earlier.check_column(group, "source.group")?;
        }
        for Preference { column, .. } in &job.clusters.keep {
            if job.source.columns.contains(column) {
                earlier.check_column(column, "clusters.keep")?;
            }
        }
        Ok(Self { earlier, sources, group })
    }

    /// Makes sure that ids are of one type, here and in the source, and that columns by which documents are ordered have an order
    /// that both have.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the output that has another type.
    pub(super) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        for stored in self.earlier.outputs() {
            let (shown, there) = (stored.layout().shown(), &stored.manifest().source);
            if there.id != types.id {
                return Err(Error::job(format!(
                    "ids are of type {:?} in {shown} and of type {:?} in the source: give source.id a column of the same type",
                    there.id, types.id
                )));
            }
            // Whether a value is one of those that are listed is asked of its text.
            let ordered = job.clusters.keep.iter().filter(|by| !matches!(by.prefer, Prefer::In(_)));
            for Preference { column, .. } in ordered {
                let (Some(own), Some(known)) = (types.column(column), there.column(column)) else { continue };
                if !have_one_order(own, known) {
                    return Err(Error::job(format!(
                        "the column `{column}`, which clusters.keep names, is of type {known} in {shown} and of type {own} in the \
                         source, and these have no common order: give it the same type in both, or order by another column"
                    )));
                }
            }
        }
        Ok(())
    }

    /// All known documents: (origin: UInt64, id, source, position, doc, shingle_count, set_hash_0, set_hash_1, signature,
    /// shingles, group), of which shingles are null where an output keeps none. `origin` is the place of the output among these. A
    /// document that a later output replaced is not among them.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn documents(&self, session: &SessionContext) -> Result<DataFrame> {
        let columns =
            ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature"];
        self.earlier.live(session, |at, stored| {
            let mut columns = columns.map(col).to_vec();
            columns.insert(0, lit(at as u64).alias("origin"));
            columns.push(match stored.manifest().keep()?.shingles() {
                true => col("shingles"),
                false => {
                    let none = ScalarValue::try_from(&DataType::new_list(DataType::UInt64, true))?;
                    lit(none).alias("shingles")
                }
            });
            columns.push(stage::by_group::group(self.group.as_deref()));
            Ok(columns)
        })
    }

    /// (id, doc, shingle_count, group) of all known documents.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn names(&self, session: &SessionContext) -> Result<DataFrame> {
        let group = stage::by_group::group(self.group.as_deref());
        self.earlier.all_live(session, vec![col("id"), col("doc"), col("shingle_count"), group])
    }

    /// The sources that texts of known documents are read from, by the place of their output, with the jobs that read them.
    pub(super) fn sources(&self) -> impl Iterator<Item = (usize, &[(Job, Listed)])> {
        let places = self.sources.iter().enumerate();
        places.filter_map(|(at, sources)| Some((at, sources.as_deref()?)))
    }

    /// What connects documents: the scores and the copies of this run, and the clusters of earlier ones: (a, b).
    ///
    /// Where documents were replaced, the pairs of earlier runs take the place of their clusters, which those documents may have
    /// held together.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) async fn edges(&self, steps: &Steps<'_>, job: &Job) -> Result<DataFrame> {
        let session = steps.session();
        let (scores, members) = (steps.table(WorkTable::Scores)?, steps.table(WorkTable::Members)?);
        let replaces = replaced(steps, job, self.names(session)?).await? > 0;
        let before = if replaces || self.earlier.replaced() {
            let columns = by_group::copies(job);
            let mut there = self.earlier.all_live(session, columns.clone())?;
            let new = replaces.then(|| steps.table(Table::Documents)).transpose()?;
            if let Some(new) = &new {
                there = known::without(there, new.clone())?;
            }
            let representatives = merged::representatives(there.clone())?;
            let pairs = self.earlier.pairs_of_groups(session, &columns, new, representatives.clone())?;
            merged::connections(pairs, there, representatives)?
        } else {
            known::connected(self.earlier.clusters(session)?)?
        };
        known::connections(scores, members, Some(before))
    }

    /// All known documents that this run does not replace: in the columns of [`by_group::ordered`].
    ///
    /// # Errors
    /// When a table cannot be read.
    pub(super) fn staying(&self, steps: &Steps<'_>, job: &Job) -> Result<DataFrame> {
        let documents = self.earlier.all_live(steps.session(), by_group::ordered(job)?)?;
        match replaces(job) {
            true => known::without(documents, steps.table(WorkTable::Keys)?),
            false => Ok(documents),
        }
    }
}

/// The sources that texts of `stored` are in, with the jobs that read them; `None` if no text is read.
async fn sources_of(
    session: &SessionContext,
    stored: &Stored,
    job: &Job,
) -> Result<Option<Vec<(Job, Listed)>>> {
    let shown = stored.layout().shown();
    Ok(match stored.manifest().keep()?.shingles() {
        true if job.output.passages => Some(stored.sources(session, PASSAGES, "").await?),
        true => None,
        false if AllSketches::of(job) != AllSketches::Nowhere => {
            return Err(Error::job(format!(
                "{shown} keeps no shingles, and this job needs those of all documents: use candidates.method = \"lsh\" and \
                 output.keep = \"signatures\", or make that output again with output.keep = \"shingles\""
            )));
        }
        false => {
            let (why, or) = (format!("{shown} keeps no shingles"), KEEP_THEM);
            Some(stored.sources(session, &why, or).await?)
        }
    })
}

/// Whether values of both types have one order: as numbers, or as texts. Of any others the engine would compare the texts.
fn have_one_order(a: &DataType, b: &DataType) -> bool {
    a == b || (a.is_numeric() && b.is_numeric()) || (a.is_string() && b.is_string())
}

/// Why sources are read where shingles are kept.
const PASSAGES: &str = "output.passages needs the texts";

/// What helps where the source of a known output has changed.
const KEEP_THEM: &str = ", with output.keep = \"shingles\" if later runs should not need the source";
