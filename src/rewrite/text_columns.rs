//! What is put to the end of a CSV record or of a JSON object, so that it says what its document is told of.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::annotations::{Annotation, NAMES};
use crate::error::{Error, Result};
use crate::job::Csv;
use crate::source::fields;

/// How a row gets columns.
#[derive(Debug, Clone, Copy)]
pub(super) enum TextColumns {
    /// As fields at the end of the record.
    Csv(Csv),
    /// As fields at the end of the object.
    Json,
}

impl TextColumns {
    /// Puts a row and its columns into `to`. A JSON line that is not an object stays as it is.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where the row has one of the columns already.
    pub(super) fn append(self, row: &[u8], said: Option<&Annotation>, to: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Csv(csv) => {
                to.extend_from_slice(row);
                for value in values(said) {
                    to.push(csv.delimiter);
                    field(csv, value.as_bytes(), to);
                }
                Ok(())
            }
            Self::Json => json(row, said, to),
        }
    }
}

/// The header of a CSV file and the names of the columns behind it.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it has one of the names already.
pub(crate) fn header_fields(csv: Csv, header: &[u8], path: &str) -> Result<Vec<u8>> {
    let there = fields(csv, header);
    let mut longer = header.to_vec();
    for name in NAMES {
        if there.iter().any(|field| field == name.as_bytes()) {
            return Err(taken(name, path));
        }
        longer.push(csv.delimiter);
        longer.extend_from_slice(name.as_bytes());
    }
    Ok(longer)
}

/// What to say where a file has a column of this name.
pub(crate) fn taken(name: &str, path: &str) -> Error {
    Error::input(format!(
        "{path} has a column `{name}` already, which --annotate would add: rename it and run the job again, or apply \
         without --annotate"
    ))
}

/// The values of the columns; empty where the document is in no cluster.
fn values(said: Option<&Annotation>) -> [String; 3] {
    match said {
        Some(said) => [said.cluster_id.clone(), said.representative.to_string(), said.kept_id.clone()],
        None => Default::default(),
    }
}

/// A field, in quotes where it needs them.
fn field(csv: Csv, value: &[u8], to: &mut Vec<u8>) {
    let sign = |byte: &u8| [csv.delimiter, csv.quote, b'\n', b'\r'].contains(byte);
    if !value.iter().any(sign) {
        return to.extend_from_slice(value);
    }
    to.push(csv.quote);
    for &byte in value {
        if byte == csv.quote {
            to.push(byte);
        }
        to.push(byte);
    }
    to.push(csv.quote);
}

fn json(row: &[u8], said: Option<&Annotation>, to: &mut Vec<u8>) -> Result<()> {
    let object = serde_json::from_slice::<Object>(row).ok();
    let end = row.iter().rposition(|byte| *byte == b'}');
    let (Some(Object { fields, taken }), Some(end)) = (object, end) else {
        to.extend_from_slice(row);
        return Ok(());
    };
    if let Some(name) = taken {
        return Err(Error::input(format!(
            "it has a field `{name}` already, which --annotate would add: rename it and run the job again, or apply \
             without --annotate"
        )));
    }
    let (object, close) = row.split_at(end);
    to.extend_from_slice(object);
    let text = |value: &str, number: bool| match number {
        true => value.to_owned(),
        false => serde_json::Value::from(value).to_string(),
    };
    let values = match said {
        Some(said) => [
            text(&said.cluster_id, said.is_number),
            said.representative.to_string(),
            text(&said.kept_id, said.is_number),
        ],
        None => ["null"; 3].map(str::to_owned),
    };
    for (at, (name, value)) in NAMES.into_iter().zip(values).enumerate() {
        if fields > 0 || at > 0 {
            to.push(b',');
        }
        to.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
    }
    to.extend_from_slice(close);
    Ok(())
}

/// What must be known of an object before fields are put to its end.
struct Object {
    fields: usize,
    /// A name that it has already.
    taken: Option<&'static str>,
}

impl<'a> Deserialize<'a> for Object {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'a> Visitor<'a> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut object = Object { fields: 0, taken: None };
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    object.fields += 1;
                    object.taken = object.taken.or(NAMES.into_iter().find(|taken| *taken == name));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: &str, is_number: bool) -> Annotation {
        Annotation { cluster_id: id.into(), representative: false, kept_id: "k".into(), is_number }
    }

    fn appended(columns: TextColumns, row: &str, said: Option<&Annotation>) -> String {
        let mut to = Vec::new();
        columns.append(row.as_bytes(), said, &mut to).unwrap();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn fields_are_quoted_where_they_need_it() {
        let csv = TextColumns::Csv(Csv { delimiter: b';', header: true, quote: b'"' });
        assert_eq!(appended(csv, "a;b", None), "a;b;;;");
        assert_eq!(appended(csv, "a", Some(&said("x;\"y\"", false))), "a;\"x;\"\"y\"\"\";false;k");
    }

    #[test]
    fn objects_stay_objects() {
        for (row, expected) in [
            ("{}", r#"{"cluster_id":"\"","representative":false,"kept_id":"k"}"#),
            (
                " {\"a\": {}} \r",
                " {\"a\": {},\"cluster_id\":\"\\\"\",\"representative\":false,\"kept_id\":\"k\"} \r",
            ),
            ("[1]", "[1]"),
            ("{\"a\"", "{\"a\""),
        ] {
            assert_eq!(appended(TextColumns::Json, row, Some(&said("\"", false))), expected);
        }
        let nothing = appended(TextColumns::Json, "{\"a\":1}", None);
        assert_eq!(nothing, r#"{"a":1,"cluster_id":null,"representative":null,"kept_id":null}"#);
        let taken = TextColumns::Json.append(b"{\"kept_id\":1}", None, &mut Vec::new()).unwrap_err();
        assert!(taken.to_string().contains("`kept_id`"), "{taken}");
    }
}
