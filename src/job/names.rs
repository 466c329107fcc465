//! Values of a job file that may be written in several ways.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::wrong::{Checked, require};

/// One string, or a list of strings. Which of the two was written is kept, because it matters for `source.id`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Names {
    /// `"a"`
    One(String),
    /// `["a", "b"]`
    Many(Vec<String>),
}

impl Names {
    /// The strings, in their order.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Names::One(name) => vec![name],
            Names::Many(names) => names,
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct NamesVisitor;

impl<'de> de::Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<Names, E> {
        Ok(Names::One(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Names::Many(names))
    }
}

impl Names {
    /// The strings: one or more, none of them empty. A message calls one `noun`.
    pub(super) fn filled(self, key: &'static str, noun: &str) -> Checked<Vec<String>> {
        let names = self.into_vec();
        let is_filled = !names.is_empty() && names.iter().all(|name| !name.trim().is_empty());
        require(is_filled, key, format!("is empty: expected a {noun}, or a list of them"))?;
        Ok(names)
    }
}

/// The schema of a value that is a whole number or a text.
pub(super) fn number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"] })
}
