//! copies: documents with identical shingles that are in the same pairs, and documents with one key.

use arrow::datatypes::{DataType, Field};

use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    AnyTable, Planned, Result, SourceTypes, Stage, StagePlan, WorkTable, frames, not_null, null,
};
use super::{pair_limit, search};
use crate::frames::copies::copies;
use crate::pipeline::by_group;
use crate::pipeline::same_keys;
use crate::pipeline::tables::numbers;

/// Bytes of a row (document, the two halves of its set's hash).
const BYTES_OF_KEY: u64 = 24;

impl WorkTable {
    /// Documents that have a copy.
    pub(crate) const COPIES: Self = Self::new("copies", columns);
    /// Documents with one key, and where they are.
    pub(crate) const SAME_KEYS: Self = Self::new("same_keys", same_key_columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["rep", "doc", "size"]);
    columns.push(Field::new("reference", DataType::Boolean, false));
    columns
}

fn same_key_columns(_source: &SourceTypes) -> Vec<Field> {
    vec![Field::new("doc", DataType::UInt64, false), Field::new("places", DataType::Utf8, false)]
}

/// The rows of both tables in one frame, which are found by one plan.
fn with_same_keys(copies: DataFrame, same_keys: Option<DataFrame>) -> Result<DataFrame> {
    let mut columns = ["rep", "doc", "size", "reference"].map(col).to_vec();
    columns.push(lit(ScalarValue::Utf8(None)).alias("places"));
    let copies = copies.select(columns)?;
    let Some(same_keys) = same_keys else { return Ok(copies) };
    let number = |name: &str| lit(ScalarValue::UInt64(None)).alias(name);
    let same_keys = same_keys.select(vec![
        number("rep"),
        col("doc"),
        number("size"),
        lit(ScalarValue::Boolean(None)).alias("reference"),
        col("places"),
    ])?;
    Ok(copies.union(same_keys)?)
}

/// Finds documents with the same shingles, and refuses two with one key, which cannot be distinguished from here on.
pub(super) static COPIES: Stage = Stage::new(
    AnyTable::Work(WorkTable::COPIES),
    |_| "group documents with identical shingles, and check that keys are unique".into(),
    |_| true,
    StagePlan::Now(|cx| {
        let keys = cx.table(WorkTable::KEYS)?;
        let columns = ["doc", "set_hash_0", "set_hash_1"];
        let mut keys = match cx.reference_documents()? {
            None => keys.select(columns.map(col).to_vec())?,
            known => frames::mark::both(keys, known, &columns)?,
        };
        if let Some(groups) = by_group::keys(cx)? {
            keys = frames::with_columns(keys, groups)?;
        }
        let copies = copies(keys)?.filter(lit(cx.job.candidates.method.compares()))?;
        let rows = with_same_keys(copies, same_keys::find(cx)?)?;
        let bytes = (cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE)) * BYTES_OF_KEY;
        Ok(Planned::new(bytes, vec![rows]))
    }),
)
.with_tables(|_| vec![null(WorkTable::COPIES, "places"), not_null(WorkTable::SAME_KEYS, "places")])
.then(|cx| {
    Box::pin(async move {
        same_keys::refuse(cx).await?;
        pair_limit::check_copies(cx).await?;
        if cx.job.compares() {
            (search::by_method(cx.job).check)(cx).await?;
        }
        Ok(Vec::new())
    })
});
