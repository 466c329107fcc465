//! The protocol of Delta tables: supported versions and features, and the schema of a table.

use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};

use super::action::{MetaData, Protocol};

const DELETION_VECTORS: &str = "deletionVectors";
const COLUMN_MAPPING: &str = "columnMapping";
const TIMESTAMP_NTZ: &str = "timestampNtz";

/// Supported features of readers. A table may list the first two without using them. The files and properties of the table show whether it
/// uses them.
const READ: [&str; 4] = [DELETION_VECTORS, COLUMN_MAPPING, TIMESTAMP_NTZ, "vacuumProtocolCheck"];

/// Supported features of writers.
const WRITTEN: [&str; 3] = [TIMESTAMP_NTZ, "appendOnly", "invariants"];

/// The maximum supported version of readers.
const READER_VERSION: u32 = 3;

/// The advice for most unsupported features.
const COPY: &str =
    "copy it into a table without that feature, or into Parquet files, by a program that can read it";

/// Returns the reason why a table cannot be read, with advice.
pub(super) fn unreadable(protocol: &Protocol, meta_data: &MetaData) -> Option<String> {
    let version = protocol.min_reader_version;
    if version > READER_VERSION {
        return Some(format!(
            "it asks for a reader of version {version}, and this program knows versions up to {READER_VERSION}: {COPY}"
        ));
    }
    let features = protocol.reader_features.iter().flatten();
    if let Some(feature) = features.into_iter().find(|name| !READ.contains(&name.as_str())) {
        return Some(format!("it has the feature `{feature}`, which this program does not know: {COPY}"));
    }
    let mode = meta_data.property("delta.columnMapping.mode").filter(|mode| *mode != "none")?;
    Some(format!(
        "it has the feature `{COLUMN_MAPPING}` (delta.columnMapping.mode = {mode}), so its files have other column names: {COPY}"
    ))
}

/// Returns the reason why a table with deleted rows in the file `path` cannot be read.
pub(super) fn deleted_rows(path: &str) -> String {
    format!(
        "it has the feature `{DELETION_VECTORS}`, and some rows of {path} are deleted by it: write its files again \
         without those rows, as REORG TABLE ... APPLY (PURGE) does in Spark"
    )
}

impl Protocol {
    /// Returns the minimum protocol for a table with this schema. The protocol is not lower than `before`.
    pub(crate) fn lowest(schema: &Schema, before: Option<&Protocol>) -> Protocol {
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
            // Version 7 lists the features that earlier versions imply.
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

    /// Returns the first part of the protocol that prevents this program from writing to the table.
    pub(crate) fn unknown_to_writers(&self) -> Option<String> {
        let features = self.reader_features.iter().chain(&self.writer_features).flatten();
        if let Some(feature) = features.into_iter().find(|name| !WRITTEN.contains(&name.as_str())) {
            return Some(format!("the feature `{feature}`"));
        }
        let (reader, writer) = (self.min_reader_version, self.min_writer_version);
        let known = matches!(reader, 0 | 1 | 3) && matches!(writer, 0..=2 | 7);
        (!known).then(|| format!("reader version {reader} and writer version {writer}"))
    }
}

/// Returns the schema of a table for `metaData`. Column names must not differ only by case, and in the tables of a run they never do.
pub(crate) fn schema_string(schema: &Schema) -> Result<String, String> {
    let delta_field_or_advice = |field: &FieldRef| {
        delta_field(field).ok_or_else(|| {
            let (name, data_type) = (field.name(), field.data_type());
            let advice = match data_type {
                DataType::Timestamp(..) => "microseconds",
                _ => "another type",
            };
            format!(
                "Delta has no type for the column `{name}` ({data_type}): write it as {advice} in the source"
            )
        })
    };
    let fields = schema.fields().iter().map(delta_field_or_advice).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"type": "struct", "fields": fields}).to_string())
}

fn delta_field(field: &FieldRef) -> Option<Value> {
    let (kind, nullable) = (type_name(field.data_type())?, field.is_nullable());
    Some(json!({"name": field.name(), "type": kind, "nullable": nullable, "metadata": {}}))
}

/// Returns the Delta type of an Arrow type, or `None` if Delta has no such type.
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
        // Delta does not support nanoseconds.
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, zone) => match zone {
            Some(_) => json!("timestamp"),
            None => json!("timestamp_ntz"),
        },
        DataType::Struct(fields) => {
            json!({"type": "struct", "fields": fields.iter().map(delta_field).collect::<Option<Vec<_>>>()?})
        }
        DataType::List(item) | DataType::LargeList(item) => json!({
            "type": "array",
            "elementType": type_name(item.data_type())?,
            "containsNull": item.is_nullable(),
        }),
        _ => return None,
    })
}

/// Returns the reason why a table with these columns cannot be a Delta table.
pub(crate) fn unfit(schema: &Schema) -> Option<String> {
    let mut names: Vec<String> = schema.fields().iter().map(|field| field.name().to_lowercase()).collect();
    names.sort();
    if let Some([name, _]) = names.array_windows::<2>().find(|[a, b]| a == b) {
        return Some(format!(
            "it would have two columns `{name}` that differ only in upper and lower case: rename one"
        ));
    }
    schema_string(schema).err()
}

/// Whether two Arrow types have the same Delta type.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    type_name(a) == type_name(b)
}

/// Whether a type contains timestamps without a time zone.
fn has_ntz(data_type: &DataType) -> bool {
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

    fn reason(version: u32, features: &[&str], mode: Option<&str>) -> Option<String> {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let mode = mode.map(|mode| ("delta.columnMapping.mode".to_owned(), Some(mode.to_owned())));
        unreadable(
            &Protocol { min_reader_version: version, reader_features: Some(features), ..Protocol::default() },
            &MetaData { configuration: mode.into_iter().collect(), ..MetaData::default() },
        )
    }

    #[test]
    fn unknown_features_are_named_where_they_are_in_use() {
        for (version, features, mode, named) in [
            (4, &[][..], None, "version 4"),
            (3, &["typeWidening"], None, "`typeWidening`"),
            (3, &["timestampNtz", "v2Checkpoint"], None, "`v2Checkpoint`"),
            (2, &[], Some("name"), "`columnMapping`"),
            (3, &["columnMapping"], Some("id"), "`columnMapping`"),
        ] {
            let found = reason(version, features, mode).unwrap();
            assert!(found.contains(named) && found.contains("copy"), "{found}");
        }
        assert_eq!(reason(1, &[], None), None);
        assert_eq!(reason(2, &[], Some("none")), None);
        assert_eq!(reason(3, &["columnMapping", "deletionVectors", "timestampNtz"], None), None);
    }

    #[test]
    fn only_timestamps_without_a_zone_need_features_and_a_protocol_is_never_lowered() {
        let plain = table(&[("a", DataType::Utf8)]);
        let local = table(&[("a", DataType::Timestamp(TimeUnit::Microsecond, None))]);
        let first = Protocol::lowest(&plain, None);
        assert_eq!((first.min_reader_version, first.min_writer_version), (1, 2));
        assert_eq!(first.reader_features, None);
        let raised = Protocol::lowest(&local, Some(&first));
        assert_eq!((raised.min_reader_version, raised.min_writer_version), (3, 7));
        assert_eq!(raised.reader_features, Some(vec!["timestampNtz".to_owned()]));
        let features = ["appendOnly", "invariants", "timestampNtz"].map(str::to_owned).to_vec();
        assert_eq!(raised.writer_features, Some(features));
        let inside = |at: DataType| {
            DataType::new_list(DataType::Struct(vec![Field::new("at", at, true)].into()), true)
        };
        let zone = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
        assert_eq!(Protocol::lowest(&table(&[("a", inside(zone(None)))]), None), raised);
        assert_eq!(Protocol::lowest(&table(&[("a", inside(zone(Some("UTC".into()))))]), None), first);
        assert_eq!(Protocol::lowest(&plain, Some(&raised)), raised);
        assert_eq!(Protocol::lowest(&local, Some(&raised)), raised);
        for known in [first, raised.clone()] {
            assert_eq!(known.unknown_to_writers(), None);
        }
        let vectors = Protocol { reader_features: Some(vec!["deletionVectors".into()]), ..raised.clone() };
        assert_eq!(vectors.unknown_to_writers().as_deref(), Some("the feature `deletionVectors`"));
        let mapped = Protocol { min_reader_version: 2, min_writer_version: 5, ..raised };
        assert!(mapped.unknown_to_writers().is_some_and(|error| error.contains("writer version 5")));
    }

    fn table(fields: &[(&str, DataType)]) -> Schema {
        let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
        Schema::new(fields.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn types_are_those_of_delta_or_named() {
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
            let text = schema_string(&table(&[("a b", data_type)])).unwrap();
            let schema: Value = serde_json::from_str(&text).unwrap();
            let field = json!({"name": "a b", "type": expected, "nullable": true, "metadata": {}});
            assert_eq!(schema, json!({"type": "struct", "fields": [field]}));
        }
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let error = schema_string(&table(&[("at", nanoseconds)])).unwrap_err();
        assert!(error.contains("`at`") && error.contains("microseconds"), "{error}");
        let error = schema_string(&table(&[("rate", DataType::Decimal128(3, -2))])).unwrap_err();
        assert!(error.contains("`rate`"), "{error}");
    }
}
