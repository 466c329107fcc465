//! SQL queries on the tables in a session. Rows are shown as cells for people, or as JSON for programs. `spreadsheets` formats them as CSV.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::writer::LineDelimited;
use arrow::json::{ReaderBuilder, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, visit_expressions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::library_errors::refused_types;
use crate::error::visible::shortened;
use crate::error::{Error, Result, one_line};

/// Collects the rows of a frame. The columns must have the names of the fields in `T`.
pub(crate) async fn read<T: DeserializeOwned>(frame: DataFrame) -> Result<Vec<T>> {
    let lines = json_lines(&frame.collect().await?)?;
    let rows = lines.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<T>, _>>();
    rows.map_err(|e| Error::bug("a row has other columns than were asked for").because(e))
}

/// Returns a batch with `rows` in these nullable columns. Other fields are skipped.
pub(crate) fn batch<T: Serialize>(rows: &[T], columns: &[(&str, DataType)]) -> Result<RecordBatch> {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(schema)))
}

/// The maximum number of characters in a cell. Signatures and shingle lists are much longer.
const CELL_CHARS: usize = 60;

/// Returns the cells of each row as text. Floating-point numbers have six decimal places, and long values are cut off with `…`. Fails if
/// Arrow cannot format a type.
pub fn cells(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let cell = |(text, kind): (String, &DataType)| match text.parse::<f64>() {
        Ok(number) if kind.is_floating() => format!("{number:.6}"),
        _ => shorten(text),
    };
    let mut rows = Vec::new();
    each_row(batches, |values| {
        rows.push(values.into_iter().map(cell).collect());
        Ok(())
    })?;
    Ok(rows)
}

/// Calls `take` with the values of each row as text, and their types. NULL becomes an empty text.
pub(crate) fn each_row<'a>(
    batches: &'a [RecordBatch],
    mut take: impl FnMut(Vec<(String, &'a DataType)>) -> Result<()>,
) -> Result<()> {
    let options = FormatOptions::default().with_null("");
    for batch in batches {
        let format =
            |column: &'a ArrayRef| Ok((ArrayFormatter::try_new(column, &options)?, column.data_type()));
        let columns = batch.columns().iter().map(format).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            take(columns.iter().map(|(column, kind)| (column.value(row).to_string(), *kind)).collect())?;
        }
    }
    Ok(())
}

pub(crate) fn shorten(text: String) -> String {
    shortened(&text, CELL_CHARS).into_owned()
}

/// Formats batches as one JSON object per line. Values are not shortened. NULL is `null`, so every object contains every column. Fails if a
/// type has no JSON form.
pub fn json_lines(batches: &[RecordBatch]) -> Result<String> {
    let options = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = options.build::<_, LineDelimited>(Vec::new());
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    String::from_utf8(writer.into_inner()).map_err(|e| Error::bug("JSON that is not UTF-8").because(e))
}

/// Plans a query. Only with `allow_writes` may it also write files, read other files and change settings.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the query cannot be planned, or would write, define or set something without `allow_writes`.
pub async fn plan_query(session: &SessionContext, query: &str, allow_writes: bool) -> Result<DataFrame> {
    let plan = session.state().create_logical_plan(query).await.map_err(|error| {
        missing_table(session, query, &error)
            .or_else(|| text_argument(session, query, &error))
            .unwrap_or_else(|| error.into())
    })?;
    let (may, reading) = (allow_writes, SQLOptions::new());
    let reading = reading.with_allow_ddl(may).with_allow_dml(may).with_allow_statements(may);
    reading.verify_plan(&plan).map_err(|e| {
        Error::job("this query does more than read the tables: allow it with --allow-writes").because(e)
    })?;
    Ok(session.execute_logical_plan(plan).await?)
}

/// Runs a query and returns its rows. The columns must have the names of the fields in `T`.
pub(crate) async fn query<T: DeserializeOwned>(session: &SessionContext, sql: &str) -> Result<Vec<T>> {
    read(session.sql(sql).await?).await
}

/// Returns the error for a text that is passed to a function on numbers, such as `avg`. Returns `None` for other errors.
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

/// Collects the rows of a query.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if a value cannot be computed, such as a division by 0.
pub async fn collected(frame: DataFrame) -> Result<Vec<RecordBatch>> {
    frame.collect().await.map_err(|error| match error.find_root() {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            Error::job("a value of the query cannot be computed").because(error)
        }
        _ => error.into(),
    })
}

/// Returns the error for the first missing table in the query, or for a query that names columns without a table. Returns `None` if the
/// query has no such fault.
fn missing_table(session: &SessionContext, query: &str, error: &DataFusionError) -> Option<Error> {
    let state = session.state();
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(query, &dialect).ok()?;
    let names = state.resolve_table_references(&statement).ok()?;
    let missing = names.iter().find(|name| !session.table_exist((*name).clone()).unwrap_or(true));
    let fault = match missing {
        Some(missing) => format!("there is no table `{}`", missing.table()),
        None if names.is_empty() && matches!(error.find_root(), DataFusionError::SchemaError(..)) => {
            "the query names columns, and no table after FROM".to_owned()
        }
        None => return None,
    };
    Some(Error::job(format!("{fault}: the tables are {}", table_names(session).join(", "))))
}

/// Returns the sorted names of the tables in the session.
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
        let plan = |query, writes| plan_query(&session, query, writes);
        for (query, writes) in
            [("WITH few AS (SELECT 1) SELECT * FROM few, pears", false), ("SELECT * FROM pears", true)]
        {
            let said = plan(query, writes).await.unwrap_err();
            assert_eq!(said.to_string(), "there is no table `pears`: the tables are clusters, pairs");
        }
        let said = plan("SELECT m FROM pairs", false).await.unwrap_err();
        assert!(!said.to_string().contains("no table"), "{said}");
        assert!(plan("WITH few AS (SELECT 1) SELECT * FROM few, pairs", false).await.is_ok());
    }
}
