//! Alarms: what a user should look at before the copies of an output are removed, and the documents of each group.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, first_value, sum};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use serde::Serialize;

use super::decisions::removed_ids;
use super::settings::ApplySettings;
use crate::error::{Error, Result};
use crate::frames::groups;
use crate::job::{Alarms, Job, Per};
use crate::output::Stored;
use crate::schema::Table;

/// A bound of `[alarms]`, and what an output has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlarmVerdict {
    /// Its key: `removed_share` or `largest_cluster`.
    pub bound: &'static str,
    /// The value of the key.
    pub allowed: f64,
    /// The greatest value of any group, or that of all documents together.
    pub found: f64,
    /// A sentence for each group that exceeds the bound.
    pub alarms: Vec<String>,
}

/// The bounds that an output is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The alarms.
    pub alarms: Alarms,
    /// Whether an exceeded bound may be an error.
    pub may_fail: bool,
    /// [`ApplySettings::contained`].
    pub contained: Option<f64>,
}

/// Checks the finished output of `job` against `bounds`: logs a warning for each one that is exceeded. Where the alarms say that
/// the command fails then, and it may, ends with an error.
///
/// # Errors
/// [`Kind::Alarm`](crate::error::Kind::Alarm) with the groups and figures; when a table cannot be read.
pub async fn check(stored: &Stored, job: &Job, bounds: Bounds) -> Result<()> {
    let verdicts = verdicts(stored, job, bounds).await?;
    raise(&verdicts, bounds.alarms.fail && bounds.may_fail, stored.layout().shown())
}

/// Logs a warning for each bound that the output at `url` exceeds, or with `fail` ends with an error.
///
/// # Errors
/// [`Kind::Alarm`](crate::error::Kind::Alarm) with the groups and figures.
pub fn raise(verdicts: &[AlarmVerdict], fail: bool, url: &str) -> Result<()> {
    let raised: Vec<&str> = verdicts.iter().flat_map(|verdict| &verdict.alarms).map(String::as_str).collect();
    if fail && !raised.is_empty() {
        return Err(Error::alarm(format!(
            "{}: look at the tables in {url}, which are complete, before copies are removed; if they are as they should be, raise the \
             bounds: those of a run in [alarms], those of apply with --removed-share or --largest-cluster",
            raised.join("; ")
        )));
    }
    for alarm in raised {
        tracing::warn!("{alarm}");
    }
    Ok(())
}

/// The bounds that are set, and what the finished output of `job` has.
///
/// # Errors
/// When a table cannot be read.
pub async fn verdicts(stored: &Stored, job: &Job, bounds: Bounds) -> Result<Vec<AlarmVerdict>> {
    let Alarms { removed_share, largest_cluster, per, fail: _ } = bounds.alarms;
    let verdict = |bound, allowed| AlarmVerdict { bound, allowed, found: 0.0, alarms: Vec::new() };
    let mut share = removed_share.map(|most| verdict("removed_share", most));
    let mut size = largest_cluster.map(|most| verdict("largest_cluster", most as f64));
    if share.is_none() && size.is_none() {
        return Ok(Vec::new());
    }
    let group = job.source.group.as_deref().filter(|_| per == Some(Per::Group));
    for batch in figures(stored, group, bounds.contained)?.collect().await? {
        let number = |column: usize| as_uint64_array(batch.column(column)).map(|numbers| numbers.values());
        let text = |column: usize| as_string_array(batch.column(column));
        let (groups, largest) = (text(0)?, text(4)?);
        let (documents, removed, sizes) = (number(1)?, number(2)?, number(3)?);
        for row in 0..batch.num_rows() {
            let of = match (per, groups.iter().nth(row).flatten()) {
                (None, _) => String::new(),
                (Some(Per::Group), Some(group)) => format!(" of group `{group}`"),
                (Some(Per::Group), None) => " without a group".to_owned(),
            };
            if let Some(share) = &mut share {
                let (found, most) = (removed[row] as f64 / documents[row] as f64, share.allowed);
                share.found = share.found.max(found);
                if found > most {
                    share.alarms.push(format!(
                        "{} of {} documents{of} would be removed, a share of {found:.4}, and alarms.removed_share allows {most}",
                        removed[row], documents[row]
                    ));
                }
            }
            if let Some(size) = &mut size {
                let most = size.allowed;
                size.found = size.found.max(sizes[row] as f64);
                if sizes[row] as f64 > most {
                    let of = if of.is_empty() { of } else { format!(", some{of}") };
                    size.alarms.push(format!(
                        "the cluster `{}` has {} documents{of}, and alarms.largest_cluster allows {most}",
                        largest.value(row),
                        sizes[row]
                    ));
                }
            }
        }
    }
    Ok(share.into_iter().chain(size).collect())
}

/// (group, documents, removed, the size of the largest cluster, its id) of each group, or of all documents together where no column
/// is named.
fn figures(stored: &Stored, group: Option<&str>, contained: Option<f64>) -> Result<DataFrame> {
    let documents = stored.table(Table::Documents)?;
    let documents = documents.select(vec![col("id"), groups::group(group)])?;
    let clusters = stored.table(Table::Clusters)?.filter(!col("reference"))?.select(vec![
        col("id").alias("member"),
        cast(col("cluster_id"), DataType::Utf8).alias("cluster_id"),
        col("size"),
    ])?;
    let gone = removed_ids(stored, contained)?;
    let clusters = gone.join(clusters, JoinType::Right, &["gone_id"], &["member"], None)?.select(vec![
        col("member"),
        col("cluster_id"),
        col("size"),
        when(col("gone_id").is_null(), lit(0_u64)).otherwise(lit(1_u64))?.alias("goes"),
    ])?;
    let all = clusters.join(documents, JoinType::Right, &["member"], &["id"], None)?;
    let largest = vec![col("size").sort(false, false), col("cluster_id").sort(true, false)];
    let number = |expr, name: &str| cast(coalesce(vec![expr, lit(0_u64)]), DataType::UInt64).alias(name);
    Ok(all
        .aggregate(
            vec![col("group")],
            vec![
                count(lit(1)).alias("documents"),
                sum(col("goes")).alias("removed"),
                first_value(col("size"), largest.clone()).alias("largest"),
                first_value(col("cluster_id"), largest).alias("cluster"),
            ],
        )?
        .sort(vec![col("group").sort(true, false)])?
        .select(vec![
            col("group"),
            number(col("documents"), "documents"),
            number(col("removed"), "removed"),
            number(col("largest"), "largest"),
            col("cluster"),
        ])?)
}

/// The documents of a group that were compared: `kept + removed = documents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// Its name; `None` for documents whose column is null.
    pub group: Option<String>,
    /// All of them.
    pub documents: u64,
    /// Those that go.
    pub removed: u64,
    /// Those that stay.
    pub kept: u64,
}

/// The documents of each group by the column `group`, in the order of their names, null last. Where `settings` annotate, none goes.
pub(crate) async fn group_counts(
    stored: &Stored,
    group: &str,
    settings: &ApplySettings,
) -> Result<Vec<GroupCounts>> {
    let mut counts = Vec::new();
    for batch in figures(stored, Some(group), settings.contained)?.collect().await? {
        let names = as_string_array(batch.column(0))?.iter();
        let (documents, removed) = (as_uint64_array(batch.column(1))?, as_uint64_array(batch.column(2))?);
        let figures = documents.values().iter().zip(removed.values());
        counts.extend(names.zip(figures).map(|(name, (documents, removed))| {
            let removed = if settings.annotate { 0 } else { *removed };
            let group = name.map(str::to_owned);
            GroupCounts { group, documents: *documents, removed, kept: documents - removed }
        }));
    }
    Ok(counts)
}
