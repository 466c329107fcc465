//! How many documents each document that stays represents: itself, and those of the source that go because of it.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{DataFrame, cast, col, lit};
use serde::{Deserialize, Serialize};

use super::settings::ApplySettings;
use crate::error::{Error, Result};
use crate::frames::groups;
use crate::output::Stored;
use crate::rewrite::Annotation;
use crate::schema::Table;

/// The numbers of the documents that get the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCounts {
    /// Documents that get them.
    pub documents: u64,
    /// The sum of their sizes.
    pub represented: u64,
    /// The largest size.
    pub largest: u64,
}

/// The values of a column (source, position, ..) in the columns of the table of decisions. The documents `removed` go.
pub(super) fn rows(column: Annotation, stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    match column {
        Annotation::GroupSizes => group_sizes(stored, removed),
        Annotation::ClusterSize | Annotation::Clusters | Annotation::Spans => sizes(stored, removed),
    }
}

/// The size (source, position, cluster_size) of each document that stays.
fn sizes(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let others =
        represented(removed.clone())?.aggregate(vec![col("of")], vec![count(lit(1)).alias("others")])?;
    let kept = kept(stored, removed)?;
    let size = coalesce(vec![col("others"), lit(0_i64)]) + lit(1_i64);
    let rows = others.join(kept, JoinType::Right, &["of"], &["id"], None)?;
    Ok(rows.select(vec![col("source"), col("position"), size.alias("cluster_size")])?)
}

/// The size (source, position, group, documents) of each document that stays by group.
fn group_sizes(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let kept = kept(stored, removed.clone())?;
    let own = kept.clone().select(vec![col("id").alias("of"), col("group")])?;
    let counted = represented(removed)?
        .union(own)?
        .aggregate(vec![col("of"), col("group").alias("name")], vec![count(lit(1)).alias("documents")])?;
    let rows = counted.join(kept, JoinType::Inner, &["of"], &["id"], None)?;
    Ok(rows.select(vec![col("source"), col("position"), col("name").alias("group"), col("documents")])?)
}

/// The documents of the source that go because of another one of it: (of, group), the other one and the own group.
fn represented(removed: DataFrame) -> Result<DataFrame> {
    let gone = removed.filter(col("kept_source").is_not_null())?;
    Ok(gone.select(vec![col("kept_id").alias("of"), col("group")])?)
}

/// The documents that were compared and stay: (id, source, position, group).
fn kept(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let group = groups::group(stored.job().source.group.as_deref());
    let documents = stored.table(Table::Documents)?;
    let documents = documents.select(vec![
        col("id"),
        cast(col("source"), DataType::Utf8).alias("source"),
        col("position"),
        group,
    ])?;
    let gone = removed.select(vec![col("id").alias("gone_id")])?;
    Ok(gone.join(documents, JoinType::RightAnti, &["gone_id"], &["id"], None)?)
}

/// Refuses an output whose job has no groups that could be counted.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with what to do.
pub(super) fn refuse(stored: &Stored, settings: &ApplySettings) -> Result<()> {
    let wants_groups = settings.columns.contains(&Annotation::GroupSizes);
    if !wants_groups || stored.job().source.group.is_some() {
        return Ok(());
    }
    Err(Error::job(format!(
        "--columns group_sizes: the job of {} has no source.group, which names the column of the groups: set it and run the job again, or \
         use --columns cluster_size",
        stored.layout().shown()
    )))
}
