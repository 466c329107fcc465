//! Made-up words, and their frequencies.

use std::collections::BTreeSet;

use crate::kernel::hash::SplitMix64;

const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
const VOWELS: &[u8] = b"aeiou";

/// Letters of a word by its rank: the last rank, and the fewest and the most letters. With the frequencies this makes
/// words of about five letters in a running text, as in English.
const LENGTHS: [(usize, usize, usize); 3] = [(100, 2, 5), (1_000, 4, 6), (usize::MAX, 5, 10)];

/// Words by rank, the most frequent first, and the table that draws them.
///
/// The word of rank r, counted from 1, is drawn with a probability in proportion to 1 / (r + 1): Zipf's law with
/// Mandelbrot's shift (*An informational theory of the statistical structure of languages*, 1953). With 20,000 words,
/// one word in 19 is the first.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The words one after another, each with a space behind it.
    text: String,
    /// Where each word starts in `text`, and the end of the last.
    starts: Vec<u32>,
    alias: Alias,
}

impl Vocabulary {
    /// `count` different words, drawn from `random`.
    pub(super) fn new(count: usize, mut random: SplitMix64) -> Self {
        let mut known = BTreeSet::new();
        let (mut text, mut starts) = (String::new(), vec![0]);
        for rank in 0..count {
            let word = loop {
                let word = word(rank, &mut random);
                if !known.contains(&word) {
                    break word;
                }
            };
            text.push_str(&word);
            text.push(' ');
            starts.push(text.len() as u32);
            known.insert(word);
        }
        Self { text, starts, alias: Alias::new((0..count).map(|rank| 1.0 / (rank + 2) as f64).collect()) }
    }

    /// Draws the rank of a word, from 0.
    #[inline]
    pub(super) fn draw(&self, random: &mut SplitMix64) -> u32 {
        self.alias.draw(random.next())
    }

    /// Appends a word and a space.
    #[inline]
    pub(super) fn push(&self, rank: u32, out: &mut String) {
        let rank = rank as usize;
        out.push_str(&self.text[self.starts[rank] as usize..self.starts[rank + 1] as usize]);
    }
}

/// Consonants and vowels in turn.
fn word(rank: usize, random: &mut SplitMix64) -> String {
    let (_, least, most) = LENGTHS.into_iter().find(|(up_to, ..)| rank < *up_to).unwrap_or(LENGTHS[2]);
    let letters = least + below(random.next(), (most - least + 1) as u64) as usize;
    let first = random.next() & 1;
    (0..letters as u64)
        .map(|at| {
            let from = if (at + first).is_multiple_of(2) { CONSONANTS } else { VOWELS };
            char::from(from[below(random.next(), from.len() as u64) as usize])
        })
        .collect()
}

/// A number under `end` from a random number of 64 bits (Lemire, *Fast random integer generation in an interval*, 2019,
/// without the step that removes a bias of `end` in 2^64).
#[inline]
pub(super) fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

/// Draws from a distribution in constant time: Walker's alias method, with Vose's way to make the table (*A linear
/// algorithm for generating random numbers with a given distribution*, IEEE Transactions on Software Engineering 17,
/// 1991).
#[derive(Debug)]
struct Alias {
    /// For each column its own share of it, in 2^-32, and the value that has the rest.
    columns: Vec<(u32, u32)>,
}

impl Alias {
    /// The table of `weights`, whose sum can be any number.
    fn new(mut weights: Vec<f64>) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let mut columns: Vec<(u32, u32)> = (0..weights.len() as u32).map(|own| (u32::MAX, own)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|at| weights[*at] < 1.0);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            columns[low] = ((weights[low] * 4_294_967_296.0) as u32, high as u32);
            weights[high] -= 1.0 - weights[low];
            if weights[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // The columns that remain in either list are whole, except for rounding.
        Self { columns }
    }

    #[inline]
    fn draw(&self, random: u64) -> u32 {
        let at = ((random >> 32) * self.columns.len() as u64) >> 32;
        let (own, other) = self.columns[at as usize];
        if (random as u32) < own { at as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        Vocabulary::new(20_000, SplitMix64(1))
    }

    #[test]
    fn words_differ_and_are_words() {
        let vocabulary = vocabulary();
        let words: Vec<&str> = vocabulary.text.split_terminator(' ').collect();
        assert_eq!(words.len(), 20_000);
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), 20_000);
        assert!(
            words.iter().all(|w| (2..=10).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_lowercase()))
        );
        let mut out = String::new();
        vocabulary.push(19_999, &mut out);
        assert_eq!(out.trim_end(), words[19_999]);
    }

    #[test]
    fn frequencies_are_zipfs() {
        let vocabulary = vocabulary();
        let mut random = SplitMix64(2);
        let mut drawn = vec![0_u32; 20_000];
        const DRAWS: u32 = 1_000_000;
        (0..DRAWS).for_each(|_| drawn[vocabulary.draw(&mut random) as usize] += 1);
        let all: f64 = (0..20_000).map(|rank| 1.0 / f64::from(rank + 2)).sum();
        for rank in [0, 1, 2, 9, 99, 999] {
            let expected = f64::from(DRAWS) / (f64::from(rank as u32 + 2) * all);
            let found = f64::from(drawn[rank]);
            assert!((found - expected).abs() <= 5.0 * expected.sqrt(), "{rank}: {found}, {expected}");
        }
        let letters: u64 = (0..20_000)
            .map(|rank| {
                u64::from(drawn[rank]) * u64::from(vocabulary.starts[rank + 1] - vocabulary.starts[rank] - 1)
            })
            .sum();
        let mean = letters as f64 / f64::from(DRAWS);
        assert!((4.5..5.5).contains(&mean), "{mean} letters in a word");
    }
}
