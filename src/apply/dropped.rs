//! The documents that `--passages drop` removes, and the documents that stay in their place.
//!
//! A document that another one represents is only removed if that one is in the result. Where the representative of a cluster becomes
//! too short, so may others of the cluster. The first of the rest, in the order of `clusters.keep`, stays and represents the others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::decisions::removed;
use super::passages::removed_as_short;
use super::settings::Settings;
use crate::error::Result;
use crate::frames::keep;
use crate::output::Stored;
use crate::schema::{IdType, Table};

/// The columns of the table of documents that `--passages drop` removes. `heir` is the document that represents the rest of the cluster
/// then; null if the document represents no other one, or no document of the cluster stays.
pub(super) fn dropped_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", id.arrow(), false),
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("heir", id.arrow(), true),
    ]))
}

/// The removed documents among those that become too `short` (id, source, position), in the columns of [`dropped_schema`].
pub(super) fn dropped(stored: &Stored, contained: Option<f64>, short: DataFrame) -> Result<DataFrame> {
    let gone = removed(stored, None, contained, None)?.filter(col("kept_source").is_not_null())?;
    let gone = gone.select(vec![col("id").alias("gone_id"), col("kept_id")])?;
    let all = removed(stored, None, contained, None)?.select(vec![col("id").alias("gone_id")])?;
    let representatives = all.join(short.clone(), JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    let dropped = representatives.clone().select(vec![col("id").alias("dropped_id")])?;
    let orphans = dropped.join(gone, JoinType::RightSemi, &["dropped_id"], &["kept_id"], None)?;

    let order = stored.job().clusters.order();
    let mut columns = vec![col("id"), col("shingle_count")];
    columns.extend(keep::columns(&order, stored.job().source.group.as_deref())?);
    let documents = stored.table(Table::Documents)?.select(columns)?;
    let names = short.clone().select(vec![col("id").alias("short_id")])?;
    let rest = names.join(orphans.clone(), JoinType::RightAnti, &["short_id"], &["gone_id"], None)?;
    let rest = rest.join(documents, JoinType::Inner, &["gone_id"], &["id"], None)?;
    let place = row_number().partition_by(vec![col("kept_id")]).order_by(keep::sorted(&order)).build()?;
    let first = rest.window(vec![place.alias("place")])?.filter(col("place").eq(lit(1_u64)))?;
    let heirs = first.select(vec![col("kept_id").alias("of"), col("id").alias("heir")])?;

    let columns = ["id", "source", "position", "heir"].map(col);
    let representatives = heirs.join(representatives, JoinType::Right, &["of"], &["id"], None)?;
    let representatives = representatives.select(columns.to_vec())?;
    let orphans = orphans.select(vec![col("gone_id")])?;
    let others = orphans.join(short, JoinType::RightSemi, &["gone_id"], &["id"], None)?;
    let none = ScalarValue::try_from(&stored.manifest().source.id.arrow())?;
    Ok(representatives.union(others.with_column("heir", lit(none))?.select(columns.to_vec())?)?)
}

/// All documents that go, or that would go if every document did not stay, in the columns of [`super::decisions::removed_schema`].
pub(super) fn all_removed(
    stored: &Stored,
    settings: Settings,
    dropped: Option<DataFrame>,
) -> Result<DataFrame> {
    let group = stored.job().source.group.as_deref();
    let duplicates = removed(stored, group, settings.contained, dropped.clone())?;
    match dropped {
        None => Ok(duplicates),
        Some(dropped) => Ok(duplicates.union(removed_as_short(stored, dropped, group)?)?),
    }
}
