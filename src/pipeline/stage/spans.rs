//! spans: the passages that repeat, and the occurrence of each that stays.

use super::interface::{Planned, Stage, StagePlan};
use super::units::BYTES_OF_UNIT;
use super::word_runs;
use crate::frames;
use crate::job::Passages;
use crate::pipeline::tables::{AnyTable, WorkTable};
use crate::schema::Table;

/// Finds the passages that repeat, and keeps one of each.
pub(super) static SPANS: Stage = Stage::new(
    AnyTable::Public(Table::Spans),
    |_| "find the passages that repeat".into(),
    |job| job.passages.is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let spans = match cx.job.passages.and_then(Passages::words) {
                Some((length, gap)) => word_runs::spans(cx, length, gap).await?,
                None => {
                    let rows = cx.searched(cx.table(WorkTable::UNITS)?, WorkTable::REFERENCE_UNITS)?;
                    frames::spans::spans(rows, cx.in_turn().await?, &cx.job.clusters.order())?
                }
            };
            let tables = [WorkTable::UNITS, WorkTable::REFERENCE_UNITS, WorkTable::REPEATED_WINDOWS];
            let rows: u64 = tables.into_iter().map(|table| cx.rows(table)).sum();
            Ok(Planned::new(rows * BYTES_OF_UNIT, vec![spans]))
        })
    }),
);
