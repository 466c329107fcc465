//! Checks the bounds in `[alarms]`, and computes numbers for users who want to check a result before duplicates are removed.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::prelude::{DataFrame, cast, col, lit};
use serde::{Deserialize, Serialize};

use super::budget::BudgetRows;
use super::decisions::{
    clustered, contained_only, different, removed, removed_ids, represented, with_columns,
};
use crate::error::counts::{counted, either, plural};
use crate::error::{Error, Result};
use crate::frames::groups;
use crate::job::{Alarms, Job, Per};
use crate::lookup::rows;
use crate::output::Stored;
use crate::output::manifest::Counts;
use crate::schema::Table;

/// The result of the check of one bound in `[alarms]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlarmVerdict {
    /// The key of the bound, such as `removed_share`.
    pub bound: &'static str,
    /// The value of the bound in the job.
    pub allowed: f64,
    /// The largest value among all groups, or the value for all documents if there are no groups.
    pub found: f64,
    /// One sentence per group that exceeds the bound, or at most one if the bound ignores groups.
    pub alarms: Vec<String>,
}

/// The settings that decide which duplicates are removed.
#[derive(Clone, Copy, Default)]
pub struct Removal<'a> {
    /// [`ApplySettings::contained`](super::ApplySettings::contained).
    pub(super) contained: Option<f64>,
    /// The documents that stay by a repeat budget.
    pub(super) budget: Option<&'a BudgetRows>,
}

impl Removal<'_> {
    /// Returns the ids (gone_id) of all removed duplicates.
    fn ids(self, stored: &Stored) -> Result<DataFrame> {
        self.without_staying(removed_ids(stored, self.contained)?, "gone_id")
    }

    /// Drops the rows about documents that stay by the budget. `id` is the name of the column with their ids.
    pub(super) fn without_staying(self, rows: DataFrame, id: &str) -> Result<DataFrame> {
        match self.budget {
            None => Ok(rows),
            Some(budget) => Ok(budget.added()?.join(rows, JoinType::RightAnti, &["stay_id"], &[id], None)?),
        }
    }
}

/// The bounds against which an output is checked.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The alarms.
    pub alarms: Alarms,
    /// Whether the command may fail if a bound is exceeded.
    pub may_fail: bool,
    /// The removals.
    pub removal: Removal<'a>,
}

/// Checks the finished output of `job` against `bounds`. Logs a warning for each exceeded bound, or fails if the alarms request it and the
/// caller allows it.
///
/// # Errors
/// [`Kind::Alarm`](crate::error::Kind::Alarm), with the groups and numbers, if a bound is exceeded. Also if a table cannot be read.
pub async fn check(stored: &Stored, job: &Job, bounds: Bounds<'_>) -> Result<()> {
    let verdicts = verdicts(stored, job, bounds).await?;
    raise(&verdicts, bounds.alarms.fail && bounds.may_fail, stored.layout().shown())
}

/// Logs a warning for each exceeded bound of the output at `url`. With `fail`, returns an error instead.
///
/// # Errors
/// [`Kind::Alarm`](crate::error::Kind::Alarm), with the groups and numbers, if a bound is exceeded and `fail` is true.
pub fn raise(verdicts: &[AlarmVerdict], fail: bool, url: &str) -> Result<()> {
    let raised: Vec<&str> = verdicts.iter().flat_map(|verdict| &verdict.alarms).map(String::as_str).collect();
    if fail && !raised.is_empty() {
        return Err(Error::alarm(format!(
            "{}: look at the tables in {url}, which are complete, before copies are removed; if they are as expected, run again \
             with another bound, as in `run --set alarms.removed_share=1` and `apply --removed-share 1`",
            raised.join("; ")
        )));
    }
    for alarm in raised {
        tracing::warn!("{alarm}");
    }
    Ok(())
}

/// Checks the finished output of `job` against each bound that is set.
pub async fn verdicts(stored: &Stored, job: &Job, bounds: Bounds<'_>) -> Result<Vec<AlarmVerdict>> {
    let Alarms { removed_share, largest_cluster, per, .. } = bounds.alarms;
    let mut share = removed_share.map(|most| verdict("removed_share", most));
    let mut size = largest_cluster.map(|most| verdict("largest_cluster", most as f64));
    let read = read_verdicts(&stored.manifest().counts, bounds.alarms);
    if share.is_none() && size.is_none() {
        return Ok(read);
    }
    let group = job.source.group.as_deref().filter(|_| per == Some(Per::Group));
    for figures in figures(stored, group, bounds.removal).await? {
        let GroupFigures { group, documents, removed, largest, cluster } = figures;
        let (largest, cluster) = (largest.unwrap_or_default(), cluster.unwrap_or_default());
        let of_group = match (per, group) {
            (None, _) => String::new(),
            (Some(Per::Group), Some(group)) => format!(" of group `{group}`"),
            (Some(Per::Group), None) => " without a group".to_owned(),
        };
        if let Some(share) = &mut share {
            let (found, most) = (removed as f64 / documents as f64, share.allowed);
            share.found = share.found.max(found);
            if found > most {
                share.alarms.push(format!(
                    "{removed} of {documents} {}{of_group} would be removed, a share of {found:.4}, and alarms.removed_share allows \
                     {most}",
                    plural(documents, "document")
                ));
            }
        }
        if let Some(size) = &mut size {
            let most = size.allowed;
            size.found = size.found.max(largest as f64);
            if largest as f64 > most {
                let some = if of_group.is_empty() { "" } else { ", some" };
                size.alarms.push(format!(
                    "the cluster `{cluster}` has {largest} {}{some}{of_group}, and alarms.largest_cluster allows {most}",
                    plural(largest, "document")
                ));
            }
        }
    }
    Ok(share.into_iter().chain(size).chain(read).collect())
}

fn verdict(bound: &'static str, allowed: f64) -> AlarmVerdict {
    AlarmVerdict { bound, allowed, found: 0.0, alarms: Vec::new() }
}

/// Checks the bounds on the documents that were read. These bounds ignore groups.
fn read_verdicts(counts: &Counts, alarms: Alarms) -> Vec<AlarmVerdict> {
    let Counts { documents, rejects, .. } = *counts;
    let fewest = alarms.min_documents.map(|least| {
        let alarm =
            format!("alarms.min_documents requires {least} compared documents, and there are {documents}");
        let alarms = (documents < least).then_some(alarm).into_iter().collect();
        AlarmVerdict { found: documents as f64, alarms, ..verdict("min_documents", least as f64) }
    });
    let rejected = alarms.max_rejected_share.map(|most| {
        let all = documents + rejects;
        let found = rejects as f64 / all.max(1) as f64;
        let alarm = format!(
            "{rejects} of {} {} rejected, a share of {found:.4}, and alarms.max_rejected_share allows {most}",
            counted(all, "document"),
            either(rejects, "was", "were")
        );
        let alarms = (found > most).then_some(alarm).into_iter().collect();
        AlarmVerdict { found, alarms, ..verdict("max_rejected_share", most) }
    });
    fewest.into_iter().chain(rejected).collect()
}

/// The figures of a group, or of all documents.
#[derive(Deserialize)]
pub(super) struct GroupFigures {
    group: Option<String>,
    pub(super) documents: u64,
    pub(super) removed: u64,
    /// The size of the largest cluster, if there is a cluster. `cluster` is the id of this cluster.
    largest: Option<u64>,
    cluster: Option<String>,
}

/// Computes the figures of each group in the column `group`, sorted by name with null last, or of all documents together.
pub(super) async fn figures(
    stored: &Stored,
    group: Option<&str>,
    removal: Removal<'_>,
) -> Result<Vec<GroupFigures>> {
    let documents = stored.table(Table::Documents)?.select(vec![col("id"), groups::group(group)])?;
    let clusters = stored.table(Table::Clusters)?.filter(!col("reference"))?.select(vec![
        col("id").alias("member"),
        cast(col("cluster_id"), DataType::Utf8).alias("cluster_id"),
        col("size"),
    ])?;
    let gone = removal.ids(stored)?;
    let clusters = gone.join(clusters, JoinType::Right, &["gone_id"], &["member"], None)?;
    let all = clusters.join(documents, JoinType::Right, &["member"], &["id"], None)?;
    let largest = vec![col("size").sort(false, false), col("cluster_id").sort(true, false)];
    let figures = vec![
        count(lit(1)).alias("documents"),
        count(col("gone_id")).alias("removed"),
        first_value(col("size"), largest.clone()).alias("largest"),
        first_value(col("cluster_id"), largest).alias("cluster"),
    ];
    rows::read(all.aggregate(vec![col("group")], figures)?.sort(vec![col("group").sort(true, false)])?).await
}

/// The number of compared documents in a group. `kept + removed = documents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// The name of the group. `None` for documents with a null in the group's column.
    pub group: Option<String>,
    /// The number of compared documents.
    pub documents: u64,
    /// The number of removed documents.
    pub removed: u64,
    /// The number of kept documents.
    pub kept: u64,
}

/// Counts the documents per group in the column `group`, sorted by name with null last. An annotated result keeps all documents.
pub(crate) async fn group_counts(
    stored: &Stored,
    group: &str,
    (annotate, removal): (bool, Removal<'_>),
) -> Result<Vec<GroupCounts>> {
    let counts = figures(stored, Some(group), removal).await?.into_iter();
    let counts = counts.map(|GroupFigures { group, documents, removed, .. }| {
        let removed = if annotate { 0 } else { removed };
        GroupCounts { group, documents, removed, kept: documents - removed }
    });
    Ok(counts.collect())
}

/// A removal is lossy if the representative contains a smaller share of the removed document's shingles than this.
const LOSSY: f64 = 0.98;

/// The losses caused by removals. A number is `None` if it was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RemovalLosses {
    /// Documents that are kept in addition to the representative of their cluster.
    pub spared: u64,
    /// Removed documents with more than 2 % of their shingles missing in their representative.
    pub lossy_removals: Option<u64>,
    /// Shingles that only removed documents in a cluster contain.
    pub lost_shingles: Option<u64>,
}

/// Changes the rows of [`super::decisions::clustered`] so that all documents that stay represent themselves.
pub(super) fn annotated(clustered: DataFrame, stored: &Stored, removal: Removal<'_>) -> Result<DataFrame> {
    if removal.contained.is_none() && removal.budget.is_none() && !stored.job().clusters.spares() {
        return Ok(clustered);
    }
    let gone = removal.ids(stored)?;
    let columns = [
        ("representative", "gone_id IS NULL"),
        ("kept_id", "CASE WHEN gone_id IS NULL THEN member ELSE kept_id END"),
    ];
    with_columns(gone.join(clustered, JoinType::Right, &["gone_id"], &["member"], None)?, &columns)
}

/// Refuses an output that lacks the containment of a document in its representative, which decides whether the document is spared. Fails
/// with `Kind::Job`, with the number of these documents and advice.
pub(super) async fn refuse_missing_pairs(stored: &Stored, contained: f64) -> Result<()> {
    let unknown = col("jaccard").is_not_null().and(col("containment").is_null());
    let unknown =
        represented(stored, clustered(stored, None, false)?, None)?.filter(unknown)?.count().await?;
    if unknown == 0 {
        return Ok(());
    }
    Err(Error::job(format!(
        "--contained: {unknown} documents in large groups of identical documents have no pair with their representative in the output: \
         run its job again with clusters.contained = {contained}, and apply without --contained"
    )))
}

pub(super) async fn losses(stored: &Stored, removal: Removal<'_>) -> Result<RemovalLosses> {
    let Removal { contained, budget } = removal;
    let counts = &stored.manifest().counts;
    let of_job = contained.is_none() || contained == stored.job().clusters.contained;
    let represented_by_others =
        stored.table(Table::Clusters)?.filter((!col("representative")).and(!col("reference")))?;
    let others = represented_by_others.count().await? as u64;
    let gone = removed_ids(stored, contained)?.count().await? as u64;
    let lossy_removals = match contained {
        // The containment of a document without a pair is unknown.
        _ if budget.is_some() && stored.job().clusters.method.joins_unpaired() => None,
        _ if budget.is_some() => {
            let gone = removal.without_staying(removed(stored, None, contained, None)?, "id")?;
            Some(gone.filter(col("containment").lt(lit(LOSSY)))?.count().await? as u64)
        }
        Some(contained) if !of_job => {
            let gone = represented(stored, clustered(stored, None, false)?, different(stored)?)?;
            let gone = contained_only(gone, contained)?;
            Some(gone.filter(col("containment").lt(lit(LOSSY)))?.count().await? as u64)
        }
        _ => counts.lossy_removals,
    };
    let lost_shingles = if of_job && budget.is_none() { counts.lost_shingles } else { None };
    Ok(RemovalLosses { spared: others - gone, lossy_removals, lost_shingles })
}
