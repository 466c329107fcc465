//! Appends fields to a JSON object without changing its bytes.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::lenient::readable;
use crate::source::format::AddedValue;

/// Appends fields of these names and values to the object in `row`. A row that is not an object stays as it is.
///
/// # Errors
/// The name of a field that the object already has.
pub(super) fn append_fields(
    row: &[u8],
    columns: &[(&'static str, AddedValue)],
    to: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let object = serde_json::from_slice::<FieldNames>(row);
    let object = object.or_else(|_| serde_json::from_slice(&readable(row))).ok();
    let end = row.iter().rposition(|byte| *byte == b'}');
    let (Some(FieldNames(names)), Some(end)) = (object, end) else {
        to.extend_from_slice(row);
        return Ok(());
    };
    if let Some((taken, _)) = columns.iter().find(|(column, _)| names.iter().any(|name| name == column)) {
        return Err(taken);
    }
    let (object, close) = row.split_at(end);
    to.extend_from_slice(object);
    for (at, (name, value)) in columns.iter().enumerate() {
        if at > 0 || !names.is_empty() {
            to.push(b',');
        }
        let value = match value {
            AddedValue::Null => "null".to_owned(),
            AddedValue::Literal(literal) => literal.clone(),
            AddedValue::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        };
        to.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
    }
    to.extend_from_slice(close);
    Ok(())
}

/// The names of an object's fields.
struct FieldNames(Vec<String>);

impl<'a> Deserialize<'a> for FieldNames {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'a> Visitor<'a> for Names {
            type Value = FieldNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<FieldNames, M::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(FieldNames(names))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(row: &str, values: [AddedValue; 2]) -> Result<String, &'static str> {
        let [a, b] = values;
        let mut to = Vec::new();
        append_fields(row.as_bytes(), &[("kept_id", a), ("flag", b)], &mut to)?;
        Ok(String::from_utf8(to).unwrap())
    }

    #[test]
    fn objects_stay_objects() {
        let values = || [AddedValue::Text("\"".into()), AddedValue::Literal("false".into())];
        for (row, expected) in [
            ("{}", r#"{"kept_id":"\"","flag":false}"#),
            (" {\"a\": {}} \r", " {\"a\": {},\"kept_id\":\"\\\"\",\"flag\":false} \r"),
            ("[1]", "[1]"),
            ("{\"a\"", "{\"a\""),
        ] {
            assert_eq!(appended(row, values()).unwrap(), expected);
        }
        let nothing = appended("{\"a\":1}", [AddedValue::Null, AddedValue::Null]).unwrap();
        assert_eq!(nothing, r#"{"a":1,"kept_id":null,"flag":null}"#);
        assert_eq!(appended("{\"kept_id\":1}", values()), Err("kept_id"));
    }
}
