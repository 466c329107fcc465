//! dictionary: a number for every distinct shingle of the collection.

use super::interface::{AnyTable, Planned, Stage, StagePlan, Table, WorkTable, frames, not_null};
use crate::job::ShingleHash;
use crate::output::write::TableRows;
use crate::pipeline::tables::numbers;

impl WorkTable {
    /// A number for each shingle of each document.
    pub(crate) const NUMBERS: Self = Self::new("numbers", |_| numbers(["doc", "number"]));
}

/// Numbers the shingles. Numbers are ranks in one order, so all rows end in one partition.
pub(super) static DICTIONARY: Stage = Stage::new(
    AnyTable::Public(Table::Dictionary),
    |_| "number the distinct shingles of the collection".into(),
    |job| job.reads_texts() && job.shingle.hash == ShingleHash::Dictionary,
    StagePlan::Now(|cx| Ok(Planned::new(0, vec![frames::dictionary::numbers(cx.table(WorkTable::CUTS)?)?]))),
)
.with_tables(|_| vec![(WorkTable::NUMBERS.into(), TableRows::All), not_null(Table::Dictionary, "shingle")]);
