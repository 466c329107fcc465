//! The names of the normalisation steps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::stop_words::{self, FILE, LIST, STEP as STOP_WORDS};
use crate::error::{Error, Result};
use crate::kernel::shingle::Normalize;
use crate::spelling::nearest;

/// The steps without parameters.
const PLAIN: [Normalize; 12] = [
    Normalize::Lowercase,
    Normalize::LettersOnly,
    Normalize::RemoveNonLetters,
    Normalize::RemoveNewlines,
    Normalize::CollapseWhitespace,
    Normalize::CollapseWhitespaceKeepEnds,
    Normalize::CollapseSpaces,
    Normalize::CollapseTabsAndNewlines,
    Normalize::DigitsOut,
    Normalize::SpacesToUnderscores,
    Normalize::OnlySpacesToUnderscores,
    Normalize::Nfkc,
];

/// The names of the steps with stop words, as messages show them.
const WITH_WORDS: [&str; 3] = ["stop-words:LANGUAGE", "stop-words:list=WORDS", "stop-words:file=PATH"];

impl Normalize {
    /// Returns the name of the step, without its words.
    fn name(&self) -> &'static str {
        match self {
            Normalize::Lowercase => "lowercase",
            Normalize::LettersOnly => "letters-only",
            Normalize::RemoveNonLetters => "remove-non-letters",
            Normalize::RemoveNewlines => "remove-newlines",
            Normalize::CollapseWhitespace => "collapse-whitespace",
            Normalize::CollapseWhitespaceKeepEnds => "collapse-whitespace:keep-ends",
            Normalize::CollapseSpaces => "collapse-whitespace:spaces-only",
            Normalize::CollapseTabsAndNewlines => "collapse-whitespace:tabs-and-newlines",
            Normalize::DigitsOut => "digits-out",
            Normalize::StopWords(_) | Normalize::StopWordList(_) => "stop-words",
            Normalize::SpacesToUnderscores => "spaces-to-underscores",
            Normalize::OnlySpacesToUnderscores => "spaces-to-underscores:spaces-only",
            Normalize::Nfkc => "nfkc",
        }
    }

    /// Returns whether the step removes words.
    pub(crate) fn takes_words(&self) -> bool {
        self.takes_stop_words() || *self == Normalize::DigitsOut
    }

    pub(crate) fn takes_stop_words(&self) -> bool {
        matches!(self, Normalize::StopWords(_) | Normalize::StopWordList(_))
    }

    /// Returns whether the step joins words because it replaces or removes white space between them.
    pub(crate) fn joins_words(&self) -> bool {
        matches!(
            self,
            Normalize::SpacesToUnderscores | Normalize::OnlySpacesToUnderscores | Normalize::RemoveNewlines
        )
    }
}

/// Parses the name of a step, such as `lowercase`, `stop-words:en` or `stop-words:list=a an the`. A language is `scikit-learn-en`, or an
/// ISO 639-1 code for which the `stop-words` crate has a list. Parsing reads no files, because the machine that parses a step may not have
/// the file.
impl FromStr for Normalize {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(step) = PLAIN.iter().find(|step| step.name() == name) {
            return Ok(step.clone());
        }
        let Some(language) = name.strip_prefix(STOP_WORDS) else {
            let plain = || PLAIN.iter().map(Normalize::name);
            let near = nearest(name, plain()).map(|near| format!("; did you mean {near:?}?"));
            let all: Vec<_> = plain().chain(WITH_WORDS).collect();
            return Err(Error::new(format!(
                "unknown step {name:?}, expected one of {}{}",
                all.join(", "),
                near.unwrap_or_default()
            )));
        };
        if let Some(words) = language.strip_prefix(LIST) {
            let list = stop_words::list(words.split_whitespace());
            return list.map(Normalize::StopWordList).map_err(|e| {
                Error::new(format!("{STOP_WORDS}{LIST} {e}: expected words with spaces between them"))
            });
        }
        if language.starts_with(FILE) {
            return Err(Error::new(format!(
                "{name:?} names a file, which only works in `shingle.normalize` of a job file: expected \
                 {STOP_WORDS}{LIST} and the words"
            )));
        }
        if stop_words::names().any(|name| name == language) {
            return Ok(Normalize::StopWords(language.to_owned()));
        }
        Err(Error::new(format!(
            "no stop words for the language {language:?}, expected one of {}, or {LIST} and words with spaces between \
             them, or {FILE} and the path of a file with one word per line",
            stop_words::names().collect::<Vec<_>>().join(", ")
        )))
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Normalize::StopWords(language) => write!(f, "{STOP_WORDS}{language}"),
            Normalize::StopWordList(words) => write!(f, "{STOP_WORDS}{LIST}{words}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let all = PLAIN.iter().map(|step| step.name().to_owned());
        let lists = stop_words::names().map(|code| format!("stop-words:{code}"));
        for name in all.chain(lists).chain(["stop-words:list=a the".to_owned()]) {
            assert_eq!(name.parse::<Normalize>().unwrap().to_string(), name);
        }
        let list = "stop-words:list= The a  the".parse::<Normalize>().unwrap();
        assert_eq!(list.to_string(), "stop-words:list=a the");
    }

    #[test]
    fn other_names_are_refused_with_what_is_allowed() {
        for (name, hint) in [
            ("lower-case", "did you mean \"lowercase\""),
            ("", "stop-words:LANGUAGE"),
            ("stop-words", "stop-words:LANGUAGE"),
            ("stop-words:xx", "de, "),
            ("stop-words:xx", "scikit-learn-en"),
            ("collapse-whitespace:keep-end", "did you mean \"collapse-whitespace:keep-ends\""),
            ("stop-words:EN", "en"),
            ("stop-words:", "en"),
        ] {
            let error = name.parse::<Normalize>().unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("expected one of"), "{name}: {error}");
        }
        for name in ["stop-words:list=", "stop-words:list=a,b"] {
            let error = name.parse::<Normalize>().unwrap_err().to_string();
            assert!(error.contains("expected words with spaces between them"), "{error}");
        }
    }
}
