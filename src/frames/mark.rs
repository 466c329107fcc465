//! mark: which documents are reference documents.

use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;

/// (doc, ..) -> the same rows with a column `reference: Boolean`: whether the document is in `reference` (doc, ..).
pub(crate) fn mark(frame: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = frame.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(col("reference_doc").is_not_null().alias("reference"));
    let reference = reference.select(vec![col("doc").alias("reference_doc")])?;
    Ok(reference.join(frame, JoinType::Right, &["reference_doc"], &["doc"], None)?.select(columns)?)
}

/// New documents, and reference documents if there are any: these columns of both, and a column `reference: Boolean`.
pub(crate) fn both(new: DataFrame, reference: Option<DataFrame>, columns: &[&str]) -> Result<DataFrame> {
    let of = |is_reference: bool| {
        let columns = columns.iter().map(|column| col(*column));
        columns.chain([lit(is_reference).alias("reference")]).collect::<Vec<_>>()
    };
    let new = new.select(of(false))?;
    Ok(match reference {
        Some(reference) => new.union(reference.select(of(true))?)?,
        None => new,
    })
}
