//! The stages ranks, represented, clusters, cluster_levels and cluster_id_changes, which compute clusters from pairs.

use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{
    BYTES_OF_EDGE, BYTES_OF_KEY, BYTES_OF_MEMBER, Error, Job, Planned, Result, Stage, StageContext, Table,
    WorkTable, boxed,
};
use crate::error::Kind;
use crate::frames::clusters::{ClusterId, cluster_level, clusters, id_changes};
use crate::frames::copies::{Paired, Rules};
use crate::frames::decisions::connected;
use crate::frames::groups::{key, with_groups_of_clusters};
use crate::frames::keep::{self, BEFORE};
use crate::frames::ranks::{nodes_with_new, ranks, ranks_with_reference, represented, scores_of_sets};
use crate::frames::reference::{new_and_reference, with_place};
use crate::frames::{columns, with_columns};
use crate::job::{Clusters, Compare, Preference, Reference};
use crate::pipeline::groups::{self, SET};
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::reference::chain::KeySet;
use crate::pipeline::tables::WorkColumns::{Flag, Floats, Id, Nullable, Numbers};

impl WorkTable {
    /// The documents in pairs, with their components and their ranks within the component.
    pub(crate) const RANKS: Self =
        Self::new("ranks", &[Id, Numbers(&["doc", "set", "root", "rank"]), Flag("reference")]);
    /// The shingle sets in components, with their representatives.
    pub(crate) const REPRESENTED: Self = Self::new(
        "represented",
        &[
            Numbers(&["set", "root", "rank", "representative"]),
            Nullable(&Floats(&["jaccard", "weakest_link"])),
        ],
    );
}

/// Ranks the documents in each component by the preferences in `clusters.keep`.
pub(super) static RANKS: Stage = Stage::work(
    WorkTable::RANKS,
    |_| "order each cluster".into(),
    |_| true,
    boxed!(|cx| {
        let (order, components) = (cx.job.clusters.order(), cx.table(WorkTable::COMPONENTS)?);
        let frame = match (cx.reference, cx.input.merged()) {
            (Some(reference), _) => {
                let nodes = nodes_with_new(components, cx.table(WorkTable::KEYS)?.select(columns(["doc"]))?)?;
                let keys = node_keys(cx, nodes.clone()).await?;
                ranks_with_reference(nodes, clustered(cx, reference, &keys)?, &order, cx.decisions()?)?
            }
            (None, Some(chain)) => {
                // Documents that the merged outputs keep come before the documents that they remove.
                let members = members(cx, &order)?.with_column(BEFORE, lit(0_u64))?;
                ranks(with_place(members, chain.removed(&KeySet::default())?, 1)?, components, &order, true)?
            }
            (None, None) => ranks(members(cx, &order)?, components, &order, false)?,
        };
        let documents = cx.rows(WorkTable::MEMBERS).max(cx.rows(WorkTable::COMPONENTS));
        let bytes = documents * BYTES_OF_MEMBER + cx.bytes(WorkTable::COMPONENTS);
        Ok(Planned::short(bytes, vec![frame]))
    }),
);

/// The maximum number of rows in each table that [`node_keys`] joins.
const MOST_JOINED: u64 = 16 << 20;

/// Returns the keys of the `nodes` (node, ..) that are documents of reference outputs. Returns all keys if there are many, or if the joins
/// need too much memory. Then the stage reads all documents, with as many partitions as it needs.
async fn node_keys(cx: &StageContext<'_>, nodes: DataFrame) -> Result<KeySet> {
    let Some(outputs) = cx.reference_outputs() else { return Ok(KeySet::default()) };
    if cx.rows(WorkTable::COMPONENTS).max(cx.rows(WorkTable::KEYS)) > MOST_JOINED {
        return Ok(KeySet::default());
    }
    match outputs.chain.key_set(nodes.select(columns(["node"]))?).await {
        Err(error) if error.kind() == Kind::Memory => Ok(KeySet::default()),
        keys => keys,
    }
}

/// All new and reference documents, with the columns for [`ranks_with_reference`]. May omit documents of reference outputs that
/// are not in `keys`.
fn clustered(cx: &StageContext<'_>, reference: &ReferenceDocuments, keys: &KeySet) -> Result<DataFrame> {
    let own = cx.table(Table::Documents)?.select(groups::ordered(cx.job)?)?;
    let own = with_columns(own, cx.table(WorkTable::KEYS)?.select(columns(SET))?)?;
    let (reference, before) = reference.clustered(cx, &own, keys)?;
    let own = own.with_column(BEFORE, before)?;
    let names = groups::ordered_names(cx.job);
    let names = names.iter().map(String::as_str).chain(["set_hash_0", "set_hash_1", BEFORE]);
    let both = new_and_reference(own, Some(reference), &names.collect::<Vec<_>>())?;
    Ok(match cx.job.candidates.compare {
        Compare::All => both,
        Compare::Within | Compare::Across => both.with_column("group_key", key(col("group")).unalias())?,
    })
}

fn members(cx: &StageContext<'_>, order: &[Preference]) -> Result<DataFrame> {
    let mut members = cx.table(WorkTable::MEMBERS)?;
    if cx.job.clusters.decisions.is_some() {
        members = connected(members, cx.table(WorkTable::COMPONENTS)?)?;
    }
    if keep::names(order).is_empty() {
        return Ok(members);
    }
    let columns = [columns(["doc"]), groups::order(cx.job)?].concat();
    with_columns(members, cx.table(Table::Documents)?.select(columns)?)
}

/// Finds the representative of each shingle set, and the similarity and the weakest link of the two.
pub(super) static REPRESENTED: Stage = Stage::work(
    WorkTable::REPRESENTED,
    |job| job.clusters.method.describe_search().into(),
    |_| true,
    boxed!(|cx| {
        let (ranks, (scores, edges)) = (cx.table(WorkTable::RANKS)?, scores_of_components(cx).await?);
        let frame =
            represented(ranks, scores, cx.job.clusters.method, copies_are_pairs(cx.job), cx.decisions()?)?;
        let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_KEY + edges * BYTES_OF_EDGE;
        Ok(Planned::short(bytes, vec![frame]))
    }),
);

/// An expression over the column `reference` that says whether documents with the same shingles are pairs. Two documents from reference
/// outputs always are a pair. Two documents from a second source never are a pair.
pub(super) fn copies_are_pairs(job: &Job) -> Expr {
    let new = Rules::new(job).paired() != Paired::None;
    match job.reference() {
        _ if job.candidates.compare == Compare::Across => lit(false),
        None => lit(new),
        Some(Reference::Outputs { .. }) => col("reference").or(lit(new)),
        Some(Reference::Source(_)) => lit(new).and(!col("reference")),
    }
}

/// Returns the pairs (a, b, shared, shingles_a, shingles_b, ..) between the shingle sets in components, including pairs in reference
/// outputs. Also returns an upper bound on their number. With reference documents, a pair can occur both as (a, b) and as (b, a).
pub(super) async fn scores_of_components(cx: &StageContext<'_>) -> Result<(DataFrame, u64)> {
    let mut scores = cx.table(WorkTable::SCORES)?;
    let mut count = cx.rows(WorkTable::SCORES);
    if cx.reference.is_some() {
        let score = || columns(["a", "b", "shared", "shingles_a", "shingles_b"]);
        scores = scores.select(score())?;
        if let Some(outputs) = cx.reference_outputs() {
            count += outputs.chain.count(Table::Pairs);
            scores = scores.union(outputs.pairs(cx).await?.select(score())?)?;
        }
        if cx.job.clusters.decisions.is_some() {
            scores = scores.union(cx.table(WorkTable::SAME_SCORES)?.select(score())?)?;
        }
        scores = scores_of_sets(scores, cx.table(WorkTable::RANKS)?)?;
    }
    Ok((cx.joining(scores)?, count))
}

async fn cluster_ids(cx: &StageContext<'_>) -> Result<ClusterId> {
    match cx.reference {
        Some(reference) => reference.cluster_id(cx).await,
        None => Ok(ClusterId::Least),
    }
}

pub(super) static CLUSTERS: Stage = Stage::public(
    Table::Clusters,
    |job| match job.against {
        Some(_) => "write the clusters that new documents are in".into(),
        None => "write the clusters".into(),
    },
    |_| true,
    boxed!(|cx| {
        let job = cx.job;
        let (ranks, sets) = (cx.table(WorkTable::RANKS)?, cx.table(WorkTable::REPRESENTED)?);
        let method = job.clusters.method;
        let mut frame = clusters(ranks, sets, method, copies_are_pairs(job), cluster_ids(cx).await?)?;
        if !method.has_weakest_links() {
            frame = frame.drop_columns(&["weakest_link"])?;
        }
        if job.has_groups() {
            let documents = match cx.reference {
                None => cx.table(WorkTable::MEMBERS)?,
                Some(reference) => clustered(cx, reference, &KeySet::default())?,
            };
            frame = with_groups_of_clusters(frame, documents)?;
        }
        let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::REPRESENTED);
        Ok(Planned::short(bytes, vec![frame]))
    }),
);

pub(super) static CLUSTER_LEVELS: Stage = Stage::public(
    Table::ClusterLevels,
    |_| "write the clusters of more similar pairs, for each of clusters.thresholds".into(),
    |job| !job.clusters.thresholds.is_empty(),
    boxed!(|cx| {
        let (job, (scores, edges), ids) = (cx.job, scores_of_components(cx).await?, cluster_ids(cx).await?);
        let Clusters { method, thresholds, .. } = &job.clusters;
        let level = |threshold: &f64| {
            let (documents, measured) = (cx.table(WorkTable::RANKS)?, (job.score.measure, *threshold));
            cluster_level(documents, scores.clone(), measured, *method, copies_are_pairs(job), ids.clone())
        };
        let frames = thresholds.iter().map(level).collect::<Result<Vec<_>>>()?;
        let bytes = cx.rows(WorkTable::RANKS) * (BYTES_OF_KEY + BYTES_OF_MEMBER) + edges * BYTES_OF_EDGE;
        Ok(Planned::new(bytes, frames))
    }),
);

pub(super) static CLUSTER_ID_CHANGES: Stage = Stage::public(
    Table::ClusterIdChanges,
    |_| "write which clusters of earlier runs have another id now".into(),
    |job| job.continues_clusters(),
    boxed!(|cx| {
        let founders = cx.founders().await?.ok_or_else(|| Error::bug("the job has no earlier clusters"))?;
        Ok(Planned::new(0, vec![id_changes(cx.table(Table::Clusters)?, founders)?]))
    }),
);
