//! The Open Data Contract Standard, version 3.1.0 (<https://bitol-io.github.io/open-data-contract-standard/v3.1.0/>).

use arrow::datatypes::DataType;
use serde_json::{Map, Value, json};

use super::described::{DescribedOutput, strict};
use super::sql_type::sql_type;
use crate::address;
use crate::schema::contract::{Column, Contract, Table};

/// The contract of an output: its tables with their columns, keys and rules.
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
    // A group may be null, which no key of the standard may be.
    let key =
        contract.key.iter().position(|name| *name == column.name && contract.table != Table::GroupPairs);
    if let Some(at) = key {
        property.insert("primaryKey".into(), json!(true));
        property.insert("primaryKeyPosition".into(), json!(at + 1));
    }
    Value::Object(property)
}

/// The type of a column in the words of the standard.
fn logical(kind: &DataType) -> Map<String, Value> {
    use DataType as D;
    let word = match kind {
        D::Boolean => "boolean",
        kind if kind.is_integer() => "integer",
        kind if kind.is_numeric() => "number",
        D::Date32 | D::Date64 => "date",
        D::Timestamp(_, _) => "timestamp",
        D::Time32(_) | D::Time64(_) => "time",
        D::List(_) | D::LargeList(_) | D::FixedSizeList(_, _) | D::ListView(_) | D::LargeListView(_) => {
            "array"
        }
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

/// The type in SQL, by the names that datacontract-cli knows; it takes that of a list or an object from the logical type.
fn physical(kind: &DataType) -> Option<String> {
    match kind {
        kind if kind.is_nested() => None,
        DataType::Timestamp(_, None) => Some("timestamp_ntz".to_owned()),
        DataType::Timestamp(_, Some(_)) => Some("timestamp_tz".to_owned()),
        kind => Some(sql_type(kind)),
    }
}
