//! The check of a table's rows against its contract, in one pass.

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, Expr, ident, lit, when};

use super::Contract;
use crate::error::{Error, Result};

impl Contract {
    /// One row of counts over the rows of `table`: how many break each promise, in the order of the contract's columns
    /// that may not be null and then of its rules. Lazy: the caller runs it and hands the row to [`Contract::verdict`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) where the columns are not the contract's.
    pub fn audit(&self, table: DataFrame) -> Result<DataFrame> {
        self.check_schema(table.schema().as_arrow())?;
        let mut counts = Vec::new();
        for (at, column) in self.columns.iter().filter(|c| !c.nullable).enumerate() {
            counts.push(broken(ident(&column.name).is_not_null())?.alias(format!("null_{at}")));
        }
        for (at, rule) in self.rules.iter().enumerate() {
            counts.push(broken(table.parse_sql_expr(rule)?.is_true())?.alias(format!("rule_{at}")));
        }
        Ok(table.aggregate(vec![], counts)?)
    }

    /// Whether the counts of [`Contract::audit`] are all 0.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) with the promise that is broken and by how many rows.
    pub fn verdict(&self, counts: &[RecordBatch]) -> Result<()> {
        self.readable()?;
        let promises = self
            .columns
            .iter()
            .filter(|c| !c.nullable)
            .map(|c| format!("{} IS NOT NULL", c.name))
            .chain(self.rules.iter().cloned());
        for (at, promise) in promises.enumerate() {
            let mut broken = 0;
            for batch in counts {
                let column = batch.columns().get(at).and_then(|c| c.as_any().downcast_ref::<Int64Array>());
                // The sum over no rows is null.
                broken += column
                    .ok_or_else(|| Error::bug(format!("the audit of `{}` has no column {at}", self.table)))?
                    .iter()
                    .flatten()
                    .sum::<i64>();
            }
            if broken > 0 {
                return Err(self.broken(&format!("breaks `{promise}` in {broken} rows")));
            }
        }
        Ok(())
    }
}

/// In how many rows `kept`, which is never null, is false.
fn broken(kept: Expr) -> Result<Expr> {
    Ok(sum(when(kept, lit(0_i64)).otherwise(lit(1_i64))?))
}
