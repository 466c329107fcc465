//! Sources of dbt, with the tests of their columns and tables.

use serde_json::{Value, json};

use super::described::{DescribedOutput, strict};
use super::sql_type::sql_type;
use crate::schema::contract::{Column, Contract};

/// The tables of an output as a source of dbt. `external_location` is what dbt-duckdb reads. Tests on whole tables are those of the
/// package dbt_utils.
pub(crate) fn dbt(output: &DescribedOutput<'_>) -> Value {
    let table = |contract: &Contract| {
        let rule = |rule: &String| json!({ "dbt_utils.expression_is_true": { "expression": strict(rule) } });
        let mut tests: Vec<Value> = contract.rules.iter().map(rule).collect();
        let key = json!({ "combination_of_columns": contract.key });
        tests.push(json!({ "dbt_utils.unique_combination_of_columns": key }));
        json!({
            "name": contract.table.name(),
            "description": contract.grain,
            "meta": { "external_location": output.files(contract.table.name()) },
            "columns": contract.columns.iter().map(column).collect::<Vec<_>>(),
            "data_tests": tests,
        })
    };
    let tables: Vec<Value> = output.tables.iter().map(table).collect();
    json!({ "version": 2, "sources": [{ "name": output.name, "tables": tables }] })
}

fn column(column: &Column) -> Value {
    let mut described = json!({
        "name": column.name,
        "description": column.doc,
        "data_type": sql_type(&column.kind.arrow()),
    });
    if !column.nullable {
        described["data_tests"] = json!(["not_null"]);
    }
    described
}
