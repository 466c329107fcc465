//! The words of a text as they stand in it, each normalised by itself, so that a run of words has a place in the text.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::Result;
use crate::job::{Normalize, Words};
use crate::kernel::text::normalize::Normalizer;
use crate::kernel::text::words::each_word;

/// The words of a text: where they stand, and what normalisation leaves of each. A word of which it leaves nothing is not among them.
#[derive(Debug)]
pub(crate) struct WrittenWords {
    normalizer: Normalizer,
    words: Words,
    /// The place of each word in the text, in bytes.
    places: Vec<Range<usize>>,
    /// The normalised words, with a space between two of them.
    normalized: String,
    /// The place of each word in `normalized`.
    parts: Vec<Range<usize>>,
}

impl WrittenWords {
    /// No words yet. Texts are cut by `words`, and each word goes through `steps`.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) on a language without stop words.
    pub(crate) fn new(steps: &[Normalize], words: Words) -> Result<Self> {
        let normalizer = Normalizer::new(steps, words)?;
        Ok(Self { normalizer, words, places: Vec::new(), normalized: String::new(), parts: Vec::new() })
    }

    /// Takes the words of `text` instead of those of the last one.
    pub(crate) fn cut(&mut self, text: &str) {
        let Self { normalizer, words, places, normalized, parts } = self;
        places.clear();
        normalized.clear();
        parts.clear();
        each_word(text, *words, |place| {
            normalizer.begin();
            let word = normalizer.piece(&text[place.clone()]).trim();
            if word.is_empty() {
                return;
            }
            if !normalized.is_empty() {
                normalized.push(' ');
            }
            let start = normalized.len();
            normalized.push_str(word);
            parts.push(start..normalized.len());
            places.push(place);
        });
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The 128-bit hash of some of the words: XXH3-128 of the normalised words with a space between two of them.
    pub(crate) fn hash(&self, words: Range<usize>) -> u128 {
        xxh3_128(self.joined(words).as_bytes())
    }

    /// Some of the normalised words, with a space between two of them; empty for no words.
    fn joined(&self, words: Range<usize>) -> &str {
        match self.parts.get(words) {
            Some([first, .., last]) => &self.normalized[first.start..last.end],
            Some([only]) => &self.normalized[only.clone()],
            Some([]) | None => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_places_and_hashes_of_what_is_left_of_them() {
        let steps = ["lowercase", "stop-words:list=the"].map(|step| step.parse().unwrap());
        let mut words = WrittenWords::new(&steps, Words::Unicode).unwrap();
        words.cut("Über the House,\n über");
        assert_eq!(words.places, [0..5, 10..15, 18..23]);
        assert_eq!(words.len(), 3);
        assert_eq!(words.hash(0..2), xxh3_128("über house".as_bytes()));
        assert_eq!(words.hash(0..1), words.hash(2..3));
        assert_eq!(words.hash(1..1), xxh3_128(b""));
        words.cut("the THE");
        assert_eq!(words.len(), 0);
    }
}
