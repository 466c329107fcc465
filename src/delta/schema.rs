//! Arrow schemas -> the schemas of Delta tables.

use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};

/// The schema of a table in the form of `metaData`. The names of columns are not checked: those of a run's tables never differ
/// by case alone, which the protocol forbids.
///
/// # Errors
/// The name of a column that a Delta table cannot have, and how to solve that.
pub(crate) fn schema_string(schema: &Schema) -> Result<String, String> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        let Some(kind) = type_name(field.data_type()) else {
            let advice = match field.data_type() {
                DataType::Timestamp(..) => "microseconds in the source",
                _ => "another type in the source",
            };
            return Err(format!(
                "there is no type for the column `{name}` ({}) there: write it as {advice}",
                field.data_type()
            ));
        };
        fields.push(json!({"name": name, "type": kind, "nullable": field.is_nullable(), "metadata": {}}));
    }
    Ok(json!({"type": "struct", "fields": fields}).to_string())
}

/// The name of a type in a schema; `None` for types that Delta does not have.
fn type_name(data_type: &DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("binary"),
        DataType::Dictionary(_, value) => type_name(value)?,
        DataType::Boolean => json!("boolean"),
        DataType::Int8 => json!("byte"),
        DataType::Int16 => json!("short"),
        DataType::Int32 => json!("integer"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Date32 => json!("date"),
        DataType::Decimal128(precision, scale) if (0..=*precision as i16).contains(&i16::from(*scale)) => {
            json!(format!("decimal({precision},{scale})"))
        }
        // Nanoseconds would lose digits, and some programs refuse to read them.
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, zone) => match zone {
            Some(_) => json!("timestamp"),
            None => json!("timestamp_ntz"),
        },
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| {
                let kind = type_name(field.data_type())?;
                let nullable = field.is_nullable();
                Some(json!({"name": field.name(), "type": kind, "nullable": nullable, "metadata": {}}))
            };
            json!({"type": "struct", "fields": fields.iter().map(field).collect::<Option<Vec<_>>>()?})
        }
        DataType::List(item) | DataType::LargeList(item) => json!({
            "type": "array",
            "elementType": type_name(item.data_type())?,
            "containsNull": item.is_nullable(),
        }),
        _ => return None,
    })
}

/// Why a table with these columns cannot be a Delta table; `None` if it can.
pub(crate) fn unfit(schema: &Schema) -> Option<String> {
    let mut names: Vec<String> = schema.fields().iter().map(|field| field.name().to_lowercase()).collect();
    names.sort();
    if let Some([name, _]) = names.array_windows::<2>().find(|[a, b]| a == b) {
        return Some(format!(
            "it would have the column `{name}` twice, in letters of other cases: rename one"
        ));
    }
    schema_string(schema).err()
}

/// Whether two Arrow types are one type of Delta.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    type_name(a) == type_name(b)
}

/// Whether a type has timestamps without a time zone, at any depth.
pub(super) fn has_ntz(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_none(),
        DataType::Dictionary(_, value) => has_ntz(value),
        DataType::Struct(fields) => fields.iter().any(|field| has_ntz(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) => has_ntz(item.data_type()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn of(fields: &[(&str, DataType)]) -> Schema {
        Schema::new(
            fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn every_type_that_a_table_has_is_one_of_delta() {
        let zone = Some(Arc::from("Europe/Berlin"));
        for (data_type, expected) in [
            (DataType::Utf8, json!("string")),
            (DataType::Boolean, json!("boolean")),
            (DataType::Int8, json!("byte")),
            (DataType::Int16, json!("short")),
            (DataType::Int32, json!("integer")),
            (DataType::Int64, json!("long")),
            (DataType::Float32, json!("float")),
            (DataType::Float64, json!("double")),
            (DataType::Date32, json!("date")),
            (DataType::Decimal128(20, 0), json!("decimal(20,0)")),
            (DataType::Timestamp(TimeUnit::Millisecond, zone.clone()), json!("timestamp")),
            (DataType::Timestamp(TimeUnit::Microsecond, None), json!("timestamp_ntz")),
            (
                DataType::new_list(DataType::Int64, true),
                json!({"type": "array", "elementType": "long", "containsNull": true}),
            ),
        ] {
            let text = schema_string(&of(&[("a b", data_type)])).unwrap();
            let schema: Value = serde_json::from_str(&text).unwrap();
            let field = json!({"name": "a b", "type": expected, "nullable": true, "metadata": {}});
            assert_eq!(schema, json!({"type": "struct", "fields": [field]}));
        }
    }

    #[test]
    fn types_that_delta_does_not_have_are_named() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let error = schema_string(&of(&[("at", nanoseconds)])).unwrap_err();
        assert!(error.contains("`at`") && error.contains("microseconds"), "{error}");
        let error = schema_string(&of(&[("rate", DataType::Decimal128(3, -2))])).unwrap_err();
        assert!(error.contains("`rate`"), "{error}");
    }
}
