//! The key-value metadata of a file that gets more columns. Some of it describes all columns, and readers prefer that
//! to the schema of the file, so it is extended or removed.

use arrow::datatypes::{FieldRef, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::file::metadata::KeyValue;
use serde_json::{Value, json};

use super::super::annotations::{NAMES, fields};
use crate::schema::IdType;
use crate::source::decoded_arrow_schema;

/// The key of Spark's schema.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The metadata of a file with the annotation columns.
pub(super) fn extended(pairs: Vec<KeyValue>, id: IdType) -> Vec<KeyValue> {
    let extend = |pair: KeyValue| {
        let value = pair.value.as_deref().unwrap_or_default();
        let value = match pair.key.as_str() {
            ARROW_SCHEMA_META_KEY => arrow_schema(value, fields(id))?,
            SPARK_SCHEMA => spark_schema(value, id)?,
            _ => return Some(pair),
        };
        Some(KeyValue { value: Some(value), ..pair })
    };
    pairs.into_iter().filter_map(extend).collect()
}

/// `None` if the schema has types that this program's Arrow does not have; readers then take the types of Parquet.
fn arrow_schema(encoded: &str, added: Vec<FieldRef>) -> Option<String> {
    let own = decoded_arrow_schema(encoded)?;
    let all: Vec<FieldRef> = own.fields().iter().cloned().chain(added).collect();
    Some(encode_arrow_schema(&Schema::new_with_metadata(all, own.metadata().clone())))
}

fn spark_schema(text: &str, id: IdType) -> Option<String> {
    let mut schema: Value = serde_json::from_str(text).ok()?;
    let columns = schema.get_mut("fields")?.as_array_mut()?;
    let id = match id {
        IdType::Utf8 => "string",
        IdType::Int64 => "long",
    };
    let types = [id, "boolean", id];
    columns.extend(
        NAMES
            .into_iter()
            .zip(types)
            .map(|(name, of)| json!({"name": name, "type": of, "nullable": true, "metadata": {}})),
    );
    Some(schema.to_string())
}
