//! `source.limit`: a random sample of the documents of a source.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitSize {
    /// So many documents, or all where there are fewer; at least 1.
    Documents(u64),
    /// Each document with this probability: over 0 and at most 1.
    Share(f64),
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
                percent
                    .filter(|percent| *percent > 0.0 && *percent <= 100.0)
                    .map(|percent| Self::Share(percent / 100.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_shares() {
        for (text, size) in [
            ("10000", LimitSize::Documents(10_000)),
            ("1%", LimitSize::Share(0.01)),
            (" 0.5 % ", LimitSize::Share(0.005)),
            ("100%", LimitSize::Share(1.0)),
        ] {
            assert_eq!(text.parse::<LimitSize>().unwrap(), size, "{text}");
        }
        for text in ["", "0", "-1", "1.5", "0%", "101%", "inf%", "1e1%", "%", "ten"] {
            let said = text.parse::<LimitSize>().unwrap_err().to_string();
            assert!(said.contains("expected a number of documents"), "{text}: {said}");
        }
    }
}
