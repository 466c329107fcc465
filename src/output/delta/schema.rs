//! The schema of a table, in the words of Delta.

use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};

use super::action::Protocol;

/// The feature that a table with timestamps without a time zone needs.
const TIMESTAMP_NTZ: &str = "timestampNtz";

/// Features that a table of ours may have: what they ask of a program that writes whole tables is done.
const KNOWN_FEATURES: [&str; 3] = [TIMESTAMP_NTZ, "appendOnly", "invariants"];

/// A table's schema as `metaData` has it. That no two columns differ by case alone, as the protocol asks, every job is held
/// to.
///
/// # Errors
/// Which column cannot be in a Delta table, why, and what can be done.
pub(super) fn schema_string(schema: &Schema) -> Result<String, String> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        let Some(kind) = kind_of(field.data_type()) else {
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

pub(super) fn kind_of(data_type: &DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("binary"),
        // How values are held says nothing about what they are.
        DataType::Dictionary(_, value) => kind_of(value)?,
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
        // Those of nanoseconds would lose digits, and some programs refuse to read them.
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, zone) => match zone {
            Some(_) => json!("timestamp"),
            None => json!("timestamp_ntz"),
        },
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| {
                let kind = kind_of(field.data_type())?;
                let nullable = field.is_nullable();
                Some(json!({"name": field.name(), "type": kind, "nullable": nullable, "metadata": {}}))
            };
            json!({"type": "struct", "fields": fields.iter().map(field).collect::<Option<Vec<_>>>()?})
        }
        DataType::List(item) | DataType::LargeList(item) => json!({
            "type": "array",
            "elementType": kind_of(item.data_type())?,
            "containsNull": item.is_nullable(),
        }),
        _ => return None,
    })
}

/// Whether a type has timestamps without a time zone, at any depth.
fn has_ntz(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_none(),
        DataType::Dictionary(_, value) => has_ntz(value),
        DataType::Struct(fields) => fields.iter().any(|field| has_ntz(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) => has_ntz(item.data_type()),
        _ => false,
    }
}

impl Protocol {
    /// The lowest one that a table of this schema can have, or `before` where that asks for as much.
    pub(super) fn of(schema: &Schema, before: Option<&Protocol>) -> Protocol {
        let needs_ntz = schema.fields().iter().any(|field| has_ntz(field.data_type()));
        let mut protocol = before.cloned().unwrap_or(Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
        });
        let has =
            |features: &Option<Vec<String>>| features.iter().flatten().any(|name| name == TIMESTAMP_NTZ);
        if needs_ntz && !(has(&protocol.reader_features) && has(&protocol.writer_features)) {
            // Versions of features list all that the versions before them had of themselves.
            let writer = match protocol.min_writer_version {
                0 | 1 => vec![],
                _ => vec!["appendOnly".to_owned(), "invariants".to_owned()],
            };
            let with_ntz = |features: Option<Vec<String>>, else_these: Vec<String>| {
                let mut features = features.unwrap_or(else_these);
                if !features.iter().any(|name| name == TIMESTAMP_NTZ) {
                    features.push(TIMESTAMP_NTZ.to_owned());
                }
                Some(features)
            };
            (protocol.min_reader_version, protocol.min_writer_version) = (3, 7);
            protocol.reader_features = with_ntz(protocol.reader_features, vec![]);
            protocol.writer_features = with_ntz(protocol.writer_features, writer);
        }
        protocol
    }

    /// What this program does not know of a table of this protocol; none if it may write to it.
    pub(super) fn unknown(&self) -> Option<String> {
        let features = self.reader_features.iter().chain(&self.writer_features).flatten();
        if let Some(feature) = features.into_iter().find(|name| !KNOWN_FEATURES.contains(&name.as_str())) {
            return Some(format!("the feature `{feature}`"));
        }
        let (reader, writer) = (self.min_reader_version, self.min_writer_version);
        let known = matches!(reader, 0 | 1 | 3) && matches!(writer, 0..=2 | 7);
        (!known).then(|| format!("reader version {reader} and writer version {writer}"))
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
    fn what_delta_cannot_hold_is_told() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let said = schema_string(&of(&[("at", nanoseconds)])).unwrap_err();
        assert!(said.contains("`at`") && said.contains("microseconds"), "{said}");
        let said = schema_string(&of(&[("rate", DataType::Decimal128(3, -2))])).unwrap_err();
        assert!(said.contains("`rate`"), "{said}");
    }

    #[test]
    fn only_timestamps_without_a_zone_need_features_and_a_protocol_never_goes_back() {
        let plain = of(&[("a", DataType::Utf8)]);
        let local = of(&[("a", DataType::Timestamp(TimeUnit::Microsecond, None))]);
        let first = Protocol::of(&plain, None);
        assert_eq!(
            (first.min_reader_version, first.min_writer_version, &first.reader_features),
            (1, 2, &None)
        );
        let raised = Protocol::of(&local, Some(&first));
        assert_eq!((raised.min_reader_version, raised.min_writer_version), (3, 7));
        assert_eq!(raised.reader_features, Some(vec!["timestampNtz".to_owned()]));
        let features = ["appendOnly", "invariants", "timestampNtz"].map(str::to_owned).to_vec();
        assert_eq!(raised.writer_features, Some(features));
        let inside = |at: DataType| {
            DataType::new_list(DataType::Struct(vec![Field::new("at", at, true)].into()), true)
        };
        let zone = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
        assert_eq!(Protocol::of(&of(&[("a", inside(zone(None)))]), None), raised);
        assert_eq!(Protocol::of(&of(&[("a", inside(zone(Some("UTC".into()))))]), None), first);
        assert_eq!(Protocol::of(&plain, Some(&raised)), raised);
        assert_eq!(Protocol::of(&local, Some(&raised)), raised);
        for known in [first, raised.clone()] {
            assert_eq!(known.unknown(), None);
        }
        let vectors = Protocol { reader_features: Some(vec!["deletionVectors".into()]), ..raised.clone() };
        assert_eq!(vectors.unknown().as_deref(), Some("the feature `deletionVectors`"));
        let mapped = Protocol { min_reader_version: 2, min_writer_version: 5, ..raised };
        assert!(mapped.unknown().is_some_and(|said| said.contains("writer version 5")));
    }
}
