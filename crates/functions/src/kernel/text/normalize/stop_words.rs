//! Stop words, and their lookup.

use xxhash_rust::xxh3::xxh3_64;

use super::characters::lowercase;

/// A table of stop words with linear probing: every word of a text is looked up, and the hash of the standard table
/// takes longer than everything else.
#[derive(Debug)]
pub(super) struct StopWords {
    /// Their number is a power of two, less than half of them are used, and free ones are empty.
    slots: Vec<String>,
    /// Bytes of the longest: a longer word need not be looked up.
    longest: usize,
    pub(super) lower: String,
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

    /// The slot of the word, or the free one that it would get.
    fn slot(&self, word: &str) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = xxh3_64(word.as_bytes()) as usize & last;
        while !self.slots[slot].is_empty() && self.slots[slot] != word {
            slot = (slot + 1) & last;
        }
        slot
    }

    pub(super) fn has(&self, word: &str, lower: &mut String) -> bool {
        // Lower case may be shorter than the word, down to a third of it, as the Kelvin sign (3 bytes) becomes `k`.
        if word.len() > 3 * self.longest {
            return false;
        }
        lower.clear();
        lowercase(word, lower);
        lower.len() <= self.longest && !self.slots[self.slot(lower)].is_empty()
    }
}
