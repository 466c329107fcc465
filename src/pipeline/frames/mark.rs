//! mark: which documents are reference documents.

use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;

/// (doc, ..) -> the same rows with a column `reference: Boolean`: whether the document is in `known` (doc, ..).
pub(crate) fn mark(frame: DataFrame, known: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = frame.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(col("known_doc").is_not_null().alias("reference"));
    let known = known.select(vec![col("doc").alias("known_doc")])?;
    Ok(known.join(frame, JoinType::Right, &["known_doc"], &["doc"], None)?.select(columns)?)
}

/// New documents, and reference documents if there are any: these columns of both, and a column `reference: Boolean`.
pub(crate) fn both(new: DataFrame, known: Option<DataFrame>, columns: &[&str]) -> Result<DataFrame> {
    let of = |is_known: bool| {
        let columns = columns.iter().map(|column| col(*column));
        columns.chain([lit(is_known).alias("reference")]).collect::<Vec<_>>()
    };
    let new = new.select(of(false))?;
    Ok(match known {
        Some(known) => new.union(known.select(of(true))?)?,
        None => new,
    })
}
