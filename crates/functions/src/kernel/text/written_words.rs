//! The words of a text with their positions, and its lines, sentences and paragraphs. Each word is normalised by itself, so that every run
//! of words has a position in the text.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::error::Result;
use crate::kernel::shingle::{Normalize, Words};
use crate::kernel::text::normalize::Normalizer;
use crate::kernel::text::words::each_word;

/// The positions and the normalised forms of the words in a text. Words that normalisation removes are not included.
#[derive(Debug)]
pub struct WrittenWords {
    normalizer: Normalizer,
    /// The effect of normalisation on ASCII words; `None` if there is no fast path for these steps.
    ascii: Option<AsciiCase>,
    words: Words,
    /// The byte range of each word in the text.
    places: Vec<Range<usize>>,
    /// The normalised words, separated by spaces.
    normalized: String,
    /// The byte range of each word in `normalized`.
    parts: Vec<Range<usize>>,
}

/// The effect of normalisation steps on ASCII words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AsciiCase {
    AsWritten,
    Lower,
}

impl AsciiCase {
    /// Returns the effect of `steps` on ASCII words; `None` if no variant describes it.
    fn from_steps(steps: &[Normalize]) -> Option<Self> {
        let mut case = Self::AsWritten;
        for step in steps {
            match step {
                Normalize::Lowercase => case = Self::Lower,
                // A word contains no white space.
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

/// ASCII words with single spaces between them. They are copied together.
#[derive(Debug, Default)]
struct AsciiRun {
    /// The byte offsets in the text at which the words start and end.
    start: usize,
    end: usize,
    /// The byte offset of the copy in the normalised words.
    to: usize,
}

impl AsciiRun {
    /// Returns whether a single space separates the last word from the word at `place`.
    fn continues(&self, text: &str, place: &Range<usize>) -> bool {
        self.start < self.end && self.end + 1 == place.start && text.as_bytes()[self.end] == b' '
    }

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

fn start_of_next(normalized: &str) -> usize {
    normalized.len() + usize::from(!normalized.is_empty())
}

/// Appends words, preceded by a space if `normalized` is not empty.
fn append(words: &str, normalized: &mut String) {
    if !normalized.is_empty() {
        normalized.push(' ');
    }
    normalized.push_str(words);
}

impl WrittenWords {
    /// Creates an empty list. [`cut`](Self::cut) will split texts into `words`, and normalise each word by `steps`. Fails if a step names a
    /// language without stop words.
    pub fn new(steps: &[Normalize], words: Words) -> Result<Self> {
        let (normalizer, ascii) = (Normalizer::new(steps, words)?, AsciiCase::from_steps(steps));
        let (places, normalized, parts) = Default::default();
        Ok(Self { normalizer, ascii, words, places, normalized, parts })
    }

    /// Replaces the words by the words of `text`.
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

    /// Returns the number of words.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks whether there are words")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the 128-bit hash of a range of words: XXH3-128 of the normalised words with single spaces between them.
    pub fn hash(&self, words: Range<usize>) -> u128 {
        xxh3_128(self.joined(words).as_bytes())
    }

    /// Replaces `hashes` by the XXH3-64 of each normalised word.
    pub(crate) fn hashes(&self, hashes: &mut Vec<u64>) {
        hashes.clear();
        hashes.extend(self.parts.iter().map(|part| xxh3_64(self.normalized[part.clone()].as_bytes())));
    }

    /// Replaces `hashes` by the hashes of the words in `text`. Afterwards `self` no longer contains the words of the previous text.
    pub(crate) fn hashes_of(&mut self, text: &str, hashes: &mut Vec<u64>) {
        let Some(case) = self.ascii.filter(|_| text.is_ascii()) else {
            self.cut(text);
            return self.hashes(hashes);
        };
        // Lower case keeps letters, so the words have the same boundaries.
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

    /// Returns a finder for the positions of these words in their text. `text` is the text that was passed to [`cut`](Self::cut).
    pub fn places<'a>(&'a self, text: &'a str) -> WordFinder<'a> {
        WordFinder { words: &self.places, text, counted: (0, 0) }
    }

    /// Returns the normalised words in a range, with single spaces between them.
    fn joined(&self, words: Range<usize>) -> &str {
        match self.parts.get(words) {
            Some([first, .., last]) => &self.normalized[first.start..last.end],
            Some([only]) => &self.normalized[only.clone()],
            Some([]) | None => "",
        }
    }
}

/// Finds the positions of words in a text.
#[derive(Debug)]
pub struct WordFinder<'a> {
    words: &'a [Range<usize>],
    text: &'a str,
    /// A byte position and the number of characters before it.
    counted: (usize, usize),
}

/// The position of consecutive words in their text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordPlace {
    /// The byte range.
    pub bytes: Range<usize>,
    /// The range of characters (Unicode scalar values).
    pub chars: Range<usize>,
}

impl WordFinder<'_> {
    /// Returns the position of these words, from the start of the first word to the end of the last. Calls in ascending order are fast. For
    /// an empty range, returns position 0.
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

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextUnit {
    /// A line, up to the newline.
    Line,
    /// A sentence by Unicode's rules (UAX #29). The end of a line also ends a sentence.
    Sentence,
    /// Lines up to a blank line.
    Paragraph,
}

impl TextUnit {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            TextUnit::Line => "line",
            TextUnit::Sentence => "sentence",
            TextUnit::Paragraph => "paragraph",
        }
    }
}

/// A line, sentence or paragraph of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSpan {
    /// The byte range.
    pub bytes: Range<usize>,
    /// The range of characters (Unicode scalar values).
    pub chars: Range<usize>,
    /// The number of words.
    pub words: usize,
    /// The hash of the normalised words.
    pub hash: u128,
}

/// Calls `found` with each unit of `text` that contains at least `min_words` words, in order.
pub fn units(
    text: &str,
    unit: TextUnit,
    min_words: usize,
    words: &mut WrittenWords,
    mut found: impl FnMut(UnitSpan),
) {
    let (mut chars, is_ascii) = (0, text.is_ascii());
    each_unit(text, unit, |bytes| {
        let written = &text[bytes.clone()];
        let start = chars;
        chars += if is_ascii { written.len() } else { written.chars().count() };
        words.cut(written);
        if words.len() >= min_words.max(1) {
            let (words, hash) = (words.len(), words.hash(0..words.len()));
            found(UnitSpan { bytes, chars: start..chars, words, hash });
        }
    });
}

/// Calls `found` with the byte range of each unit. The range includes line ends and white space after the unit.
fn each_unit(text: &str, unit: TextUnit, mut found: impl FnMut(Range<usize>)) {
    let mut at = 0;
    let mut next = |part: &str| {
        found(at..at + part.len());
        at += part.len();
    };
    match unit {
        TextUnit::Line => text.split_inclusive('\n').for_each(next),
        // UAX #29, section 5: the end of a line also ends a sentence.
        TextUnit::Sentence => text.split_sentence_bounds().for_each(next),
        TextUnit::Paragraph => {
            let (mut start, mut end) = (0, 0);
            let (mut has_text, mut is_over) = (false, false);
            for line in text.split_inclusive('\n') {
                let is_blank = line.trim().is_empty();
                if is_over && !is_blank {
                    next(&text[start..end]);
                    (start, has_text) = (end, false);
                }
                has_text |= !is_blank;
                is_over = has_text && is_blank;
                end += line.len();
            }
            if end > start {
                next(&text[start..end]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::Words;
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

        #[test]
        fn units_join_to_the_text(text in "[a-cä.?! \u{85}\u{2028}\r\n]{0,60}") {
            for unit in [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph] {
                let all = cut(&text, unit);
                prop_assert!(all.iter().all(|part| !part.is_empty()));
                prop_assert_eq!(all.concat(), text.as_str());
            }
        }
    }

    fn cut(text: &str, unit: TextUnit) -> Vec<&str> {
        let mut all = Vec::new();
        each_unit(text, unit, |bytes| all.push(&text[bytes]));
        all
    }

    #[test]
    fn each_unit_by_example() {
        assert_eq!(cut("a\r\n\nb", TextUnit::Line), ["a\r\n", "\n", "b"]);
        assert_eq!(cut("One. Two?  Three\nfour", TextUnit::Sentence), ["One. ", "Two?  ", "Three\n", "four"]);
        assert_eq!(cut("\n a\nb\n \n\nc\n", TextUnit::Paragraph), ["\n a\nb\n \n\n", "c\n"]);
    }

    #[test]
    fn units_are_equal_by_their_words() {
        let mut words = WrittenWords::new(&["lowercase".parse().unwrap()], Words::Unicode).unwrap();
        let mut all = Vec::new();
        units("Ä b, C\nb\n\nä B c!", TextUnit::Line, 2, &mut words, |unit| all.push(unit));
        let hash = words.hash(0..3);
        let span = |bytes, chars| UnitSpan { bytes, chars, words: 3, hash };
        assert_eq!(all, [span(0..8, 0..7), span(11..18, 10..16)]);
    }
}
