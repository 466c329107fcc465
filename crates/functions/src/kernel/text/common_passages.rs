//! Finds the longest common passage of two texts and the common runs of two sequences, and removes passages from a text.
//!
//! Texts are compared by words (Unicode, UAX #29), ignoring case and the characters between words. A suffix automaton represents all
//! sequences of consecutive words in one text (Blumer et al., Theoretical Computer Science 40, 1985), and reads the other text. The time is
//! linear in the total length of both texts.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::error::Result;
use crate::kernel::shingle::{Shingle, Unit};
use crate::kernel::text::normalize::Normalizer;
use crate::kernel::text::words::each_word;

/// Returns the byte ranges of the longest common passage in both texts; `None` if there is no common word. Among passages of the same
/// length, the passage with the earliest end in `b` wins, then the one with the earliest end in `a`.
pub(crate) fn longest_passage(a: &str, b: &str) -> Option<(Range<usize>, Range<usize>)> {
    let mut numbers = HashMap::new();
    let (of_a, of_b) = (tokens(a, &mut numbers), tokens(b, &mut numbers));
    let runs = SequenceRuns::new(of_a.iter().map(|token| token.number));
    let (end_a, end_b, length) = runs.longest(of_b.iter().map(|token| token.number))?;
    let place = |tokens: &[NumberedWord], end: usize| {
        let run = tokens.get(end.checked_sub(length)?..end)?;
        Some(run.first()?.at.start..run.last()?.at.end)
    };
    Some((place(&of_a, end_a)?, place(&of_b, end_b)?))
}

/// A word as a number and a byte range. Words with the same lower case have the same number.
struct NumberedWord {
    number: u32,
    at: Range<usize>,
}

fn tokens(text: &str, numbers: &mut HashMap<String, u32>) -> Vec<NumberedWord> {
    let number = |(start, word): (usize, &str)| {
        let next = numbers.len() as u32;
        let number = *numbers.entry(word.to_lowercase()).or_insert(next);
        NumberedWord { number, at: start..start + word.len() }
    };
    text.unicode_word_indices().map(number).collect()
}

/// The suffix automaton of a sequence of tokens. It represents all runs of consecutive tokens.
struct SequenceRuns {
    states: Vec<SuffixState>,
    /// Maps a state and a token to the state of the runs that are longer by this token.
    next: HashMap<(u32, u32), u32>,
}

/// A set of runs that end at the same positions in the sequence.
#[derive(Clone, Copy)]
struct SuffixState {
    /// The length of the longest run, in tokens.
    length: u32,
    /// The state of the longest suffix of these runs that also ends at other positions.
    shorter: Option<u32>,
    /// The first position at which these runs end, in tokens from the start of the sequence.
    end: u32,
}

impl SequenceRuns {
    fn new(sequence: impl Iterator<Item = u32>) -> Self {
        let mut runs =
            Self { states: vec![SuffixState { length: 0, shorter: None, end: 0 }], next: HashMap::new() };
        let mut whole = 0;
        // For each state, the tokens for which `next` has an entry. To copy a state, these entries are copied.
        let mut tokens: Vec<Vec<u32>> = vec![Vec::new()];
        for token in sequence {
            let length = runs.states[whole as usize].length + 1;
            let new = runs.add(SuffixState { length, shorter: Some(0), end: length });
            tokens.push(Vec::new());
            let mut from = Some(whole);
            while let Some(state) = from
                && !runs.next.contains_key(&(state, token))
            {
                runs.next.insert((state, token), new);
                tokens[state as usize].push(token);
                from = runs.states[state as usize].shorter;
            }
            if let Some(state) = from {
                let there = runs.next[&(state, token)];
                let length = runs.states[state as usize].length + 1;
                let shorter = if runs.states[there as usize].length == length {
                    there
                } else {
                    let copy = runs.add(SuffixState { length, ..runs.states[there as usize] });
                    tokens.push(tokens[there as usize].clone());
                    for &token in &tokens[copy as usize] {
                        let to = runs.next[&(there, token)];
                        runs.next.insert((copy, token), to);
                    }
                    let mut from = Some(state);
                    while let Some(state) = from
                        && runs.next.get(&(state, token)) == Some(&there)
                    {
                        runs.next.insert((state, token), copy);
                        from = runs.states[state as usize].shorter;
                    }
                    runs.states[there as usize].shorter = Some(copy);
                    copy
                };
                runs.states[new as usize].shorter = Some(shorter);
            }
            whole = new;
        }
        runs
    }

    fn add(&mut self, state: SuffixState) -> u32 {
        self.states.push(state);
        self.states.len() as u32 - 1
    }

    /// For each token of `other`, finds the longest run that ends with this token and that this sequence contains. Returns the first
    /// position at which the run ends in this sequence, and the run's length, both in tokens.
    fn suffixes(&self, other: impl Iterator<Item = u32>) -> impl Iterator<Item = (usize, usize)> {
        let (mut state, mut length) = (0, 0);
        other.map(move |token| {
            loop {
                if let Some(&next) = self.next.get(&(state, token)) {
                    (state, length) = (next, length + 1);
                    break;
                }
                match self.states[state as usize].shorter {
                    Some(shorter) => {
                        state = shorter;
                        length = self.states[state as usize].length;
                    }
                    None => {
                        length = 0;
                        break;
                    }
                }
            }
            (self.states[state as usize].end as usize, length as usize)
        })
    }

    /// Finds the longest run that `other` and this sequence have in common. Returns its end in this sequence, its end in `other`, and its
    /// length, in tokens. Returns `None` if there is no common token.
    fn longest(&self, other: impl Iterator<Item = u32>) -> Option<(usize, usize, usize)> {
        let mut longest = None;
        for (at, (end, length)) in self.suffixes(other).enumerate() {
            if length > longest.map_or(0, |(_, _, most)| most) {
                longest = Some((end, at + 1, length));
            }
        }
        longest
    }
}

/// A run of tokens that two sequences have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommonRun {
    /// The index of its first token in the first sequence.
    pub a: usize,
    /// The index of its first token in the second sequence.
    pub b: usize,
    /// The number of tokens.
    pub length: usize,
}

/// Returns the runs of at least `least` tokens that both sequences contain, sorted by position. Each run is maximal in one sequence: a
/// longer common run neither starts nor ends at its position there. Its position in the other sequence is its first occurrence.
pub fn common_runs(a: &[u32], b: &[u32], least: usize) -> Vec<CommonRun> {
    let in_a = maximal_runs(b, a, least).map(|(b, a, length)| CommonRun { a, b, length });
    let in_b = maximal_runs(a, b, least).map(|(a, b, length)| CommonRun { a, b, length });
    in_a.chain(in_b).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the stretches of `other` that also occur in `sequence` and cannot be extended. Each item is (the first position in `sequence`,
/// the position in `other`, the length).
fn maximal_runs(
    sequence: &[u32],
    other: &[u32],
    least: usize,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let runs = SequenceRuns::new(sequence.iter().copied());
    let suffixes: Vec<_> = runs.suffixes(other.iter().copied()).collect();
    (0..suffixes.len()).filter_map(move |at| {
        let (end, length) = suffixes[at];
        let is_continued = suffixes.get(at + 1).is_some_and(|(_, next)| *next > length);
        (length >= least.max(1) && !is_continued).then(|| (end - length, at + 1 - length, length))
    })
}

/// The normalised words or characters of a text, from which its shingles are made.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlacedUnits {
    /// The number of each unit. Equal units have equal numbers.
    pub numbers: Vec<u32>,
    /// The byte range of the word or character in the text from which each unit was made. The range of a space is empty.
    pub places: Vec<Range<usize>>,
    /// Whether the text has no further units.
    pub is_complete: bool,
}

impl PlacedUnits {
    /// Returns the units of the first `most` words or characters of a text, each of which is normalised separately. `numbers` contains the
    /// numbers of the units so far, and new units get the next numbers. Fails if a step of `by` names a language without stop words.
    pub fn new(text: &str, by: &Shingle, most: usize, numbers: &mut HashMap<String, u32>) -> Result<Self> {
        let mut normalizer = Normalizer::new(&by.normalize, by.words)?;
        let mut pieces = Vec::new();
        match by.unit {
            Unit::Word => each_word(text, by.words, |word| pieces.push(word)),
            Unit::Char => {
                pieces.extend(text.grapheme_indices(true).map(|(start, piece)| start..start + piece.len()));
            }
        }
        let mut units = Self { is_complete: pieces.len() <= most, ..Self::default() };
        for place in pieces.into_iter().take(most) {
            if by.unit == Unit::Word {
                normalizer.begin();
            }
            let normalized = normalizer.piece(&text[place.clone()]);
            let mut add = |unit: &str| {
                let next = numbers.len() as u32;
                units.numbers.push(*numbers.entry(unit.to_owned()).or_insert(next));
                // A space is written with the next character, which may be outside of the common run, so it gets an empty range.
                let end = if unit.trim().is_empty() { place.start } else { place.end };
                units.places.push(place.start..end);
            };
            match by.unit {
                Unit::Word => each_word(normalized, by.words, |word| add(&normalized[word])),
                Unit::Char => normalized.chars().for_each(|c| add(c.encode_utf8(&mut [0; 4]))),
            }
        }
        Ok(units)
    }
}

/// Removes `spans`, which are byte ranges in ascending order, from a text. Returns `None` if a span is outside the text, overlaps another
/// span, or divides a character.
pub fn without_spans(text: &str, spans: &[Range<usize>]) -> Option<String> {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        kept.push_str(text.get(from..span.start)?);
        text.get(span.clone())?;
        from = span.end;
    }
    kept.push_str(text.get(from..)?);
    Some(kept)
}

/// Removes spans from a text while its bytes arrive in parts. See [`without_spans`].
pub struct SpanCutter {
    /// The spans whose ends were not reached yet.
    spans: VecDeque<Range<usize>>,
    at: usize,
    divides_character: bool,
}

impl SpanCutter {
    /// Creates a cutter for these spans, which must be in ascending order.
    pub fn new(spans: Vec<Range<usize>>) -> Self {
        Self { spans: spans.into(), at: 0, divides_character: false }
    }

    /// Returns the ranges within `bytes` that are outside of all spans.
    pub fn next(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let (start, end) = (self.at, self.at + bytes.len());
        let (mut kept, mut from) = (Vec::new(), start);
        while let Some(span) = self.spans.front().filter(|span| span.start < end) {
            for edge in [span.start, span.end] {
                let byte = edge.checked_sub(start).and_then(|at| bytes.get(at));
                self.divides_character |= byte.is_some_and(|byte| byte & 0xC0 == 0x80);
            }
            if from < span.start {
                kept.push(from - start..span.start - start);
            }
            from = from.max(span.end.min(end));
            // The next call checks the end of this span.
            if span.end >= end {
                break;
            }
            self.spans.pop_front();
        }
        if from < end {
            kept.push(from - start..end - start);
        }
        self.at = end;
        kept
    }

    /// Returns whether all spans were in the text and no span divided a character.
    pub fn end(self) -> bool {
        !self.divides_character && self.spans.iter().all(|span| span.end == self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::ShingleHash;
    use crate::kernel::text::shingles::tests::by;

    fn passage<'t>(a: &'t str, b: &'t str) -> Option<(&'t str, &'t str)> {
        longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b]))
    }

    #[test]
    fn the_longest_run_of_words_is_found_as_it_stands_in_either_text() {
        assert_eq!(
            passage("Well: What is  the capital, of France? Paris.", "(what is the CAPITAL of France)"),
            Some(("What is  the capital, of France", "what is the CAPITAL of France"))
        );
        assert_eq!(passage("one two", "three four"), None);
        assert_eq!(passage("", "three four"), None);
        // Two passages have the same length. The passage with the first end in b wins, at its first occurrence in a.
        assert_eq!(longest_passage("x y . a b . a b", "a b , x y"), Some((6..9, 0..3)));
        assert_eq!(passage("größer als das Größte", "GRÖSSER ALS DAS"), Some(("als das", "ALS DAS")));
    }

    /// Finds the longest common run by a search over all runs. Returns its end in `a`, its end in `b`, and its length.
    fn plain(a: &[u32], b: &[u32]) -> Option<(usize, usize, usize)> {
        let mut longest = None;
        for end_b in 1..=b.len() {
            for length in (1..=end_b).rev() {
                let run = &b[end_b - length..end_b];
                if let Some(start) = a.windows(length).position(|window| window == run) {
                    if longest.is_none_or(|(_, _, most)| length > most) {
                        longest = Some((start + length, end_b, length));
                    }
                    break;
                }
            }
        }
        longest
    }

    proptest! {
        #[test]
        fn runs_are_those_of_a_plain_search(
            a in prop::collection::vec(0_u32..4, 0..40),
            b in prop::collection::vec(0_u32..4, 0..40),
        ) {
            prop_assert_eq!(SequenceRuns::new(a.iter().copied()).longest(b.iter().copied()), plain(&a, &b));
        }

        /// Every token in a window that both sequences contain is in a run. Each run is the same on both sides, and no run can be longer.
        #[test]
        fn runs_cover_the_windows_of_both(
            a in prop::collection::vec(0_u32..3, 0..40),
            b in prop::collection::vec(0_u32..3, 0..40),
            least in 1_usize..5,
        ) {
            let runs = common_runs(&a, &b, least);
            let is_in = |run: &[u32], of: &[u32]| of.windows(run.len()).any(|window| window == run);
            for is_a in [true, false] {
                let (own, other) = if is_a { (&a, &b) } else { (&b, &a) };
                let mut covered = vec![false; own.len()];
                for (at, window) in own.windows(least).enumerate().filter(|(_, window)| is_in(window, other)) {
                    covered[at..at + window.len()].fill(true);
                }
                let mut in_runs = vec![false; own.len()];
                for run in &runs {
                    let start = if is_a { run.a } else { run.b };
                    in_runs[start..start + run.length].fill(true);
                }
                prop_assert_eq!(in_runs, covered);
            }
            for run in &runs {
                let (in_a, in_b) = (run.a..run.a + run.length, run.b..run.b + run.length);
                prop_assert!(run.length >= least && a[in_a.clone()] == b[in_b.clone()]);
                let is_maximal = |own: &[u32], other: &[u32], at: Range<usize>| {
                    (at.start == 0 || !is_in(&own[at.start - 1..at.end], other))
                        && (at.end == own.len() || !is_in(&own[at.start..=at.end], other))
                };
                prop_assert!(is_maximal(&a, &b, in_a) || is_maximal(&b, &a, in_b));
            }
        }

        #[test]
        fn what_is_in_no_span_stays(chars in texts(), size in 1_usize..9) {
            let text: String = chars.iter().map(|(char, _)| *char).collect();
            let wanted: String = chars.iter().filter(|(_, is_cut)| !is_cut).map(|(char, _)| *char).collect();
            let spans = spans(&chars);
            prop_assert_eq!(without_spans(&text, &spans), Some(wanted.clone()));
            let (mut parts, mut kept) = (SpanCutter::new(spans), Vec::new());
            for chunk in text.as_bytes().chunks(size) {
                parts.next(chunk).into_iter().for_each(|range| kept.extend_from_slice(&chunk[range]));
            }
            prop_assert!(parts.end());
            prop_assert_eq!(kept, wanted.into_bytes());
        }

        #[test]
        fn spans_of_another_text_are_noticed(text in "[aé😀]{0,8}", start in 0_usize..12, length in 1_usize..6, size in 1_usize..9) {
            let spans: Vec<_> = std::iter::once(start..start + length).collect();
            let fits = text.is_char_boundary(start) && text.is_char_boundary(start + length);
            prop_assert_eq!(without_spans(&text, &spans).is_some(), fits);
            let mut parts = SpanCutter::new(spans);
            text.as_bytes().chunks(size).for_each(|chunk| drop(parts.next(chunk)));
            prop_assert_eq!(parts.end(), fits);
        }
    }

    #[test]
    fn units_are_normalised_and_have_places() {
        let normalize =
            ["nfkc", "lowercase", "collapse-whitespace"].map(|step| step.parse().unwrap()).to_vec();
        let mut by = Shingle { normalize, ..by(Unit::Word, 2, ShingleHash::Xxh3) };
        let units = |text, by: &Shingle, most| {
            let found = PlacedUnits::new(text, by, most, &mut HashMap::new()).unwrap();
            (found.numbers, found.places, found.is_complete)
        };
        let found = units("\u{c9}t\u{e9}, x;\n E\u{301}t\u{e9}", &by, 9);
        assert_eq!(found, (vec![0, 1, 0], vec![0..5, 7..8, 11..17], true));
        assert_eq!(units("a b a", &by, 2), (vec![0, 1], vec![0..1, 2..3], false));
        by.unit = Unit::Char;
        let found = units("Aa \t\u{c9}", &by, 9);
        assert_eq!(found, (vec![0, 0, 1, 2], vec![0..1, 1..2, 4..4, 4..6], true));
    }

    /// The characters of a text. The flag says whether the character is in a span.
    fn texts() -> impl Strategy<Value = Vec<(char, bool)>> {
        let char = prop_oneof![any::<char>(), prop::sample::select(vec!['a', 'é', '\u{feff}', '😀'])];
        prop::collection::vec((char, any::<bool>()), 0..40)
    }

    fn spans(chars: &[(char, bool)]) -> Vec<Range<usize>> {
        let (mut spans, mut at) = (Vec::<Range<usize>>::new(), 0);
        for (char, is_cut) in chars {
            let end = at + char.len_utf8();
            match spans.last_mut().filter(|span| span.end == at) {
                Some(span) if *is_cut => span.end = end,
                _ if *is_cut => spans.push(at..end),
                _ => {}
            }
            at = end;
        }
        spans
    }

    #[test]
    fn spans_that_overlap_are_noticed() {
        assert_eq!(without_spans("abcdef", &[0..3, 2..4]), None);
    }
}
