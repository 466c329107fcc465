//! For tests: implements the steps by their definitions, and generates texts for comparisons.

use proptest::prelude::*;
use proptest::sample::select;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use super::words_of_list;
use crate::kernel::shingle::{Normalize, Words};
use crate::kernel::text::words::{is_digit, is_word_character};

/// Applies each step by its definition, one after the other, to the whole text.
pub(crate) fn by_definition(text: &str, steps: &[Normalize], rule: Words) -> String {
    let drop_words = |text: &str, leaves: &dyn Fn(&str) -> bool| -> String {
        let is_word = |part: &str| words_by_definition(part, rule) == [part];
        let parts: Vec<&str> = match rule {
            Words::Unicode => text.split_word_bounds().collect(),
            Words::Auto => panic!("dictionaries have tests of their own"),
            Words::WordCharacters => text.split_inclusive_runs(is_word_character),
            Words::Spaces => text.split_inclusive_runs(|c| !c.is_whitespace()),
        };
        parts.into_iter().filter(|part| !(is_word(part) && leaves(part))).collect()
    };
    steps.iter().fold(text.to_owned(), |text, step| match step {
        Normalize::Lowercase => text.to_lowercase(),
        Normalize::LettersOnly => {
            let mut out = String::new();
            for c in text.chars() {
                if c.is_alphabetic() {
                    out.push(c);
                } else if out.is_empty() || !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            out
        }
        Normalize::RemoveNonLetters => {
            text.chars().filter(|c| c.is_alphabetic() || c.is_whitespace()).collect()
        }
        Normalize::RemoveNewlines => text.replace(['\n', '\r'], ""),
        Normalize::CollapseWhitespace => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Normalize::CollapseWhitespaceKeepEnds => text
            .split_inclusive_runs(char::is_whitespace)
            .into_iter()
            .map(|run| if run.starts_with(char::is_whitespace) { " " } else { run })
            .collect(),
        Normalize::CollapseSpaces => {
            let runs = text.split_inclusive_runs(|c| c == ' ').into_iter();
            runs.map(|run| if run.starts_with(' ') { " " } else { run }).collect()
        }
        Normalize::CollapseTabsAndNewlines => {
            regex::Regex::new("[ \t\n\r]+").unwrap().replace_all(&text, " ").into_owned()
        }
        Normalize::DigitsOut => drop_words(&text, &|word| word.chars().all(is_digit)),
        Normalize::StopWords(language) => {
            let stop = words_of_list(language).unwrap();
            drop_words(&text, &|word| stop.iter().any(|s| s.to_lowercase() == word.to_lowercase()))
        }
        Normalize::StopWordList(words) => {
            let stop: Vec<&str> = words.split(' ').collect();
            drop_words(&text, &|word| stop.contains(&word.to_lowercase().as_str()))
        }
        Normalize::SpacesToUnderscores => text.replace(char::is_whitespace, "_"),
        Normalize::OnlySpacesToUnderscores => text.replace(' ', "_"),
        Normalize::Nfkc => text.nfkc().collect(),
    })
}

pub(crate) fn words_by_definition(text: &str, rule: Words) -> Vec<&str> {
    match rule {
        Words::Unicode => text.unicode_words().collect(),
        Words::Auto => panic!("dictionaries have tests of their own"),
        Words::WordCharacters => {
            text.split(|c| !is_word_character(c)).filter(|word| !word.is_empty()).collect()
        }
        Words::Spaces => text.split_whitespace().collect(),
    }
}

pub(crate) fn any_words() -> impl Strategy<Value = Words> {
    select(vec![Words::Unicode, Words::WordCharacters, Words::Spaces])
}

/// Divides a text into its longest runs of characters with the same property.
trait CharacterRuns {
    fn split_inclusive_runs(&self, like: impl Fn(char) -> bool) -> Vec<&str>;
}

impl CharacterRuns for str {
    fn split_inclusive_runs(&self, like: impl Fn(char) -> bool) -> Vec<&str> {
        let chars: Vec<(usize, char)> = self.char_indices().collect();
        let runs = chars.chunk_by(|a, b| like(a.1) == like(b.1));
        runs.map(|run| &self[run[0].0..run.last().map_or(0, |(at, c)| at + c.len_utf8())]).collect()
    }
}

pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Normalize>> {
    let step = select(vec![
        Normalize::Lowercase,
        Normalize::LettersOnly,
        Normalize::CollapseWhitespace,
        Normalize::DigitsOut,
        Normalize::StopWords("en".into()),
        Normalize::StopWordList("dog the".into()),
        Normalize::RemoveNonLetters,
        Normalize::RemoveNewlines,
        Normalize::CollapseWhitespaceKeepEnds,
        Normalize::CollapseSpaces,
        Normalize::CollapseTabsAndNewlines,
        Normalize::SpacesToUnderscores,
        Normalize::OnlySpacesToUnderscores,
        Normalize::Nfkc,
    ]);
    proptest::collection::vec(step, 0..5)
}

/// Generates texts in which the rules interact: stop words, digits, all kinds of white space, marks, sigmas, joined words, characters that
/// NFKC changes, and ASCII in stretches that have fast paths.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    let part = select(vec![
        "the",
        "The",
        "AND",
        "a",
        "dog",
        "ΣΑΣ",
        "Σ",
        "éA",
        "12",
        "3.5",
        "x1",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\u{b}",
        "\u{a0}",
        "\u{3000}",
        ".",
        "'",
        "_",
        "-",
        "\u{301}",
        "\u{93e}",
        "ﬁ",
        "中文",
        "カ",
        "½",
        "①",
        "हिन्दी",
        "İ",
        "\u{200d}",
        "\u{1f469}",
        "\u{327}",
        "\u{345}",
        "e\u{301}",
        "Ａ，",
        "한",
        "\u{1100}",
        "\u{1161}",
        "\u{11a8}",
        "A stretch of ASCII,\n which has the length of at least two  blocks \t in the\n\nCODE",
    ]);
    prop_oneof![
        proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat()),
        "[ -~\t\n]{0,40}",
        any::<String>(),
    ]
}
