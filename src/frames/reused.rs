//! reused: the sketches of a finished output instead of those that are cut from texts.

use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{DataFrame, col};
use datafusion::scalar::ScalarValue;

use super::bands::bands;
use crate::error::Result;
use crate::job::{Lsh, Source};
use crate::schema::{self, SourceTypes};

/// The columns of a table documents, over a source of `types`, that [`reused`] reads. `origin` is the number of a document's origin
/// in the new table.
pub(crate) fn columns(types: &SourceTypes, keeps_shingles: bool, origin: Expr) -> Vec<Expr> {
    let mut columns = vec![
        col("source"),
        col("position"),
        origin.alias("origin_number"),
        col("id"),
        lit(ScalarValue::Utf8(None)).alias("reason"),
        col("doc"),
        col("shingle_count"),
        col("set_hash_0"),
        col("set_hash_1"),
        col("signature"),
    ];
    if keeps_shingles {
        columns.push(col("shingles"));
    }
    let carried = types.columns.iter().enumerate();
    columns
        .extend(carried.map(|(at, column)| ident(Source::stored(&column.name)).alias(schema::carried(at))));
    columns
}

/// [`columns`] of documents, and the table rejects -> the columns of [`bands`], a row for each document of either. A
/// rejected document has only a source, a position, an origin, an id and a reason.
pub(crate) fn reused(documents: DataFrame, rejects: DataFrame, lsh: &Lsh) -> Result<DataFrame> {
    let documents = bands(documents, lsh)?;
    let of_rejects = |field: &arrow::datatypes::Field| -> Result<Expr> {
        Ok(match field.name().as_str() {
            name @ ("source" | "position" | "origin_number" | "id" | "reason") => col(name),
            name => lit(ScalarValue::try_from(field.data_type())?).alias(name),
        })
    };
    let fields = documents.schema().as_arrow().fields().iter();
    let rejects = rejects.select(fields.map(|field| of_rejects(field)).collect::<Result<Vec<_>>>()?)?;
    Ok(documents.union(rejects)?)
}
