//! documents: one row per document that was read, with its key, and with the reason why it cannot be compared.

use datafusion::functions::expr_fn::{btrim, coalesce};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::{of_documents, text_and_cut};
use crate::error::Result;
use crate::udf::expr_fn::document_key;

/// (source, position, id, text, defect) -> (source, position, id, text, doc: UInt64, reason: Utf8), and the columns that the
/// source carries, as every stage to `signatures` has them behind its own. Where texts were cut while they were read, a column
/// `cut` stands behind `text` as far as that goes.
///
/// `doc` is the key by which every later stage knows the document. `reason` is null for a document that can be
/// compared, and else one of the reasons of `schemas/rejects.toml`.
///
/// # Errors
/// When the frame has other columns.
pub fn documents(read: DataFrame) -> Result<DataFrame> {
    let missing = when(col("id").is_null(), lit("missing_id"))
        .when(col("text").is_null(), lit("missing_text"))
        .when(btrim(vec![col("text"), lit(" \t\r\n")]).eq(lit("")), lit("empty_text"))
        .end()?;
    let reason = coalesce(vec![col("defect"), missing]).alias("reason");
    let own = text_and_cut(&read).into_iter().chain([document_key(col("id")).alias("doc"), reason]);
    let columns = of_documents(&read, own);
    Ok(read.select(columns)?)
}
