//! Texts that are empty after normalisation.

use datafusion::functions::expr_fn::{btrim, coalesce};
use datafusion::functions_nested::expr_fn::{array_length, array_to_string};
use datafusion::prelude::{Expr, col, lit, when};

use crate::error::Result;
use crate::job::{Shingle, Unit};
use crate::udf::expr_fn::shingle_texts;

/// (text, reason, `cut`, ..) -> `empty_text` if the text is empty after normalisation, and else null.
///
/// Only texts without a shingle are normalised once more.
///
/// # Errors
/// Never.
pub(crate) fn empty(cut: &str, shingle: &Shingle) -> Result<Expr> {
    let count = coalesce(vec![array_length(col(cut)), lit(0_u64)]);
    // The distinct characters of the normalised text.
    let letters = Shingle { unit: Unit::Char, size: 1, min_words: 0, ..shingle.clone() };
    let left = array_to_string(shingle_texts(col("text"), &letters), lit(""));
    let blank = btrim(vec![left, lit(" \t\r\n")]).eq(lit(""));
    let reason = when(blank, lit("empty_text")).end()?;
    Ok(when(col("reason").is_null().and(count.eq(lit(0_u64))), reason).end()?)
}
