//! `shingle_texts(text, ...)`: a text as the set of its shingles, each as text. A dictionary is made of them.

use std::collections::{BTreeSet, HashMap};

use crate::error::Result;
use crate::kernel::shingle::{Shingle, ShingleHash};
use crate::kernel::text::cut::{CutScratch, Sink, cut};
use crate::kernel::text::shingles::hash_of;

/// The distinct shingles of `text`, in order of their bytes: the characters, or the words with `by.separator` between
/// them. Empty if the normalised text has fewer units than `by.size`, or fewer words than `by.min_words`.
///
/// # Errors
/// [`Error`](crate::error::Error) if `by.normalize` names a language without stop words.
pub fn shingle_texts(text: &str, by: &Shingle, scratch: &mut CutScratch) -> Result<BTreeSet<String>> {
    let mut texts = TextSet::default();
    let enough = cut(text, by, scratch, &mut texts)?;
    Ok(if enough { texts.0 } else { BTreeSet::new() })
}

/// The distinct shingles of one text, in order of their bytes: see [`shingle_texts`].
///
/// # Errors
/// As [`shingle_texts`].
pub fn distinct_shingle_texts(text: &str, by: &Shingle) -> Result<BTreeSet<String>> {
    shingle_texts(text, by, &mut CutScratch::default())
}

/// The shingles of `text` whose numbers are `wanted`, as texts and in the same order; `None` for a number that the text does not
/// have.
///
/// # Errors
/// As [`shingles`](super::shingles::shingles).
pub(crate) fn shingles_numbered(
    text: &str,
    wanted: &[u64],
    by: &Shingle,
    scratch: &mut CutScratch,
) -> Result<Vec<Option<String>>> {
    let hash = hash_of(by.hash)?;
    let mut places: HashMap<u64, usize> = wanted.iter().map(|&number| (number, usize::MAX)).collect();
    let mut at = 0;
    cut(
        text,
        by,
        scratch,
        &mut Each(|shingle: &[u8]| {
            if let Some(place) = places.get_mut(&hash(shingle)) {
                *place = at.min(*place);
            }
            at += 1;
        }),
    )?;
    // The same shingles in the same order, but with the words themselves.
    let mut texts: HashMap<usize, String> = HashMap::new();
    let there: BTreeSet<usize> = places.values().copied().collect();
    at = 0;
    cut(
        text,
        &Shingle { hash: ShingleHash::Dictionary, ..by.clone() },
        scratch,
        &mut Each(|shingle: &[u8]| {
            if there.contains(&at) {
                texts.insert(at, String::from_utf8_lossy(shingle).into_owned());
            }
            at += 1;
        }),
    )?;
    Ok(wanted.iter().map(|number| texts.get(places.get(number)?).cloned()).collect())
}

/// The shingles of `text` in their order, with repeats: see [`shingle_texts`]. `by.hash` must be [`ShingleHash::Dictionary`].
///
/// # Errors
/// As [`shingle_texts`].
pub fn shingles_in_order(text: &str, by: &Shingle, scratch: &mut CutScratch) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut each = Each(|shingle: &[u8]| texts.push(String::from_utf8_lossy(shingle).into_owned()));
    let enough = cut(text, by, scratch, &mut each)?;
    Ok(if enough { texts } else { Vec::new() })
}

/// Calls a function with each shingle.
struct Each<F>(F);

impl<F: FnMut(&[u8])> Sink for Each<F> {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        shingles.for_each(&mut self.0);
    }
}

#[derive(Default)]
struct TextSet(BTreeSet<String>);

impl Sink for TextSet {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        // They were cut between characters, so nothing is lost here.
        self.0.extend(shingles.map(|shingle| String::from_utf8_lossy(shingle).into_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::shingle::{ShingleHash, Short, Unit, Words};

    fn texts(text: &str, unit: Unit, size: usize, min_words: usize) -> Vec<String> {
        let by = Shingle {
            normalize: Vec::new(),
            unit,
            words: Words::Spaces,
            size,
            separator: ", ".into(),
            hash: ShingleHash::Dictionary,
            min_words,
            short: Short::Reject,
        };
        shingle_texts(text, &by, &mut CutScratch::default()).unwrap().into_iter().collect()
    }

    #[test]
    fn shingles_read_as_they_were_cut() {
        assert_eq!(texts("b a\nb a", Unit::Word, 2, 0), ["a, b", "b, a"]);
        assert_eq!(texts("néné", Unit::Char, 2, 0), ["né", "én"]);
        assert!(texts("b a", Unit::Word, 3, 0).is_empty());
        assert!(texts("b a", Unit::Char, 2, 3).is_empty());
    }

    #[test]
    fn numbers_lead_back_to_their_shingles() {
        use crate::kernel::text::shingles::{ShingleBuffers, shingles};
        let long = "the Quick brown fox, and  the quick brown dog ".repeat(2_000);
        for hash in [ShingleHash::Xxh3, ShingleHash::Crc32, ShingleHash::Sha256Mod31] {
            for (unit, short, text) in [
                (Unit::Word, Short::Reject, long.as_str()),
                (Unit::Char, Short::Reject, long.as_str()),
                (Unit::Word, Short::Whole, "the fox"),
            ] {
                let by = Shingle {
                    normalize: vec![crate::kernel::shingle::Normalize::Lowercase],
                    unit,
                    words: Words::Unicode,
                    size: 3,
                    separator: "-".into(),
                    hash,
                    min_words: 0,
                    short,
                };
                let mut numbers = Vec::new();
                shingles(text, &by, &mut ShingleBuffers::default(), &mut numbers).unwrap();
                numbers.push(7);
                let found = shingles_numbered(text, &numbers, &by, &mut CutScratch::default()).unwrap();
                assert_eq!(found.last(), Some(&None));
                let found: BTreeSet<String> = found.into_iter().flatten().collect();
                assert_eq!(
                    found,
                    distinct_shingle_texts(text, &Shingle { hash: ShingleHash::Dictionary, ..by }).unwrap()
                );
                assert_eq!(found.len(), numbers.len() - 1);
            }
        }
    }
}
