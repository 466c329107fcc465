//! The key-value metadata of a file that gets more columns. Some of it describes all columns, and readers prefer that
//! to the schema of the file, so it is extended or removed.

use arrow::datatypes::DataType;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::file::metadata::KeyValue;
use serde_json::{Value, json};

use super::super::annotations::{AnnotationColumn, Cursor, annotated};
use crate::source::decoded_arrow_schema;

/// The key of Spark's schema.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The metadata of a file with the annotation columns.
pub(super) fn extended(pairs: Vec<KeyValue>, added: &Cursor) -> Vec<KeyValue> {
    let extend = |pair: KeyValue| {
        let value = pair.value.as_deref().unwrap_or_default();
        let value = match pair.key.as_str() {
            ARROW_SCHEMA_META_KEY => arrow_schema(value, added)?,
            SPARK_SCHEMA => spark_schema(value, &added.columns)?,
            _ => return Some(pair),
        };
        Some(KeyValue { value: Some(value), ..pair })
    };
    pairs.into_iter().filter_map(extend).collect()
}

/// `None` if the schema has types that this program's Arrow does not have; readers then take the types of Parquet.
fn arrow_schema(encoded: &str, added: &Cursor) -> Option<String> {
    let own = decoded_arrow_schema(encoded)?;
    Some(encode_arrow_schema(&annotated(&own, &added.annotations, added.id)))
}

fn spark_schema(text: &str, added: &[AnnotationColumn]) -> Option<String> {
    let mut schema: Value = serde_json::from_str(text).ok()?;
    let columns = schema.get_mut("fields")?.as_array_mut()?;
    columns.extend(added.iter().map(|AnnotationColumn { name, data_type }| {
        let of = match data_type {
            DataType::Boolean => "boolean",
            DataType::Int64 => "long",
            _ => "string",
        };
        json!({"name": name, "type": of, "nullable": true, "metadata": {}})
    }));
    Some(schema.to_string())
}
