//! The types of ids and carried columns, which come from the source.

use std::fmt;

use arrow::datatypes::DataType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The types of the columns that come from the source. Opening the source determines the types, and the manifest stores them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceTypes {
    /// The type of ids in every table.
    pub id: IdType,
    /// The source columns that `documents` carries, in order.
    pub columns: Vec<SourceColumn>,
}

impl SourceTypes {
    /// Returns the type of the column `name`, or `None` if the column is not carried.
    pub(crate) fn column(&self, name: &str) -> Option<&DataType> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(&column.data_type)
    }
}

/// The type of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdType {
    /// Text, ordered by UTF-8 bytes.
    #[default]
    Utf8,
    /// A number, ordered numerically. The id then comes from a single column with an integer type.
    Int64,
}

impl IdType {
    pub(crate) fn arrow(self) -> DataType {
        match self {
            IdType::Utf8 => DataType::Utf8,
            IdType::Int64 => DataType::Int64,
        }
    }
}

impl fmt::Display for IdType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdType::Utf8 => "texts",
            IdType::Int64 => "integers",
        })
    }
}

/// A column of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceColumn {
    /// The name of the column.
    pub name: String,
    /// The Arrow type that is written.
    #[serde(rename = "type", serialize_with = "as_text", deserialize_with = "from_text")]
    pub data_type: DataType,
}

/// Serializes a value as it is displayed.
pub(crate) fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DataType, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|e| D::Error::custom(format!("{text:?} is not a type of a column: {e}")))
}

/// Returns the name of a carried column inside plans. The name in the source could collide with a column of this program.
pub fn carried(at: usize) -> String {
    format!("carried_{at}")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn every_type_is_read_back_as_it_was_written() {
        for data_type in [
            DataType::Utf8,
            DataType::Boolean,
            DataType::Int8,
            DataType::Float32,
            DataType::Date32,
            DataType::Decimal128(20, 0),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        ] {
            let column = SourceColumn { name: "a".into(), data_type };
            let types = SourceTypes { id: IdType::Int64, columns: vec![column] };
            let text = serde_json::to_string(&types).unwrap();
            assert_eq!(serde_json::from_str::<SourceTypes>(&text).unwrap(), types, "{text}");
        }
        let wrong = serde_json::from_str::<SourceColumn>(r#"{"name": "a", "type": "Int65"}"#).unwrap_err();
        assert!(wrong.to_string().contains("Int65"), "{wrong}");
    }
}
