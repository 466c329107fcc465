//! Selects pairs in a finished output, or documents in a cluster, and reads the texts of these documents.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::DataType;
use datafusion::common::cast::{as_boolean_array, as_float64_array};
use datafusion::functions::string::expr_fn::concat_ws;
use datafusion::prelude::{Expr, cast, col, lit};
use serde::{Deserialize, Serialize};

use super::finished::{id_column, ids};
use super::reread::{self, Need, Reread, comparable};
use super::{Finished, Id, rows};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::kernel::hash::document_key;
use crate::kernel::measure::{containment_of, jaccard_of, shared};
use crate::kernel::text::shingles::shingle_set;
use crate::schema::Table;
use crate::udf;

/// The order of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairOrder {
    /// By descending similarity, then by ids. The measure is that of the job.
    MostSimilar,
    /// By ascending similarity, then by ids.
    LeastSimilar,
    /// By a seeded hash of the two ids, which does not depend on the order of the table.
    Random {
        /// The seed of the hash.
        seed: u64,
    },
}

/// A row of the table `pairs`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairRow {
    /// The id of document a.
    pub id_a: Id,
    /// The id of document b.
    pub id_b: Id,
    /// The Jaccard similarity of the two shingle sets.
    pub jaccard: f64,
    /// The share of a's shingles that are in b.
    pub containment_a: f64,
    /// The share of b's shingles that are in a.
    pub containment_b: f64,
    /// Whether a and b are reference documents.
    #[serde(skip)]
    pub is_reference: [bool; 2],
}

impl PairRow {
    /// Returns the two documents.
    pub fn documents(&self) -> [Member; 2] {
        let [a, b] = self.is_reference;
        [Member { id: self.id_a.clone(), is_reference: a }, Member { id: self.id_b.clone(), is_reference: b }]
    }
}

/// A new document or a reference document. A new document and a reference document can have the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The id.
    pub id: Id,
    /// Whether the document is a reference document.
    pub is_reference: bool,
}

impl Member {
    /// Parses the id of a document. The id must be written as in the tables of `finished`.
    pub(crate) fn parse(finished: &Finished, id: &str, is_reference: bool) -> Result<Self> {
        let id = finished.id(id).ok_or_else(|| Error::bug(format!("the id {id} is not a number")))?;
        Ok(Self { id, is_reference })
    }
}

/// The first pairs of a table, and the number of all pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairsView {
    /// The first pairs.
    pub first: Vec<PairRow>,
    /// The number of all pairs.
    pub all: u64,
}

/// Returns at most `most` pairs in a finished output, and the number of all pairs. If `of` is given, returns only pairs with this new
/// document. With `undecided`, returns only pairs without a decision. Only the returned pairs and one batch are in memory.
pub async fn pairs(
    finished: &Finished,
    first: PairOrder,
    of: Option<&Id>,
    undecided: bool,
    most: usize,
) -> Result<PairsView> {
    let mut table = finished.stored(Table::Pairs).await?;
    if undecided && finished.job().clusters.decisions.is_some() {
        table = table.filter(col("decision").is_null())?;
    }
    if let Some(id) = of {
        let is_b = col("id_b").eq(id.literal()).and(!col("reference_b"));
        table = table.filter(col("id_a").eq(id.literal()).or(is_b))?;
    }
    let kind = finished.manifest().source.id;
    let columns = vec![
        id_column("id_a", kind),
        id_column("id_b", kind),
        col("jaccard"),
        col("containment_a"),
        col("containment_b"),
        col("reference_b"),
    ];
    let mut order = vec![match first {
        PairOrder::MostSimilar => finished.similarity().sort(false, false),
        PairOrder::LeastSimilar => finished.similarity().sort(true, false),
        PairOrder::Random { seed } => drawn_by(seed, &["id_a", "id_b"]).sort(true, false),
    }];
    order.extend(["id_a", "id_b", "reference_b"].map(|name| col(name).sort(true, false)));
    let all = table.clone().count().await? as u64;
    let mut first = Vec::new();
    for batch in table.sort(order)?.limit(0, Some(most))?.select(columns)?.collect().await? {
        let ids = ids(batch.column(0))?.into_iter().zip(ids(batch.column(1))?);
        let share = |column: usize| as_float64_array(batch.column(column)).map(|share| share.values());
        let (jaccard, of_a, of_b) = (share(2)?, share(3)?, share(4)?);
        let reference_b = as_boolean_array(batch.column(5))?;
        first.extend(ids.enumerate().map(|(row, (id_a, id_b))| PairRow {
            id_a,
            id_b,
            jaccard: jaccard[row],
            containment_a: of_a[row],
            containment_b: of_b[row],
            is_reference: [false, reference_b.value(row)],
        }));
    }
    Ok(PairsView { first, all })
}

/// A hash of `seed` and the columns `ids`. The rows with the smallest hashes are a random sample.
pub(crate) fn drawn_by(seed: u64, ids: &[&str]) -> Expr {
    let ids = ids.iter().map(|id| cast(col(*id), DataType::Utf8));
    udf::expr_fn::document_key(concat_ws(lit(":"), [lit(seed.to_string())].into_iter().chain(ids).collect()))
}

/// A cluster of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The id of the cluster.
    pub id: Id,
    /// The representative.
    pub representative: Member,
    /// Other documents in the cluster, in the order of ids. The list can be limited.
    pub others: Vec<Member>,
    /// The number of documents in the cluster.
    pub size: u64,
}

/// Returns the cluster of the new document `of`, with at most `most` documents besides the representative. Returns `None` if the document
/// is in no pair.
pub async fn cluster(finished: &Finished, of: &Id, most: usize) -> Result<Option<ClusterView>> {
    #[derive(Deserialize)]
    struct InCluster {
        id: Id,
        cluster_id: Id,
        representative: bool,
        reference: bool,
    }
    let clusters = finished.stored(Table::Clusters).await?;
    let columns = ["id", "cluster_id", "representative", "reference"];
    let clusters = clusters.select_columns(&columns)?;
    let found = clusters.clone().filter(col("id").eq(of.literal()).and(!col("reference")))?;
    let found: Vec<InCluster> = rows::read(found).await?;
    let Some(InCluster { cluster_id: id, .. }) = found.into_iter().next() else { return Ok(None) };
    let members = clusters.filter(col("cluster_id").eq(id.literal()))?;
    let size = members.clone().count().await? as u64;
    let first = members
        .sort(vec![
            col("representative").sort(false, false),
            col("id").sort(true, false),
            col("reference").sort(true, false),
        ])?
        .limit(0, Some(most.saturating_add(1)))?;
    let first: Vec<InCluster> = rows::read(first).await?;
    let (representing, others): (Vec<_>, Vec<_>) = first.into_iter().partition(|of| of.representative);
    let member = |of: InCluster| Member { id: of.id, is_reference: of.reference };
    let representative = representing.into_iter().next().map(member);
    let representative =
        representative.ok_or_else(|| Error::bug(format!("the cluster {id} has no representative")))?;
    Ok(Some(ClusterView { id, representative, others: others.into_iter().map(member).collect(), size }))
}

/// Computes the similarity of two documents in a cluster from their texts, with the settings of `job`. The documents need not be a pair.
/// Fails if the texts cannot be split into shingles.
pub fn similarity(documents: [&Member; 2], texts: [&str; 2], job: &Job) -> Result<PairRow> {
    let by = comparable(job);
    let (a, b) = (shingle_set(texts[0], &by)?, shingle_set(texts[1], &by)?);
    let [jaccard, containment_a, containment_b] =
        similarities(shared(&a, &b), a.len() as u64, b.len() as u64);
    let [a, b] = documents;
    let (id_a, id_b, is_reference) = (a.id.clone(), b.id.clone(), [a.is_reference, b.is_reference]);
    Ok(PairRow { id_a, id_b, jaccard, containment_a, containment_b, is_reference })
}

/// The texts of selected documents in an output.
#[derive(Default)]
pub struct MemberTexts(pub(crate) BTreeMap<Member, String>);

impl MemberTexts {
    /// Reads the texts of `documents` in `finished`, or nothing if there are none. Reference documents are read from their own sources. Fails
    /// like [`Reread::open`] and [`MemberTexts::read`].
    pub async fn open(finished: &Finished, documents: impl IntoIterator<Item = Member>) -> Result<Self> {
        let (is_reference, own): (BTreeSet<_>, BTreeSet<_>) =
            documents.into_iter().partition(|of| of.is_reference);
        if own.is_empty() && is_reference.is_empty() {
            return Ok(Self::default());
        }
        let source = Reread::open(finished, Need::Texts).await?;
        let mut texts = Self::read(finished, &source, own.iter().map(|of| &of.id)).await?;
        let mut missing: Vec<Id> = is_reference.into_iter().map(|of| of.id).collect();
        if !missing.is_empty() && finished.job().second_source().is_some() {
            let found = reread::texts_of_second_source(finished, &missing).await?;
            texts.0.extend(reference_members(found));
            return Ok(texts);
        }
        // Reads the last output first, because earlier outputs still contain documents that later outputs replaced.
        for output in finished.manifest().reference_outputs.iter().rev() {
            if missing.is_empty() {
                break;
            }
            let earlier = finished.reference(output).await?;
            let source = Reread::open(&earlier, Need::Texts).await?;
            let found = source.texts(earlier.documents_of(keys(&missing)).await?).await?;
            missing.retain(|id| !found.contains_key(id));
            texts.0.extend(reference_members(found));
        }
        Ok(texts)
    }

    /// Reads the texts of the new documents `ids` into memory. If the format allows it, only the rows of these documents are read. Fails if
    /// the tables or the source cannot be read.
    pub async fn read<'a>(
        finished: &Finished,
        again: &Reread<'_>,
        ids: impl IntoIterator<Item = &'a Id>,
    ) -> Result<Self> {
        let texts = again.texts(finished.documents_of(keys(ids)).await?).await?;
        Ok(Self(texts.into_iter().map(|(id, text)| (Member { id, is_reference: false }, text)).collect()))
    }

    /// Returns the text of a document.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the source contains no text for the document.
    pub fn text(&self, document: &Member) -> Result<&str> {
        let text = self.0.get(document).map(String::as_str);
        text.ok_or_else(|| {
            Error::input(format!("the source holds no text of `{}` any more: run the job again", document.id))
        })
    }
}

impl Id {
    /// Returns the new document with this id.
    pub fn own(&self) -> Member {
        Member { id: self.clone(), is_reference: false }
    }
}

fn keys<'a>(ids: impl IntoIterator<Item = &'a Id>) -> impl Iterator<Item = u64> {
    ids.into_iter().map(|id| document_key(&id.to_string()))
}

fn reference_members(texts: BTreeMap<Id, String>) -> impl Iterator<Item = (Member, String)> {
    texts.into_iter().map(|(id, text)| (Member { id, is_reference: true }, text))
}

/// Returns the Jaccard similarity of two sets a and b, the containment of a in b, and the containment of b in a. The sets have `a` and `b`
/// shingles, and `shared` shingles are in both. Two empty sets are equal, and an empty set is a subset of every other set.
pub(super) fn similarities(shared: u64, a: u64, b: u64) -> [f64; 3] {
    let containment = |len: u64| if len == 0 { 1.0 } else { containment_of(shared, len) };
    let jaccard = if a + b == 0 { 1.0 } else { jaccard_of(shared, a, b) };
    [jaccard, containment(a), containment(b)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_sets_are_equal_and_subsets_of_every_other() {
        assert_eq!(similarities(2, 4, 3), [0.4, 0.5, 2.0 / 3.0]);
        assert_eq!(similarities(0, 0, 3), [0.0, 1.0, 0.0]);
        assert_eq!(similarities(0, 0, 0), [1.0, 1.0, 1.0]);
    }
}
