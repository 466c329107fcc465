//! The words of a text as they stand in it, each normalised by itself, so that a run of words has a place in the text.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::error::Result;
use crate::kernel::shingle::{Normalize, Words};
use crate::kernel::text::normalize::Normalizer;
use crate::kernel::text::words::each_word;

/// The words of a text: their places, and what normalisation leaves of each. A word that it removes is not among them.
#[derive(Debug)]
pub struct WrittenWords {
    normalizer: Normalizer,
    /// How ASCII words are normalised, if that is quicker than by the normaliser.
    ascii: Option<AsciiCase>,
    words: Words,
    /// The place of each word in the text, in bytes.
    places: Vec<Range<usize>>,
    /// The normalised words, with a space between two of them.
    normalized: String,
    /// The place of each word in `normalized`.
    parts: Vec<Range<usize>>,
}

/// The only change that some steps make to a word of ASCII characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AsciiCase {
    AsWritten,
    Lower,
}

impl AsciiCase {
    /// The change of `steps`; `None` if they make others.
    fn from_steps(steps: &[Normalize]) -> Option<Self> {
        let mut case = Self::AsWritten;
        for step in steps {
            match step {
                Normalize::Lowercase => case = Self::Lower,
                // A word has no white space.
                Normalize::CollapseWhitespace
                | Normalize::CollapseWhitespaceKeepEnds
                | Normalize::CollapseSpaces
                | Normalize::Nfkc => {}
                _ => return None,
            }
        }
        Some(case)
    }
}

/// ASCII words with one space between two of them, which are copied together.
#[derive(Debug, Default)]
struct AsciiRun {
    /// The place in the text.
    start: usize,
    end: usize,
    /// The place among the normalised words to which it is copied.
    to: usize,
}

impl AsciiRun {
    /// Whether the word at `place` follows behind one space.
    fn continues(&self, text: &str, place: &Range<usize>) -> bool {
        self.start < self.end && self.end + 1 == place.start && text.as_bytes()[self.end] == b' '
    }

    /// Appends the words to those that are normalised.
    fn flush(&self, text: &str, case: AsciiCase, normalized: &mut String) {
        if self.start < self.end {
            append(&text[self.start..self.end], normalized);
            if case == AsciiCase::Lower
                && let Some(words) = normalized.get_mut(self.to..)
            {
                words.make_ascii_lowercase();
            }
        }
    }
}

/// Where the next word will start among `normalized` words.
fn start_of_next(normalized: &str) -> usize {
    normalized.len() + usize::from(!normalized.is_empty())
}

/// Appends words behind a space.
fn append(words: &str, normalized: &mut String) {
    if !normalized.is_empty() {
        normalized.push(' ');
    }
    normalized.push_str(words);
}

impl WrittenWords {
    /// No words yet. Texts are cut by `words`, and each word goes through `steps`.
    ///
    /// # Errors
    /// On a language without stop words.
    pub fn new(steps: &[Normalize], words: Words) -> Result<Self> {
        let (normalizer, ascii) = (Normalizer::new(steps, words)?, AsciiCase::from_steps(steps));
        let (places, normalized, parts) = Default::default();
        Ok(Self { normalizer, ascii, words, places, normalized, parts })
    }

    /// Takes the words of `text` instead of those of the last one.
    pub fn cut(&mut self, text: &str) {
        let Self { normalizer, ascii, words, places, normalized, parts } = self;
        places.clear();
        normalized.clear();
        parts.clear();
        let is_ascii = text.is_ascii();
        let mut run = AsciiRun::default();
        each_word(text, *words, |place| {
            match ascii {
                Some(case) if is_ascii || text[place.clone()].is_ascii() => {
                    if !run.continues(text, &place) {
                        run.flush(text, *case, normalized);
                        run =
                            AsciiRun { start: place.start, end: place.start, to: start_of_next(normalized) };
                    }
                    run.end = place.end;
                    parts.push(run.to + place.start - run.start..run.to + place.end - run.start);
                }
                _ => {
                    normalizer.begin();
                    let word = normalizer.piece(&text[place.clone()]).trim();
                    if word.is_empty() {
                        return;
                    }
                    run.flush(text, ascii.unwrap_or(AsciiCase::AsWritten), normalized);
                    run = AsciiRun::default();
                    let start = start_of_next(normalized);
                    append(word, normalized);
                    parts.push(start..normalized.len());
                }
            }
            places.push(place);
        });
        run.flush(text, ascii.unwrap_or(AsciiCase::AsWritten), normalized);
    }

    /// The number of words.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks whether there are words")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The 128-bit hash of some of the words: XXH3-128 of the normalised words with a space between two of them.
    pub fn hash(&self, words: Range<usize>) -> u128 {
        xxh3_128(self.joined(words).as_bytes())
    }

    /// Replaces `hashes` by the XXH3-64 of each normalised word.
    pub(crate) fn hashes(&self, hashes: &mut Vec<u64>) {
        hashes.clear();
        hashes.extend(self.parts.iter().map(|part| xxh3_64(self.normalized[part.clone()].as_bytes())));
    }

    /// The same of `text` instead of the words that were cut last, which are then gone.
    pub(crate) fn hashes_of(&mut self, text: &str, hashes: &mut Vec<u64>) {
        let Some(case) = self.ascii.filter(|_| text.is_ascii()) else {
            self.cut(text);
            return self.hashes(hashes);
        };
        // A letter stays a letter, so that words begin and end where they do in the text.
        let Self { words, places, normalized, parts, .. } = self;
        places.clear();
        parts.clear();
        normalized.clear();
        normalized.push_str(text);
        if case == AsciiCase::Lower {
            normalized.make_ascii_lowercase();
        }
        hashes.clear();
        each_word(normalized, *words, |word| hashes.push(xxh3_64(&normalized.as_bytes()[word])));
    }

    /// The places of words in `text`, from which they were cut.
    pub fn places<'a>(&'a self, text: &'a str) -> WordFinder<'a> {
        WordFinder { words: &self.places, text, counted: (0, 0) }
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

/// Finds the places of words in their text.
#[derive(Debug)]
pub struct WordFinder<'a> {
    words: &'a [Range<usize>],
    text: &'a str,
    /// Bytes of the text, and the characters in them.
    counted: (usize, usize),
}

/// The place of words in their text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordPlace {
    /// In bytes.
    pub bytes: Range<usize>,
    /// In characters (Unicode scalar values).
    pub chars: Range<usize>,
}

impl WordFinder<'_> {
    /// The place of these words, from the start of the first to the end of the last one. Quick if it is asked for in the order of
    /// the text. No words are at the start of the text.
    pub fn locate(&mut self, words: Range<usize>) -> WordPlace {
        let words = self.words.get(words).unwrap_or_default();
        let Some((first, last)) = words.first().zip(words.last()) else { return WordPlace::default() };
        let chars = self.chars_before(first.start);
        let written = self.text.get(first.start..last.end).unwrap_or_default();
        WordPlace { bytes: first.start..last.end, chars: chars..chars + written.chars().count() }
    }

    fn chars_before(&mut self, byte: usize) -> usize {
        if byte < self.counted.0 {
            self.counted = (0, 0);
        }
        let more = self.text.get(self.counted.0..byte).unwrap_or_default();
        self.counted = (byte, self.counted.1 + more.chars().count());
        self.counted.1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::text::normalize::definition::{any_steps, any_text, any_words};

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
        let mut hashes = vec![7];
        words.hashes(&mut hashes);
        assert_eq!(hashes, ["über", "house", "über"].map(|word| xxh3_64(word.as_bytes())));
        let mut places = words.places("Über the House,\n über");
        assert_eq!(places.locate(1..3), WordPlace { bytes: 10..23, chars: 9..21 });
        assert_eq!(places.locate(0..2), WordPlace { bytes: 0..15, chars: 0..14 });
        assert_eq!(places.locate(1..1), WordPlace::default());
        words.cut("the THE");
        assert_eq!(words.len(), 0);
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_normaliser(text in any_text(), steps in any_steps(), words in any_words()) {
            let mut written = WrittenWords::new(&steps, words).unwrap();
            written.cut(&text);
            let mut normalizer = Normalizer::new(&steps, words).unwrap();
            let mut all = Vec::new();
            each_word(&text, words, |place| {
                normalizer.begin();
                let word = normalizer.piece(&text[place.clone()]).trim().to_owned();
                if !word.is_empty() {
                    all.push((place, word));
                }
            });
            let (places, all): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            prop_assert_eq!(&written.places, &places);
            prop_assert_eq!(written.joined(0..written.len()), all.join(" "));
            let (mut hashes, mut of_text) = (Vec::new(), vec![7]);
            written.hashes(&mut hashes);
            written.hashes_of(&text, &mut of_text);
            prop_assert_eq!(&hashes, &of_text);
            prop_assert_eq!(hashes, all.iter().map(|word| xxh3_64(word.as_bytes())).collect::<Vec<_>>());
        }
    }
}
