//! copies: documents with identical shingles that are in the same pairs.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::{col, lit};

use super::interface::{
    AnyTable, BoxFuture, OneTable, Result, SourceTypes, Stage, StageContext, Table, WorkTable, frames,
};
use super::pair_limit;
use crate::job::Method;
use crate::pipeline::by_group;
use crate::pipeline::frames::copies::copies;
use crate::pipeline::frames::duplicates::repeated;
use crate::pipeline::numbers::{keys_of, spawn};
use crate::pipeline::same_keys::{NAMED_DUPLICATES, refuse_duplicates};
use crate::pipeline::tables::numbers;

/// Bytes of a row (document, the two halves of its set's hash).
const BYTES_OF_KEY: u64 = 24;

/// Finds documents with the same shingles, and refuses two with one key, which cannot be distinguished from here on.
pub(crate) struct Copies;

impl WorkTable {
    /// Documents that have a copy.
    pub(crate) const COPIES: Self = Self::new("copies", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["rep", "doc", "size"]);
    columns.push(Field::new("reference", DataType::Boolean, false));
    columns
}

impl OneTable for Copies {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::COPIES);
    const WHAT: &'static str = "group documents with identical shingles";
}

impl Stage for Copies {
    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let keys = cx.table(WorkTable::KEYS)?;
            let repeated = repeated(keys.clone(), NAMED_DUPLICATES)?;
            let columns = ["doc", "set_hash_0", "set_hash_1"];
            let mut keys = match cx.reference_documents()? {
                None => keys.select(columns.map(col).to_vec())?,
                known => frames::mark::both(keys, known, &columns)?,
            };
            if let Some(groups) = by_group::keys(cx)? {
                keys = frames::with_columns(keys, groups)?;
            }
            let frames = vec![match cx.job.candidates.method {
                Method::None => copies(keys)?.filter(lit(false))?,
                Method::Lsh | Method::All | Method::Prefix => copies(keys)?,
            }];
            let bytes = (cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE)) * BYTES_OF_KEY;
            let (repeated, ()) = futures::try_join!(spawn(keys_of(repeated)), cx.run(self, bytes, frames))?;
            refuse_duplicates(cx.table(Table::Documents)?, &repeated, "source").await?;
            pair_limit::check_copies(cx).await
        })
    }
}
