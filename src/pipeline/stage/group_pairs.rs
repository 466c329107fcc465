//! group_pairs: the number of pairs of every two groups.

use super::interface::{AnyTable, BYTES_OF_MEMBER, Planned, Stage, StagePlan, Table, frames};
use crate::pipeline::by_group::{NAMES, own};

/// Counts the pairs of every two groups.
pub(super) static GROUP_PAIRS: Stage = Stage::new(
    AnyTable::Public(Table::GroupPairs),
    |_| "count the pairs of every two groups".into(),
    |job| job.has_groups(),
    StagePlan::Now(|cx| {
        let documents = frames::mark::both(own(cx)?, None, &NAMES)?;
        let frame = frames::by_group::group_pairs(cx.table(Table::Pairs)?, documents)?;
        let bytes = 4 * cx.rows(Table::Pairs) * BYTES_OF_MEMBER;
        Ok(Planned::new(bytes, vec![frame]))
    }),
);
