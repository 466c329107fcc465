//! Queries in SQL on the tables of a session.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, visit_expressions};
use serde::de::DeserializeOwned;

use super::rows;
use crate::error::library_errors::refused_types;
use crate::error::{Error, Result, one_line};

/// The result of a query that only reads the tables.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when the query cannot be planned, or would write, define or set something.
pub async fn read_only(session: &SessionContext, query: &str) -> Result<DataFrame> {
    let plan = planned(session, query).await?;
    let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reading.verify_plan(&plan).map_err(|e| {
        Error::job("this query does more than read the tables: allow it with --allow-writes").because(e)
    })?;
    Ok(session.execute_logical_plan(plan).await?)
}

/// The rows of a query on the tables of the session, whose columns have the names of the fields of `T`.
///
/// # Errors
/// When the tables cannot be read.
pub(crate) async fn query<T: DeserializeOwned>(session: &SessionContext, sql: &str) -> Result<Vec<T>> {
    rows::read(session.sql(sql).await?).await
}

/// The result of a query, which may also write files, read others, and change settings.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) when the query cannot be planned.
pub async fn with_writes(session: &SessionContext, query: &str) -> Result<DataFrame> {
    let plan = planned(session, query).await?;
    Ok(session.execute_logical_plan(plan).await?)
}

async fn planned(session: &SessionContext, query: &str) -> Result<LogicalPlan> {
    match session.state().create_logical_plan(query).await {
        Ok(plan) => Ok(plan),
        Err(error) => Err(missing_table(session, query)
            .or_else(|| text_argument(session, query, &error))
            .unwrap_or_else(|| error.into())),
    }
}

/// The error for a call of a function that takes numbers, such as `avg`, with a text.
fn text_argument(session: &SessionContext, query: &str, error: &DataFusionError) -> Option<Error> {
    let said = one_line(error);
    let (name, types) = refused_types(&said)?;
    let at = types.iter().position(|kind| ["text", "Utf8", "LargeUtf8"].contains(kind))?;
    let state = session.state();
    let dialect = state.config().options().sql_parser.dialect;
    let Statement::Statement(statement) = state.sql_to_statement(query, &dialect).ok()? else { return None };
    let found = visit_expressions(&*statement, |part| {
        if let Expr::Function(call) = part
            && call.name.to_string().eq_ignore_ascii_case(name)
            && let FunctionArguments::List(list) = &call.args
            && let Some(argument) = list.args.get(at)
        {
            return ControlFlow::Break(argument.to_string());
        }
        ControlFlow::Continue(())
    });
    let argument = found.break_value()?;
    Some(Error::job(format!(
        "{name}() does not take {argument}, which is text: convert it, as in {name}(CAST({argument} AS DOUBLE))"
    )))
}

/// The rows of a query.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where a value cannot be computed, such as a division by 0.
pub async fn collected(frame: DataFrame) -> Result<Vec<RecordBatch>> {
    frame.collect().await.map_err(|error| match error.find_root() {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            Error::job("a value of the query cannot be computed").because(error)
        }
        _ => error.into(),
    })
}

/// The error for the first table of the query that does not exist; `None` if all of them do.
fn missing_table(session: &SessionContext, query: &str) -> Option<Error> {
    let state = session.state();
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(query, &dialect).ok()?;
    let names = state.resolve_table_references(&statement).ok()?;
    let missing = names.into_iter().find(|name| !session.table_exist(name.clone()).unwrap_or(true))?;
    Some(Error::job(format!(
        "there is no table `{}`: the tables are {}",
        missing.table(),
        table_names(session).join(", ")
    )))
}

/// The names of the tables of the session, sorted.
pub fn table_names(session: &SessionContext) -> Vec<String> {
    let state = session.state();
    let defaults = &state.config().options().catalog;
    let schema = session
        .catalog(&defaults.default_catalog)
        .and_then(|catalog| catalog.schema(&defaults.default_schema));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_table_that_does_not_exist_is_named_with_those_that_do() {
        let session = SessionContext::new();
        for table in ["pairs", "clusters"] {
            let rows = session.sql("SELECT 1 AS n").await.unwrap();
            session.register_table(table, rows.into_view()).unwrap();
        }
        let said = read_only(&session, "WITH few AS (SELECT 1) SELECT * FROM few, pears").await.unwrap_err();
        assert_eq!(said.to_string(), "there is no table `pears`: the tables are clusters, pairs");
        let said = with_writes(&session, "SELECT * FROM pears").await.unwrap_err();
        assert_eq!(said.to_string(), "there is no table `pears`: the tables are clusters, pairs");
        let said = read_only(&session, "SELECT m FROM pairs").await.unwrap_err();
        assert!(!said.to_string().contains("no table"), "{said}");
        assert!(read_only(&session, "WITH few AS (SELECT 1) SELECT * FROM few, pairs").await.is_ok());
    }
}
