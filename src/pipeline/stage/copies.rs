//! copies: documents with identical shingles that are in the same pairs.

use std::borrow::Cow;

use arrow::datatypes::{DataType, Field};
use async_trait::async_trait;
use datafusion::prelude::col;

use super::interface::{Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::frames::copies::copies;
use crate::pipeline::frames::duplicates::repeated;
use crate::pipeline::numbers::{keys_of, spawn};
use crate::pipeline::same_keys::{NAMED_DUPLICATES, refuse_duplicates};
use crate::pipeline::tables::{WorkTable, numbers};
use crate::pipeline::{by_group, frames, pair_limit};
use crate::schema::{SourceTypes, Table};

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

impl Writes for Copies {
    fn name(&self) -> Cow<'static, str> {
        "copies".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "group documents with identical shingles".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(WorkTable::COPIES)
    }
}

#[async_trait]
impl Stage for Copies {
    fn is_in(&self, _job: &Job) -> bool {
        true
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let keys = cx.table(WorkTable::KEYS)?;
        let repeated = repeated(keys.clone(), NAMED_DUPLICATES)?;
        let columns = ["doc", "set_hash_0", "set_hash_1"];
        let mut keys = match cx.reference_documents()? {
            None => keys.select(columns.map(col).to_vec())?,
            known => frames::mark::both(keys, known, &columns)?,
        };
        if let Some(groups) = by_group::keys(cx, cx.job)? {
            keys = frames::with_columns(keys, groups)?;
        }
        let frames = vec![copies(keys)?];
        let bytes = (cx.rows(WorkTable::KEYS) + cx.rows(WorkTable::REFERENCE)) * BYTES_OF_KEY;
        let (repeated, ()) = futures::try_join!(spawn(keys_of(repeated)), cx.run(self, bytes, frames))?;
        refuse_duplicates(cx.table(Table::Documents)?, &repeated, "source").await?;
        pair_limit::check_copies(cx).await
    }
}
