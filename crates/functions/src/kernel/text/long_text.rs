//! Splits a text into shingles while its parts arrive, so that memory never contains the whole text.

use crate::error::Result;
use crate::kernel::distinct::{self, sort_distinct};
use crate::kernel::shingle::{Shingle, ShingleHash};
use crate::kernel::text::cut::{self, Cutting, in_pieces, is_blank};
use crate::kernel::text::shingles::{Distinct, Hashed, MAX_SHINGLES, UNSORTED, hash_function};
use crate::kernel::text::words::next_cut;

/// The shingles of a text that arrives in parts. Memory contains the set, a piece of text, and the latest part. A text in which no space
/// precedes an ASCII letter is a single piece.
#[derive(Debug)]
pub struct LongText {
    by: Shingle,
    hash: fn(&[u8]) -> u64,
    scratch: cut::CutScratch,
    cutting: Cutting,
    /// The text after the last complete piece.
    waiting: String,
    /// The number of bytes at the start of `waiting` in which the search found no end of a piece.
    looked_at: usize,
    set: Vec<u64>,
    /// The length of `set` at which repeats are dropped.
    limit: usize,
    sort: distinct::DistinctBuffers,
    sample: String,
    /// Whether the sample is more than white space.
    sampled: bool,
}

/// The result for a long text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutText {
    /// The shingles, the same as from [`shingles`](super::shingles::shingles).
    pub shingles: Vec<u64>,
    /// One or two pieces of the text. If the sample is blank, so is the whole text. This also holds after normalisation.
    pub sample: String,
}

impl LongText {
    /// Returns whether texts can be split while they arrive. Dictionaries and some normalisation steps require the whole text.
    pub fn can(by: &Shingle) -> bool {
        by.hash != ShingleHash::Dictionary && in_pieces(by)
    }

    /// Begins a text. [`can`](Self::can) must be true. Fails like [`shingles`](super::shingles::shingles).
    pub fn begin(by: &Shingle) -> Result<Self> {
        let mut scratch = cut::CutScratch::default();
        let cutting = Cutting::begin(by, &mut scratch)?;
        Ok(Self {
            hash: hash_function(by.hash)?,
            by: by.clone(),
            scratch,
            cutting,
            waiting: String::new(),
            looked_at: 0,
            set: Vec::new(),
            limit: UNSORTED,
            sort: distinct::DistinctBuffers::default(),
            sample: String::new(),
            sampled: false,
        })
    }

    /// Takes the next part of the text.
    pub fn take(&mut self, text: &str) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.push_str(text);
        let mut taken = 0;
        loop {
            let rest = &waiting[taken..];
            let end = next_cut(rest.as_bytes(), self.scratch.piece.max(self.looked_at));
            if end >= rest.len() {
                self.looked_at = rest.len();
                break;
            }
            self.piece(&rest[..end]);
            (taken, self.looked_at) = (taken + end, 0);
        }
        // Without a cut no bytes move, so a text without cuts is copied only when its buffer doubles.
        waiting.drain(..taken);
        self.waiting = waiting;
    }

    /// Returns the result for the whole text. All parts must have been passed to [`take`](Self::take).
    pub fn end(mut self) -> CutText {
        let last = std::mem::take(&mut self.waiting);
        self.piece(&last);
        let Self { by, hash, mut scratch, cutting, mut set, limit, mut sort, sample, .. } = self;
        let distinct = Distinct { start: 0, limit, most: MAX_SHINGLES, out: &mut set, sort: &mut sort };
        if cutting.end(&by, &mut scratch, &mut Hashed(distinct, hash)) {
            sort_distinct(&mut set, 0, &mut sort);
            set.truncate(MAX_SHINGLES + 1);
        } else {
            set.clear();
        }
        CutText { shingles: set, sample }
    }

    fn piece(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let is_sample = !is_blank(piece);
        let first = is_sample && !self.sampled;
        let said_nothing = !self.cutting.has_text;
        let Self { by, hash, scratch, cutting, set, limit, sort, .. } = self;
        let distinct = Distinct { start: 0, limit: *limit, most: MAX_SHINGLES, out: set, sort };
        let mut sink = Hashed(distinct, *hash);
        cutting.piece(piece, by, scratch, &mut sink);
        *limit = sink.0.limit;
        if first || (said_nothing && self.cutting.has_text) {
            self.sample.push_str(piece);
            self.sampled |= is_sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::{Normalize, Short, Unit};
    use crate::kernel::text::normalize::definition::{any_steps, any_text, any_words};
    use crate::kernel::text::shingles::tests::{by, set_of};

    fn by_pieces(text: &str, by: &Shingle, piece: usize, sizes: &[usize]) -> CutText {
        let mut long = LongText::begin(by).unwrap();
        long.scratch.piece = piece;
        let (mut rest, mut sizes) = (text, sizes.iter().cycle());
        while !rest.is_empty() {
            let size = sizes.next().map_or(1, |size| *size);
            let end = (size..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
            let (head, tail) = rest.split_at(end);
            long.take(head);
            rest = tail;
        }
        long.end()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, max_global_rejects: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn a_text_that_comes_in_parts_has_the_shingles_of_the_whole(
            text in any_text(),
            normalize in any_steps(),
            words in any_words(),
            size in 1_usize..4,
            by_words: bool,
            min_words in 0_usize..4,
            taken_whole: bool,
            hash in prop_oneof![Just(ShingleHash::Xxh3), Just(ShingleHash::Crc32), Just(ShingleHash::Sha256Mod31)],
            piece in 1_usize..40,
            sizes in prop::collection::vec(1_usize..30, 1..5),
        ) {
            let by = Shingle {
                normalize,
                unit: if by_words { Unit::Word } else { Unit::Char },
                words,
                size,
                separator: ", ".into(),
                hash,
                min_words,
                short: if taken_whole { Short::Whole } else { Short::Reject },
            };
            prop_assume!(LongText::can(&by));
            let cut = by_pieces(&text, &by, piece, &sizes);
            prop_assert_eq!(cut.shingles, set_of(&text, &by));
            // The sample is blank if and only if the text is blank.
            prop_assert_eq!(is_blank(&cut.sample), is_blank(&text));
            let letters = Shingle { unit: Unit::Char, size: 1, min_words: 0, short: Short::Reject, ..by };
            let empty = |text: &str| {
                let texts = crate::kernel::text::shingles::shingle_texts(text, &letters, &mut Default::default()).unwrap();
                texts.iter().all(|text| is_blank(text))
            };
            prop_assert_eq!(empty(&cut.sample), empty(&text));
        }
    }

    fn three_words() -> Shingle {
        by(Unit::Word, 3, ShingleHash::Xxh3)
    }

    /// Normalisation turns the white space at the beginning into underscores, or a vertical tab into a space, which is blank.
    #[test]
    fn a_text_that_begins_with_white_space_is_not_blank() {
        let normalize = vec![Normalize::SpacesToUnderscores];
        let cut = by_pieces("  the", &Shingle { normalize, unit: Unit::Char, ..three_words() }, 1, &[1]);
        assert!(!is_blank(&cut.sample), "{cut:?}");
        let normalize = vec![Normalize::CollapseWhitespace];
        let cut = by_pieces("\u{b}the", &Shingle { normalize, size: 1, ..three_words() }, 1, &[1]);
        assert_eq!(cut.sample, "\u{b}the");
    }

    /// A text without a cut is not copied for each part. Otherwise the time would be quadratic in the length of the text.
    #[test]
    fn a_text_without_a_cut_waits_where_it_is() {
        let by = three_words();
        let mut long = LongText::begin(&by).unwrap();
        let (mut places, mut last) = (0, std::ptr::null());
        for _ in 0..20_000 {
            long.take("\u{4eba}\u{4eba}\u{751f}\u{800c}\u{81ea}\u{7531}\u{3002} ");
            places += usize::from(long.waiting.as_ptr() != last);
            last = long.waiting.as_ptr();
        }
        assert_eq!(long.waiting.len(), 20_000 * 22);
        assert!(places < 30, "the text was moved {places} times");
        assert_eq!(long.end().shingles.len(), 6);
    }

    #[test]
    fn a_text_is_held_by_pieces() {
        let by = three_words();
        let mut long = LongText::begin(&by).unwrap();
        for _ in 0..100_000 {
            long.take("the same ten words again and again and then once more ");
            assert!(long.waiting.len() < 2 * cut::PIECE && long.waiting.capacity() < 8 * cut::PIECE);
            assert!(long.set.capacity() <= 4 * UNSORTED);
        }
        assert_eq!(long.end().shingles.len(), 11);
        let dictionary = Shingle { hash: ShingleHash::Dictionary, ..by };
        assert!(!LongText::can(&dictionary) && LongText::begin(&dictionary).is_err());
    }
}
