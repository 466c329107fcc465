//! Decides which documents are removed and why, and which document is kept instead of a removed document.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;
use serde::Deserialize;

use super::manifest::ApplySettings;
use crate::error::Result;
use crate::frames::{groups, in_columns, keep};
use crate::lookup::rows;
use crate::output::Stored;
use crate::rewrite::DocumentCounts;
use crate::schema::{IdType, Table};

/// The reason for a removal if another document represents the cluster.
pub(super) const DUPLICATE: &str = "duplicate";
/// The reason for a removal if too few words remain.
const TOO_SHORT: &str = "too_short";

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

/// Returns the removed duplicates, in the columns of [`removed_schema`]. `group` is the name of the job's group column, if any. `contained`
/// overrides the job's bound for spared documents. Documents in `dropped` are not returned, because they are removed for another reason.
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
            Some(contained) => contained_only(represented(stored, clustered, different(stored)?)?, contained),
        };
    };
    let rest = represented(stored, with_heirs(clustered, dropped)?, spared(stored)?)?;
    let clusters = &stored.job().clusters;
    // A document without a similarity is no pair with the new representative: the run may have compared it only with the dropped one.
    let paired = col("jaccard").is_not_null();
    Ok(match clusters.contained {
        Some(contained) => {
            let contained = col("containment").is_null().or(col("containment").gt_eq(lit(contained)));
            rest.filter(paired.and(contained))?
        }
        None if clusters.method.joins_unpaired() => rest,
        None => rest.filter(paired)?,
    })
}

/// Drops the documents in `dropped` (id, heir, ..) from `clustered`, and sets the new representatives of the other documents.
fn with_heirs(clustered: DataFrame, dropped: DataFrame) -> Result<DataFrame> {
    let ids = dropped.clone().select_exprs(&["id AS dropped_id"])?;
    let heirs = dropped.filter(col("heir").is_not_null())?.select_exprs(&["id AS dropped_id", "heir"])?;
    let rest = ids.join(clustered, JoinType::RightAnti, &["dropped_id"], &["member"], None)?;
    // The join by id skips reference documents, which can have the same ids as documents in the source.
    let own = [("own_kept_id", "CASE WHEN NOT kept_is_reference THEN kept_id END")];
    let rest =
        heirs.join(with_columns(rest, &own)?, JoinType::Right, &["dropped_id"], &["own_kept_id"], None)?;
    // The similarity is the similarity to the dropped document, so it becomes null.
    let columns = [
        ("representative", "CASE WHEN heir IS NULL THEN representative ELSE heir = member END"),
        ("kept_id", "coalesce(heir, kept_id)"),
        ("similarity", "CASE WHEN heir IS NULL THEN similarity END"),
    ];
    Ok(with_columns(rest, &columns)?.drop_columns(&["dropped_id", "heir", "own_kept_id"])?)
}

/// Adds or replaces columns with the values of SQL expressions.
pub(super) fn with_columns(mut frame: DataFrame, columns: &[(&str, &str)]) -> Result<DataFrame> {
    for (name, value) in columns {
        let value = frame.parse_sql_expr(value)?;
        frame = frame.with_column(name, value)?;
    }
    Ok(frame)
}

/// Returns the documents in `clustered` that are not `spared` (spared_id) and represent no cluster, in the columns of [`removed_schema`].
pub(super) fn represented(
    stored: &Stored,
    clustered: DataFrame,
    spared: Option<DataFrame>,
) -> Result<DataFrame> {
    let mut gone = clustered.filter(!col("representative"))?;
    if let Some(spared) = spared {
        gone = spared.join(gone, JoinType::RightAnti, &["spared_id"], &["member"], None)?;
    }
    // In a pair with a reference document, `a` is the new document. In a pair of two new documents, `a` has the smaller id. A reference
    // document can have the same id as a new document, so ids alone do not identify the pair.
    let columns = [
        ("first_id", "CASE WHEN kept_is_reference OR member < kept_id THEN member ELSE kept_id END"),
        ("second_id", "CASE WHEN kept_is_reference OR member < kept_id THEN kept_id ELSE member END"),
        ("own_kept_id", "CASE WHEN NOT kept_is_reference THEN kept_id END"),
    ];
    let gone = with_columns(gone, &columns)?;
    let columns = ["id_a", "id_b", "reference_b", "jaccard", "containment_a", "containment_b"];
    let pairs = stored.table(Table::Pairs)?.select_columns(&columns)?;
    let places = stored.table(Table::Documents)?.select_exprs(&[
        "id AS place_id",
        "source AS kept_source",
        "position AS kept_position",
        "origin_number AS kept_origin_number",
    ])?;
    let gone = gone.join(places, JoinType::Left, &["own_kept_id"], &["place_id"], None)?;
    let (left, right) = (&["first_id", "second_id", "kept_is_reference"], &["id_a", "id_b", "reference_b"]);
    Ok(gone.join(pairs, JoinType::Left, left, right, None)?.select_exprs(&[
        "member AS id",
        "source",
        "position",
        "origin_number",
        "kept_id",
        "kept_source",
        "kept_position",
        "kept_origin_number",
        // Pairs of copies may be missing from the table pairs.
        "coalesce(jaccard, similarity) AS jaccard",
        "coalesce(CASE WHEN member = id_a THEN containment_a ELSE containment_b END, \
         CASE WHEN similarity = 1.0 THEN 1.0 END) AS containment",
        "cluster_id",
        "\"group\"",
        &format!("'{DUPLICATE}' AS reason"),
    ])?)
}

/// Returns the documents (spared_id) in the source that the job spares. Returns `None` if the job has no bound for spared documents.
fn spared(stored: &Stored) -> Result<Option<DataFrame>> {
    if !stored.job().clusters.spares() {
        return Ok(None);
    }
    let spared = stored.table(Table::Spared)?.filter(!col("reference"))?;
    Ok(Some(spared.select_exprs(&["id AS spared_id"])?))
}

/// Returns the documents (spared_id) in the source that decisions spare, with any bound. Returns `None` if the job has no decisions.
pub(super) fn different(stored: &Stored) -> Result<Option<DataFrame>> {
    if stored.job().clusters.decisions.is_none() {
        return Ok(None);
    }
    let spared =
        stored.table(Table::Spared)?.filter((!col("reference")).and(col("reason").eq(lit("different"))))?;
    Ok(Some(spared.select_exprs(&["id AS spared_id"])?))
}

/// Keeps the rows of [`removed_schema`] in which the representative is paired with the document and contains at least `contained` of it.
pub(super) fn contained_only(represented: DataFrame, contained: f64) -> Result<DataFrame> {
    let goes = col("jaccard").is_not_null().and(col("containment").gt_eq(lit(contained)));
    Ok(represented.filter(goes)?)
}

/// Returns the documents (source, position) that the job rejected. If merged runs `share` files, returns the distinct rejected rows that no
/// run compared.
pub(super) fn rejected(stored: &Stored, share: bool) -> Result<DataFrame> {
    let places = ["source", "position"];
    let rejects = stored.table(Table::Rejects)?.select_columns(&places)?;
    if !share {
        return Ok(rejects);
    }
    let compared = stored.table(Table::Documents)?;
    let compared = compared.select_exprs(&["source AS compared_source", "position AS compared_position"])?;
    let left = ["compared_source", "compared_position"];
    Ok(compared.join(rejects.distinct()?, JoinType::RightAnti, &left, &places, None)?)
}

/// Returns the documents (id, source, position, heir) in `short` that are removed as too short. `heir` represents the cluster instead. It
/// is null if the removed document represents no other document, or if no document in the cluster is kept.
pub(super) fn dropped(stored: &Stored, contained: Option<f64>, short: DataFrame) -> Result<DataFrame> {
    let gone = removed(stored, None, contained, None)?.filter(col("kept_source").is_not_null())?;
    let gone = gone.select_exprs(&["id AS gone_id", "kept_id"])?;
    let all = removed_ids(stored, contained)?;
    let representatives = all.join(short.clone(), JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    let dropped = representatives.clone().select_exprs(&["id AS dropped_id"])?;
    let orphans = dropped.join(gone, JoinType::RightSemi, &["dropped_id"], &["kept_id"], None)?;

    let order = stored.job().clusters.order();
    let mut columns = vec![col("id"), col("shingle_count")];
    columns.extend(keep::order_columns(&order, stored.job().source.group.as_deref())?);
    let documents = stored.table(Table::Documents)?.select(columns)?;
    let names = short.clone().select_exprs(&["id AS short_id"])?;
    let rest = names.join(orphans.clone(), JoinType::RightAnti, &["short_id"], &["gone_id"], None)?;
    let rest = rest.join(documents, JoinType::Inner, &["gone_id"], &["id"], None)?;
    let rank = row_number().partition_by(vec![col("kept_id")]).order_by(keep::sorted(&order)).build()?;
    let first = rest.window(vec![rank.alias("rank")])?.filter(col("rank").eq(lit(1_u64)))?;
    let heirs = first.select(vec![col("kept_id").alias("dropped_id"), col("id").alias("heir")])?;

    let columns = ["id", "source", "position", "heir"];
    let representatives = heirs.join(representatives, JoinType::Right, &["dropped_id"], &["id"], None)?;
    let orphans = orphans.select_columns(&["gone_id"])?;
    let others = orphans.join(short, JoinType::RightSemi, &["gone_id"], &["id"], None)?;
    let none = ScalarValue::try_from(&stored.manifest().source.id.arrow())?;
    let others = others.with_column("heir", lit(none))?.select_columns(&columns)?;
    Ok(representatives.select_columns(&columns)?.union(others)?)
}

/// Returns all removed documents, in the columns of [`removed_schema`]. If the settings annotate documents, these documents are kept and
/// only marked.
pub(super) fn all_removed(
    stored: &Stored,
    settings: &ApplySettings,
    dropped: Option<DataFrame>,
) -> Result<DataFrame> {
    let group = stored.job().source.group.as_deref();
    let duplicates = removed(stored, group, settings.contained, dropped.clone())?;
    let Some(dropped) = dropped else { return Ok(duplicates) };
    let groups = vec![col("id").alias("document_id"), col("origin_number"), groups::group(group)];
    let groups = stored.table(Table::Documents)?.select(groups)?;
    let short = dropped.join(groups, JoinType::Inner, &["id"], &["document_id"], None)?;
    let short = short.with_column("reason", lit(TOO_SHORT))?;
    Ok(duplicates.union(in_columns(short, &removed_schema(stored.manifest().source.id))?)?)
}

/// The documents in clusters that come from the output's source: (member, source, position, origin_number, cluster_id, representative,
/// kept_id, kept_is_reference, group, similarity). `similarity` is the similarity to the kept document, or null if it is unknown. If
/// `by_job` is true, spared documents represent their copies.
pub(super) fn clustered(stored: &Stored, group: Option<&str>, by_job: bool) -> Result<DataFrame> {
    let clusters = stored.table(Table::Clusters)?;
    let kept = clusters.clone().filter(col("representative"))?.select_exprs(&[
        "cluster_id AS kept_cluster",
        "id AS kept_id",
        "reference AS kept_is_reference",
    ])?;
    let members = clusters.filter(!col("reference"))?.select_exprs(&[
        "id AS member",
        "cluster_id",
        "representative",
        "jaccard_to_representative AS similarity",
    ])?;
    let mut members = kept.join(members, JoinType::Inner, &["kept_cluster"], &["cluster_id"], None)?;
    if by_job && stored.job().clusters.spares() {
        let copies = stored.table(Table::SparedCopies)?.filter(!col("reference"))?.select_exprs(&[
            "id AS copy_id",
            "kept_id AS spared_id",
            "kept_reference AS spared_is_reference",
        ])?;
        let columns = [
            ("kept_id", "coalesce(spared_id, kept_id)"),
            ("kept_is_reference", "coalesce(spared_is_reference, kept_is_reference)"),
            ("similarity", "CASE WHEN copy_id IS NULL THEN similarity ELSE 1.0 END"),
        ];
        members = copies.join(members, JoinType::Right, &["copy_id"], &["member"], None)?;
        members = with_columns(members, &columns)?.drop_columns(&["spared_id"])?;
    }
    let mut columns = ["id", "source", "position", "origin_number"].map(col).to_vec();
    columns.push(groups::group(group));
    let documents = stored.table(Table::Documents)?.select(columns)?;
    Ok(members.join(documents, JoinType::Inner, &["member"], &["id"], None)?)
}

/// Returns the ids (gone_id) of all removed duplicates.
pub(crate) fn removed_ids(stored: &Stored, contained: Option<f64>) -> Result<DataFrame> {
    if contained.is_some() {
        return Ok(removed(stored, None, contained, None)?.select_exprs(&["id AS gone_id"])?);
    }
    let gone = stored.table(Table::Clusters)?.filter((!col("representative")).and(!col("reference")))?;
    let gone = gone.select_exprs(&["id AS gone_id"])?;
    match spared(stored)? {
        None => Ok(gone),
        Some(spared) => Ok(spared.join(gone, JoinType::RightAnti, &["spared_id"], &["gone_id"], None)?),
    }
}

/// Counts the documents in each file of the source. All compared documents count as kept, because removals are counted when the files are
/// rewritten. `share` is true if merged runs share files.
pub(super) async fn counts(stored: &Stored, share: bool) -> Result<BTreeMap<String, DocumentCounts>> {
    let mut files: BTreeMap<String, DocumentCounts> = BTreeMap::new();
    for RowsPerFile { source, rows } in by_source(stored.table(Table::Documents)?).await? {
        let file = files.entry(source).or_default();
        (file.read, file.kept) = (rows, rows);
    }
    for RowsPerFile { source, rows } in by_source(rejected(stored, share)?).await? {
        let file = files.entry(source).or_default();
        file.read += rows;
        file.rejected = rows;
    }
    Ok(files)
}

/// The number of rows in a table for one file of the source.
#[derive(Deserialize)]
struct RowsPerFile {
    source: String,
    rows: u64,
}

async fn by_source(table: DataFrame) -> Result<Vec<RowsPerFile>> {
    rows::read(table.aggregate(vec![col("source")], vec![count(lit(1)).alias("rows")])?).await
}
