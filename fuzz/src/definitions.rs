//! Words and normalisation steps as their definitions have them, by the plainest means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use resemblance::job::{Normalize, Words};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// The stop words of the languages that were asked for, in lower case.
static STOP_WORDS: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// The rule of a byte.
pub fn rule(byte: u8) -> Words {
    [Words::Unicode, Words::WordCharacters, Words::Spaces][usize::from(byte) % 3]
}

/// The words of a text.
pub fn words(text: &str, rule: Words) -> Vec<&str> {
    match rule {
        // No byte has the rule of dictionaries.
        Words::Auto | Words::Unicode => text.unicode_words().collect(),
        Words::WordCharacters => {
            text.split(|c| !is_word_character(c)).filter(|word| !word.is_empty()).collect()
        }
        Words::Spaces => text.split_whitespace().collect(),
    }
}

/// Letters and numbers by their general categories, and the underscore.
fn is_word_character(c: char) -> bool {
    use GeneralCategory as G;
    c == '_'
        || matches!(
            CodePointMapData::<GeneralCategory>::new().get(c),
            G::UppercaseLetter
                | G::LowercaseLetter
                | G::TitlecaseLetter
                | G::ModifierLetter
                | G::OtherLetter
                | G::DecimalNumber
                | G::LetterNumber
                | G::OtherNumber
        )
}

/// Digits as Python's `str.isdigit` knows them: superscripts, subscripts and numbers in circles are others than decimal ones.
fn is_digit(c: char) -> bool {
    let decimal = CodePointMapData::<GeneralCategory>::new().get(c) == GeneralCategory::DecimalNumber;
    let others =
        "²³¹፩፪፫፬፭፮፯፰፱᧚⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉①②③④⑤⑥⑦⑧⑨⑴⑵⑶⑷⑸⑹⑺⑻⑼⒈⒉⒊⒋⒌⒍⒎⒏⒐⓪⓵⓶⓷⓸⓹⓺⓻⓼⓽⓿❶❷❸❹❺❻❼❽❾➀➁➂➃➄➅➆➇➈➊➋➌➍➎➏➐➑➒";
    decimal
        || others.contains(c)
        || matches!(c, '\u{10a40}'..='\u{10a43}' | '\u{10e60}'..='\u{10e68}' | '\u{11052}'..='\u{1105a}' | '\u{1f100}'..='\u{1f10a}')
}

/// A text as a row of parts: words, and the text between them.
fn parts(text: &str, rule: Words) -> Vec<&str> {
    match rule {
        Words::Auto | Words::Unicode => text.split_word_bounds().collect(),
        Words::WordCharacters => runs(text, is_word_character),
        Words::Spaces => runs(text, |c| !c.is_whitespace()),
    }
}

/// The longest runs of characters that are all `alike`, or all not.
fn runs(text: &str, alike: fn(char) -> bool) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| alike(c) != alike(first)).unwrap_or(rest.len());
        runs.push(&rest[..end]);
        rest = &rest[end..];
    }
    runs
}

/// A text after one step.
pub fn step(text: &str, step: &Normalize, rule: Words) -> String {
    let without = |leaves: &dyn Fn(&str) -> bool| {
        let stays = |part: &&str| words(part, rule) != [*part] || !leaves(part);
        parts(text, rule).into_iter().filter(stays).collect()
    };
    match step {
        Normalize::Lowercase => text.to_lowercase(),
        Normalize::LettersOnly => {
            let letters = text.split(|c: char| !c.is_alphabetic());
            let mut out = String::new();
            for (at, run) in letters.enumerate() {
                if at > 0 && (!out.ends_with(' ') || out.is_empty()) {
                    out.push(' ');
                }
                out.push_str(run);
            }
            out
        }
        Normalize::CollapseWhitespace => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Normalize::DigitsOut => without(&|word| word.chars().all(is_digit)),
        Normalize::StopWords(language) => {
            let mut lists = STOP_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
            let list = lists.entry(language.clone()).or_insert_with(|| {
                stop_words::get(language.as_str()).iter().map(|word| word.to_lowercase()).collect()
            });
            without(&|word| list.contains(&word.to_lowercase()))
        }
        Normalize::StopWordList(words) => {
            without(&|word| words.split(' ').any(|stop| stop == word.to_lowercase()))
        }
        Normalize::RemoveNonLetters => {
            text.chars().filter(|c| c.is_alphabetic() || c.is_whitespace()).collect()
        }
        Normalize::RemoveNewlines => text.replace(['\n', '\r'], ""),
        Normalize::CollapseWhitespaceKeepEnds => squeezed(text, char::is_whitespace),
        Normalize::CollapseSpaces => squeezed(text, |c| c == ' '),
        Normalize::CollapseTabsAndNewlines => squeezed(text, |c| [' ', '\t', '\n', '\r'].contains(&c)),
        Normalize::SpacesToUnderscores => text.replace(char::is_whitespace, "_"),
        Normalize::OnlySpacesToUnderscores => text.replace(' ', "_"),
        Normalize::Nfkc => text.nfkc().collect(),
    }
}

/// The text with one space instead of each run of the characters for which `goes` is true.
fn squeezed(text: &str, goes: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut after = false;
    for c in text.chars() {
        if !goes(c) {
            out.push(c);
        } else if !after {
            out.push(' ');
        }
        after = goes(c);
    }
    out
}
