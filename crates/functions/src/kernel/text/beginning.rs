//! The shingles of the beginning of a text: enough of them to say that the whole text cannot be similar to others.

use crate::error::Result;
use crate::kernel::distinct::{self, sort_distinct};
use crate::kernel::shingle::Shingle;
use crate::kernel::text::cut::{CutScratch, Cutting, in_pieces};
use crate::kernel::text::shingles::{Distinct, Hashed, hash_of};
use crate::kernel::text::words::next_cut;

/// A later piece has this part of a text.
const LATER_PIECES: usize = 16;

/// Buffers that are reused from text to text.
#[derive(Debug, Default)]
pub struct Beginning {
    cut: CutScratch,
    sort: distinct::DistinctBuffers,
    set: Vec<u64>,
}

impl Beginning {
    /// At least `least` distinct shingles of `text`, which has `all`: those of its beginning, sorted. `None` if they cannot be
    /// cut without the end of the text, because it has to be normalised whole, has no place to cut it, or repeats itself.
    ///
    /// # Errors
    /// As [`shingles`](super::shingles::shingles).
    pub fn shingles(&mut self, text: &str, by: &Shingle, least: usize, all: usize) -> Result<Option<&[u64]>> {
        let Self { cut, sort, set } = self;
        let hash = hash_of(by.hash)?;
        set.clear();
        if !in_pieces(by) {
            return Ok(None);
        }
        let mut cutting = Cutting::begin(by, cut)?;
        // A shingle begins about every `bytes / all`, and the last one has the units of `size` of them.
        let units = least.saturating_add(by.size);
        let first =
            (text.len() as u128 * units as u128 / (all.max(1) as u128)).min(text.len() as u128) as usize;
        let (mut rest, mut piece) = (text, first);
        while set.len() < least {
            let (head, tail) = rest.split_at(next_cut(rest.as_bytes(), piece.max(1)));
            if tail.is_empty() {
                return Ok(None);
            }
            let distinct =
                Distinct { start: 0, limit: usize::MAX, most: usize::MAX, out: &mut *set, sort: &mut *sort };
            cutting.piece(head, by, cut, &mut Hashed(distinct, hash));
            sort_distinct(set, 0, sort);
            (rest, piece) = (tail, text.len() / LATER_PIECES);
        }
        Ok(Some(set.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::{ShingleHash, Short, Unit, Words};
    use crate::kernel::text::normalize::definition::{any_steps, any_text, any_words};
    use crate::kernel::text::shingles::{ShingleBuffers, shingles};

    fn by(unit: Unit, size: usize) -> Shingle {
        Shingle {
            normalize: Vec::new(),
            unit,
            words: Words::Unicode,
            size,
            separator: " ".into(),
            hash: ShingleHash::Xxh3,
            min_words: 0,
            short: Short::Reject,
        }
    }

    fn whole(text: &str, by: &Shingle) -> Vec<u64> {
        let mut all = Vec::new();
        shingles(text, by, &mut ShingleBuffers::default(), &mut all).unwrap();
        all
    }

    proptest! {
        #[test]
        fn they_are_shingles_of_the_text(
            text in any_text(),
            steps in any_steps(),
            words in any_words(),
            chars in any::<bool>(),
            size in 1_usize..6,
            least in 1_usize..20,
        ) {
            let unit = if chars { Unit::Char } else { Unit::Word };
            let by = Shingle { normalize: steps, words, ..by(unit, size) };
            let all = whole(&text, &by);
            let mut beginning = Beginning::default();
            if let Some(some) = beginning.shingles(&text, &by, least, all.len()).unwrap() {
                prop_assert!(some.len() >= least);
                let all: BTreeSet<u64> = all.into_iter().collect();
                prop_assert!(some.iter().all(|shingle| all.contains(shingle)), "{some:?}");
            }
        }
    }

    #[test]
    fn a_part_of_the_text_is_enough() {
        let text: String = (0..200).map(|at| format!("w{at} ")).collect();
        let by = by(Unit::Word, 5);
        let mut beginning = Beginning::default();
        let some = beginning.shingles(&text, &by, 40, 196).unwrap().unwrap();
        assert!((40..80).contains(&some.len()), "{}", some.len());
        // The first words repeat.
        let text = format!("{}{text}", "again and ".repeat(100));
        let all = whole(&text, &by);
        assert!(beginning.shingles(&text, &by, 40, all.len()).unwrap().unwrap().len() >= 40);
        assert_eq!(beginning.shingles(&text, &by, all.len(), all.len()).unwrap(), None);
        assert_eq!(beginning.shingles("no-cut", &by, 1, 1).unwrap(), None);
    }
}
