//! Text normalisation: the ordered steps before a text is split into shingles.

#[cfg(test)]
pub(crate) mod definition;
mod names;
mod steps;
pub mod stop_words;

use crate::error::{Error, Result};
use crate::kernel::shingle::{Normalize, Words};
use crate::kernel::text::words::{is_digit, is_white};
use steps::{Collapse, Fused, Gap, keep, lowercase, nfkc, underscores, without};
use stop_words::StopWords;

/// Parses a list of steps separated by commas. Spaces around a name are ignored, and an empty list has no steps.
pub(crate) fn parse_steps(names: &str) -> Result<Vec<Normalize>> {
    if names.trim().is_empty() {
        return Ok(Vec::new());
    }
    names.split(',').map(|name| name.trim().parse()).collect()
}

fn words_of_list(name: &str) -> Result<Vec<&'static str>> {
    // The name of the list was checked when the step was parsed.
    stop_words::named(name).ok_or_else(|| Error::new(format!("no stop words for the language {name:?}")))
}

/// Applies steps to texts, and reuses its buffers between texts. Each text starts with [`begin`](Self::begin), followed by the whole text
/// or by its consecutive pieces. The joined results of the pieces equal the result for the whole text under four conditions. Pieces must be
/// cut between ASCII white space and an ASCII letter. No step may be `remove-newlines`. No step that removes words may follow
/// `spaces-to-underscores`. After that step, `lowercase` may not follow `remove-non-letters`, which removes the underscores.
#[derive(Debug)]
pub struct Normalizer {
    steps: Vec<Step>,
    /// The definition of a word for the steps that remove words.
    words: Words,
    /// Whether callers use only the words of the result, not the white space between them.
    for_words: bool,
    text: String,
    next: String,
}

/// A step with its state between the pieces of a text.
#[derive(Debug)]
struct Step {
    kind: Normalize,
    gap: Gap,
    collapse: Collapse,
    /// The stop words that this step removes. The table is empty for all other steps.
    stop_words: StopWords,
}

impl Normalizer {
    /// Creates a normaliser for these steps. Steps that remove words use the definition of a word in `words`. Fails if a step names a
    /// language without stop words.
    pub fn new(steps: &[Normalize], words: Words) -> Result<Self> {
        let step = |kind: &Normalize| {
            let stop_words = match kind {
                Normalize::StopWords(name) => StopWords::new(&words_of_list(name)?),
                Normalize::StopWordList(words) => {
                    StopWords::new(&words.split_whitespace().collect::<Vec<_>>())
                }
                _ => StopWords::new(&[]),
            };
            Ok(Step { kind: kind.clone(), gap: Gap::default(), collapse: Collapse::default(), stop_words })
        };
        let steps = steps.iter().map(step).collect::<Result<_>>()?;
        let (text, next) = Default::default();
        Ok(Self { steps, words, for_words: false, text, next })
    }

    /// Creates a normaliser for callers that use only the *words* of the result. ASCII text then takes one pass, which may leave more white
    /// space between words than the steps define. If a step joins words, the white space is exact. Fails like [`new`](Self::new).
    pub fn for_words(steps: &[Normalize], words: Words) -> Result<Self> {
        let for_words = !steps.iter().any(Normalize::joins_words);
        Ok(Self { for_words, ..Self::new(steps, words)? })
    }

    pub(crate) fn is_for(&self, steps: &[Normalize], words: Words) -> bool {
        self.steps.iter().map(|step| &step.kind).eq(steps) && self.words == words
    }

    /// Starts a new text.
    pub fn begin(&mut self) {
        for step in &mut self.steps {
            (step.gap, step.collapse) = Default::default();
        }
    }

    /// Normalises the next piece of the text.
    pub fn piece<'a>(&'a mut self, piece: &'a str) -> &'a str {
        if self.steps.is_empty() {
            return piece;
        }
        self.text.clear();
        if self.for_words && piece.is_ascii() && self.fused(piece) {
            return &self.text;
        }
        let mut steps = self.steps.iter_mut();
        if let Some(step) = steps.next() {
            step.apply(piece, self.words, &mut self.text);
        }
        for step in steps {
            self.next.clear();
            step.apply(&self.text, self.words, &mut self.next);
            std::mem::swap(&mut self.text, &mut self.next);
        }
        &self.text
    }

    /// Applies all steps in one pass over ASCII bytes. Returns `false` if a step cannot process single bytes. The pass ignores the state
    /// between pieces, which only affects white space at the start of a piece. Later pieces start with a letter that these steps keep.
    fn fused(&mut self, piece: &str) -> bool {
        let mut fused = Fused::default();
        for step in &self.steps {
            match step.kind {
                Normalize::Lowercase => fused.lower = true,
                Normalize::LettersOnly => fused.letters = true,
                // White space becomes spaces, so that a piece of only white space is recognised as blank.
                Normalize::CollapseWhitespace | Normalize::CollapseWhitespaceKeepEnds => fused.spaces = true,
                Normalize::CollapseSpaces | Normalize::CollapseTabsAndNewlines | Normalize::Nfkc => {}
                Normalize::RemoveNonLetters
                | Normalize::RemoveNewlines
                | Normalize::DigitsOut
                | Normalize::StopWords(_)
                | Normalize::StopWordList(_)
                | Normalize::SpacesToUnderscores
                | Normalize::OnlySpacesToUnderscores => return false,
            }
        }
        fused.apply(piece, &mut self.text);
        true
    }
}

impl Step {
    fn apply(&mut self, text: &str, rule: Words, out: &mut String) {
        let Self { kind, gap, collapse, stop_words } = self;
        match kind {
            Normalize::Lowercase => lowercase(text, out),
            Normalize::LettersOnly => {
                gap.squeeze(text, out, |byte| byte.is_ascii_alphabetic(), char::is_alphabetic)
            }
            Normalize::RemoveNonLetters => keep(
                text,
                out,
                |byte| byte.is_ascii_alphabetic() || is_white(byte),
                |c| c.is_alphabetic() || c.is_whitespace(),
            ),
            Normalize::RemoveNewlines => {
                keep(text, out, |byte| !matches!(byte, b'\n' | b'\r'), |c| !matches!(c, '\n' | '\r'));
            }
            Normalize::CollapseWhitespace => collapse.collapse(text, out),
            Normalize::CollapseWhitespaceKeepEnds => {
                gap.squeeze(text, out, |byte| !is_white(byte), |c| !c.is_whitespace());
            }
            Normalize::CollapseSpaces => gap.squeeze(text, out, |byte| byte != b' ', |c| c != ' '),
            Normalize::CollapseTabsAndNewlines => {
                let stays = |c: char| !matches!(c, ' ' | '\t' | '\n' | '\r');
                gap.squeeze(text, out, |byte| stays(byte.into()), stays);
            }
            Normalize::DigitsOut => without(text, rule, out, |word| word.chars().all(is_digit)),
            Normalize::StopWords(_) | Normalize::StopWordList(_) => stop_words.remove(text, rule, out),
            Normalize::SpacesToUnderscores => underscores(text, out, is_white, char::is_whitespace),
            Normalize::OnlySpacesToUnderscores => underscores(text, out, |byte| byte == b' ', |c| c == ' '),
            Normalize::Nfkc => nfkc(text, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::definition::{any_steps, any_text, any_words, by_definition};
    use super::*;
    use crate::kernel::text::words::next_cut;

    fn normalized(text: &str, steps: &str) -> String {
        let steps = parse_steps(steps).unwrap();
        Normalizer::new(&steps, Words::Unicode).unwrap().piece(text).to_owned()
    }

    #[test]
    fn each_step_by_example() {
        assert_eq!(normalized("ÀB ΣΑΣ", "lowercase"), "àb σας");
        assert_eq!(normalized("don't  stop--42 née", "letters-only"), "don t stop née");
        assert_eq!(normalized("  a \t\n b\u{3000}c ", "collapse-whitespace"), "a b c");
        assert_eq!(normalized("in 1987 x1 3.5 42.", "digits-out"), "in  x1 3.5 .");
        assert!(parse_steps("lowercase,,nfkc").is_err());
        // The first numbers are digits by Python's definition, and the others are not.
        assert_eq!(normalized("١٢ ² Ⅻ 四", "digits-out"), "  Ⅻ 四");
        assert_eq!(normalized("The dog isn't on THE mat", "stop-words:en"), " dog    mat");
        let steps = parse_steps("digits-out,stop-words:en").unwrap();
        let mut tokens = Normalizer::new(&steps, Words::WordCharacters).unwrap();
        assert_eq!(tokens.piece("3.5 isn't x1, the-cat"), ". ' x1, -cat");
        assert_eq!(normalized("The dog isn't on THE mat", "stop-words:list=the MAT"), " dog isn't on  ");
        assert_eq!(normalized("isn't fifteen whereafter", "stop-words:scikit-learn-en"), "isn't  ");
        assert_eq!(normalized("don't  stop\n-42 née", "remove-non-letters"), "dont  stop\n née");
        assert_eq!(normalized("the\r\nprice of \ngold", "remove-newlines"), "theprice of gold");
        assert_eq!(normalized(" \ta \n b\n", "collapse-whitespace:keep-ends"), " a b ");
        assert_eq!(normalized("  a \n  b\tc ", "collapse-whitespace:spaces-only"), " a \n b\tc ");
        let found = normalized(" \t a\r\n\nb\u{b}\u{a0} c\n", "collapse-whitespace:tabs-and-newlines");
        assert_eq!(found, " a b\u{b}\u{a0} c ");
        assert_eq!(normalized("a b\tc\u{a0}d", "spaces-to-underscores"), "a_b_c_d");
        assert_eq!(normalized("a b\tc\u{a0}d", "spaces-to-underscores:spaces-only"), "a_b\tc\u{a0}d");
        assert_eq!(normalized("ﬁn ａ", "nfkc"), "fin a");
        assert_eq!(normalized(" As is ", ""), " As is ");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn steps_are_their_definitions(text in any_text(), steps in any_steps(), words in any_words()) {
            let mut normalizer = Normalizer::new(&steps, words).unwrap();
            normalizer.piece("something else before");
            normalizer.begin();
            prop_assert_eq!(normalizer.piece(&text), by_definition(&text, &steps, words));
        }

        #[test]
        fn pieces_join_to_the_whole(text in any_text(), steps in any_steps(), words in any_words()) {
            prop_assume!(!steps.contains(&Normalize::RemoveNewlines));
            let underscores = steps.iter().position(Normalize::joins_words).unwrap_or(steps.len());
            prop_assume!(!steps[underscores..].iter().any(Normalize::takes_words));
            let mut joining = steps[underscores..].iter().skip_while(|step| **step != Normalize::RemoveNonLetters);
            prop_assume!(!joining.any(|step| *step == Normalize::Lowercase));
            let mut normalizer = Normalizer::new(&steps, words).unwrap();
            let (mut joined, mut rest) = (String::new(), text.as_str());
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(next_cut(rest.as_bytes(), 1));
                joined.push_str(normalizer.piece(piece));
                rest = more;
            }
            prop_assert_eq!(joined, by_definition(&text, &steps, words));
        }
    }
}
