//! Reference documents of finished outputs: their sketches, texts, pairs and clusters.

use arrow::datatypes::DataType;
use datafusion::prelude::{DataFrame, Expr, SessionContext, col, lit};
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::chain::{CONCURRENT_OUTPUTS, Chain, since};
use super::same_ids::replaces;
use crate::error::{Error, Result};
use crate::frames::cluster_id::Founders;
use crate::frames::keep::BEFORE;
use crate::frames::{self, merged, reference};
use crate::job::{Job, Prefer, Preference, Source};
use crate::origins::numbered;
use crate::output::Stored;
use crate::output::manifest::ReferenceOutput;
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::by_group;
use crate::pipeline::numbers::rows_of;
use crate::pipeline::run_tables::RunTables;
use crate::pipeline::tables::WorkTable;
use crate::schema::{SourceTypes, Table};
use crate::source::Listed;
use crate::udf::expr_fn::document_key;

/// The finished outputs with the reference documents.
pub(crate) struct ReferenceOutputs {
    /// The outputs. Documents are read by [`Self::live`] alone, which leaves out those that this run replaces.
    pub(super) chain: Chain,
    /// For each output, the sources of its texts with the jobs that read them; `None` if no text is read, since the
    /// output keeps shingles.
    sources: Vec<Option<Vec<(Job, Listed)>>>,
    /// The column of a document's group.
    group: Option<String>,
}

impl ReferenceOutputs {
    /// Opens the outputs at `urls` for `job`.
    ///
    /// # Errors
    /// As [`Chain::open`], and if texts are needed that are gone or have changed.
    pub(crate) async fn open(session: &SessionContext, urls: &[String], job: &Job) -> Result<Self> {
        let chain = Chain::open(session, urls, "against.output", job).await?;
        chain.check_ids().await?;
        let outputs = stream::iter(chain.outputs());
        let sources = outputs.map(|stored| sources_of(stored, job).boxed());
        let sources = sources.buffered(CONCURRENT_OUTPUTS).try_collect().await?;
        let group = job.source.group.clone();
        if let Some(group) = &group {
            chain.check_column(group, "source.group")?;
        }
        for preference in &job.clusters.keep {
            if let Preference::Column { column, .. } = preference
                && job.source.columns.contains(column)
            {
                chain.check_column(column, "clusters.keep")?;
            }
        }
        Ok(Self { chain, sources, group })
    }

    /// Checks that ids have the same type as in the source, and that the columns of `clusters.keep` can be compared.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) with the output that has another type.
    pub(crate) fn check_types(&self, job: &Job, types: &SourceTypes) -> Result<()> {
        for stored in self.chain.outputs() {
            let (shown, there) = (stored.layout().shown(), &stored.manifest().source);
            if there.id != types.id {
                return Err(Error::job(format!(
                    "ids are {} in {shown} and {} in the source: give source.id a column of the same type",
                    there.id, types.id
                )));
            }
            for preference in &job.clusters.keep {
                // Lists of values compare texts.
                let Preference::Column { column, prefer: Prefer::Least | Prefer::Most } = preference else {
                    continue;
                };
                let (Some(own), Some(other)) = (types.column(column), there.column(column)) else { continue };
                if !have_common_order(own, other) {
                    return Err(Error::job(format!(
                        "the column `{column}`, which clusters.keep names, is of type {other} in {shown} and of type {own} in the \
                         source, and these have no common order: give it the same type in both, or order by another column"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The outputs, in the order in which they were made.
    pub(crate) fn stored(&self) -> &[Stored] {
        self.chain.outputs()
    }

    /// The outputs whose rejects are reference documents too, with the number of a reject's source among [`Self::sources`].
    pub(crate) fn with_rejects(&self) -> impl Iterator<Item = (Expr, &Stored)> {
        let outputs = self.stored().iter().enumerate().filter(|(at, _)| self.chain.has_rejects(*at));
        outputs.map(|(at, stored)| (self.chain.origin(at), stored))
    }

    /// See [`Chain::cuts`].
    pub(crate) fn cuts(&self) -> Result<Option<DataFrame>> {
        self.chain.cuts()
    }

    /// The table of the shingles that do not count; `None` if all of them do.
    pub(crate) fn frequent_shingles(&self) -> Result<Option<DataFrame>> {
        self.chain.frequent_shingles()
    }

    /// The record of the outputs in a manifest.
    pub(crate) fn record(&self) -> Vec<ReferenceOutput> {
        self.chain.record()
    }

    /// The number of reference documents, with those that this run replaces.
    pub(crate) fn live_count(&self) -> u64 {
        self.chain.live_count()
    }

    /// An upper bound of the rows that a table of all outputs has.
    pub(crate) fn count(&self, table: Table) -> u64 {
        self.chain.count(table)
    }

    /// The reference documents: `doc`, and the other columns that `columns` returns for the output at each place. Documents that a
    /// later output or this run replaced are left out.
    fn live(
        &self,
        run: &RunTables<'_>,
        columns: impl Fn(usize, &Stored) -> Result<Vec<Expr>>,
    ) -> Result<DataFrame> {
        let documents = self.chain.live(columns)?;
        match replaces(run.job) {
            true => reference::without(documents, run.table(WorkTable::KEYS)?),
            false => Ok(documents),
        }
    }

    /// The reference documents (doc) that this run replaces.
    pub(crate) fn replaced(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        let documents = self.chain.all_live(vec![col("doc")])?;
        match replaces(run.job) {
            true => reference::same(documents, run.table(WorkTable::KEYS)?),
            false => Ok(documents.filter(lit(false))?),
        }
    }

    /// All reference documents: (origin: UInt64, id, source, position, doc, shingle_count, set_hash_0, set_hash_1,
    /// signature, shingles, group). Shingles are null if an output keeps none, and `origin` is the number among [`Self::sources`].
    pub(crate) fn documents(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        let columns =
            ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature"];
        self.live(run, |at, stored| {
            let mut columns = columns.map(col).to_vec();
            columns.insert(0, self.chain.origin(at).alias("origin"));
            columns.push(match stored.job().output.keep.shingles() {
                true => col("shingles"),
                false => {
                    let none = ScalarValue::try_from(&DataType::new_list(DataType::UInt64, true))?;
                    lit(none).alias("shingles")
                }
            });
            columns.push(frames::by_group::group(self.group.as_deref()));
            Ok(columns)
        })
    }

    /// (id, doc) of all reference documents.
    pub(crate) fn names(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        self.live(run, |_, _| Ok(vec![col("id"), col("doc")]))
    }

    /// The places (source, position, doc, origin) of all reference documents.
    pub(crate) fn places(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        self.live(run, |at, _| {
            Ok(vec![col("source"), col("position"), col("doc"), self.chain.origin(at).alias("origin")])
        })
    }

    /// The founders of the clusters of the outputs: see [`Chain::founders`].
    pub(crate) fn founders(&self, run: &RunTables<'_>) -> Result<Founders> {
        let replaces = replaces(run.job) || self.chain.replaced();
        let documents = replaces.then(|| self.live(run, |at, _| Ok(since(at)))).transpose()?;
        self.chain.founders(documents)
    }

    /// The sources of texts, with the numbers of their origins in the chain. Sources that are not read are missing.
    pub(crate) fn sources(&self) -> Vec<(u64, &Source, &Listed)> {
        let of_output = |(at, sources)| {
            let first = self.chain.first_origin(at);
            numbered(sources).map(move |(origin, source, listed)| (first + origin, source, listed))
        };
        let read =
            self.sources.iter().enumerate().filter_map(|(at, sources)| Some((at, sources.as_deref()?)));
        read.flat_map(of_output).collect()
    }

    /// The edges of the outputs: (a, b).
    pub(crate) async fn edges(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        match self.groups(run).await? {
            // A replaced document may have connected a cluster, so the pairs of the other documents are used.
            Some(Groups { pairs, documents, representatives }) => {
                merged::connections(pairs, documents, representatives)
            }
            None if self.chain.all_by_components() => reference::edges_of_clusters(self.chain.clusters()?),
            None => Ok(self.chain.pairs()?.select(vec![col("a"), col("b")])?),
        }
    }

    /// The pairs of the outputs, of documents that this run does not replace: (a, b, shared, shingles_a, shingles_b, ..).
    pub(crate) async fn pairs(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        match self.groups(run).await? {
            Some(Groups { pairs, .. }) => merged::in_order(pairs),
            None => self.chain.pairs(),
        }
    }

    /// The pairs of the outputs by groups of copies, if this run or one of theirs replaces documents.
    async fn groups(&self, run: &RunTables<'_>) -> Result<Option<Groups>> {
        let replaces = replaces(run.job) && rows_of(self.replaced(run)?).await? > 0;
        if !replaces && !self.chain.replaced() {
            return Ok(None);
        }
        let columns = by_group::copies(run.job);
        let documents = self.live(run, |_, _| Ok(columns.clone()))?;
        let new = replaces.then(|| by_group::own_copies(run)).transpose()?;
        let representatives = merged::representatives(documents.clone())?;
        let pairs = self.chain.pairs_of_groups(&columns, new, representatives.clone())?;
        Ok(Some(Groups { pairs, documents, representatives }))
    }

    /// The reference documents in the columns of [`by_group::ordered`], with `set_hash_0`,
    /// `set_hash_1` and `before`: the place of the output, and [`Self::place_of_removed`] for documents that the outputs remove.
    pub(crate) fn clustered(&self, run: &RunTables<'_>) -> Result<DataFrame> {
        let documents = self.live(run, |at, _| {
            let mut columns = by_group::ordered(run.job)?;
            columns.extend([col("set_hash_0"), col("set_hash_1"), lit(at as u64).alias(BEFORE)]);
            Ok(columns)
        })?;
        let removed = self.chain.removed()?;
        reference::placed(documents, removed, self.place_of_removed())
    }

    /// The place of new documents among reference documents: after those of all outputs.
    pub(crate) fn place_of_new(&self) -> u64 {
        self.chain.outputs().len() as u64
    }

    /// The place of documents that the outputs remove: last. If they came before new documents, those would be removed
    /// in favour of a document that no clean dataset has.
    fn place_of_removed(&self) -> u64 {
        self.place_of_new() + 1
    }

    /// The number of documents that the outputs kept and that do not represent their `clusters` (id, representative,
    /// reference, ..) now.
    pub(crate) fn superseded(&self, clusters: DataFrame) -> Result<DataFrame> {
        let others = clusters.filter(col("reference").and(!col("representative")))?;
        let others = others.select(vec![document_key(col("id")).alias("doc")])?;
        reference::without(others, self.chain.removed()?)
    }
}

/// The pairs of outputs, by groups of copies that still have a document.
struct Groups {
    /// See [`merged::pairs_of_groups`].
    pairs: DataFrame,
    /// The remaining documents (doc, set_hash_0, set_hash_1, ..).
    documents: DataFrame,
    /// See [`merged::representatives`].
    representatives: DataFrame,
}

/// The sources of the texts of `stored`, with the jobs that read them; `None` if no text is read.
async fn sources_of(stored: &Stored, job: &Job) -> Result<Option<Vec<(Job, Listed)>>> {
    let shown = stored.layout().shown();
    Ok(match stored.job().output.keep.shingles() {
        true if job.output.pair_passages => Some(stored.sources(PAIR_PASSAGES, "").await?),
        true if job.passages.is_some() => Some(stored.sources(PASSAGES, "").await?),
        true => None,
        false if AllSketches::of(job) != AllSketches::Nowhere => {
            return Err(Error::job(format!(
                "{shown} keeps no shingles, and this job needs those of all documents: use candidates.method = \"lsh\" and \
                 output.keep = \"signatures\", or make that output again with output.keep = \"shingles\""
            )));
        }
        false => {
            let (why, or) = (format!("{shown} keeps no shingles"), KEEP_THEM);
            Some(stored.sources(&why, or).await?)
        }
    })
}

/// Whether values of both types can be ordered together, as numbers or as texts. The engine would compare others as
/// texts.
fn have_common_order(a: &DataType, b: &DataType) -> bool {
    a == b || (a.is_numeric() && b.is_numeric()) || (a.is_string() && b.is_string())
}

/// Why sources are read if shingles are kept.
const PAIR_PASSAGES: &str = "output.pair_passages needs the texts";
const PASSAGES: &str = "[passages] needs the texts";

/// The advice if the source of a reference output has changed.
const KEEP_THEM: &str = ", with output.keep = \"shingles\" if later runs should not need the source";
