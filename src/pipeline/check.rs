//! What was written, held against its contract: the schema of each file, and the rules of each row.

use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{ParquetReadOptions, cast, lit, when};

use super::steps::Steps;
use crate::error::{Error, Result};
use crate::schema;

/// Reads the files of a public table back and checks schema, row count and the rules of `schemas/<table>.toml`.
///
/// # Errors
/// When a promise of the contract is broken, which is a bug of ours.
pub(super) async fn contract(steps: &Steps<'_>, table: &str) -> Result<()> {
    let Some(public) = schema::Table::named(table) else {
        return Err(Error::bug(format!("{table} is no public table")));
    };
    let contract = schema::contract(public);
    let session = steps.engine().session();
    let mut urls = Vec::new();
    for file in steps.files(table) {
        urls.push(steps.output().url(&file.path)?.to_string());
    }
    // The schema is read off the files here, and not assumed as it is elsewhere.
    let written = session.read_parquet(urls, ParquetReadOptions::default()).await?;
    contract.check_schema(written.schema().as_arrow())?;

    let mut counts = vec![cast(count(lit(1)), datafusion::arrow::datatypes::DataType::UInt64).alias("rows")];
    let frame = steps.table(table)?;
    for (i, rule) in contract.rules.iter().enumerate() {
        let kept = frame.parse_sql_expr(rule)?;
        let broken = when(kept.is_true(), lit(0_u64)).otherwise(lit(1_u64))?;
        counts.push(sum(broken).alias(format!("rule_{i}")));
    }
    for batch in frame.aggregate(vec![], counts)?.collect().await? {
        for (column, values) in batch.columns().iter().enumerate() {
            let value = datafusion::common::cast::as_uint64_array(values)?.iter().flatten().sum::<u64>();
            match column.checked_sub(1).map(|i| &contract.rules[i]) {
                None if value != steps.rows(table) => {
                    return Err(Error::bug(format!(
                        "{table} was written with {} rows and reads back with {value}",
                        steps.rows(table)
                    )));
                }
                Some(rule) if value > 0 => {
                    return Err(Error::bug(format!("{value} rows of {table} break the rule `{rule}`")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
