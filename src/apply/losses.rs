//! What is lost by removing documents, and the annotations of documents that are spared.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, Expr, col, lit, when};
use serde::Serialize;

use super::decisions::{clustered, contained_only, removed_ids, represented};
use super::settings::ApplySettings;
use crate::error::{Error, Result};
use crate::output::Stored;
use crate::schema::Table;

/// A removal that keeps a smaller share of its shingles in its representative is lossy.
const LOSSY: f64 = 0.98;

/// What is lost by removing documents. A number that the output does not have is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RemovalLosses {
    /// Documents that stay although another one represents their cluster.
    pub spared: u64,
    /// Removed documents that lose more than 2 % of their shingles.
    pub lossy_removals: Option<u64>,
    /// Shingles that no document of their cluster has any more.
    pub lost_shingles: Option<u64>,
}

/// The documents of clusters as [`super::decisions::clustered`] returns them, in which those that are spared represent themselves.
pub(super) fn annotated(
    clustered: DataFrame,
    stored: &Stored,
    settings: &ApplySettings,
) -> Result<DataFrame> {
    if settings.contained.is_none() && stored.job().clusters.contained.is_none() {
        return Ok(clustered);
    }
    let gone = removed_ids(stored, settings.contained)?;
    let columns = clustered.schema().columns().into_iter().map(|column| {
        Ok(match column.name.as_str() {
            "representative" => col("gone_id").is_null().alias("representative"),
            "kept_id" => {
                when(col("gone_id").is_null(), col("member")).otherwise(col("kept_id"))?.alias("kept_id")
            }
            _ => Expr::Column(column),
        })
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    Ok(gone.join(clustered, JoinType::Right, &["gone_id"], &["member"], None)?.select(columns)?)
}

/// Refuses an output that does not have the containment of every pair that decides whether a document is spared.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with how many are missing, and what to do.
pub(super) async fn refuse(stored: &Stored, contained: f64) -> Result<()> {
    let unknown = col("jaccard").is_not_null().and(col("containment").is_null());
    let unknown =
        represented(stored, clustered(stored, None, false)?, None)?.filter(unknown)?.count().await?;
    if unknown == 0 {
        return Ok(());
    }
    Err(Error::job(format!(
        "--contained: the output does not have the pairs of {unknown} documents with their representatives, because large groups of \
         identical documents are written as stars: run its job again with clusters.contained = {contained}, and apply without \
         --contained"
    )))
}

/// What is lost by removing documents.
pub(super) async fn losses(stored: &Stored, contained: Option<f64>) -> Result<RemovalLosses> {
    let counts = &stored.manifest().counts;
    let of_job = contained.is_none() || contained == stored.job().clusters.contained;
    let represented_by_others =
        stored.table(Table::Clusters)?.filter((!col("representative")).and(!col("reference")))?;
    let others = represented_by_others.count().await? as u64;
    let gone = removed_ids(stored, contained)?.count().await? as u64;
    let lossy_removals = match contained {
        Some(contained) if !of_job => {
            let gone =
                contained_only(represented(stored, clustered(stored, None, false)?, None)?, contained)?;
            Some(gone.filter(col("containment").lt(lit(LOSSY)))?.count().await? as u64)
        }
        _ => counts.lossy_removals,
    };
    let lost_shingles = if of_job { counts.lost_shingles } else { None };
    Ok(RemovalLosses { spared: others - gone, lossy_removals, lost_shingles })
}
