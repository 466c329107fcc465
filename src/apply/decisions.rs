//! Which documents stay and which go, as the tables of an output say.
//!
//! A document goes if it is in a cluster, does not represent it, and is not spared. Spared documents stay although another one
//! represents their cluster. All others stay, rejected documents too.
//!
//! A document that another one represents is only removed if that one is in the result. Where the representative of a cluster becomes
//! too short, so may others of the cluster. The first of the rest, in the order of `clusters.keep`, stays and represents the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;

use super::settings::ApplySettings;
use crate::error::Result;
use crate::frames::{groups, in_columns, keep};
use crate::output::Stored;
use crate::rewrite::DocumentCounts;
use crate::schema::{IdType, Table};

/// The reasons for which documents are removed: another document represents their cluster, or too few words are left of them.
pub(super) const DUPLICATE: &str = "duplicate";
const TOO_SHORT: &str = "too_short";

/// The columns of the table of removed documents.
pub(super) fn removed_schema(id: IdType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", id.arrow(), false),
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("origin_number", DataType::Int64, false),
        Field::new("kept_id", id.arrow(), true),
        Field::new("kept_source", DataType::Utf8, true),
        Field::new("kept_position", DataType::Int64, true),
        Field::new("kept_origin_number", DataType::Int64, true),
        Field::new("jaccard", DataType::Float64, true),
        Field::new("containment", DataType::Float64, true),
        Field::new("cluster_id", id.arrow(), true),
        Field::new("group", DataType::Utf8, true),
        Field::new("reason", DataType::Utf8, false),
    ]))
}

/// The duplicates that are removed, in the columns of [`removed_schema`]. `group` is the column of their groups, if the job has one, and
/// `contained` says which documents are spared, instead of the job. The documents of `dropped` are removed for another reason.
pub(crate) fn removed(
    stored: &Stored,
    group: Option<&str>,
    contained: Option<f64>,
    dropped: Option<DataFrame>,
) -> Result<DataFrame> {
    let clustered = clustered(stored, group, contained.is_none())?;
    let Some(dropped) = dropped else {
        return match contained {
            None => represented(stored, clustered, spared(stored)?),
            Some(contained) => contained_only(represented(stored, clustered, None)?, contained),
        };
    };
    let rest = represented(stored, with_heirs(clustered, dropped)?, spared(stored)?)?;
    let clusters = &stored.job().clusters;
    // The run looked at the pairs with the representative that is dropped.
    let paired = col("jaccard").is_not_null();
    Ok(match clusters.contained {
        Some(contained) => {
            let contained = col("containment").is_null().or(col("containment").gt_eq(lit(contained)));
            rest.filter(paired.and(contained))?
        }
        None if clusters.method.keeps_chains() => rest,
        None => rest.filter(paired)?,
    })
}

/// The documents of `clustered`, in the columns of [`clustered()`], that are not `dropped` (id, heir, ..), with their new representatives.
fn with_heirs(clustered: DataFrame, dropped: DataFrame) -> Result<DataFrame> {
    let ids = dropped.clone().select(vec![col("id").alias("dropped_id")])?;
    let heirs = dropped.filter(col("heir").is_not_null())?;
    let heirs = heirs.select(vec![col("id").alias("of"), col("heir")])?;
    let columns = clustered.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        let has_heir = || col("heir").is_not_null();
        Ok(match name.as_str() {
            "representative" => when(has_heir(), col("heir").eq(col("member"))).otherwise(ident(&name))?,
            "kept_id" => coalesce(vec![col("heir"), ident(&name)]),
            // It is that with the dropped document.
            "similarity" => when(!has_heir(), ident(&name)).end()?,
            _ => ident(&name),
        }
        .alias(name))
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    // A reference document may have the id of a document of the source.
    let own = when(!col("kept_is_reference"), col("kept_id")).end()?;
    let rest = ids.join(clustered, JoinType::RightAnti, &["dropped_id"], &["member"], None)?;
    let rest = rest.with_column("own_kept_id", own)?;
    Ok(heirs.join(rest, JoinType::Right, &["of"], &["own_kept_id"], None)?.select(columns)?)
}

/// The documents of `clustered`, in the columns of [`clustered()`], that do not represent their clusters and are not among the `spared`
/// (spared_id), in the columns of [`removed_schema`].
pub(super) fn represented(
    stored: &Stored,
    clustered: DataFrame,
    spared: Option<DataFrame>,
) -> Result<DataFrame> {
    let mut gone = clustered.filter(!col("representative"))?;
    if let Some(spared) = spared {
        gone = spared.join(gone, JoinType::RightAnti, &["spared_id"], &["member"], None)?;
    }
    // Next to a reference document, a is the new one; of two new ones, a has the smaller id. A reference document may have the id
    // of a new one, so ids alone do not identify the pair.
    let is_first = || col("kept_is_reference").or(col("member").lt(col("kept_id")));
    let first = when(is_first(), col("member")).otherwise(col("kept_id"))?;
    let second = when(is_first(), col("kept_id")).otherwise(col("member"))?;
    let gone = gone.select(vec![
        col("member"),
        col("source"),
        col("position"),
        col("origin_number"),
        col("cluster_id"),
        col("kept_id"),
        col("kept_is_reference"),
        col("group"),
        col("similarity"),
        first.alias("first"),
        second.alias("second"),
    ])?;
    let columns = ["id_a", "id_b", "reference_b", "jaccard", "containment_a", "containment_b"];
    let pairs = stored.table(Table::Pairs)?.select(columns.map(col).to_vec())?;
    // A reference document is not in the source, and may have the id of a document that is.
    let own = when(col("kept_is_reference"), lit(ScalarValue::Null)).otherwise(col("kept_id"))?;
    let places = stored.table(Table::Documents)?.select(vec![
        col("id").alias("kept"),
        col("source").alias("kept_source"),
        col("position").alias("kept_position"),
        col("origin_number").alias("kept_origin_number"),
    ])?;
    let gone = gone.with_column("own_kept_id", own)?;
    let gone = gone.join(places, JoinType::Left, &["own_kept_id"], &["kept"], None)?;
    // The share of the document that goes which is in the one that stays.
    let containment =
        when(col("member").eq(col("id_a")), col("containment_a")).otherwise(col("containment_b"))?;
    // Pairs of copies may be left out, and those between copies of two texts.
    let jaccard = coalesce(vec![col("jaccard"), col("similarity")]);
    let of_copy = when(col("similarity").eq(lit(1.0_f64)), lit(1.0_f64)).end()?;
    let containment = coalesce(vec![containment, of_copy]);
    let (left, right) = (&["first", "second", "kept_is_reference"], &["id_a", "id_b", "reference_b"]);
    Ok(gone.join(pairs, JoinType::Left, left, right, None)?.select(vec![
        col("member").alias("id"),
        col("source"),
        col("position"),
        col("origin_number"),
        col("kept_id"),
        col("kept_source"),
        col("kept_position"),
        col("kept_origin_number"),
        jaccard.alias("jaccard"),
        containment.alias("containment"),
        col("cluster_id"),
        col("group"),
        lit(DUPLICATE).alias("reason"),
    ])?)
}

/// The documents (spared_id) of the source that the job spares; `None` if it spares no document.
fn spared(stored: &Stored) -> Result<Option<DataFrame>> {
    if stored.job().clusters.contained.is_none() {
        return Ok(None);
    }
    let spared = stored.table(Table::Spared)?.filter(!col("reference"))?;
    Ok(Some(spared.select(vec![col("id").alias("spared_id")])?))
}

/// The copies (copy, copied_id, copied_is_reference) of spared documents that go because of these.
fn spared_copies(stored: &Stored) -> Result<DataFrame> {
    Ok(stored.table(Table::SparedCopies)?.filter(!col("reference"))?.select(vec![
        col("id").alias("copy"),
        col("kept_id").alias("copied_id"),
        col("kept_reference").alias("copied_is_reference"),
    ])?)
}

/// Keeps the rows of documents that are paired with their representative and have at least the share `contained` of their shingles
/// in it. The rows are in the columns of [`removed_schema`].
pub(super) fn contained_only(represented: DataFrame, contained: f64) -> Result<DataFrame> {
    let goes = col("jaccard").is_not_null().and(col("containment").gt_eq(lit(contained)));
    Ok(represented.filter(goes)?)
}

/// The documents (source, position) that the job rejected. If runs that were merged `share` files, these are the rows
/// that no run compared, each once.
pub(super) fn rejected(stored: &Stored, share: bool) -> Result<DataFrame> {
    let places = ["source", "position"];
    let rejects = stored.table(Table::Rejects)?.select(places.map(col).to_vec())?;
    if !share {
        return Ok(rejects);
    }
    let compared = stored.table(Table::Documents)?;
    let compared = compared
        .select(vec![col("source").alias("compared_source"), col("position").alias("compared_position")])?;
    let left = ["compared_source", "compared_position"];
    Ok(compared.join(rejects.distinct()?, JoinType::RightAnti, &left, &places, None)?)
}

/// The documents (id, source, position, heir) of the frame `short` (id, source, position) that are removed because they become too
/// short. `heir` is the document that then represents the rest of the cluster. It is null if the document represents no other
/// document, or if no document of the cluster stays.
pub(super) fn dropped(stored: &Stored, contained: Option<f64>, short: DataFrame) -> Result<DataFrame> {
    let gone = removed(stored, None, contained, None)?.filter(col("kept_source").is_not_null())?;
    let gone = gone.select(vec![col("id").alias("gone_id"), col("kept_id")])?;
    let all = removed(stored, None, contained, None)?.select(vec![col("id").alias("gone_id")])?;
    let representatives = all.join(short.clone(), JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    let dropped = representatives.clone().select(vec![col("id").alias("dropped_id")])?;
    let orphans = dropped.join(gone, JoinType::RightSemi, &["dropped_id"], &["kept_id"], None)?;

    let order = stored.job().clusters.order();
    let mut columns = vec![col("id"), col("shingle_count")];
    columns.extend(keep::order_columns(&order, stored.job().source.group.as_deref())?);
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

/// All documents that go, or that would go if every document did not stay, in the columns of [`removed_schema`].
pub(super) fn all_removed(
    stored: &Stored,
    settings: &ApplySettings,
    dropped: Option<DataFrame>,
) -> Result<DataFrame> {
    let group = stored.job().source.group.as_deref();
    let duplicates = removed(stored, group, settings.contained, dropped.clone())?;
    match dropped {
        None => Ok(duplicates),
        Some(dropped) => Ok(duplicates.union(removed_as_short(stored, dropped, group)?)?),
    }
}

/// The documents `dropped` (id, source, position, ..) in the columns of [`removed_schema`]. `group` is the column of their groups, if the
/// job has one.
fn removed_as_short(stored: &Stored, dropped: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    let groups = stored.table(Table::Documents)?;
    let groups = groups.select(vec![col("id").alias("of_id"), col("origin_number"), groups::group(group)])?;
    let rows = dropped.join(groups, JoinType::Inner, &["id"], &["of_id"], None)?;
    let rows = rows.with_column("reason", lit(TOO_SHORT))?;
    in_columns(rows, &removed_schema(stored.manifest().source.id))
}

/// The documents of clusters that are in the output's own source: (member, source, position, origin_number, cluster_id,
/// representative, kept_id, kept_is_reference, group, similarity). The similarity is that with the document which stays; null where
/// that is not known. `by_job` says whether the job decides which documents are spared: copies of these then go because of them.
pub(super) fn clustered(stored: &Stored, group: Option<&str>, by_job: bool) -> Result<DataFrame> {
    let clusters = stored.table(Table::Clusters)?;
    let kept = clusters.clone().filter(col("representative"))?;
    let kept = kept.select(vec![
        col("cluster_id").alias("of"),
        col("id").alias("kept_id"),
        col("reference").alias("kept_is_reference"),
    ])?;
    let members = clusters.filter(!col("reference"))?.select(vec![
        col("id").alias("member"),
        col("cluster_id"),
        col("representative"),
        col("jaccard_to_representative").alias("similarity"),
    ])?;
    let mut members = kept.join(members, JoinType::Inner, &["of"], &["cluster_id"], None)?;
    if by_job && stored.job().clusters.contained.is_some() {
        let of_copy = |name: &str, copied: Expr| coalesce(vec![copied, col(name)]);
        members = spared_copies(stored)?
            .join(members, JoinType::Right, &["copy"], &["member"], None)?
            .with_column("kept_id", of_copy("kept_id", col("copied_id")))?
            .with_column("kept_is_reference", of_copy("kept_is_reference", col("copied_is_reference")))?
            .with_column(
                "similarity",
                when(col("copy").is_not_null(), lit(1.0_f64)).otherwise(col("similarity"))?,
            )?;
    }
    let documents = stored.table(Table::Documents)?;
    let mut columns = ["id", "source", "position", "origin_number"].map(col).to_vec();
    columns.push(groups::group(group));
    let documents = documents.select(columns)?;
    Ok(members.join(documents, JoinType::Inner, &["member"], &["id"], None)?.select(vec![
        col("member"),
        col("source"),
        col("position"),
        col("origin_number"),
        col("cluster_id"),
        col("representative"),
        col("kept_id"),
        col("kept_is_reference"),
        col("group"),
        col("similarity"),
    ])?)
}

/// The documents of each file of the source, as the output counts them. All count as kept here: how many of them are removed is
/// counted when the file is read. `share` says whether runs that were merged share files.
pub(super) async fn counts(stored: &Stored, share: bool) -> Result<BTreeMap<String, DocumentCounts>> {
    let mut files: BTreeMap<String, DocumentCounts> = BTreeMap::new();
    for (source, documents) in by_source(stored.table(Table::Documents)?).await? {
        let of_file = files.entry(source).or_default();
        (of_file.read, of_file.kept) = (documents, documents);
    }
    for (source, rejects) in by_source(rejected(stored, share)?).await? {
        let of_file = files.entry(source).or_default();
        of_file.read += rejects;
        of_file.rejected = rejects;
    }
    Ok(files)
}

/// The ids (gone_id) of all removed documents.
pub(super) fn removed_ids(stored: &Stored, contained: Option<f64>) -> Result<DataFrame> {
    if contained.is_some() {
        return Ok(removed(stored, None, contained, None)?.select(vec![col("id").alias("gone_id")])?);
    }
    let gone = stored.table(Table::Clusters)?.filter((!col("representative")).and(!col("reference")))?;
    let gone = gone.select(vec![col("id").alias("gone_id")])?;
    match spared(stored)? {
        None => Ok(gone),
        Some(spared) => Ok(spared.join(gone, JoinType::RightAnti, &["spared_id"], &["gone_id"], None)?),
    }
}

async fn by_source(table: DataFrame) -> Result<Vec<(String, u64)>> {
    let counted = table
        .aggregate(vec![col("source")], vec![count(lit(1)).alias("rows")])?
        .select(vec![cast(col("source"), DataType::Utf8), cast(col("rows"), DataType::UInt64)])?;
    let mut batches = counted.execute_stream().await?;
    let mut files = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let (sources, rows) = (as_string_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        files.extend(sources.iter().flatten().map(str::to_owned).zip(rows.values().iter().copied()));
    }
    Ok(files)
}
