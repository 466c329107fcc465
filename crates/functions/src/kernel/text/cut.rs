//! Cuts a text into shingles, one part (a *piece*) of the text at a time, and passes them to a `Sink`. A shingle is a sequence of `size`
//! consecutive units, which are words or characters (Broder, *On the resemblance and containment of documents*, SEQUENCES 1997, section 2).

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::kernel::shingle::{Normalize, Shingle, ShingleHash, Short, Unit, Words};
use crate::kernel::text::normalize::Normalizer;
use crate::kernel::text::words::{each_word, next_cut};

/// The minimum number of bytes in a piece of text. A piece stays in the first-level cache during all normalisation steps.
pub(crate) const PIECE: usize = 16 << 10;
/// The approximate maximum number of shingles that a sink receives in one call.
pub(crate) const BLOCK: usize = 1 << 10;

pub(crate) trait Sink {
    /// Receives a batch of shingles as bytes: characters as UTF-8, and words with the separator between them. With [`ShingleHash::Xxh3`],
    /// words are instead their XXH3-64 hashes, each as 8 bytes, little endian.
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>);
}

/// Passes every shingle of `text` to `sink`, in order and with repeats. Returns whether the text has at least `by.min_words` words. Memory
/// contains one piece of text at a time. A text is a single piece if no space precedes an ASCII letter, or if [`in_pieces`] is false. It is
/// then normalised as a whole, in two buffers.
pub(crate) fn cut(text: &str, by: &Shingle, scratch: &mut CutScratch, sink: &mut impl Sink) -> Result<bool> {
    let mut cutting = Cutting::begin(by, scratch)?;
    let piece_bytes = if in_pieces(by) { scratch.piece } else { text.len() };
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(next_cut(rest.as_bytes(), piece_bytes));
        rest = tail;
        cutting.piece(head, by, scratch, sink);
    }
    Ok(cutting.end(by, scratch, sink))
}

/// The state of a text after the pieces that were added so far.
#[derive(Debug, Default)]
pub(crate) struct Cutting {
    /// The number of words so far, counted only if shingles consist of words or `by` has a minimum number of words.
    words: usize,
    /// The number of characters so far, counted only if shingles consist of characters and `by.short` is [`Short::Whole`].
    characters: usize,
    /// Whether the normalised text contains more than white space.
    pub(crate) has_text: bool,
}

impl Cutting {
    /// Begins a text. Until this text ends, `scratch` must not be used for another text.
    pub(crate) fn begin(by: &Shingle, scratch: &mut CutScratch) -> Result<Self> {
        scratch.resolve(by)?;
        if let Some(normalizer) = &mut scratch.normalizer {
            normalizer.begin();
        }
        scratch.words.clear();
        scratch.chars.clear();
        scratch.wordless.clear();
        Ok(Self::default())
    }

    /// Adds the next piece of the text, and passes all shingles that are now complete to `sink`. Pieces must end where [`next_cut`] says. A
    /// text may have several pieces only if [`in_pieces`] is true.
    pub(crate) fn piece(
        &mut self,
        piece: &str,
        by: &Shingle,
        scratch: &mut CutScratch,
        sink: &mut impl Sink,
    ) {
        let CutScratch { normalizer: Some(normalizer), words, chars, wordless, .. } = scratch else { return };
        let (size, separator) = size_and_separator(by);
        let text = normalizer.piece(piece);
        self.has_text = self.has_text || !is_blank(text);
        match by.unit {
            Unit::Word => {
                each_word(text, by.words, |word| {
                    words.add(&text.as_bytes()[word], separator);
                    self.words += 1;
                    if words.count() >= BLOCK.saturating_add(size) {
                        words.shingle(size, separator, sink);
                    }
                });
                words.shingle(size, separator, sink);
                if self.words == 0 && by.short == Short::Whole {
                    wordless.push_str(text);
                }
            }
            Unit::Char => {
                if by.min_words > 0 {
                    each_word(text, by.words, |_| self.words += 1);
                }
                if by.short == Short::Whole {
                    self.characters += text.chars().count();
                }
                chars.shingle(text, size, sink);
            }
        }
    }

    /// Ends the text. With [`Short::Whole`], passes a text that is shorter than a shingle to `sink` as one shingle. Returns whether the
    /// text has at least `by.min_words` words.
    pub(crate) fn end(self, by: &Shingle, scratch: &mut CutScratch, sink: &mut impl Sink) -> bool {
        let (size, separator) = size_and_separator(by);
        if by.short == Short::Whole {
            match by.unit {
                Unit::Word if self.words < size => {
                    if self.words == 0 {
                        scratch.add_wordless(separator);
                    }
                    scratch.words.whole(separator, sink);
                }
                Unit::Char if self.characters < size => scratch.chars.whole(sink),
                Unit::Word | Unit::Char => {}
            }
        }
        self.words >= by.min_words
    }
}

/// Returns the number of units in a shingle, and the separator between words; `None` if shingles consist of the hashes of words.
fn size_and_separator(by: &Shingle) -> (usize, Option<&[u8]>) {
    (by.size.max(1), (by.hash != ShingleHash::Xxh3).then_some(by.separator.as_bytes()))
}

/// Returns whether a text consists only of spaces, tabs and line ends. Such a text counts as empty.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Returns whether a text can be normalised piece by piece: each cut between its words must also be a cut between normalised words.
pub(crate) fn in_pieces(by: &Shingle) -> bool {
    let by_words = by.unit == Unit::Word || by.min_words > 0;
    // A piece starts with a letter. If its first word is removed, the rest can start with white space and a combining mark, which are one
    // segment by Unicode's rules.
    let takes_letters = by.normalize.iter().any(Normalize::takes_stop_words);
    if by_words && takes_letters && matches!(by.words, Words::Auto | Words::Unicode) {
        return false;
    }
    // If newlines are removed, the last word of a line and the first word of the next line become one word.
    if by.normalize.contains(&Normalize::RemoveNewlines) {
        return false;
    }
    // If underscores replace white space, there is no word boundary at which to cut.
    let mut steps = by.normalize.iter().skip_while(|step| !step.joins_words()).peekable();
    if steps.peek().is_none() {
        return true;
    }
    // If underscores are removed, letters become adjacent, and the lower case of a sigma depends on the next letter.
    let mut joined = steps.clone().skip_while(|step| **step != Normalize::RemoveNonLetters);
    let lowered = joined.any(|step| *step == Normalize::Lowercase);
    !(by_words || lowered || steps.any(Normalize::takes_words))
}

/// Buffers that are reused from text to text.
#[derive(Debug)]
pub struct CutScratch {
    normalizer: Option<Normalizer>,
    unit: Unit,
    words: LastWords,
    chars: Chars,
    /// The text so far, if it contains no words yet and `short` makes one shingle of a short text.
    wordless: String,
    pub(crate) piece: usize,
}

impl Default for CutScratch {
    fn default() -> Self {
        let (words, chars, wordless) = Default::default();
        Self { normalizer: None, unit: Unit::Word, words, chars, wordless, piece: PIECE }
    }
}

impl CutScratch {
    /// Adds a text without words as one word. Each run of white space in it becomes one space.
    fn add_wordless(&mut self, separator: Option<&[u8]>) {
        let text = self.wordless.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            self.words.add(text.as_bytes(), separator);
        }
    }

    fn resolve(&mut self, by: &Shingle) -> Result<()> {
        let same = |n: &Normalizer| n.is_for(&by.normalize, by.words) && self.unit == by.unit;
        if !self.normalizer.as_ref().is_some_and(same) {
            self.normalizer = Some(match by.unit {
                Unit::Word => Normalizer::for_words(&by.normalize, by.words)?,
                Unit::Char => Normalizer::new(&by.normalize, by.words)?,
            });
            self.unit = by.unit;
        }
        Ok(())
    }
}

/// The last words of a text: their bytes with a separator after each word, or their hashes.
#[derive(Debug, Default)]
struct LastWords {
    /// For each word, either its hash as 8 bytes, or its bytes followed by a separator.
    bytes: Vec<u8>,
    /// The end of each word in `bytes`, without its separator.
    ends: Vec<usize>,
}

impl LastWords {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn add(&mut self, word: &[u8], separator: Option<&[u8]>) {
        match separator {
            None => self.bytes.extend_from_slice(&xxh3_64(word).to_le_bytes()),
            Some(separator) => {
                self.bytes.extend_from_slice(word);
                self.ends.push(self.bytes.len());
                self.bytes.extend_from_slice(separator);
            }
        }
    }

    fn count(&self) -> usize {
        if self.ends.is_empty() { self.bytes.len() / 8 } else { self.ends.len() }
    }

    /// Passes all words in `bytes` to `sink` as one shingle. Passes nothing if there are no words.
    fn whole(&self, separator: Option<&[u8]>, sink: &mut impl Sink) {
        let end = match separator {
            None => self.bytes.len(),
            Some(_) => self.ends.last().copied().unwrap_or(0),
        };
        if end > 0 {
            sink.take(std::iter::once(&self.bytes[..end]));
        }
    }

    /// Passes every shingle of the words in `bytes` to `sink`, and keeps the last `size - 1` words.
    fn shingle(&mut self, size: usize, separator: Option<&[u8]>, sink: &mut impl Sink) {
        if self.count() < size {
            return;
        }
        match separator {
            None => {
                sink.take(self.bytes.windows(8 * size).step_by(8));
                self.bytes.drain(..self.bytes.len() - 8 * (size - 1));
            }
            Some(separator) => {
                let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + separator.len()));
                let runs = starts.zip(&self.ends[size - 1..]);
                sink.take(runs.map(|(start, &end)| &self.bytes[start..end]));
                let gone = self.ends.len() - (size - 1);
                let gone_bytes = self.ends[gone - 1] + separator.len();
                self.bytes.drain(..gone_bytes);
                self.ends.drain(..gone);
                self.ends.iter_mut().for_each(|end| *end -= gone_bytes);
            }
        }
    }
}

/// The last characters of the previous piece.
#[derive(Debug, Default)]
struct Chars(String);

impl Chars {
    fn clear(&mut self) {
        self.0.clear();
    }

    /// Passes all these characters to `sink` as one shingle. Passes nothing if they are only white space.
    fn whole(&self, sink: &mut impl Sink) {
        if !self.0.trim().is_empty() {
            sink.take(std::iter::once(self.0.as_bytes()));
        }
    }

    fn shingle(&mut self, piece: &str, size: usize, sink: &mut impl Sink) {
        if self.0.is_empty() {
            let kept = shingle_chars(piece, size, sink);
            self.0.push_str(&piece[kept..]);
        } else {
            self.0.push_str(piece);
            let kept = shingle_chars(&self.0, size, sink);
            self.0.drain(..kept);
        }
    }
}

/// Passes every shingle of `text` to `sink`. Returns the byte position at which the last `size - 1` characters begin.
fn shingle_chars(text: &str, size: usize, sink: &mut impl Sink) -> usize {
    let bytes = text.as_bytes();
    if text.is_ascii() {
        let Some(shingles) = (bytes.len() + 1).checked_sub(size) else { return 0 };
        for block in (0..shingles).step_by(BLOCK) {
            let end = (block + BLOCK).min(shingles);
            sink.take((block..end).map(|at| &bytes[at..at + size]));
        }
        return shingles;
    }
    // Each pair consists of the byte offset of a character and the byte offset of the character `size` positions later.
    let starts = || text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    let mut runs = starts().zip(starts().skip(size)).peekable();
    let mut kept = 0;
    while runs.peek().is_some() {
        sink.take(runs.by_ref().take(BLOCK).map(|(start, end)| {
            kept = start + text[start..].chars().next().map_or(0, char::len_utf8);
            &bytes[start..end]
        }));
    }
    kept
}
