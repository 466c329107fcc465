//! Rows of the tables as plain data.

use datafusion::prelude::SessionContext;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::lookup::rows;

/// The rows of a query on the tables of the session, whose columns have the names of the fields of `T`.
///
/// # Errors
/// When the tables cannot be read.
pub(super) async fn query<T: DeserializeOwned>(session: &SessionContext, sql: &str) -> Result<Vec<T>> {
    let batches = session.sql(sql).await?.collect().await?;
    let lines = rows::json_lines(&batches)?;
    let rows = lines.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<T>, _>>();
    rows.map_err(|e| Error::bug("a row of a report has other columns").because(e))
}
