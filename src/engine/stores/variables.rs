//! The variables of the environment, as stores read them.

use std::collections::BTreeMap;

/// Environment variables. An empty one is none, as where a compose file passes on what is not set, and the white space
/// around a value is not a part of it: a secret that is mounted as a file ends in a line break.
pub(super) struct Variables(pub(super) BTreeMap<String, String>);

impl Variables {
    /// The value of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Those whose names start with `prefix`.
    pub(super) fn starting(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.as_str(), value.trim())).filter(|(_, value)| !value.is_empty())
    }
}

/// Whether a text names a variable that stores read, as messages about the environment do: as a word of its own, which a
/// path is not.
#[cfg(feature = "cluster")]
pub(crate) fn names_variable(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_name = |word: &str| {
        let starts =
            ["AWS_", "AZURE_", "GOOGLE_", "RESEMBLANCE_"].iter().any(|start| word.starts_with(start));
        starts && word.chars().all(is_part)
    };
    text.split_whitespace().map(|word| word.trim_matches([',', ':', ';', '.', '(', ')'])).any(is_name)
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_word_and_no_part_of_a_path() {
        for text in [
            "the variable AWS_REGION cannot be used",
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, since",
            "correct the variables that start with GOOGLE_",
            "the secret does not belong to the key: correct AWS_SECRET_ACCESS_KEY",
            "there is no bucket `b` at this endpoint: correct the URL, AWS_ENDPOINT or AWS_REGION",
        ] {
            assert!(names_variable(text), "{text}");
        }
        for text in ["s3://bucket/AWS_REGION/a.csv is damaged", "`AWS_X` is no column", "AWS_region", "away"]
        {
            assert!(!names_variable(text), "{text}");
        }
    }
}
