//! Writes the contracts of an output as YAML, as dbt sources or in the Open Data Contract Standard.

use std::fmt::Write;

use arrow::datatypes::DataType;
use serde_json::{Map, Value, json};

use super::contract::{Column, Contract, Table};
use crate::address;

#[derive(Debug, Clone)]
pub(crate) struct DescribedOutput<'a> {
    pub(crate) name: &'a str,
    /// The folder that contains the tables, as an absolute path or URL without a trailing `/`.
    pub(crate) url: &'a str,
    pub(crate) tables: Vec<Contract>,
}

impl DescribedOutput<'_> {
    /// Returns a pattern for the files of the table in the folder `name`.
    pub(super) fn files(&self, name: &str) -> String {
        format!("{}/{name}/*.parquet", self.url)
    }
}

/// Returns a rule that is false if `rule` is null.
pub(super) fn strict(rule: &str) -> String {
    format!("coalesce(({rule}), false)")
}

/// Returns the tables of an output as a dbt source. dbt-duckdb reads `external_location`. Tests on whole tables come from the package
/// dbt_utils.
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

/// Returns the tables of an output in the Open Data Contract Standard, version 3.1.0
/// (<https://bitol-io.github.io/open-data-contract-standard/v3.1.0/>), with their columns, keys and rules.
pub(crate) fn odcs(output: &DescribedOutput<'_>) -> Value {
    let path = output.files("{model}");
    let server = match address::scheme(output.url) {
        None => json!({ "server": "output", "type": "local", "path": path, "format": "parquet" }),
        Some((scheme, _)) => {
            let kind = match scheme.to_ascii_lowercase().as_str() {
                "s3" | "s3a" => "s3",
                "az" | "adl" | "azure" | "abfs" | "abfss" => "azure",
                _ => "custom",
            };
            json!({ "server": "output", "type": kind, "location": path, "format": "parquet" })
        }
    };
    json!({
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": format!("resemblance-{}", output.name),
        "name": output.name,
        "version": env!("CARGO_PKG_VERSION"),
        "status": "active",
        "description": { "purpose": "Pairs of similar documents, and what follows from them." },
        "servers": [server],
        "schema": output.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn table(contract: &Contract) -> Value {
    let rule = |rule: &String| {
        json!({
            "type": "sql",
            "description": rule,
            "query": format!("SELECT count(*) FROM {} WHERE NOT {}", contract.table, strict(rule)),
            "mustBe": 0,
        })
    };
    json!({
        "name": contract.table.name(),
        "physicalType": "table",
        "description": contract.grain,
        "properties": contract.columns.iter().map(|column| property(contract, column)).collect::<Vec<_>>(),
        "quality": contract.rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn property(contract: &Contract, column: &Column) -> Value {
    let kind = column.kind.arrow();
    let mut property = logical(&kind);
    property.insert("name".into(), json!(column.name));
    property.insert("description".into(), json!(column.doc));
    property.insert("required".into(), json!(!column.nullable));
    // A group can be null, but the standard does not allow null in a key.
    let key =
        contract.key.iter().position(|name| *name == column.name && contract.table != Table::GroupPairs);
    if let Some(at) = key {
        property.insert("primaryKey".into(), json!(true));
        property.insert("primaryKeyPosition".into(), json!(at + 1));
    }
    Value::Object(property)
}

/// Returns the logical type of a column as the Open Data Contract Standard names it.
fn logical(kind: &DataType) -> Map<String, Value> {
    use DataType as D;
    let word = match kind {
        D::Boolean => "boolean",
        kind if kind.is_integer() => "integer",
        kind if kind.is_numeric() => "number",
        D::Date32 | D::Date64 => "date",
        D::Timestamp(_, _) => "timestamp",
        D::Time32(_) | D::Time64(_) => "time",
        kind if kind.is_list() => "array",
        D::Struct(_) | D::Map(_, _) => "object",
        _ => "string",
    };
    let mut property = Map::from_iter([("logicalType".to_owned(), json!(word))]);
    if let Some(physical) = physical(kind) {
        property.insert("physicalType".into(), json!(physical));
    }
    if let D::List(item) | D::LargeList(item) | D::FixedSizeList(item, _) = kind {
        property.insert("items".into(), Value::Object(logical(item.data_type())));
    }
    property
}

/// Returns the name of the SQL type in datacontract-cli. Returns `None` for lists and objects, because datacontract-cli derives their types
/// from the logical type.
fn physical(kind: &DataType) -> Option<String> {
    match kind {
        kind if kind.is_nested() => None,
        DataType::Timestamp(_, None) => Some("timestamp_ntz".to_owned()),
        DataType::Timestamp(_, Some(_)) => Some("timestamp_tz".to_owned()),
        kind => Some(sql_type(kind)),
    }
}

/// Returns the name of a type in SQL, as used by DuckDB and its dbt adapter.
pub(super) fn sql_type(kind: &DataType) -> String {
    use DataType as D;
    let name = match kind {
        D::Utf8 | D::LargeUtf8 | D::Utf8View => "varchar",
        D::Boolean => "boolean",
        // A signed type holds every value of the next smaller unsigned type.
        D::Int8 => "tinyint",
        D::Int16 | D::UInt8 => "smallint",
        D::Int32 | D::UInt16 => "integer",
        D::Int64 | D::UInt32 => "bigint",
        D::UInt64 => "decimal(20,0)",
        D::Float16 | D::Float32 => "float",
        D::Float64 => "double",
        D::Date32 | D::Date64 => "date",
        D::Time32(_) | D::Time64(_) => "time",
        D::Timestamp(_, None) => "timestamp",
        D::Timestamp(_, Some(_)) => "timestamptz",
        D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => "blob",
        D::Decimal32(digits, scale)
        | D::Decimal64(digits, scale)
        | D::Decimal128(digits, scale)
        | D::Decimal256(digits, scale) => return format!("decimal({digits},{scale})"),
        D::List(item) | D::LargeList(item) => return format!("{}[]", sql_type(item.data_type())),
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}

/// Formats a value as a YAML document in block style. Strings are quoted as in JSON, which is valid YAML.
pub(crate) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes a value with an indentation of `depth` times two spaces. The caller has already indented the first line.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = |text: &mut String, first: bool| {
        if !first {
            text.extend(std::iter::repeat_n("  ", depth));
        }
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (at, (key, value)) in fields.iter().enumerate() {
                indent(text, at == 0);
                text.push_str(key);
                text.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => nested(value, depth + 1, text),
                    Value::Array(inner) if !inner.is_empty() => nested(value, depth + 1, text),
                    scalar => line(scalar, text),
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                indent(text, at == 0);
                text.push('-');
                match item {
                    Value::Object(inner) if !inner.is_empty() => {
                        text.push(' ');
                        block(item, depth + 1, text);
                    }
                    other => line(other, text),
                }
            }
        }
        scalar => line(scalar, text),
    }
}

fn nested(value: &Value, depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
    block(value, depth, text);
}

fn line(value: &Value, text: &mut String) {
    // Writing to a string does not fail.
    let _ = writeln!(text, " {value}");
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_holds_all_values_of_the_column() {
        for (kind, name) in [
            (DataType::Utf8View, "varchar"),
            (DataType::UInt32, "bigint"),
            (DataType::UInt64, "decimal(20,0)"),
            (DataType::Decimal128(10, 2), "decimal(10,2)"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "timestamp"),
            (DataType::new_list(DataType::Int64, true), "bigint[]"),
        ] {
            assert_eq!(sql_type(&kind), name, "{kind}");
        }
    }

    #[test]
    fn objects_and_lists_are_blocks() {
        let value = json!({
            "a": "1: \"x\"\n# y", "b": [], "c": [1, { "d": true, "e": { "f": [null, [2, 3]] } }], "g": {},
        });
        let expected = "a: \"1: \\\"x\\\"\\n# y\"\nb: []\nc:\n  - 1\n  - d: true\n    e:\n      f:\n        - null\n        - [2,3]\ng: {}\n";
        assert_eq!(yaml(&value), expected);
    }
}
