//! members: the documents that are similar to another, with the group of copies that each belongs to.

use arrow::datatypes::{DataType, Field};
use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{
    AnyTable, BYTES_OF_KEY, BYTES_OF_MEMBER, Planned, Result, SourceTypes, Stage, StagePlan, Table,
    WorkTable, frames,
};
use crate::frames::copies::{Rules, in_pairs};
use crate::frames::scores::needed;
use crate::pipeline::by_group::{NAMES, own};
use crate::pipeline::tables::{id_column, numbers};

/// (id, doc, shingle_count, reference, group, ..), the groups of copies (rep, doc, size, ..) that are in pairs, (a, b, ..) ->
/// (id, doc, shingle_count, rep: UInt64, size: UInt64, reference: Boolean, group: Utf8), one row per document of such a group,
/// and one per document without copies that has a score. The latter is its own representative, in a group of size 1.
pub(crate) fn members(documents: DataFrame, copies: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let copies = copies.select(vec![col("rep"), col("doc").alias("grouped"), col("size")])?;
    let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
    let documents = documents.select(vec![
        col("id"),
        col("doc"),
        col("shingle_count"),
        col("reference"),
        col("group"),
    ])?;
    let of_group = |rep: Expr, size: Expr| {
        vec![col("id"), col("doc"), col("shingle_count"), rep, size, col("reference"), col("group")]
    };
    let grouped = copies
        .clone()
        .join(documents.clone(), JoinType::Inner, &["grouped"], &["doc"], None)?
        .select(of_group(col("rep"), col("size")))?;
    // Documents with a score and without copies: representatives of groups are among `grouped` already.
    let singles = copies.select(vec![col("grouped")])?.join(
        scored,
        JoinType::RightAnti,
        &["grouped"],
        &["needed"],
        None,
    )?;
    let single = singles
        .join(documents, JoinType::Inner, &["needed"], &["doc"], None)?
        .select(of_group(col("doc").alias("rep"), lit(1_u64).alias("size")))?;
    Ok(grouped.union(single)?)
}

impl WorkTable {
    /// Documents of pairs.
    pub(crate) const MEMBERS: Self = Self::new("members", columns);
}

fn columns(source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![id_column(source, false)];
    columns.extend(numbers(["doc", "shingle_count", "rep", "size"]));
    columns.push(Field::new("reference", DataType::Boolean, false));
    columns.push(Field::new("group", DataType::Utf8, true));
    columns
}

/// Finds the documents of pairs, copies included.
pub(super) static MEMBERS: Stage = Stage::new(
    AnyTable::Work(WorkTable::MEMBERS),
    |_| "expand scores to the copies of each document".into(),
    |_| true,
    StagePlan::Now(|cx| {
        let (copies, scores) = (cx.table(WorkTable::COPIES)?, cx.table(WorkTable::SCORES)?);
        let copies = in_pairs(copies, scores.clone(), Rules::of(cx.job))?;
        let documents = frames::mark::both(own(cx)?, cx.reference_documents()?, &NAMES)?;
        let count = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
        let bytes = count * BYTES_OF_MEMBER
            + cx.bytes(WorkTable::COPIES)
            + 2 * cx.rows(WorkTable::SCORES) * BYTES_OF_KEY;
        Ok(Planned::new(bytes, vec![members(documents, copies, scores)?]))
    }),
);
