//! Text normalisation: the ordered steps that a text goes through before it is cut into shingles.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::job::{Normalize, Words, stop_words};
use crate::kernel::text::words::{each_word, is_white};

/// The steps in a list separated by commas; spaces around a name do not count, and an empty text is no steps.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) on an unknown step or language; the message lists what is allowed.
pub(crate) fn parse_steps(names: &str) -> Result<Vec<Normalize>> {
    if names.trim().is_empty() {
        return Ok(Vec::new());
    }
    names.split(',').map(|name| name.trim().parse()).collect()
}

/// The stop words of the list `name`.
fn stop_words(name: &str) -> Result<Vec<&'static str>> {
    // Whoever made the step knew the list.
    stop_words::named(name).ok_or_else(|| Error::job(format!("no stop words for the language {name:?}")))
}

/// Applies steps to texts, reusing its buffers.
///
/// A text may be given whole, or in consecutive pieces between two calls of [`begin`](Self::begin). Pieces must be cut
/// between ASCII white space and an ASCII letter, no step may be `remove-newlines`, and none that works on words may follow
/// `spaces-to-underscores`, nor `lowercase` where `remove-non-letters` has taken the underscores out; then the results, joined,
/// are the result for the whole.
#[derive(Debug)]
pub struct Normalizer {
    names: Vec<Normalize>,
    steps: Vec<Step>,
    /// What the steps that take words out take for a word.
    words: Words,
    /// Only the words of the result matter, not the white space between them.
    for_words: bool,
    text: String,
    next: String,
}

#[derive(Debug)]
enum Step {
    Lowercase,
    LettersOnly(Gap),
    RemoveNonLetters,
    RemoveNewlines,
    CollapseWhitespace(Collapse),
    CollapseWhitespaceKeepEnds(Gap),
    CollapseSpaces(Gap),
    DigitsOut,
    StopWords(StopWords),
    SpacesToUnderscores,
    OnlySpacesToUnderscores,
    Nfkc,
}

impl Normalizer {
    /// A normaliser for these steps; those that take out words go by `words`.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) on a language without stop words.
    pub fn new(names: &[Normalize], words: Words) -> Result<Self> {
        let mut steps = Vec::with_capacity(names.len());
        for name in names {
            steps.push(match name {
                Normalize::Lowercase => Step::Lowercase,
                Normalize::LettersOnly => Step::LettersOnly(Gap::default()),
                Normalize::RemoveNonLetters => Step::RemoveNonLetters,
                Normalize::RemoveNewlines => Step::RemoveNewlines,
                Normalize::CollapseWhitespace => Step::CollapseWhitespace(Collapse::default()),
                Normalize::CollapseWhitespaceKeepEnds => Step::CollapseWhitespaceKeepEnds(Gap::default()),
                Normalize::CollapseSpaces => Step::CollapseSpaces(Gap::default()),
                Normalize::DigitsOut => Step::DigitsOut,
                Normalize::StopWords(name) => Step::StopWords(StopWords::new(&stop_words(name)?)),
                Normalize::StopWordList(words) => {
                    Step::StopWords(StopWords::new(&words.split_whitespace().collect::<Vec<_>>()))
                }
                Normalize::SpacesToUnderscores => Step::SpacesToUnderscores,
                Normalize::OnlySpacesToUnderscores => Step::OnlySpacesToUnderscores,
                Normalize::Nfkc => Step::Nfkc,
            });
        }
        let (text, next) = Default::default();
        Ok(Self { names: names.to_vec(), steps, words, for_words: false, text, next })
    }

    /// The same, where only the *words* of the result are used: the white space between them may come out longer than
    /// the steps say, which lets ASCII take one pass. Steps that join words are followed to the letter.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_words(steps: &[Normalize], words: Words) -> Result<Self> {
        let for_words = !steps.iter().any(Normalize::joins_words);
        Ok(Self { for_words, ..Self::new(steps, words)? })
    }

    /// Whether this normaliser was made for these steps and words.
    pub(crate) fn is_for(&self, steps: &[Normalize], words: Words) -> bool {
        self.names == steps && self.words == words
    }

    /// Starts a new text.
    pub fn begin(&mut self) {
        for step in &mut self.steps {
            match step {
                Step::LettersOnly(gap)
                | Step::CollapseWhitespaceKeepEnds(gap)
                | Step::CollapseSpaces(gap) => *gap = Gap::default(),
                Step::CollapseWhitespace(collapse) => *collapse = Collapse::default(),
                _ => {}
            }
        }
    }

    /// The next piece of the text, normalised.
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

    /// The steps that on ASCII look at one byte at a time, in one pass that the compiler turns into SIMD code. `false`
    /// if there is another step among them.
    ///
    /// The state between pieces is left alone: it could only put white space in front of the next piece or keep it
    /// out, and that one starts with a letter which none of these steps takes away.
    fn fused(&mut self, piece: &str) -> bool {
        let (mut lower, mut letters) = (false, false);
        for step in &self.steps {
            match step {
                Step::Lowercase => lower = true,
                Step::LettersOnly(_) => letters = true,
                Step::CollapseWhitespace(_)
                | Step::CollapseWhitespaceKeepEnds(_)
                | Step::CollapseSpaces(_)
                | Step::Nfkc => {}
                Step::RemoveNonLetters
                | Step::RemoveNewlines
                | Step::DigitsOut
                | Step::StopWords(_)
                | Step::SpacesToUnderscores
                | Step::OnlySpacesToUnderscores => return false,
            }
        }
        map_ascii(piece, &mut self.text, |byte| {
            let low = byte | 0x20;
            let letter = low.is_ascii_lowercase();
            if letter {
                if lower { low } else { byte }
            } else if letters {
                b' '
            } else {
                byte
            }
        });
        true
    }
}

impl Step {
    /// Appends what the step makes of `text`.
    fn apply(&mut self, text: &str, rule: Words, out: &mut String) {
        match self {
            Step::Lowercase => lowercase(text, out),
            Step::LettersOnly(gap) => {
                gap.squeeze(text, out, |byte| byte.is_ascii_alphabetic(), char::is_alphabetic)
            }
            Step::RemoveNonLetters => keep(
                text,
                out,
                |byte| byte.is_ascii_alphabetic() || is_white(byte),
                |c| c.is_alphabetic() || c.is_whitespace(),
            ),
            Step::RemoveNewlines => {
                keep(text, out, |byte| !matches!(byte, b'\n' | b'\r'), |c| !matches!(c, '\n' | '\r'));
            }
            Step::CollapseWhitespace(collapse) => collapse.collapse(text, out),
            Step::CollapseWhitespaceKeepEnds(gap) => {
                gap.squeeze(text, out, |byte| !is_white(byte), |c| !c.is_whitespace());
            }
            Step::CollapseSpaces(gap) => gap.squeeze(text, out, |byte| byte != b' ', |c| c != ' '),
            Step::DigitsOut => without(text, rule, out, |word| word.chars().all(char::is_numeric)),
            Step::StopWords(words) => {
                let mut lower = std::mem::take(&mut words.lower);
                without(text, rule, out, |word| words.has(word, &mut lower));
                words.lower = lower;
            }
            Step::SpacesToUnderscores => underscores(text, out, is_white, char::is_whitespace),
            Step::OnlySpacesToUnderscores => underscores(text, out, |byte| byte == b' ', |c| c == ' '),
            Step::Nfkc => nfkc(text, out),
        }
    }
}

/// Appends `f` of each byte of `text`; both are ASCII.
fn map_ascii(text: &str, out: &mut String, f: impl Fn(u8) -> u8) {
    let mut bytes = std::mem::take(out).into_bytes();
    bytes.extend(text.bytes().map(f));
    restore(out, bytes);
}

/// Makes text of bytes again. The check costs less than a tenth of the pass that wrote them.
fn restore(out: &mut String, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => *out = text,
        Err(error) => *out = String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// [`str::to_lowercase`], into a buffer.
fn lowercase(text: &str, out: &mut String) {
    if text.is_ascii() {
        let from = out.len();
        out.push_str(text);
        out[from..].make_ascii_lowercase();
    } else if text.contains('Σ') {
        // Its lower case depends on where in the word it stands.
        out.push_str(&text.to_lowercase());
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

/// Appends the characters of `text` that stay.
fn keep(text: &str, out: &mut String, byte_stays: impl Fn(u8) -> bool, stays: impl Fn(char) -> bool) {
    if text.is_ascii() {
        let mut bytes = std::mem::take(out).into_bytes();
        bytes.extend(text.bytes().filter(|&byte| byte_stays(byte)));
        restore(out, bytes);
    } else {
        out.extend(text.chars().filter(|&c| stays(c)));
    }
}

/// Whether the text so far ends in characters that do not stay.
#[derive(Debug, Default)]
struct Gap(bool);

impl Gap {
    /// Every run of characters that do not stay becomes one space. `byte_stays` says the same of ASCII, and keeps no space.
    fn squeeze(
        &mut self,
        text: &str,
        out: &mut String,
        byte_stays: impl Fn(u8) -> bool,
        stays: impl Fn(char) -> bool,
    ) {
        if text.is_ascii() {
            let squeezed = |byte: u8| if byte_stays(byte) { byte } else { b' ' };
            self.0 = squeeze_ascii(text, out, squeezed, self.0);
            return;
        }
        for c in text.chars() {
            if stays(c) {
                out.push(c);
                self.0 = false;
            } else if !self.0 {
                out.push(' ');
                self.0 = true;
            }
        }
    }
}

/// Appends `f` of each byte of `text`, and of each run of spaces among them only the first; none of a run at the start
/// if `after_space`. ASCII in, ASCII out. Whether a space came last.
///
/// Most stretches have no two spaces in a row and are moved as they are: deciding byte by byte takes twice as long.
fn squeeze_ascii(text: &str, out: &mut String, f: impl Fn(u8) -> u8, mut after_space: bool) -> bool {
    const STRETCH: usize = 16;
    let mut bytes = std::mem::take(out).into_bytes();
    let mut end = bytes.len();
    let mut at = end;
    bytes.extend(text.bytes().map(f));
    while at < bytes.len() {
        let next = bytes.len().min(at + STRETCH);
        let doubled = after_space && bytes[at] == b' ' || has_two_spaces(&bytes[at..next]);
        if !doubled {
            after_space = bytes[next - 1] == b' ';
            bytes.copy_within(at..next, end);
            end += next - at;
        } else {
            for at in at..next {
                let byte = bytes[at];
                bytes[end] = byte;
                end += usize::from(!(after_space && byte == b' '));
                after_space = byte == b' ';
            }
        }
        at = next;
    }
    bytes.truncate(end);
    restore(out, bytes);
    after_space
}

/// Without an early end, so that the compiler makes SIMD code of it.
fn has_two_spaces(bytes: &[u8]) -> bool {
    bytes.iter().zip(&bytes[1..]).fold(false, |found, (&a, &b)| found | (a == b' ') & (b == b' '))
}

#[derive(Debug, Default)]
struct Collapse {
    /// Something that is not white space was written.
    begun: bool,
    /// White space was read since.
    pending: bool,
}

impl Collapse {
    /// Every run of white space becomes one space, none at the ends.
    fn collapse(&mut self, text: &str, out: &mut String) {
        if text.is_ascii() {
            return self.collapse_ascii(text, out);
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.pending = true;
            } else {
                if self.pending && self.begun {
                    out.push(' ');
                }
                out.push(c);
                self.begun = true;
                self.pending = false;
            }
        }
    }

    /// Writes the space where the white space starts, and takes it back if nothing follows.
    fn collapse_ascii(&mut self, text: &str, out: &mut String) {
        let start = out.len();
        if self.pending && self.begun {
            out.push(' ');
        }
        let space = |byte| if is_white(byte) { b' ' } else { byte };
        let white = squeeze_ascii(text, out, space, self.pending || !self.begun);
        if white && out.len() > start {
            out.pop();
        }
        self.pending = white;
        self.begun |= out.len() > start;
    }
}

/// Appends `text` without the words that `leaves` says; what stands around them stays.
fn without(text: &str, words: Words, out: &mut String, mut leaves: impl FnMut(&str) -> bool) {
    let mut copied = 0;
    each_word(text, words, |word| {
        if leaves(&text[word.clone()]) {
            out.push_str(&text[copied..word.start]);
            copied = word.end;
        }
    });
    out.push_str(&text[copied..]);
}

/// A table of stop words with linear probing: every word of a text is looked up, and the standard table's hash takes
/// longer than all else.
#[derive(Debug)]
struct StopWords {
    /// A power of two, less than half of them taken; free ones are empty.
    slots: Vec<String>,
    /// Bytes of the longest: a longer word need not be looked up.
    longest: usize,
    lower: String,
}

impl StopWords {
    fn new(words: &[&str]) -> Self {
        let slots = vec![String::new(); (2 * words.len() + 1).next_power_of_two()];
        let mut table = Self { slots, longest: 0, lower: String::new() };
        for word in words.iter().map(|word| word.to_lowercase()).filter(|word| !word.is_empty()) {
            table.longest = table.longest.max(word.len());
            let slot = table.slot(&word);
            table.slots[slot] = word;
        }
        table
    }

    /// Where the word is, or else where it would go.
    fn slot(&self, word: &str) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = xxh3_64(word.as_bytes()) as usize & last;
        while !self.slots[slot].is_empty() && self.slots[slot] != word {
            slot = (slot + 1) & last;
        }
        slot
    }

    fn has(&self, word: &str, lower: &mut String) -> bool {
        // Lower case may be shorter than the word: at most to a third, as the Kelvin sign (3 bytes) to `k`.
        if word.len() > 3 * self.longest {
            return false;
        }
        lower.clear();
        lowercase(word, lower);
        lower.len() <= self.longest && !self.slots[self.slot(lower)].is_empty()
    }
}

fn underscores(text: &str, out: &mut String, byte_goes: impl Fn(u8) -> bool, goes: impl Fn(char) -> bool) {
    if text.is_ascii() {
        map_ascii(text, out, |byte| if byte_goes(byte) { b'_' } else { byte });
    } else {
        out.extend(text.chars().map(|c| if goes(c) { '_' } else { c }));
    }
}

fn nfkc(text: &str, out: &mut String) {
    // The quick check may answer "maybe", and then the long way decides.
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        out.push_str(text);
    } else {
        out.extend(text.nfkc());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;
    use unicode_segmentation::UnicodeSegmentation;

    use super::*;
    use crate::kernel::text::words::next_cut;

    /// Each step as its definition has it, one text after the other.
    pub(crate) fn by_definition(text: &str, steps: &[Normalize], rule: Words) -> String {
        let drop_words = |text: &str, leaves: &dyn Fn(&str) -> bool| -> String {
            let is_word = |part: &str| words_by_definition(part, rule) == [part];
            let parts: Vec<&str> = match rule {
                Words::Unicode => text.split_word_bounds().collect(),
                Words::Dictionary => panic!("dictionaries have tests of their own"),
                Words::WordCharacters => text.split_inclusive_runs(|c| c.is_alphanumeric() || c == '_'),
                Words::Spaces => text.split_inclusive_runs(|c| !c.is_whitespace()),
            };
            parts.into_iter().filter(|part| !(is_word(part) && leaves(part))).collect()
        };
        steps.iter().fold(text.to_owned(), |text, step| match step {
            Normalize::Lowercase => text.to_lowercase(),
            Normalize::LettersOnly => {
                let mut out = String::new();
                for c in text.chars() {
                    if c.is_alphabetic() {
                        out.push(c);
                    } else if out.is_empty() || !out.ends_with(' ') {
                        out.push(' ');
                    }
                }
                out
            }
            Normalize::RemoveNonLetters => {
                text.chars().filter(|c| c.is_alphabetic() || c.is_whitespace()).collect()
            }
            Normalize::RemoveNewlines => text.replace(['\n', '\r'], ""),
            Normalize::CollapseWhitespace => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Normalize::CollapseWhitespaceKeepEnds => text
                .split_inclusive_runs(char::is_whitespace)
                .into_iter()
                .map(|run| if run.starts_with(char::is_whitespace) { " " } else { run })
                .collect(),
            Normalize::CollapseSpaces => {
                let runs = text.split_inclusive_runs(|c| c == ' ').into_iter();
                runs.map(|run| if run.starts_with(' ') { " " } else { run }).collect()
            }
            Normalize::DigitsOut => drop_words(&text, &|word| word.chars().all(char::is_numeric)),
            Normalize::StopWords(language) => {
                let stop = stop_words(language).unwrap();
                drop_words(&text, &|word| stop.iter().any(|s| s.to_lowercase() == word.to_lowercase()))
            }
            Normalize::StopWordList(words) => {
                let stop: Vec<&str> = words.split(' ').collect();
                drop_words(&text, &|word| stop.contains(&word.to_lowercase().as_str()))
            }
            Normalize::SpacesToUnderscores => text.replace(char::is_whitespace, "_"),
            Normalize::OnlySpacesToUnderscores => text.replace(' ', "_"),
            Normalize::Nfkc => text.nfkc().collect(),
        })
    }

    /// The words of a text, by each rule's definition.
    pub(crate) fn words_by_definition(text: &str, rule: Words) -> Vec<&str> {
        match rule {
            Words::Unicode => text.unicode_words().collect(),
            Words::Dictionary => panic!("dictionaries have tests of their own"),
            Words::WordCharacters => text
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .filter(|word| !word.is_empty())
                .collect(),
            Words::Spaces => text.split_whitespace().collect(),
        }
    }

    pub(crate) fn any_words() -> impl Strategy<Value = Words> {
        select(vec![Words::Unicode, Words::WordCharacters, Words::Spaces])
    }

    /// A text as its longest runs of characters that are alike by some measure.
    trait Runs {
        fn split_inclusive_runs(&self, like: impl Fn(char) -> bool) -> Vec<&str>;
    }

    impl Runs for str {
        fn split_inclusive_runs(&self, like: impl Fn(char) -> bool) -> Vec<&str> {
            let chars: Vec<(usize, char)> = self.char_indices().collect();
            let runs = chars.chunk_by(|a, b| like(a.1) == like(b.1));
            runs.map(|run| &self[run[0].0..run.last().map_or(0, |(at, c)| at + c.len_utf8())]).collect()
        }
    }

    pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Normalize>> {
        let step = select(vec![
            Normalize::Lowercase,
            Normalize::LettersOnly,
            Normalize::CollapseWhitespace,
            Normalize::DigitsOut,
            Normalize::StopWords("en".into()),
            Normalize::StopWordList("dog the".into()),
            Normalize::RemoveNonLetters,
            Normalize::RemoveNewlines,
            Normalize::CollapseWhitespaceKeepEnds,
            Normalize::CollapseSpaces,
            Normalize::SpacesToUnderscores,
            Normalize::OnlySpacesToUnderscores,
            Normalize::Nfkc,
        ]);
        proptest::collection::vec(step, 0..5)
    }

    /// Texts in which the rules meet: stop words, digits, white space of every kind, marks, sigmas, joined words.
    pub(crate) fn any_text() -> impl Strategy<Value = String> {
        let part = select(vec![
            "the",
            "The",
            "AND",
            "a",
            "dog",
            "ΣΑΣ",
            "Σ",
            "éA",
            "12",
            "3.5",
            "x1",
            " ",
            "  ",
            "\t",
            "\n",
            "\r\n",
            "\u{b}",
            "\u{a0}",
            "\u{3000}",
            ".",
            "'",
            "_",
            "-",
            "\u{301}",
            "\u{93e}",
            "ﬁ",
            "中文",
            "カ",
            "½",
            "İ",
            "\u{200d}",
            "\u{1f469}",
        ]);
        prop_oneof![
            proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat()),
            "[ -~\t\n]{0,40}",
            any::<String>(),
        ]
    }

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
        assert_eq!(normalized("a b\tc\u{a0}d", "spaces-to-underscores"), "a_b_c_d");
        assert_eq!(normalized("a b\tc\u{a0}d", "spaces-to-underscores:spaces-only"), "a_b\tc\u{a0}d");
        assert_eq!(normalized("ﬁn ａ", "nfkc"), "fin a");
        assert_eq!(normalized(" As is ", ""), " As is ");
    }

    #[test]
    fn steps_go_in_the_order_given() {
        assert_eq!(normalized("a 1 b", "digits-out, collapse-whitespace"), "a b");
        assert_eq!(normalized("a 1 b", "collapse-whitespace,digits-out"), "a  b");
    }

    #[test]
    fn names_go_there_and_back() {
        let names = "lowercase,letters-only,collapse-whitespace,digits-out,stop-words:de,stop-words:list=a b,remove-newlines,nfkc";
        let steps = parse_steps(names).unwrap();
        assert_eq!(steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), names);
    }

    #[test]
    fn unknown_names_say_what_is_allowed() {
        let said = "upper".parse::<Normalize>().unwrap_err().to_string();
        assert!(said.contains("\"upper\"") && said.contains("letters-only"), "{said}");
        let said = parse_steps("lowercase,stop-words:xx").unwrap_err().to_string();
        assert!(said.contains("\"xx\"") && said.contains("de, ") && said.contains("en, "), "{said}");
        assert!(parse_steps("lowercase,,nfkc").is_err());
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
