//! Two texts in parts, common passages and others.

use std::ops::Range;

use serde::Serialize;

use super::side_by_side::common;
use super::text::count;
use crate::error::visible::acts;
use crate::job::Shingle;

/// Characters of a text that are shown. Longer texts are cut.
const MOST_CHARACTERS: usize = 4_000;

/// A text in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The document.
    pub id: String,
    /// Its parts in order.
    pub parts: Vec<Part>,
    /// Characters that are shown.
    pub shown: u64,
    /// Characters of the whole text.
    pub characters: u64,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The text.
    pub text: String,
    /// Whether the other text has it too.
    pub common: bool,
}

impl Side {
    /// A note if the text is cut.
    pub(crate) fn cut(&self) -> Option<String> {
        (self.shown < self.characters).then(|| {
            format!("Cut here: {} of {} characters are shown.", count(self.shown), count(self.characters))
        })
    }
}

/// Two texts of the documents `ids`, their common passages of at least a shingle marked.
pub(crate) fn sides(ids: [String; 2], texts: [&str; 2], shingle: &Shingle) -> [Side; 2] {
    let cut = texts.map(|text| match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => &text[..end],
        None => text,
    });
    let (passages, _) = common(cut, shingle);
    let of_a = parts(cut[0], passages.iter().map(|passage| passage.a.clone()));
    let of_b = parts(cut[1], passages.iter().map(|passage| passage.b.clone()));
    let [id_a, id_b] = ids;
    let side = |id, parts, shown: &str, text: &str| Side {
        id,
        parts,
        shown: shown.chars().count() as u64,
        characters: text.chars().count() as u64,
    };
    [side(id_a, of_a, cut[0], texts[0]), side(id_b, of_b, cut[1], texts[1])]
}

/// A text in parts; `passages` are ranges of characters in order.
fn parts(text: &str, passages: impl Iterator<Item = Range<usize>>) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut rest, mut at) = (text, 0);
    let mut take = |characters: usize, common: bool| {
        let end = rest.char_indices().nth(characters).map_or(rest.len(), |(end, _)| end);
        let (part, behind) = rest.split_at(end);
        rest = behind;
        if !part.is_empty() {
            // Line feeds and tabs are shown as such; other control characters would act on the page.
            let text = part.replace(|c| acts(c) && c != '\n' && c != '\t', "\u{fffd}");
            parts.push(Part { text, common });
        }
    };
    for passage in passages {
        take(passage.start - at, false);
        take(passage.len(), true);
        at = passage.end;
    }
    take(usize::MAX, false);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_text() {
        let part = |text: &str, common| Part { text: text.into(), common };
        assert_eq!(
            parts("é one two\u{0}\u{202e} x", std::iter::once(2..9)),
            [part("é ", false), part("one two", true), part("\u{fffd}\u{fffd} x", false)]
        );
        assert_eq!(parts("", std::iter::empty()), []);
    }
}
