//! The documents that stay although another one represents their cluster.

use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;
use crate::output::Stored;
use crate::schema::Table;

/// The documents (spared_id) of the source that the job spares; `None` if it spares no document.
pub(super) fn by_job(stored: &Stored) -> Result<Option<DataFrame>> {
    if stored.job().clusters.contained.is_none() {
        return Ok(None);
    }
    let spared = stored.table(Table::Spared)?.filter(!col("reference"))?;
    Ok(Some(spared.select(vec![col("id").alias("spared_id")])?))
}

/// The copies (copy, copied_id, copied_is_reference) of spared documents that go because of these.
pub(super) fn copies(stored: &Stored) -> Result<DataFrame> {
    Ok(stored.table(Table::SparedCopies)?.filter(!col("reference"))?.select(vec![
        col("id").alias("copy"),
        col("kept_id").alias("copied_id"),
        col("kept_reference").alias("copied_is_reference"),
    ])?)
}

/// Of the documents that others represent, in the columns of [`super::decisions::removed_schema`], those that are paired with their
/// representative and have at least the share `contained` of their shingles there.
pub(super) fn without(represented: DataFrame, contained: f64) -> Result<DataFrame> {
    let goes = col("jaccard").is_not_null().and(col("containment").gt_eq(lit(contained)));
    Ok(represented.filter(goes)?)
}
