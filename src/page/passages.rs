//! Numbers the passages that two texts have in common, also passages that were moved or copied. A passage is a maximal common run of
//! words or characters with at least the length of a shingle. So the marked words are the words of all shingles that both texts contain.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde::Serialize;

use crate::error::Result;
use crate::job::Shingle;
use crate::kernel::text::common_passages::{CommonRun, PlacedUnits, common_runs};

/// The maximum number of words or characters of each text that are searched, because the search is in memory.
pub(crate) const MAX_UNITS: usize = 100_000;

/// A passage that two texts share, in characters (Unicode code points).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CommonPassage {
    pub a: Range<usize>,
    pub b: Range<usize>,
}

/// A marked part of a text. A mark of the other text has the same number and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedPassage {
    pub at: Range<usize>,
    /// The number of the passage, from 1 in the order of the first text.
    pub number: usize,
}

/// The runs of units that two texts have in common.
#[derive(Debug)]
pub(crate) struct CommonPassages {
    units: [PlacedUnits; 2],
    runs: Vec<CommonRun>,
}

impl CommonPassages {
    pub(crate) fn find(texts: [&str; 2], shingle: &Shingle) -> Result<Self> {
        let mut numbers = HashMap::new();
        let mut units = |text| PlacedUnits::new(text, shingle, MAX_UNITS, &mut numbers);
        let units = [units(texts[0])?, units(texts[1])?];
        let [a, b] = units.each_ref().map(|units| units.numbers.as_slice());
        // Equal texts are similar even if they are shorter than a shingle.
        let least = if a == b { 1 } else { shingle.size };
        let runs = common_runs(a, b, least);
        Ok(Self { units, runs })
    }

    /// Returns whether both texts were searched as a whole.
    pub(crate) fn are_complete(&self) -> bool {
        self.units.iter().all(|units| units.is_complete)
    }

    /// Returns the places of the passages in characters. Passages can overlap, and a passage that a text repeats has several places.
    /// `texts` are the compared texts.
    pub(crate) fn places(&self, texts: [&str; 2]) -> Vec<CommonPassage> {
        let before = [0, 1].map(|side| {
            let end = self.units[side].places.last().map_or(0, |place| place.end);
            let mut characters = vec![0; end + 1];
            for (count, (at, c)) in texts[side][..end].char_indices().enumerate() {
                characters[at + c.len_utf8()] = count + 1;
            }
            characters
        });
        let place = |side: usize, start, length| {
            let bytes = self.bytes(side, start..start + length);
            before[side][bytes.start]..before[side][bytes.end]
        };
        let passage = |run: &CommonRun| CommonPassage {
            a: place(0, run.a, run.length),
            b: place(1, run.b, run.length),
        };
        self.runs.iter().map(passage).collect()
    }

    /// Returns the byte range of consecutive units, without spaces at its ends.
    fn bytes(&self, side: usize, units: Range<usize>) -> Range<usize> {
        let mut places = self.units[side].places[units].iter().filter(|place| !place.is_empty());
        let Some(first) = places.next() else { return 0..0 };
        first.start..places.next_back().unwrap_or(first).end
    }

    /// Returns the marks of both texts, in the order of each text. Where passages overlap, only the longest is marked. Every marked unit
    /// has an equal unit with the same number in the other text.
    pub(crate) fn marks(&self) -> [Vec<MarkedPassage>; 2] {
        let mut sides = self.units.each_ref().map(|units| MarkedUnits::new(units.numbers.len()));
        let mut longest_first: Vec<_> = self.runs.iter().collect();
        longest_first.sort_by_key(|run| (Reverse(run.length), run.a, run.b));
        let mut passages = 0;
        for run in longest_first {
            let mut at = 0;
            let mut begun = None;
            loop {
                at = (sides[0].unmarked(run.a + at) - run.a).min(sides[1].unmarked(run.b + at) - run.b);
                if at >= run.length {
                    break;
                }
                let (in_a, in_b) = (run.a + at, run.b + at);
                let known = sides[0].units[in_a].or(sides[1].units[in_b]).map(|unit| unit.passage);
                if known.is_none() && begun != Some(at) {
                    passages += 1;
                }
                let passage = known.unwrap_or(passages);
                sides[0].mark(in_a, MarkedUnit { passage, partner: in_b });
                sides[1].mark(in_b, MarkedUnit { passage, partner: in_a });
                at += 1;
                begun = known.is_none().then_some(at);
            }
        }
        let mut numbers = BTreeMap::new();
        let mut side = 0;
        sides.map(|marked| {
            let mut marks = Vec::new();
            for (units, passage) in marked.runs() {
                let next = numbers.len() + 1;
                let (at, number) = (self.bytes(side, units), *numbers.entry(passage).or_insert(next));
                if !at.is_empty() {
                    marks.push(MarkedPassage { at, number });
                }
            }
            side += 1;
            marks
        })
    }
}

/// The preliminary number of a unit's passage, and the index of an equal unit in the other text.
#[derive(Debug, Clone, Copy)]
struct MarkedUnit {
    passage: usize,
    partner: usize,
}

struct MarkedUnits {
    units: Vec<Option<MarkedUnit>>,
    /// A forest (union-find). The root of each unit is the first unmarked unit from there on, or the end.
    unmarked: Vec<usize>,
}

impl MarkedUnits {
    fn new(units: usize) -> Self {
        Self { units: vec![None; units], unmarked: (0..=units).collect() }
    }

    /// Returns the first unmarked unit from `at` on, or the number of units.
    fn unmarked(&mut self, mut at: usize) -> usize {
        while self.unmarked[at] != at {
            self.unmarked[at] = self.unmarked[self.unmarked[at]];
            at = self.unmarked[at];
        }
        at
    }

    fn mark(&mut self, at: usize, mark: MarkedUnit) {
        if self.units[at].is_none() {
            self.units[at] = Some(mark);
            self.unmarked[at] = at + 1;
        }
    }

    /// Returns the runs of units with the same passage. A run ends where its passage begins again.
    fn runs(&self) -> Vec<(Range<usize>, usize)> {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        let mut before: Option<MarkedUnit> = None;
        for (at, unit) in self.units.iter().enumerate() {
            if let Some(unit) = unit {
                let continues =
                    before.is_some_and(|b| b.passage == unit.passage && b.partner <= unit.partner);
                match runs.last_mut().filter(|_| continues) {
                    Some((run, _)) => run.end = at + 1,
                    None => runs.push((at..at + 1, unit.passage)),
                }
            }
            before = *unit;
        }
        runs
    }
}

/// Returns the marks that can stand beside each other: (index in the first text, index in the second text). They are in the same order in
/// both texts, and contain as much text as possible.
pub(crate) fn in_order([a, b]: [&[MarkedPassage]; 2]) -> Vec<(usize, usize)> {
    let mut first_in_b = BTreeMap::new();
    for (at, mark) in b.iter().enumerate() {
        first_in_b.entry(mark.number).or_insert(at);
    }
    // For each index in b, the longest chain that ends there: its length in bytes, and the index of its last pair in `pairs`.
    let mut chains: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut pairs: Vec<(usize, usize, Option<usize>)> = Vec::new();
    for (in_a, mark) in a.iter().enumerate() {
        // Only the first place of a passage has a partner.
        let Some(in_b) = first_in_b.remove(&mark.number) else { continue };
        let before = chains.range(..in_b).next_back().map(|(_, chain)| *chain);
        let length = before.map_or(0, |(length, _)| length) + mark.at.len();
        pairs.push((in_a, in_b, before.map(|(_, pair)| pair)));
        chains.insert(in_b, (length, pairs.len() - 1));
        while let Some((&later, _)) = chains.range(in_b + 1..).next().filter(|(_, chain)| chain.0 <= length) {
            chains.remove(&later);
        }
    }
    let mut last = chains.last_key_value().map(|(_, (_, pair))| *pair);
    let mut chain = Vec::new();
    while let Some((in_a, in_b, before)) = last.map(|last| pairs[last]) {
        chain.push((in_a, in_b));
        last = before;
    }
    chain.reverse();
    chain
}

/// Shingles of two words.
#[cfg(test)]
pub(crate) fn two_words() -> Shingle {
    crate::job::with_keys("shingle = { size = 2, words = 'unicode', short = 'reject' }").shingle
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Unit;

    /// The marks of both texts: the number and the marked text.
    fn marked(texts: [&str; 2], by: &Shingle) -> [String; 2] {
        let [a, b] = CommonPassages::find(texts, by).unwrap().marks();
        let shown = |of: &str, marks: Vec<MarkedPassage>| {
            let marks = marks.into_iter().map(|mark| format!("{} {}", mark.number, &of[mark.at]));
            marks.collect::<Vec<_>>().join("|")
        };
        [shown(texts[0], a), shown(texts[1], b)]
    }

    #[test]
    fn moved_and_copied_passages_have_the_number_of_their_partner() {
        let (words, chars) = (two_words(), Shingle { unit: Unit::Char, size: 5, ..two_words() });
        for (by, a, b, of_a, of_b) in [
            (
                &words,
                "One two. Then three four! x",
                "y: three FOUR, one\ntwo; three four.",
                "1 One two|2 three four",
                "2 three FOUR|1 one\ntwo|2 three four",
            ),
            // A part of a passage has the number of the passage.
            (&words, "a b c d", "b c x a b c d y c d", "1 a b c d", "1 b c|1 a b c d|1 c d"),
            // Two passages overlap in the first text.
            (&words, "a b c d e", "a b c x c d e", "1 a b c|2 d e", "1 a b c|1 c|2 d e"),
            (&words, "a a a", "a a", "1 a a a", "1 a a"),
            (&words, "a b a b", "x a b", "1 a b|1 a b", "1 a b"),
            (&words, "one two", "two one", "", ""),
            (&words, "", "one", "", ""),
            // Equal texts that are shorter than a shingle.
            (&words, "One", "one.", "1 One", "1 one"),
            (
                &chars,
                "x The  cat \u{c9}t",
                "the cat \u{e9}! cat s",
                "1 The  cat \u{c9}",
                "1 the cat \u{e9}|1 cat",
            ),
        ] {
            assert_eq!(marked([a, b], by), [of_a, of_b], "{a} {b}");
        }
    }

    #[test]
    fn places_count_characters() {
        let (a, b) = ("h\u{e9}ron one two, x", "x  One\ntwo, y one two");
        let found = CommonPassages::find([a, b], &two_words()).unwrap();
        let place = |b| CommonPassage { a: 6..13, b };
        assert_eq!((found.places([a, b]), found.are_complete()), (vec![place(3..10), place(14..21)], true));
    }

    #[test]
    fn marks_beside_each_other_are_in_order_and_long() {
        let order = |a: &str, b: &str| {
            let [a, b] = CommonPassages::find([a, b], &two_words()).unwrap().marks();
            in_order([&a, &b])
        };
        assert_eq!(order("one two x three four", "one two y three four"), [(0, 0), (1, 1)]);
        assert_eq!(order("one two x three four five", "three four five y one two"), [(1, 0)]);
        assert_eq!(order("a b x c d y longer passage here", "longer passage here z a b w c d"), [(2, 0)]);
        assert_eq!(order("a b x c d y e f", "e f z a b w c d"), [(0, 1), (1, 2)]);
        assert_eq!(order("one", "two"), []);
    }

    proptest! {
        /// The marked words are the words of the shingles that both texts contain, and each has a partner with its number.
        #[test]
        fn words_of_common_shingles_are_marked(
            a in prop::collection::vec(0_u8..4, 0..40),
            b in prop::collection::vec(0_u8..4, 0..40),
            size in 2_usize..5,
        ) {
            prop_assume!(a != b);
            let texts = [&a, &b].map(|words| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" "));
            let marks = CommonPassages::find(texts.each_ref().map(String::as_str), &Shingle { size, ..two_words() }).unwrap().marks();
            let numbers = [(&a, &marks[0]), (&b, &marks[1])].map(|(words, marks)| {
                // A word and its space are three bytes.
                let mut numbers = vec![0; words.len()];
                for mark in marks {
                    numbers[mark.at.start / 3..mark.at.end.div_ceil(3)].fill(mark.number);
                }
                numbers
            });
            for (own, other, [of_own, of_other]) in
                [(&a, &b, [&numbers[0], &numbers[1]]), (&b, &a, [&numbers[1], &numbers[0]])]
            {
                let mut common = vec![false; own.len()];
                for (at, shingle) in own.windows(size).enumerate() {
                    if other.windows(size).any(|window| window == shingle) {
                        common[at..at + size].fill(true);
                    }
                }
                prop_assert_eq!(of_own.iter().map(|number| *number > 0).collect::<Vec<_>>(), common);
                for (word, number) in own.iter().zip(of_own).filter(|(_, number)| **number > 0) {
                    prop_assert!(other.iter().zip(of_other).any(|(w, n)| (w, n) == (word, number)));
                }
            }
            let firsts: Vec<usize> = marks[0].iter().map(|mark| mark.number).collect();
            let mut most = 0;
            for number in firsts {
                prop_assert!(number <= most + 1);
                most = most.max(number);
            }
        }
    }
}
