//! The names of the normalisation steps in a job file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Normalize;
use super::document::nearest;
use crate::error::{Error, Result};

/// What begins the name of the step that takes a language.
const STOP_WORDS: &str = "stop-words:";

/// The steps that take nothing.
const PLAIN: [Normalize; 6] = [
    Normalize::Lowercase,
    Normalize::LettersOnly,
    Normalize::CollapseWhitespace,
    Normalize::DigitsOut,
    Normalize::SpacesToUnderscores,
    Normalize::Nfkc,
];

impl Normalize {
    /// The step's name, without its language.
    fn name(&self) -> &'static str {
        match self {
            Normalize::Lowercase => "lowercase",
            Normalize::LettersOnly => "letters-only",
            Normalize::CollapseWhitespace => "collapse-whitespace",
            Normalize::DigitsOut => "digits-out",
            Normalize::StopWords(_) => "stop-words",
            Normalize::SpacesToUnderscores => "spaces-to-underscores",
            Normalize::Nfkc => "nfkc",
        }
    }
}

/// Reads a step's name, as in `lowercase` or `stop-words:en`.
///
/// A language is an ISO 639-1 code for which the `stop-words` crate has a list.
impl FromStr for Normalize {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(step) = PLAIN.iter().find(|step| step.name() == name) {
            return Ok(step.clone());
        }
        let Some(language) = name.strip_prefix(STOP_WORDS) else {
            let known = || PLAIN.iter().map(Normalize::name);
            let near = nearest(name, known()).map(|near| format!("; did you mean {near:?}?"));
            let known: Vec<_> = known().chain(["stop-words:LANGUAGE"]).collect();
            return Err(Error::job(format!(
                "unknown step {name:?}, expected one of {}{}",
                known.join(", "),
                near.unwrap_or_default()
            )));
        };
        if languages().any(|known| known == language) {
            return Ok(Normalize::StopWords(language.to_owned()));
        }
        Err(Error::job(format!(
            "no stop words for the language {language:?}, expected one of {}",
            languages().collect::<Vec<_>>().join(", ")
        )))
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Normalize::StopWords(language) => write!(f, "{STOP_WORDS}{language}"),
            plain => f.write_str(plain.name()),
        }
    }
}

impl Serialize for Normalize {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Normalize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The ISO 639-1 codes with stop words, in their order.
fn languages() -> impl Iterator<Item = &'static str> {
    stop_words::available_languages().iter().copied().filter(|code| code.len() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let all = PLAIN.iter().map(|step| step.name().to_owned());
        for name in all.chain(languages().map(|code| format!("stop-words:{code}"))) {
            assert_eq!(name.parse::<Normalize>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn other_names_are_refused_with_what_is_allowed() {
        for (name, hint) in [
            ("lower-case", "did you mean \"lowercase\""),
            ("", "stop-words:LANGUAGE"),
            ("stop-words", "stop-words:LANGUAGE"),
            ("stop-words:xx", "de, "),
            ("stop-words:EN", "en"),
            ("stop-words:", "en"),
        ] {
            let said = name.parse::<Normalize>().unwrap_err().to_string();
            assert!(said.contains(hint) && said.contains("expected one of"), "{name}: {said}");
        }
    }
}
