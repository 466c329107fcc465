//! Made-up words, which occur with the frequencies of a natural language, and edits of texts to plant documents. A word is represented by
//! its rank, from 0 for the most frequent word.

use std::collections::BTreeSet;

use crate::kernel::hash::SplitMix64;
use crate::kernel::measure::jaccard_of;

const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
const VOWELS: &[u8] = b"aeiou";

/// The end of a range of ranks, and the minimum and maximum number of letters of the words in this range. Words in a text have about five
/// letters on average, as in English.
const LENGTHS: [(usize, usize, usize); 3] = [(100, 2, 5), (1_000, 4, 6), (usize::MAX, 5, 10)];

/// All words by rank, and the table with which words are drawn.
///
/// The probability of the word with rank r is proportional to 1 / (r + 2). This is Zipf's law with Mandelbrot's shift (*An informational
/// theory of the statistical structure of languages*, 1953). Of 20,000 words, the most frequent one is one in 19 words of a text.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// All words, each followed by a space.
    text: String,
    /// The start of each word in `text`, and the end of the last word.
    starts: Vec<u32>,
    /// The alias table. Column i contains the probability of word i within the column, in units of 2^-32, and the other word in it.
    columns: Vec<(u32, u32)>,
}

impl Vocabulary {
    pub(super) fn new(count: usize, mut random: SplitMix64) -> Self {
        let mut known = BTreeSet::new();
        let (mut text, mut starts) = (String::new(), vec![0]);
        while known.len() < count {
            let word = word(known.len(), &mut random);
            if known.contains(&word) {
                continue;
            }
            text.push_str(&word);
            text.push(' ');
            starts.push(text.len() as u32);
            known.insert(word);
        }
        Self { text, starts, columns: alias_table((0..count).map(|rank| 1.0 / (rank + 2) as f64).collect()) }
    }

    /// Draws a word in constant time.
    #[inline]
    pub(super) fn draw(&self, random: &mut SplitMix64) -> u32 {
        let random = random.next();
        let at = ((random >> 32) * self.columns.len() as u64) >> 32;
        let (own, other) = self.columns[at as usize];
        if (random as u32) < own { at as u32 } else { other }
    }

    #[inline]
    pub(super) fn push(&self, rank: u32, out: &mut String) {
        let rank = rank as usize;
        out.push_str(&self.text[self.starts[rank] as usize..self.starts[rank + 1] as usize]);
    }
}

/// Makes a word in which consonants and vowels alternate.
fn word(rank: usize, random: &mut SplitMix64) -> String {
    let (_, least, most) = LENGTHS.into_iter().find(|(end, ..)| rank < *end).unwrap_or(LENGTHS[2]);
    let letters = least + below(random.next(), (most - least + 1) as u64) as usize;
    let first = random.next() & 1;
    (0..letters as u64)
        .map(|at| {
            let from = if (at + first).is_multiple_of(2) { CONSONANTS } else { VOWELS };
            char::from(from[below(random.next(), from.len() as u64) as usize])
        })
        .collect()
}

/// Scales 64 random bits to a number less than `end`, or to 0 if `end` is 0 (Lemire, *Fast random integer generation in an interval*,
/// 2019). Leaves out the step that removes a bias of `end` / 2^64.
#[inline]
pub(in crate::lab) fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

/// Builds the table for Walker's alias method with Vose's algorithm (*A linear algorithm for generating random numbers with a given
/// distribution*, IEEE Transactions on Software Engineering 17, 1991). The weights need not add up to 1.
fn alias_table(mut weights: Vec<f64>) -> Vec<(u32, u32)> {
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
    // Each remaining column contains only its own word, up to rounding errors.
    columns
}

/// Replaces words in a text, so that the Jaccard similarity with the original text is as close to `target` as possible.
///
/// If d of the n shingles in a text are replaced, the similarity is (n - d) / (n + d). A single word in the middle replaces `size`
/// shingles, and the last r words replace r shingles. So single words that are at least `size` apart, and fewer than `size` words at the
/// end, replace any number of shingles exactly. If shingles repeat in a text, the similarity differs slightly.
pub(super) fn edit(
    words: &mut [u32],
    target: f64,
    size: usize,
    vocabulary: &Vocabulary,
    random: &mut SplitMix64,
) {
    let Some(shingles) = (words.len() + 1).checked_sub(size) else { return };
    let lost = (shingles as f64 * (1.0 - target) / (1.0 + target)).round() as usize;
    let (mut single, at_end) = (lost / size, lost % size);
    let blocks = (shingles - at_end) / size;
    for block in 0..blocks {
        // Knuth, *The Art of Computer Programming*, volume 2, section 3.4.2, algorithm S.
        if below(random.next(), (blocks - block) as u64) < single as u64 {
            single -= 1;
            replace(&mut words[block * size + size - 1], vocabulary, random);
        }
    }
    let end = words.len() - at_end;
    words[end..].iter_mut().for_each(|word| replace(word, vocabulary, random));
}

fn replace(word: &mut u32, vocabulary: &Vocabulary, random: &mut SplitMix64) {
    let old = *word;
    while *word == old {
        *word = vocabulary.draw(random);
    }
}

/// Keeps a random passage with half of the words, but with at least `size` words.
pub(super) fn passage(words: &mut Vec<u32>, size: usize, random: &mut SplitMix64) {
    let length = (words.len() / 2).max(size).min(words.len());
    let start = below(random.next(), (words.len() - length + 1) as u64) as usize;
    words.truncate(start + length);
    words.drain(..start);
}

/// Returns the Jaccard similarity of the shingle sets of two texts; NaN if neither text has a shingle. A shingle has `size` words.
pub(super) fn jaccard(a: &[u32], b: &[u32], size: usize) -> f64 {
    let [a, b] = [a, b].map(|words| words.windows(size).collect::<BTreeSet<_>>());
    jaccard_of(a.intersection(&b).count() as u64, a.len() as u64, b.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

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
        let is_word = |w: &&str| (2..=10).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_lowercase());
        assert!(words.iter().all(is_word));
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
        let lengths = vocabulary.starts.windows(2).map(|ends| u64::from(ends[1] - ends[0] - 1));
        let letters: u64 = lengths.zip(&drawn).map(|(length, times)| length * u64::from(*times)).sum();
        let mean = letters as f64 / f64::from(DRAWS);
        assert!((4.5..5.5).contains(&mean), "{mean} letters in a word");
    }

    static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(5_000, SplitMix64(3)));

    #[test]
    fn similarities_by_hand() {
        assert_eq!(jaccard(&[1, 2, 3, 4], &[1, 2, 3, 5], 2), 0.5);
        assert_eq!(jaccard(&[1, 1, 1, 1], &[1, 1], 2), 1.0);
        assert_eq!(jaccard(&[1, 2], &[3, 4], 2), 0.0);
    }

    proptest! {
        #[test]
        fn edits_reach_the_nearest_similarity(
            words in 1usize..300, size in 1usize..8, target in 0.05..=1.0f64, seed in any::<u64>(),
        ) {
            prop_assume!(words >= size);
            // No word is in the vocabulary, so that no replacement can restore an earlier word.
            let before: Vec<u32> = (0..words as u32).map(|word| 10_000 + word).collect();
            let mut after = before.clone();
            edit(&mut after, target, size, &VOCABULARY, &mut SplitMix64(seed));
            let runs = (words + 1 - size) as f64;
            let lost = (runs * (1.0 - target) / (1.0 + target)).round();
            let found = jaccard(&before, &after, size);
            let expected = (runs - lost) / (runs + lost);
            // If shingles are single words, new words can be equal to each other.
            let slack = if size == 1 { 0.2 } else { 1e-12 };
            prop_assert!((found - expected).abs() <= slack, "{found}, {expected}");
        }

        #[test]
        fn a_passage_is_contained(words in 1u32..300, size in 1usize..8, seed in any::<u64>()) {
            let before: Vec<u32> = (0..words).collect();
            let mut after = before.clone();
            passage(&mut after, size, &mut SplitMix64(seed));
            prop_assert!(before.windows(after.len()).any(|window| window == after));
            prop_assert!(after.len() >= size.min(before.len()) && after.len() <= size.max(before.len() / 2));
        }
    }
}
