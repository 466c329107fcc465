//! uncompared: the documents that are not compared and have an id and a text all the same, so that passages are searched in them.

use arrow::datatypes::Field;
use datafusion::prelude::{Expr, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, Error, Planned, SourceTypes, Stage, StagePlan, Table, WorkTable, frames,
};
use super::texts::position_columns;
use crate::frames::reference::second_source_key;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::tables::numbers;
use crate::udf::expr_fn::document_key;

impl WorkTable {
    /// Rejected documents in which passages are searched: their keys and places.
    pub(crate) const UNCOMPARED: Self = Self::new("uncompared", columns);
}

fn columns(source: &SourceTypes) -> Vec<Field> {
    [numbers(["doc"]), position_columns(source)].concat()
}

/// Finds the rejected documents in which passages are searched.
pub(super) static UNCOMPARED: Stage = Stage::new(
    AnyTable::Work(WorkTable::UNCOMPARED),
    |_| "find the documents that are not compared and may have passages".into(),
    |job| job.passages.is_some(),
    StagePlan::Now(|cx| {
        let key = || document_key(col("id"));
        let at = |doc: Expr, origin: Expr| {
            let columns = ["source", "position", "reason"].map(col);
            columns.into_iter().chain([doc.alias("doc"), origin.alias("origin")]).collect::<Vec<_>>()
        };
        let own = lit(ScalarValue::UInt64(None));
        let mut rejects = vec![Ok(cx.table(Table::Rejects)?.select(at(key(), own))?)];
        let mut compared = vec![Ok(cx.table(WorkTable::KEYS)?.select(vec![col("doc")])?)];
        match cx.reference {
            Some(ReferenceDocuments::Source(_)) => {
                let of_source = cx.table(Table::ReferenceRejects)?;
                rejects.push(Ok(of_source.select(at(second_source_key(key()), lit(0_u64)))?));
                compared.push(Ok(cx.table(WorkTable::REFERENCE_KEYS)?.select(vec![col("doc")])?));
            }
            Some(ReferenceDocuments::Outputs(outputs)) => {
                for (origin, stored) in outputs.with_rejects() {
                    let of_output = stored.table(Table::Rejects)?;
                    rejects.push(Ok(of_output.select(at(key(), origin))?));
                }
                compared.push(Ok(outputs.names(cx)?.select(vec![col("doc")])?));
            }
            None => {}
        }
        let (rejects, compared) = (frames::union(rejects)?, frames::union(compared)?);
        let both = rejects.zip(compared).ok_or_else(|| Error::bug("the run has no table of rejects"))?;
        let frame = frames::spans::uncompared(both.0, both.1)?;
        Ok(Planned::new(cx.rows(WorkTable::KEYS) * BYTES_OF_MEMBER, vec![frame]))
    }),
);
