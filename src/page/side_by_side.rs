//! Shows two texts with marks on their common passages: in two columns on terminals, or as parts of each text for pages.

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::passages::{CommonPassages, MarkedPassage, in_order};
use crate::error::Result;
use crate::error::counts::count;
use crate::error::visible::acts;
use crate::job::Shingle;

/// The minimum width of each text, in terminal columns.
const MIN_WIDTH: usize = 10;
const SEPARATOR: &str = " | ";
const TAB: usize = 4;

/// The form of marks on common passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassageMark {
    /// In brackets with the number of the passage: `[1: ` and `]`.
    Brackets,
    /// Bold and green, with the number of the passage.
    Colour,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub width: usize,
    pub mark: PassageMark,
    /// The shingles of the job. Shorter passages are not marked, because they do not make texts similar.
    pub shingle: &'a Shingle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SideBySide {
    /// The lines, without newlines.
    pub lines: Vec<String>,
    /// Whether both texts were searched as a whole.
    pub is_complete: bool,
}

/// Lays out two texts in two columns under `names`, with their line breaks and indentation.
pub(crate) fn side_by_side(names: [&str; 2], texts: [&str; 2], view: View<'_>) -> Result<SideBySide> {
    let width = (view.width.saturating_sub(SEPARATOR.len()) / 2).max(MIN_WIDTH);
    let passages = CommonPassages::find(texts, view.shingle)?;
    let marks = passages.marks();
    let words = [words(texts[0], &marks[0], view.mark), words(texts[1], &marks[1], view.mark)];
    let names = names.map(|name| {
        let mut column = TextColumn::new(width);
        // Characters that would control the terminal are replaced, so that the rest of the line stays in its column.
        let name = name.replace(acts, "\u{fffd}");
        column.push_word(&Word { pieces: vec![(name, false)], breaks: 1, ..Word::default() });
        column.lines
    });
    let rule = || vec![TextLine { text: "-".repeat(width), width }];
    let beside = in_order(marks.each_ref().map(Vec::as_slice));
    let mut lines = Vec::new();
    for [a, b] in [names, [rule(), rule()], columns(&words, &beside, width)] {
        let empty = TextLine::default();
        for row in 0..a.len().max(b.len()) {
            let (a, b) = (a.get(row).unwrap_or(&empty), b.get(row).unwrap_or(&empty));
            let padding = " ".repeat(width.saturating_sub(a.width));
            lines.push(format!("{}{padding}{SEPARATOR}{}", a.text, b.text).trim_end().to_owned());
        }
    }
    Ok(SideBySide { lines, is_complete: passages.are_complete() })
}

/// Adjacent characters without white space between them.
#[derive(Debug, Default)]
struct Word {
    /// The texts of adjacent parts, and whether they are coloured.
    pieces: Vec<(String, bool)>,
    /// The number of line breaks before the word, and one more for the first word.
    breaks: usize,
    /// The number of spaces before the word, after the last line break.
    spaces: usize,
    /// The number of marks that begin in this word or earlier.
    begun: usize,
}

/// Splits a text into words with marks on the passages.
fn words(text: &str, marks: &[MarkedPassage], style: PassageMark) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word = Word { breaks: 1, ..Word::default() };
    let mut begun = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if c.is_whitespace() {
            if !word.pieces.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            match c {
                '\r' if text[end..].starts_with('\n') => {}
                '\r' | '\n' => (word.breaks, word.spaces) = (word.breaks + 1, 0),
                '\t' => word.spaces += TAB - word.spaces % TAB,
                _ => word.spaces += 1,
            }
            continue;
        }
        if marks.get(begun).is_some_and(|mark| mark.at.start == at) {
            begun += 1;
        }
        let mark = marks[..begun].last().filter(|mark| at < mark.at.end);
        let is_coloured = style == PassageMark::Colour && mark.is_some();
        let mut shown = String::new();
        if let Some(mark) = mark.filter(|mark| mark.at.start == at) {
            let bracket = if is_coloured { "" } else { "[" };
            shown = format!("{bracket}{}: ", mark.number);
        }
        shown.push(if acts(c) { '\u{fffd}' } else { c });
        if !is_coloured && mark.is_some_and(|mark| mark.at.end == end) {
            shown.push(']');
        }
        word.begun = begun;
        match word.pieces.last_mut().filter(|piece| piece.1 == is_coloured) {
            Some((piece, _)) => piece.push_str(&shown),
            None => word.pieces.push((shown, is_coloured)),
        }
    }
    words.extend((!word.pieces.is_empty()).then_some(word));
    words
}

/// Returns the lines of both columns. `beside` contains pairs of marks. If they would begin in different lines, the shorter column gets
/// empty lines.
fn columns(words: &[Vec<Word>; 2], beside: &[(usize, usize)], width: usize) -> [Vec<TextLine>; 2] {
    let mut sides = words.each_ref().map(|words| (words.as_slice(), TextColumn::new(width)));
    for &(in_a, in_b) in beside {
        for ((words, column), mark) in sides.iter_mut().zip([in_a, in_b]) {
            let before = words.iter().take_while(|word| word.begun <= mark).count();
            words[..before].iter().for_each(|word| column.push_word(word));
            *words = &words[before..];
        }
        let row = |(words, column): &(&[Word], TextColumn)| words.first().map_or(0, |word| column.row(word));
        let start = sides.iter().map(row).max().unwrap_or_default();
        for side in &mut sides {
            if row(side) < start {
                let breaks = side.0.first().map_or(0, |word| word.breaks);
                side.1.lines.resize(start + 1 - breaks, TextLine::default());
            }
        }
    }
    sides.map(|(words, mut column)| {
        words.iter().for_each(|word| column.push_word(word));
        column.lines
    })
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TextLine {
    text: String,
    width: usize,
}

const BOLD_GREEN: &str = "\x1b[1;32m";
const PLAIN: &str = "\x1b[0m";
pub(crate) const COLOURS: [&str; 2] = [BOLD_GREEN, PLAIN];

/// Lines of at most `width` terminal columns. Text is added to the last one.
struct TextColumn {
    lines: Vec<TextLine>,
    width: usize,
}

impl TextColumn {
    fn new(width: usize) -> Self {
        Self { lines: Vec::new(), width }
    }

    fn filled(&self) -> usize {
        self.lines.last().map_or(0, |line| line.width)
    }

    /// Whether `word` does not fit into the last line.
    fn wraps(&self, word: &Word) -> bool {
        let width: usize = word.pieces.iter().map(|(text, _)| text.width()).sum();
        word.breaks == 0 && self.filled() > 0 && self.filled() + word.spaces + width > self.width
    }

    fn row(&self, word: &Word) -> usize {
        (self.lines.len() + word.breaks + usize::from(self.wraps(word))).saturating_sub(1)
    }

    fn push_word(&mut self, word: &Word) {
        let mut spaces = word.spaces.min(self.width / 2);
        if word.breaks == 0 && (self.wraps(word) || self.filled() == 0) {
            spaces = 0;
        }
        self.lines.resize(self.row(word) + 1, TextLine::default());
        if spaces > 0 {
            let after_mark = self.lines.last().is_some_and(|line| line.text.ends_with(PLAIN));
            let is_marked = after_mark && word.pieces.first().is_some_and(|(_, marked)| *marked);
            self.push(&" ".repeat(spaces), is_marked);
        }
        word.pieces.iter().for_each(|(text, marked)| self.push_wrapped(text, *marked));
    }

    /// Adds a text, in several lines if it does not fit.
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

/// The maximum number of characters of a text on a page that shows examples.
pub(crate) const EXCERPT: usize = 4_000;

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
    /// The number of the passage that this part shares with the other text; `None` if the other text does not contain it.
    pub passage: Option<usize>,
}

impl Side {
    /// Returns a note if the text is cut.
    pub(crate) fn cut(&self) -> Option<String> {
        (self.shown < self.characters).then(|| {
            format!("Cut here: {} of {} characters are shown.", count(self.shown), count(self.characters))
        })
    }
}

/// Splits the first `most` characters of two texts into parts, and marks common passages.
pub(crate) fn sides(ids: [String; 2], texts: [&str; 2], most: usize, shingle: &Shingle) -> Result<[Side; 2]> {
    let cut = texts.map(|text| {
        let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
        &text[..end]
    });
    let marks = CommonPassages::find(cut, shingle)?.marks();
    let [id_a, id_b] = ids;
    let side = |id, side: usize| Side {
        id,
        parts: parts(cut[side], &marks[side]),
        shown: cut[side].chars().count() as u64,
        characters: texts[side].chars().count() as u64,
    };
    Ok([side(id_a, 0), side(id_b, 1)])
}

fn parts(text: &str, marks: &[MarkedPassage]) -> Vec<TextPart> {
    let mut parts = Vec::new();
    let mut add = |text: &str, passage| {
        if !text.is_empty() {
            // Keeps line feeds and tabs, unlike other control characters, which could affect the page.
            let text = text.replace("\r\n", "\n").replace(|c| acts(c) && c != '\n' && c != '\t', "\u{fffd}");
            parts.push(TextPart { text, passage });
        }
    };
    let mut at = 0;
    for mark in marks {
        add(&text[at..mark.at.start], None);
        add(&text[mark.at.clone()], Some(mark.number));
        at = mark.at.end;
    }
    add(&text[at..], None);
    parts
}

#[cfg(test)]
mod tests {
    use super::super::passages::two_words;
    use super::*;

    fn bracketed(a: &str, b: &str, width: usize) -> Vec<String> {
        lines(a, b, width, PassageMark::Brackets)
    }

    fn lines(a: &str, b: &str, width: usize, mark: PassageMark) -> Vec<String> {
        let view = View { width, mark, shingle: &two_words() };
        let layout = side_by_side(["a", "b"], [a, b], view).unwrap();
        assert!(layout.is_complete);
        // Skips the line of names and the rule.
        layout.lines[2..].to_vec()
    }

    #[test]
    fn common_passages_are_marked_and_stand_beside_each_other() {
        let found = bracketed("one two three four", "zero ONE two, three five", 49);
        assert_eq!(
            found,
            ["[1: one two three] four | zero [1: ONE two,", "                        | three] five"]
        );
        assert_eq!(
            bracketed("x one two three", "y y y y y y y y y y y y one two three", 29),
            [
                "x             | y y y y y y y",
                "              | y y y y y",
                "[1: one two   | [1: one two",
                "three]        | three]"
            ],
        );
    }

    #[test]
    fn line_breaks_and_indentation_stay() {
        assert_eq!(
            bracketed("if x:\r\n\tgo on\n\n    end", "  a\rb  c", 43),
            [
                "if x:                |   a",
                "    go on            | b  c",
                "                     |",
                "    end              |"
            ],
        );
        // Indentation never fills a line, and a line that is wrapped is not indented.
        assert_eq!(bracketed("                one two", "x", 23), ["     one   | x", "two        |"]);
        // A passage is beside its partner even if it begins a line.
        let found = bracketed("one two", "x\n\n  one two", 43);
        let expected =
            ["                     | x", "                     |", "[1: one two]         |   [1: one two]"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_colour_ends_with_its_line_and_takes_no_room() {
        assert_eq!(
            lines("one two, three", "one two four", 29, PassageMark::Colour),
            ["\x1b[1;32m1: one two\x1b[0m,   | \x1b[1;32m1: one two\x1b[0m", "three         | four",]
        );
        assert_eq!(
            lines("one two three", "one two three", 29, PassageMark::Colour),
            [
                "\x1b[1;32m1: one two\x1b[0m    | \x1b[1;32m1: one two\x1b[0m",
                "\x1b[1;32mthree\x1b[0m         | \x1b[1;32mthree\x1b[0m",
            ]
        );
    }

    #[test]
    fn nothing_in_common_is_not_marked() {
        assert_eq!(bracketed("one two", "one three", 23), ["one two    | one three"]);
        assert_eq!(bracketed("", "one", 23), ["           | one"]);
        assert_eq!(bracketed("", "", 23), Vec::<String>::new());
    }

    #[test]
    fn wide_characters_take_two_columns_and_control_characters_do_not_act() {
        let found = bracketed("日本語日本語", "abcdefghijklm", 23);
        assert_eq!(found, ["日本語日本 | abcdefghij", "語         | klm"]);
        // A combining accent takes no column.
        assert_eq!(bracketed("e\u{301}tude", "x", 23), ["e\u{301}tude      | x"]);
        let found = bracketed("a\u{2028}b", "\x1b[2J\u{202e}", 23);
        assert_eq!(found, ["a b        | \u{fffd}[2J\u{fffd}"]);
    }

    fn part(text: &str, passage: Option<usize>) -> TextPart {
        TextPart { text: text.into(), passage }
    }

    #[test]
    fn long_texts_are_cut_on_a_page() {
        let texts = ["one two \u{e9}\u{e9}\u{e9} one two", "x one two"];
        let [a, b] = sides(["a".into(), "b".into()], texts, 9, &two_words()).unwrap();
        assert_eq!((a.shown, a.characters, b.shown, b.characters), (9, 19, 9, 9));
        assert_eq!(a.parts, [part("one two", Some(1)), part(" \u{e9}", None)]);
        assert_eq!(b.parts, [part("x ", None), part("one two", Some(1))]);
        assert_eq!(a.cut().unwrap(), "Cut here: 9 of 19 characters are shown.");
        assert_eq!(b.cut(), None);
    }

    #[test]
    fn parts_are_the_text() {
        let found = parts("\u{e9} one\r\n\ttwo\u{0}\u{202e} x", &[MarkedPassage { at: 3..12, number: 7 }]);
        assert_eq!(
            found,
            [part("\u{e9} ", None), part("one\n\ttwo", Some(7)), part("\u{fffd}\u{fffd} x", None)]
        );
        assert_eq!(parts("", &[]), []);
    }
}
