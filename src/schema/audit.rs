//! The check of a table's rows against its contract, in one pass.

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{DataFrame, Expr, lit, when};

use super::Contract;
use super::contract::Column;
use crate::error::{Error, Result};

/// Which columns an audit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDepth {
    /// All but lists and binaries, which are nearly all of the bytes of `documents`: cheap enough for every run.
    WithoutLists,
    /// Every column.
    Whole,
}

impl Contract {
    /// The rules for every row as SQL: columns that are not null, in their order, and then the contract's rules.
    fn promises(&self, depth: AuditDepth) -> Vec<String> {
        let list = |c: &&Column| c.kind.arrow().is_nested() || c.kind.arrow() == DataType::Binary;
        let lists: Vec<&str> = match depth {
            AuditDepth::Whole => vec![],
            AuditDepth::WithoutLists => self.columns.iter().filter(list).map(|c| c.name.as_str()).collect(),
        };
        let present = self.columns.iter().filter(|c| !c.nullable).map(|c| format!("{} IS NOT NULL", c.name));
        present
            .chain(self.rules.iter().cloned())
            .filter(|promise| !lists.iter().any(|list| promise.contains(list)))
            .collect()
    }

    /// One row of counts: the rows of `table`, and how many of them break each promise, null if there are no rows. Lazy: the
    /// caller runs it and hands all numbers but the first to [`Contract::verdict`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) where the columns are not the contract's.
    pub fn audit(&self, table: DataFrame, depth: AuditDepth) -> Result<DataFrame> {
        self.check_schema(table.schema().as_arrow())?;
        let mut counts = vec![count(lit(1)).alias("rows")];
        for (at, promise) in self.promises(depth).iter().enumerate() {
            counts.push(broken(table.parse_sql_expr(promise)?.is_true())?.alias(format!("promise_{at}")));
        }
        Ok(table.aggregate(vec![], counts)?)
    }

    /// Whether no row breaks a promise. `broken` has the number of rows that break each, from [`Contract::audit`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) with the promise that is broken and by how many rows.
    pub fn verdict(&self, broken: &[u64], depth: AuditDepth) -> Result<()> {
        self.readable()?;
        let promises = self.promises(depth);
        if promises.len() != broken.len() {
            let (counts, table) = (broken.len(), &self.table);
            return Err(Error::bug(format!(
                "the audit of `{table}` has {counts} counts for {} promises",
                promises.len()
            )));
        }
        match promises.iter().zip(broken).find(|(_, broken)| **broken > 0) {
            Some((promise, broken)) => Err(self.broken(&format!("breaks `{promise}` in {broken} rows"))),
            None => Ok(()),
        }
    }
}

/// In how many rows `kept`, which is never null, is false.
fn broken(kept: Expr) -> Result<Expr> {
    Ok(sum(when(kept, lit(0_i64)).otherwise(lit(1_i64))?))
}
