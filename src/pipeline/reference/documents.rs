//! Frames over the reference documents of a run, with their sketches, positions, pairs and clusters.

use arrow::datatypes::DataType;
use datafusion::prelude::{DataFrame, Expr, col, lit};
use datafusion::scalar::ScalarValue;

use super::ReferenceDocuments;
use super::chain::{KeySet, since};
use super::outputs::ReferenceOutputs;
use crate::error::Result;
use crate::frames::clusters::{ClusterId, Founders};
use crate::frames::keep::{self, BEFORE};
use crate::frames::{self, columns, merged, reference};
use crate::job::{Job, SameId};
use crate::output::Stored;
use crate::pipeline::context::StageContext;
use crate::pipeline::groups;
use crate::pipeline::numbers::first_ids;
use crate::pipeline::tables::WorkTable;
use crate::schema::Table;
use crate::udf::expr_fn::{document_key, unsigned_bits};

impl ReferenceDocuments {
    /// Returns the edges (a, b) between documents, from the scores and copies of this run and from the clusters in reference outputs.
    pub(crate) async fn edges(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        let found = reference::edges(cx.table(WorkTable::SCORES)?, cx.table(WorkTable::MEMBERS)?)?;
        match self {
            Self::Outputs(outputs) if cx.job.clusters.decisions.is_some() => {
                let same = cx.table(WorkTable::SAME_SCORES)?.select(columns(["a", "b"]))?;
                Ok(found.union(outputs.edges(cx).await?)?.union(same)?)
            }
            Self::Outputs(outputs) => Ok(found.union(outputs.edges(cx).await?)?),
            Self::Source(_) => Ok(found),
        }
    }

    /// Returns the reference documents that can be in clusters and that this run does not replace. Their columns are [`groups::ordered`],
    /// `set_hash_0`, `set_hash_1` and `before`, with the types of `like`. Also returns the value of `before` for new documents.
    /// [`Preference::Reference`](crate::job::Preference::Reference) orders documents by `before`, ascending. May omit documents of
    /// reference outputs that are not in `keys`.
    pub(crate) fn clustered(
        &self,
        cx: &StageContext<'_>,
        like: &DataFrame,
        keys: &KeySet,
    ) -> Result<(DataFrame, Expr)> {
        match self {
            Self::Outputs(outputs) => Ok((outputs.clustered(cx, keys)?, lit(outputs.place_of_new()))),
            Self::Source(_) => before_new(cx.table(WorkTable::REFERENCE)?, cx.job, like),
        }
    }

    /// Like [`Self::clustered`], but for all reference documents that can be compared. Documents from a second source have no hashes.
    pub(crate) fn in_order(&self, cx: &StageContext<'_>, like: &DataFrame) -> Result<(DataFrame, Expr)> {
        match self {
            Self::Outputs(_) => self.clustered(cx, like, &KeySet::default()),
            Self::Source(_) => before_new(cx.table(WorkTable::REFERENCE_KEYS)?, cx.job, like),
        }
    }

    pub(crate) async fn cluster_id(&self, cx: &StageContext<'_>) -> Result<ClusterId> {
        match self {
            Self::Outputs(outputs) => Ok(ClusterId::Kept(Box::new(outputs.founders(cx).await?))),
            Self::Source(_) => Ok(ClusterId::LeastNew),
        }
    }

    pub(crate) fn places(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        match self {
            Self::Outputs(outputs) => outputs.places(cx),
            Self::Source(_) => Ok(cx.table(WorkTable::REFERENCE_KEYS)?.with_column("origin", lit(0_u64))?),
        }
    }
}

/// Adds `before` to documents from a second source, which come before all new documents. Also returns the value for new documents: see
/// [`ReferenceDocuments::clustered`].
fn before_new(documents: DataFrame, job: &Job, like: &DataFrame) -> Result<(DataFrame, Expr)> {
    let documents = documents.with_column(BEFORE, lit(0_u64))?;
    Ok((keep::without_carried(documents, &job.clusters.order(), like)?, lit(1_u64)))
}

fn replaces(job: &Job) -> bool {
    job.same_id() == Some(SameId::Replace)
}

/// The `documents` (doc, ..) in reference outputs that this run does not replace.
fn remaining(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    if replaces(cx.job) {
        return reference::without(documents, cx.table(WorkTable::KEYS)?);
    }
    Ok(documents)
}

/// The condition that a row of the table `documents` is in `keys`.
fn is_in(keys: &KeySet) -> Option<Expr> {
    keys.contains(unsigned_bits(col("doc")))
}

/// The pairs in outputs, between groups of copies with a document that was not replaced.
struct Groups {
    /// See [`merged::pairs_of_groups`].
    pairs: DataFrame,
    /// The reference documents that were not replaced (doc, set_hash_0, set_hash_1, ..).
    documents: DataFrame,
    /// See [`merged::representatives`].
    representatives: DataFrame,
}

impl ReferenceOutputs {
    /// Returns the reference documents that neither a later output nor this run replaced. `columns` returns the columns for each output
    /// and its index, which must include `doc`.
    fn live(
        &self,
        cx: &StageContext<'_>,
        columns: impl Fn(usize, &Stored) -> Result<Vec<Expr>>,
    ) -> Result<DataFrame> {
        remaining(cx, self.chain.live(columns)?)
    }

    /// The reference documents (doc) that this run replaces.
    pub(crate) fn replaced(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        let documents = self.chain.live(|_, _| Ok(columns(["doc"])))?;
        if replaces(cx.job) {
            return reference::same(documents, cx.table(WorkTable::KEYS)?);
        }
        Ok(documents.filter(lit(false))?)
    }

    /// All reference documents: (origin: UInt64, id, source, position, doc, shingle_count, set_hash_0, set_hash_1, signature, shingles,
    /// group). `shingles` is null if the output keeps none. `origin` is the number of the document's source in [`Self::sources`]. Documents
    /// for which `wanted` is false can be omitted.
    pub(crate) fn documents(&self, cx: &StageContext<'_>, wanted: Option<Expr>) -> Result<DataFrame> {
        let documents = self.chain.live_where(wanted, |at, stored| {
            let mut all = vec![self.chain.origin(at).alias("origin")];
            all.extend(columns(["id", "source", "position", "doc", "shingle_count"]));
            all.extend(columns(["set_hash_0", "set_hash_1", "signature"]));
            all.push(if stored.job().output.keep.shingles() {
                col("shingles")
            } else {
                let none = ScalarValue::try_from(&DataType::new_list(DataType::UInt64, true))?;
                lit(none).alias("shingles")
            });
            all.push(frames::groups::group(cx.job.source.group.as_deref()));
            Ok(all)
        })?;
        remaining(cx, documents)
    }

    pub(crate) fn ids(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        self.live(cx, |_, _| Ok(columns(["id", "doc"])))
    }

    /// The keys (doc) of reference documents that are in `keys`, and possibly others.
    pub(crate) fn docs_among(&self, cx: &StageContext<'_>, keys: &KeySet) -> Result<DataFrame> {
        remaining(cx, self.chain.live_where(is_in(keys), |_, _| Ok(columns(["doc"])))?)
    }

    fn places(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        self.live(cx, |at, _| {
            let origin = self.chain.origin(at).alias("origin");
            Ok([columns(["source", "position", "doc"]), vec![origin]].concat())
        })
    }

    /// The founders of the clusters in the outputs. Founders that are in no cluster of this run can be omitted.
    pub(crate) async fn founders(&self, cx: &StageContext<'_>) -> Result<Founders> {
        let keys = self.chain.key_set(cx.table(WorkTable::RANKS)?.select(columns(["doc"]))?).await?;
        let replaces = replaces(cx.job) || self.chain.replaced();
        let documents = replaces.then(|| self.live(cx, |at, _| Ok(since(at)))).transpose()?;
        self.chain.founders(documents, &keys)
    }

    async fn edges(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        match self.groups(cx).await? {
            // Two documents may have been in one cluster only because of a replaced document. So the edges come from the pairs between
            // remaining documents.
            Some(Groups { pairs, documents, representatives }) => {
                merged::connections(pairs, documents, representatives)
            }
            // Decisions can divide a cluster.
            None if self.chain.all_by_components() && cx.job.clusters.decisions.is_none() => {
                reference::edges_of_clusters(self.chain.clusters()?)
            }
            None => Ok(self.chain.pairs()?.select(columns(["a", "b"]))?),
        }
    }

    /// The pairs (a, b, shared, shingles_a, shingles_b, ..) in the outputs, between documents that this run does not replace.
    pub(crate) async fn pairs(&self, cx: &StageContext<'_>) -> Result<DataFrame> {
        match self.groups(cx).await? {
            Some(Groups { pairs, .. }) => merged::in_order(pairs),
            None => self.chain.pairs(),
        }
    }

    /// The pairs in the outputs between groups of copies, if this run or an earlier run replaced documents.
    async fn groups(&self, cx: &StageContext<'_>) -> Result<Option<Groups>> {
        let replaces = replaces(cx.job) && self.replaced(cx)?.count().await? > 0;
        if !replaces && !self.chain.replaced() {
            return Ok(None);
        }
        let columns = groups::copy_key(cx.job);
        let documents = self.live(cx, |_, _| Ok(columns.clone()))?;
        let new = replaces.then(|| groups::own_copy_keys(cx)).transpose()?;
        let representatives = merged::representatives(documents.clone())?;
        let pairs = self.chain.pairs_of_groups(&columns, new, representatives.clone())?;
        Ok(Some(Groups { pairs, documents, representatives }))
    }

    /// The reference documents for [`ReferenceDocuments::clustered`]. The column `before` is the index of the output that contains the
    /// document. If an output removed the document, it is larger than the value for new documents.
    fn clustered(&self, cx: &StageContext<'_>, keys: &KeySet) -> Result<DataFrame> {
        let documents = self.chain.live_where(is_in(keys), |at, _| {
            let sets = [columns(["set_hash_0", "set_hash_1"]), vec![lit(at as u64).alias(BEFORE)]].concat();
            Ok([groups::ordered(cx.job)?, sets].concat())
        })?;
        let documents = remaining(cx, documents)?;
        // Documents that the outputs removed come last. Otherwise a document that no clean dataset contains could represent new
        // documents, which would then be removed.
        reference::with_place(documents, self.chain.removed(keys)?, self.place_of_new() + 1)
    }

    /// The value of `before` for new documents, which come after the kept documents in all outputs.
    fn place_of_new(&self) -> u64 {
        self.chain.outputs.len() as u64
    }

    /// Returns the documents that the outputs kept and that no longer represent their clusters in `clusters` (id, representative,
    /// reference, ..).
    pub(crate) async fn superseded(&self, clusters: DataFrame) -> Result<DataFrame> {
        let others = clusters.filter(col("reference").and(!col("representative")))?;
        let others = others.select(vec![document_key(col("id")).alias("doc")])?;
        let keys = self.chain.key_set(others.clone()).await?;
        reference::without(others, self.chain.removed(&keys)?)
    }

    /// Returns a warning if new documents cannot be compared and therefore do not replace the reference documents with the same ids.
    pub(crate) async fn not_replaced(&self, cx: &StageContext<'_>) -> Result<Option<String>> {
        if !replaces(cx.job) || cx.rows(Table::Rejects) == 0 {
            return Ok(None);
        }
        let rejected = cx.table(Table::Rejects)?.filter(col("id").is_not_null())?;
        let rejected = rejected.select(vec![col("id"), document_key(col("id")).alias("doc")])?.distinct()?;
        let rejected = reference::without(rejected, cx.table(WorkTable::KEYS)?)?;
        let same = reference::same(rejected, self.ids(cx)?)?;
        let (count, ids) = (same.clone().count().await?, first_ids(same, NAMED).await?);
        let more = match count - ids.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Ok((count > 0).then(|| {
            format!(
                "documents of the source cannot be compared, so they do not replace the documents of against.output that have the same \
                 ids: {}{more}; rejects/ gives the reasons",
                ids.join(", ")
            )
        }))
    }
}

const NAMED: usize = 5;
