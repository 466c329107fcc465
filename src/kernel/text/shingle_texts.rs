//! `shingle_texts(text, ...)`: a text as the set of its shingles, each as text. A dictionary is made of them.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::job::Shingle;
use crate::kernel::text::cut::{CutScratch, Sink, cut};

/// The distinct shingles of `text`, in order of their bytes: the characters, or the words with `by.separator` between
/// them. Empty if the normalised text has fewer units than `by.size`, or fewer words than `by.min_words`.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if `by.normalize` names a language without stop words.
pub(crate) fn shingle_texts(text: &str, by: &Shingle, scratch: &mut CutScratch) -> Result<BTreeSet<String>> {
    let mut texts = Texts::default();
    let enough = cut(text, by, scratch, &mut texts)?;
    Ok(if enough { texts.0 } else { BTreeSet::new() })
}

/// The distinct shingles of one text, in order of their bytes: see [`shingle_texts`].
///
/// # Errors
/// As [`shingle_texts`].
pub(crate) fn of_one_text(text: &str, by: &Shingle) -> Result<BTreeSet<String>> {
    shingle_texts(text, by, &mut CutScratch::default())
}

#[derive(Default)]
struct Texts(BTreeSet<String>);

impl Sink for Texts {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        // They were cut between characters, so nothing is lost here.
        self.0.extend(shingles.map(|shingle| String::from_utf8_lossy(shingle).into_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ShingleHash, Short, Unit, Words};

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
}
