//! The value of `source.limit` as it is written.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

/// A number of documents, or a share of them.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Limit {
    /// `10000`
    Documents(u64),
    /// `"1%"`
    Text(String),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Documents(documents) => documents.fmt(f),
            Limit::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct LimitVisitor;

impl de::Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of documents, or a share of them as in \"1%\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Limit, E> {
        u64::try_from(value)
            .map(Limit::Documents)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Limit, E> {
        Ok(Limit::Documents(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Limit, E> {
        Ok(Limit::Text(value.to_owned()))
    }
}
