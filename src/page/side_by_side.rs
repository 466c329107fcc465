//! Shows two texts and marks the passages that they share. Terminals get two columns, and HTML pages get the parts of each text.
//!
//! The difference algorithm of Myers compares the texts word by word and ignores case (*An O(ND) difference algorithm and its variations*,
//! Algorithmica 1, 1986). It finds passages only if they are in the same order in both texts.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::text::count;
use crate::error::visible::acts;
use crate::job::{Shingle, Unit};

/// The maximum number of tokens to compare in each text. The time is proportional to the total length of the texts times the number of
/// differences.
const MAX_TOKENS: usize = 5_000;
/// The minimum width of each text, in terminal columns.
const MIN_WIDTH: usize = 10;
/// The separator between the two texts.
const SEPARATOR: &str = " | ";

/// How common passages are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassageMark {
    /// A passage is in brackets: `[` and `]`.
    Brackets,
    /// A passage is bold and green. Escape sequences switch the colour on and off.
    Colour,
}

/// How much of the two texts is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only the compared tokens.
    Compared,
    /// Both whole texts. Passages are still marked only among the compared tokens.
    Whole,
}

/// The layout of two texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The total width, in terminal columns.
    pub width: usize,
    /// How common passages are marked.
    pub mark: PassageMark,
    /// How much of the texts is shown.
    pub extent: Extent,
    /// The shingles of the job. Passages shorter than a shingle are not marked, because they do not make texts similar.
    pub shingle: &'a Shingle,
}

/// Two texts in two columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SideBySide {
    /// The lines, without newlines.
    pub lines: Vec<String>,
    /// Whether both texts are shown in full.
    pub whole: bool,
}

/// Lays out two texts in two columns. `names` are the headings of the columns.
pub(crate) fn side_by_side(names: [&str; 2], texts: [&str; 2], view: View<'_>) -> SideBySide {
    let width = (view.width.saturating_sub(SEPARATOR.len()) / 2).max(MIN_WIDTH);
    let most = match view.extent {
        Extent::Compared => MAX_TOKENS,
        Extent::Whole => usize::MAX,
    };
    let [(a, whole_a), (b, whole_b)] = texts.map(|text| tokens(text, most));
    let passages = passages(&a[..a.len().min(MAX_TOKENS)], &b[..b.len().min(MAX_TOKENS)], view.shingle);
    let words = [
        words(&a, passages.iter().map(|passage| &passage.a), view.mark),
        words(&b, passages.iter().map(|passage| &passage.b), view.mark),
    ];
    let names = names.map(|name| {
        let mut column = TextColumn::new(width);
        column.push_wrapped(&printable(name), false);
        column.lines
    });
    let rule = || vec![TextLine { text: "-".repeat(width), width }];
    let mut lines = Vec::new();
    for [a, b] in [names, [rule(), rule()], columns(&words, passages.len(), width)] {
        let empty = TextLine::default();
        for row in 0..a.len().max(b.len()) {
            let (a, b) = (a.get(row).unwrap_or(&empty), b.get(row).unwrap_or(&empty));
            let padding = " ".repeat(width.saturating_sub(a.width));
            lines.push(format!("{}{padding}{SEPARATOR}{}", a.text, b.text).trim_end().to_owned());
        }
    }
    SideBySide { lines, whole: whole_a && whole_b }
}

/// A passage that two texts share. The ranges are in characters (Unicode code points) or in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CommonPassage {
    /// The range in the first text.
    pub a: Range<usize>,
    /// The range in the second text.
    pub b: Range<usize>,
}

/// Returns the passages that [`side_by_side`] marks. Ranges are in characters. Also returns whether both texts were compared in full.
pub(crate) fn common(texts: [&str; 2], shingle: &Shingle) -> (Vec<CommonPassage>, bool) {
    let [(a, whole_a), (b, whole_b)] = texts.map(|text| tokens(text, MAX_TOKENS));
    let characters =
        |tokens: &[TextToken], run: Range<usize>| tokens[run.start].at.start..tokens[run.end - 1].at.end;
    let passages = passages(&a, &b, shingle).into_iter();
    let common = passages.map(|p| CommonPassage { a: characters(&a, p.a), b: characters(&b, p.b) });
    (common.collect(), whole_a && whole_b)
}

/// A word or a punctuation mark.
#[derive(Debug)]
struct TextToken {
    text: String,
    /// The range in the text, in characters.
    at: Range<usize>,
    /// Whether white space precedes the token.
    spaced: bool,
    /// Whether an empty line precedes the token.
    paragraph: bool,
}

/// Returns at most `most` tokens from the beginning of a text, and whether the text has no further tokens.
fn tokens(text: &str, most: usize) -> (Vec<TextToken>, bool) {
    let mut tokens = Vec::new();
    let (mut spaced, mut newlines, mut end) = (true, 0, 0);
    for segment in text.split_word_bounds() {
        let start = end;
        end += segment.chars().count();
        if segment.trim().is_empty() {
            spaced = true;
            newlines += segment.matches('\n').count();
            continue;
        }
        if tokens.len() == most {
            return (tokens, false);
        }
        tokens.push(TextToken { text: printable(segment), at: start..end, spaced, paragraph: newlines > 1 });
        (spaced, newlines) = (false, 0);
    }
    (tokens, true)
}

/// Replaces each character that would control the terminal by U+FFFD, so that the rest of the line stays in its column.
fn printable(text: &str) -> String {
    text.replace(acts, "\u{fffd}")
}

/// Returns the common passages of two texts. Ranges are in tokens.
fn passages(a: &[TextToken], b: &[TextToken], shingle: &Shingle) -> Vec<CommonPassage> {
    // Equal tokens get equal numbers, because comparing numbers is faster than comparing texts.
    let mut numbers = BTreeMap::new();
    let mut keys = |tokens: &[TextToken]| -> Vec<usize> {
        let number = |token: &TextToken| {
            let next = numbers.len();
            *numbers.entry(token.text.to_lowercase()).or_insert(next)
        };
        tokens.iter().map(number).collect()
    };
    let (a_keys, b_keys) = (keys(a), keys(b));
    let passage = |op| match op {
        DiffOp::Equal { old_index, new_index, len } => {
            Some(CommonPassage { a: old_index..old_index + len, b: new_index..new_index + len })
        }
        _ => None,
    };
    let all = capture_diff_slices(Algorithm::Myers, &a_keys, &b_keys).into_iter().filter_map(passage);
    all.filter(|passage| is_long_enough(&a[passage.a.clone()], shingle)).collect()
}

/// Whether adjacent tokens contain at least as many words or characters as a shingle.
fn is_long_enough(run: &[TextToken], shingle: &Shingle) -> bool {
    let units = match shingle.unit {
        Unit::Word => run.iter().filter(|token| token.text.chars().any(char::is_alphanumeric)).count(),
        Unit::Char => {
            let spaces = run.iter().skip(1).filter(|token| token.spaced).count();
            run.iter().map(|token| token.text.chars().count()).sum::<usize>() + spaces
        }
    };
    units >= shingle.size
}

/// Adjacent tokens without white space between them.
#[derive(Debug, Default)]
struct Word {
    /// The texts of adjacent tokens, each with a flag that says whether it is coloured.
    pieces: Vec<(String, bool)>,
    paragraph: bool,
    /// The number of passages that begin in this word or in earlier words.
    begun: usize,
}

/// Joins tokens into words, and marks the passages.
fn words<'a>(
    tokens: &[TextToken],
    passages: impl Iterator<Item = &'a Range<usize>>,
    mark: PassageMark,
) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut passages = passages.peekable();
    let mut begun = 0;
    for (at, token) in tokens.iter().enumerate() {
        let _ = passages.next_if(|passage| passage.end == at);
        let passage = passages.peek().filter(|passage| passage.contains(&at));
        let (first, last) = passage.map_or((false, false), |p| (p.start == at, p.end == at + 1));
        begun += usize::from(first);
        let (before, after) = match mark {
            PassageMark::Brackets => (if first { "[" } else { "" }, if last { "]" } else { "" }),
            PassageMark::Colour => ("", ""),
        };
        let text = format!("{before}{}{after}", token.text);
        let marked = mark == PassageMark::Colour && passage.is_some();
        if token.spaced || words.is_empty() {
            words.push(Word { paragraph: token.paragraph, ..Word::default() });
        }
        let Some(word) = words.last_mut() else { continue };
        word.begun = begun;
        match word.pieces.last_mut().filter(|piece| piece.1 == marked) {
            Some((piece, _)) => piece.push_str(&text),
            None => word.pieces.push((text, marked)),
        }
    }
    words
}

/// Returns the lines of both columns. If a passage would begin in different lines of the two columns, empty lines are added to the shorter
/// column.
fn columns(words: &[Vec<Word>; 2], passages: usize, width: usize) -> [Vec<TextLine>; 2] {
    let mut sides = words.each_ref().map(|words| (words.as_slice(), TextColumn::new(width)));
    for passage in 1..=passages {
        for (words, column) in &mut sides {
            let before = words.iter().take_while(|word| word.begun < passage).count();
            words[..before].iter().for_each(|word| column.push_word(word));
            *words = &words[before..];
        }
        let row = |(words, column): &(&[Word], TextColumn)| words.first().map_or(0, |word| column.row(word));
        let start = sides.iter().map(row).max().unwrap_or_default();
        for side in &mut sides {
            if row(side) < start {
                side.1.lines.resize(start + 1, TextLine::default());
            }
        }
    }
    sides.map(|(words, mut column)| {
        words.iter().for_each(|word| column.push_word(word));
        column.lines
    })
}

/// A line of text and its width in terminal columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TextLine {
    text: String,
    width: usize,
}

const BOLD_GREEN: &str = "\x1b[1;32m";
const PLAIN: &str = "\x1b[0m";
/// The escape sequences that begin and end coloured text.
pub(crate) const COLOURS: [&str; 2] = [BOLD_GREEN, PLAIN];

/// Lines with a width of at most `width` terminal columns. Text is added to the last line.
struct TextColumn {
    lines: Vec<TextLine>,
    width: usize,
}

impl TextColumn {
    fn new(width: usize) -> Self {
        Self { lines: vec![TextLine::default()], width }
    }

    fn filled(&self) -> usize {
        self.lines.last().map_or(0, |line| line.width)
    }

    /// Whether `word` would begin a new line.
    fn breaks(&self, word: &Word) -> bool {
        let width: usize = word.pieces.iter().map(|(text, _)| text.width()).sum();
        self.filled() > 0 && (word.paragraph || self.filled() + 1 + width > self.width)
    }

    /// Returns the index of the line in which `word` would begin.
    fn row(&self, word: &Word) -> usize {
        self.lines.len() - 1 + usize::from(self.breaks(word))
    }

    fn push_word(&mut self, word: &Word) {
        if self.breaks(word) {
            self.lines.push(TextLine::default());
        } else if self.filled() > 0 {
            let after_mark = self.lines.last().is_some_and(|line| line.text.ends_with(PLAIN));
            self.push(" ", after_mark && word.pieces.first().is_some_and(|(_, marked)| *marked));
        }
        word.pieces.iter().for_each(|(text, marked)| self.push_wrapped(text, *marked));
    }

    /// Adds a text, and begins new lines where the text does not fit.
    fn push_wrapped(&mut self, text: &str, marked: bool) {
        let (mut from, mut filled) = (0, self.filled());
        for (at, grapheme) in text.grapheme_indices(true) {
            let width = grapheme.width();
            if filled > 0 && filled + width > self.width {
                self.push(&text[from..at], marked);
                self.lines.push(TextLine::default());
                (from, filled) = (at, 0);
            }
            filled += width;
        }
        self.push(&text[from..], marked);
    }

    fn push(&mut self, text: &str, marked: bool) {
        let Some(line) = self.lines.last_mut() else { return };
        line.width += text.width();
        if !marked {
            line.text.push_str(text);
            return;
        }
        match line.text.strip_suffix(PLAIN).map(str::len) {
            Some(before) => line.text.truncate(before),
            None => line.text.push_str(BOLD_GREEN),
        }
        line.text.extend([text, PLAIN]);
    }
}

/// The maximum number of characters of each text on a page.
const MAX_CHARACTERS: usize = 4_000;

/// The text of a document, split into parts that the other text shares and parts that it does not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The id of the document.
    pub id: String,
    /// The parts in order.
    pub parts: Vec<TextPart>,
    /// The number of shown characters.
    pub shown: u64,
    /// The number of characters in the text.
    pub characters: u64,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Whether the other text also contains this part.
    pub common: bool,
}

impl Side {
    /// Returns a note if the text is cut.
    pub(crate) fn cut(&self) -> Option<String> {
        (self.shown < self.characters).then(|| {
            format!("Cut here: {} of {} characters are shown.", count(self.shown), count(self.characters))
        })
    }
}

/// Splits the texts of two documents into parts. Common passages are marked if they are at least as long as a shingle. Long texts are cut
/// off.
pub(crate) fn sides(ids: [String; 2], texts: [&str; 2], shingle: &Shingle) -> [Side; 2] {
    let cut = texts.map(|text| {
        let end = text.char_indices().nth(MAX_CHARACTERS).map_or(text.len(), |(end, _)| end);
        &text[..end]
    });
    let (passages, _) = common(cut, shingle);
    let [id_a, id_b] = ids;
    let side = |id, text: &str, shown: &str, range: fn(&CommonPassage) -> &Range<usize>| Side {
        id,
        parts: parts(shown, passages.iter().map(range)),
        shown: shown.chars().count() as u64,
        characters: text.chars().count() as u64,
    };
    [side(id_a, texts[0], cut[0], |passage| &passage.a), side(id_b, texts[1], cut[1], |passage| &passage.b)]
}

/// Splits a text into parts. `passages` are sorted ranges of characters.
fn parts<'a>(text: &str, passages: impl Iterator<Item = &'a Range<usize>>) -> Vec<TextPart> {
    let mut parts = Vec::new();
    let (mut rest, mut at) = (text, 0);
    let mut take = |characters: usize, common: bool| {
        let end = rest.char_indices().nth(characters).map_or(rest.len(), |(end, _)| end);
        let (part, after) = rest.split_at(end);
        rest = after;
        if !part.is_empty() {
            // Keeps line feeds and tabs. Other control characters could affect the page.
            let text = part.replace(|c| acts(c) && c != '\n' && c != '\t', "\u{fffd}");
            parts.push(TextPart { text, common });
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
    use crate::job::{ShingleHash, Short, Words};

    fn two_words() -> Shingle {
        Shingle {
            normalize: Vec::new(),
            unit: Unit::Word,
            words: Words::Unicode,
            size: 2,
            separator: " ".into(),
            hash: ShingleHash::Xxh3,
            short: Short::Reject,
            min_words: 0,
        }
    }

    fn lines(a: &str, b: &str, width: usize, mark: PassageMark) -> Vec<String> {
        let layout = side_by_side(
            ["a", "b"],
            [a, b],
            View { width, mark, extent: Extent::Compared, shingle: &two_words() },
        );
        assert!(layout.whole);
        // Skips the line of names and the rule.
        layout.lines[2..].to_vec()
    }

    #[test]
    fn common_passages_are_marked_and_stand_beside_each_other() {
        assert_eq!(
            lines("one two three four", "zero ONE two, three five", 43, PassageMark::Brackets),
            ["[one two] three four | zero [ONE two],", "                     | three five"],
        );
        assert_eq!(
            lines("x one two three", "y y y y y y y y y y y y one two three", 23, PassageMark::Brackets),
            [
                "x          | y y y y y",
                "           | y y y y y",
                "[one two   | y y [one",
                "three]     | two three]"
            ],
        );
    }

    #[test]
    fn a_colour_ends_with_its_line_and_takes_no_room() {
        assert_eq!(
            lines("one two, three", "one two three", 23, PassageMark::Colour),
            ["\x1b[1;32mone two\x1b[0m,   | \x1b[1;32mone two\x1b[0m", "three      | three",]
        );
        assert_eq!(
            lines("one two three", "one two three", 23, PassageMark::Colour),
            [
                "\x1b[1;32mone two\x1b[0m    | \x1b[1;32mone two\x1b[0m",
                "\x1b[1;32mthree\x1b[0m      | \x1b[1;32mthree\x1b[0m",
            ]
        );
    }

    #[test]
    fn nothing_in_common_is_not_marked() {
        assert_eq!(lines("one two", "one three", 23, PassageMark::Brackets), ["one two    | one three"]);
        assert_eq!(lines("", "one", 23, PassageMark::Brackets), ["           | one"]);
        assert_eq!(lines("", "", 23, PassageMark::Brackets), ["           |"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_long_words_are_cut() {
        assert_eq!(
            lines("日本語日本語", "abcdefghijklm", 23, PassageMark::Brackets),
            ["日本語日本 | abcdefghij", "語         | klm"],
        );
        // A combining accent takes no column.
        assert_eq!(lines("e\u{301}tude", "x", 23, PassageMark::Brackets), ["e\u{301}tude      | x"]);
    }

    #[test]
    fn paragraphs_begin_lines_and_control_characters_do_not_act() {
        assert_eq!(
            lines("a\nb\n\nc", "\x1b[2J\u{202e}", 23, PassageMark::Brackets),
            ["a b        | \u{fffd}[2J\u{fffd}", "c          |"]
        );
    }

    #[test]
    fn passages_are_told_by_their_characters() {
        let (a, b) = ("héron one two, x", "x  One\ntwo, y");
        let (found, whole) = common([a, b], &two_words());
        assert_eq!((found.as_slice(), whole), ([CommonPassage { a: 6..14, b: 3..11 }].as_slice(), true));
        let cut = |text: &str, place: &Range<usize>| {
            text.chars().skip(place.start).take(place.len()).collect::<String>()
        };
        assert_eq!((cut(a, &found[0].a).as_str(), cut(b, &found[0].b).as_str()), ("one two,", "One\ntwo,"));
        assert_eq!(common(["one two", "two one"], &two_words()), (vec![], true));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "w ".repeat(MAX_TOKENS + 1);
        let (tokens, whole) = tokens(&long, MAX_TOKENS);
        assert_eq!((tokens.len(), whole), (MAX_TOKENS, false));
        let long = format!("{long}end");
        let shingle = two_words();
        let laid_out = |extent| {
            let view = View { width: 23, mark: PassageMark::Brackets, extent, shingle: &shingle };
            side_by_side(["a", "b"], [&long, &long], view)
        };
        assert!(!laid_out(Extent::Compared).whole);
        let full = laid_out(Extent::Whole);
        assert!(full.whole && full.lines.last().unwrap().ends_with("end"), "{:?}", full.lines.last());
    }

    #[test]
    fn parts_are_the_text() {
        let part = |text: &str, common| TextPart { text: text.into(), common };
        assert_eq!(
            parts("é one two\u{0}\u{202e} x", std::iter::once(&(2..9))),
            [part("é ", false), part("one two", true), part("\u{fffd}\u{fffd} x", false)]
        );
        assert_eq!(parts("", std::iter::empty()), []);
    }
}
