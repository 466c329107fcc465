//! `source.limit`: a random sample of the documents of a source.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result};

/// A random sample of the documents of a source, which is the same for the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// How large it is.
    pub size: LimitSize,
    /// The number that chooses it.
    pub seed: u64,
}

/// How large a sample is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitSize {
    /// So many documents, or all where there are fewer; at least 1.
    Documents(u64),
    /// Each document with a probability of so many per cent: over 0 and at most 100.
    Percent(f64),
}

impl FromStr for LimitSize {
    type Err = Error;

    /// Reads a number of documents, or a percentage.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) for anything else: what follows the name of the key.
    fn from_str(text: &str) -> Result<Self> {
        // Digits and a point only: f64's parser also takes "inf", "nan" and "-1".
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let size = match text.trim().strip_suffix('%').map(str::trim_end) {
            Some(percent) => {
                let percent = percent.parse::<f64>().ok().filter(|_| is_number(percent));
                percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(Self::Percent)
            }
            None => text.trim().parse().ok().filter(|documents| *documents > 0).map(Self::Documents),
        };
        size.ok_or_else(|| {
            Error::job(format!(
                "is {text:?}: expected a number of documents, as in 10000, or a share of them over 0 and at most 100%, as in \"1%\""
            ))
        })
    }
}

impl Serialize for LimitSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Documents(documents) => serializer.serialize_u64(*documents),
            Self::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for LimitSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct LimitVisitor;

impl de::Visitor<'_> for LimitVisitor {
    type Value = LimitSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of documents, or a share of them as in \"1%\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<LimitSize, E> {
        let documents = u64::try_from(value);
        documents.map_or(Err(E::invalid_value(de::Unexpected::Signed(value), &self)), |value| {
            self.visit_u64(value)
        })
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<LimitSize, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<LimitSize, E> {
        value.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_shares() {
        for (text, size) in [
            ("10000", LimitSize::Documents(10_000)),
            ("1%", LimitSize::Percent(1.0)),
            (" 0.5 % ", LimitSize::Percent(0.5)),
            ("100%", LimitSize::Percent(100.0)),
        ] {
            assert_eq!(text.parse::<LimitSize>().unwrap(), size, "{text}");
        }
        for text in ["", "0", "-1", "1.5", "0%", "101%", "inf%", "1e1%", "%", "ten"] {
            let said = text.parse::<LimitSize>().unwrap_err().to_string();
            assert!(said.contains("expected a number of documents"), "{text}: {said}");
        }
    }
}
