//! Stop words: named lists, lists from users, and a table to look words up. A job contains the words of a user's list, lower-cased, sorted,
//! distinct and separated by spaces. So no machine needs the file with the list, and two lists with the same words are equal.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::steps::{lowercase, without};
use crate::error::{Error, Result};
use crate::kernel::shingle::Words;

/// The prefix in the names of all steps with stop words.
pub const STEP: &str = "stop-words:";
/// The prefix before a list of words.
pub(super) const LIST: &str = "list=";
/// The prefix before the path of a file with one word per line.
pub const FILE: &str = "file=";

/// The English list of scikit-learn (`ENGLISH_STOP_WORDS`), which goes back to the Glasgow Information Retrieval Group.
const SCIKIT_LEARN_EN: &str = "scikit-learn-en";
const SCIKIT_LEARN_EN_WORDS: &str = include_str!("stop_word_lists/scikit_learn_en.txt");

/// Returns the words of the list `name`, which is an ISO 639-1 code or [`SCIKIT_LEARN_EN`].
pub(super) fn named(name: &str) -> Option<Vec<&'static str>> {
    if name == SCIKIT_LEARN_EN {
        return Some(SCIKIT_LEARN_EN_WORDS.split_whitespace().collect());
    }
    stop_words::lookup(name).filter(|_| is_language(name)).map(<[_]>::to_vec)
}

fn is_language(code: &str) -> bool {
    code.len() == 2
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let languages = stop_words::available_languages().iter().copied().filter(|code| is_language(code));
    languages.chain([SCIKIT_LEARN_EN])
}

/// Converts words to the list that a job contains, as the module's documentation describes it. Fails if there are no words, or if a word
/// contains a comma. The message is a fragment that follows the name of the list.
pub fn list<'w>(words: impl Iterator<Item = &'w str>) -> Result<String> {
    let words: BTreeSet<String> = words.map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Error::new("holds no words"));
    }
    if let Some(word) = words.iter().find(|word| word.contains(',')) {
        return Err(Error::new(format!("holds {word:?}, but a stop word cannot have a comma: remove it")));
    }
    Ok(words.into_iter().collect::<Vec<_>>().join(" "))
}

/// A hash table of stop words with linear probing. The standard table would spend most of the time on its hash function.
#[derive(Debug)]
pub(super) struct StopWords {
    /// The slots of the table. The number of slots is a power of two, and less than half of them are used. Free slots are empty strings.
    slots: Vec<String>,
    /// The number of bytes in the longest stop word. Longer words need no look-up.
    longest: usize,
    lower: String,
}

impl StopWords {
    pub(super) fn new(words: &[&str]) -> Self {
        let slots = vec![String::new(); (2 * words.len() + 1).next_power_of_two()];
        let mut table = Self { slots, longest: 0, lower: String::new() };
        for word in words.iter().map(|word| word.to_lowercase()).filter(|word| !word.is_empty()) {
            table.longest = table.longest.max(word.len());
            let slot = table.slot(&word);
            table.slots[slot] = word;
        }
        table
    }

    /// Returns the slot that contains the word, or the free slot in which it belongs.
    fn slot(&self, word: &str) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = xxh3_64(word.as_bytes()) as usize & last;
        while !self.slots[slot].is_empty() && self.slots[slot] != word {
            slot = (slot + 1) & last;
        }
        slot
    }

    pub(super) fn remove(&mut self, text: &str, rule: Words, out: &mut String) {
        let mut lower = std::mem::take(&mut self.lower);
        without(text, rule, out, |word| self.has(word, &mut lower));
        self.lower = lower;
    }

    fn has(&self, word: &str, lower: &mut String) -> bool {
        // The lower case can be shorter than the word, down to a third of its length: the Kelvin sign (3 bytes) becomes `k`.
        if word.len() > 3 * self.longest {
            return false;
        }
        lower.clear();
        lowercase(word, lower);
        lower.len() <= self.longest && !self.slots[self.slot(lower)].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_scikit_learn_has_318_words() {
        let words = named("scikit-learn-en").unwrap();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), 318);
        // The first word is only in this list, and the second word is only in other lists.
        assert!(words.contains(&"fifteen") && !words.contains(&"don't"));
    }

    #[test]
    fn a_list_is_its_content() {
        assert_eq!(list(["The", "a", "the"].into_iter()).unwrap(), "a the");
        assert!(list([].into_iter()).is_err());
        assert!(list(["a,b"].into_iter()).unwrap_err().to_string().contains("comma"));
    }
}
