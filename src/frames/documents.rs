//! documents: one row per document that was read, with its key, and with the reason why it cannot be compared.

use datafusion::functions::expr_fn::{btrim, coalesce};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::{of_documents, text_and_cut};
use crate::error::Result;
use crate::udf::expr_fn::document_key;

/// (source, position, id, text, defect) -> (source, position, id, text, doc: UInt64, reason: Utf8), followed by the
/// carried columns of the source, which all frames up to `signatures` keep. If texts were cut while they were read, a
/// column `cut` follows `text`.
///
/// `doc` is the key of the document in every later stage. `reason` is null for a document that can be compared, and
/// else one of the reasons of `schemas/rejects.toml`.
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
