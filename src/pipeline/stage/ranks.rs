//! ranks: the documents of each component, in the order of preferences.

use arrow::datatypes::{DataType, Field};
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{bool_and, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr};
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, Table,
    WorkTable, frames,
};
use crate::frames::keep::BEFORE;
use crate::frames::{keep, merged};
use crate::job::{Compare, Preference};
use crate::pipeline::by_group;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::reference::chain::Chain;
use crate::pipeline::tables::{id_column, numbers};

/// (id, doc, shingle_count, rep, reference, ..), (doc, root) -> (id, doc, set: UInt64, root: UInt64, rank: UInt64, reference),
/// one row per document: the representative of its shingle set, the root of its component, and its place there in the order of
/// preferences, counted from 1.
///
/// `components` has the root of each shingle set with a score. One without a score is a component by itself.
///
/// # Errors
/// When a frame lacks its columns.
pub fn ranks(members: DataFrame, components: DataFrame, order: &[Preference]) -> Result<DataFrame> {
    in_order(rooted(members, components, |root| columns(root, order))?, keep::sorted(order))
}

/// The same for outputs that are merged: members have `before` too.
pub(crate) fn of_merged(
    members: DataFrame,
    components: DataFrame,
    order: &[Preference],
) -> Result<DataFrame> {
    let rooted = rooted(members, components, |root| placed_columns(root, order))?;
    in_order(rooted, keep::sorted_with_reference(order))
}

/// The `columns` of members, by the root of their component.
fn rooted(
    members: DataFrame,
    components: DataFrame,
    columns: impl FnOnce(Expr) -> Vec<Expr>,
) -> Result<DataFrame> {
    let components =
        components.select(vec![col("doc").alias("component_doc"), col("root").alias("found")])?;
    let root = coalesce(vec![col("found"), col("rep")]).alias("root");
    Ok(components
        .join(members, JoinType::Right, &["component_doc"], &["rep"], None)?
        .select(columns(root))?)
}

/// The same for a run with reference documents, for the components that have a new document: (doc, root) of all
/// components, (id, doc, reference, before, shingle_count, set_hash_0, set_hash_1, ..) of all documents.
pub(crate) fn with_reference(
    components: DataFrame,
    documents: DataFrame,
    new: DataFrame,
    order: &[Preference],
) -> Result<DataFrame> {
    let new = new.select(vec![col("doc").alias("new_doc")])?;
    let roots = new.join(components.clone(), JoinType::Inner, &["new_doc"], &["doc"], None)?;
    let roots = roots.select(vec![col("root").alias("new_root")])?.distinct()?;
    let nodes = roots.join(components, JoinType::RightSemi, &["new_root"], &["root"], None)?;
    let nodes = nodes.select(vec![col("doc").alias("node"), col("root")])?;
    let rooted = nodes.join(documents, JoinType::Inner, &["node"], &["doc"], None)?;
    let sets = merged::representatives(rooted.clone())?;
    let rooted = merged::grouped(rooted, sets)?.select(placed_columns(col("root"), order))?;
    in_order(rooted, keep::sorted_with_reference(order))
}

/// The columns that rank documents.
fn columns(root: Expr, order: &[Preference]) -> Vec<Expr> {
    let mut columns =
        vec![col("id"), col("doc"), col("shingle_count"), col("rep").alias("set"), root, col("reference")];
    columns.extend(keep::names(order).into_iter().map(col));
    columns
}

/// The same if documents have places before or behind others.
fn placed_columns(root: Expr, order: &[Preference]) -> Vec<Expr> {
    let mut columns = columns(root, order);
    columns.push(col(BEFORE));
    columns
}

fn in_order(rooted: DataFrame, sorted: Vec<SortExpr>) -> Result<DataFrame> {
    let rank = row_number().partition_by(vec![col("root")]).order_by(sorted).build()?;
    let columns = ["id", "doc", "set", "root", "rank", "reference"];
    Ok(rooted.window(vec![rank.alias("rank")])?.select(columns.map(col).to_vec())?)
}

/// (set, root, rank, reference, ..) of documents -> (set, root, rank, reference) of shingle sets: the rank is that of
/// the set's first document.
pub(crate) fn of_sets(ranks: DataFrame) -> Result<DataFrame> {
    let found = vec![
        min(col("root")).alias("root"),
        min(col("rank")).alias("rank"),
        bool_and(col("reference")).alias("reference"),
    ];
    Ok(ranks.aggregate(vec![col("set")], found)?)
}

/// (a, b, shared, shingles_a, shingles_b, ..) of documents -> the same of their shingle sets in [`ranks`], once or
/// twice for every two of these.
pub(crate) fn scores_of_sets(scores: DataFrame, ranks: DataFrame) -> Result<DataFrame> {
    let of = |end: &str| {
        let columns = ["doc", "set"].map(|column| col(column).alias(format!("{column}_{end}")));
        ranks.clone().select(columns.to_vec())
    };
    let measured = ["shared", "shingles_a", "shingles_b"];
    let with = |ends: [Expr; 2]| ends.into_iter().chain(measured.map(col)).collect::<Vec<_>>();
    // A column that changes its name prevents the optimizer from changing the order of the two joins.
    let joined = of("a")?
        .join(scores, JoinType::Inner, &["doc_a"], &["a"], None)?
        .select(with([col("set_a"), col("b").alias("other")]))?;
    let joined = of("b")?.join(joined, JoinType::Inner, &["doc_b"], &["other"], None)?;
    let joined = joined.filter(col("set_a").not_eq(col("set_b")))?;
    Ok(joined.select(with([col("set_a").alias("a"), col("set_b").alias("b")]))?.distinct()?)
}

/// All new and reference documents, with the columns of [`with_reference`].
pub(super) fn clustered(cx: &StageContext<'_>, reference: &ReferenceDocuments) -> Result<DataFrame> {
    let own = cx.table(Table::Documents)?.select(by_group::ordered(cx.job)?)?;
    let sets = cx.table(WorkTable::KEYS)?.select(["doc", "set_hash_0", "set_hash_1"].map(col).to_vec())?;
    let own = frames::with_columns(own, sets)?;
    let (reference, before) = reference.clustered(cx, &own)?;
    let own = own.with_column(BEFORE, before)?;
    let names = by_group::ordered_names(cx.job);
    let names = names.iter().map(String::as_str).chain(["set_hash_0", "set_hash_1", BEFORE]);
    let both = frames::mark::both(own, Some(reference), &names.collect::<Vec<_>>())?;
    Ok(match cx.job.candidates.compare {
        Compare::All => both,
        Compare::Within | Compare::Across => {
            both.with_column("group_key", frames::by_group::key(col("group")).unalias())?
        }
    })
}

/// The documents of pairs, with the columns that order them.
fn members(cx: &StageContext<'_>, order: &[Preference]) -> Result<DataFrame> {
    let members = cx.table(WorkTable::MEMBERS)?;
    match keep::names(order).is_empty() {
        true => Ok(members),
        false => {
            let columns = by_group::order_by_doc(cx.job)?;
            frames::with_columns(members, cx.table(Table::Documents)?.select(columns)?)
        }
    }
}

/// `members` of the outputs of `chain`, which are merged: with `before`, by which documents that these keep come before
/// those that they remove.
fn kept_first(members: DataFrame, chain: &Chain) -> Result<DataFrame> {
    let members = members.with_column(BEFORE, lit(0_u64))?;
    frames::reference::placed(members, chain.removed()?, 1)
}

impl WorkTable {
    /// Documents of pairs by components, in their order.
    pub(crate) const RANKS: Self = Self::new("ranks", table_columns);
}

fn table_columns(source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![id_column(source, false)];
    columns.extend(numbers(["doc", "set", "root", "rank"]));
    columns.push(Field::new("reference", DataType::Boolean, false));
    columns
}

/// Orders the documents of each component.
pub(super) static RANKS: Stage = Stage::new(
    AnyTable::Work(WorkTable::RANKS),
    |_| "order each cluster".into(),
    |_| true,
    StagePlan::Now(|cx| {
        let (order, components) = (cx.job.clusters.order(), cx.table(WorkTable::COMPONENTS)?);
        let frame = match (cx.reference, cx.input.merged()) {
            (Some(reference), _) => {
                let new = cx.table(WorkTable::KEYS)?.select(vec![col("doc")])?;
                with_reference(components, clustered(cx, reference)?, new, &order)?
            }
            (None, Some(chain)) => of_merged(kept_first(members(cx, &order)?, chain)?, components, &order)?,
            (None, None) => ranks(members(cx, &order)?, components, &order)?,
        };
        let documents = cx.rows(WorkTable::MEMBERS).max(cx.rows(WorkTable::COMPONENTS));
        let bytes = documents * BYTES_OF_MEMBER + cx.bytes(WorkTable::COMPONENTS);
        Ok(Planned::new(bytes, vec![frame]))
    }),
);
