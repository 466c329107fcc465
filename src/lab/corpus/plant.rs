//! Makes planted documents from originals. Words are numbers here.

use super::vocabulary::{Vocabulary, below};
use crate::kernel::hash::SplitMix64;
use crate::kernel::measure::jaccard_of;

/// Replaces words of a text so that its Jaccard similarity with the unchanged text comes as close to `target` as
/// possible.
///
/// A text of n runs of `size` words that has d of them replaced by others has the similarity (n - d) / (n + d). A
/// replaced word in the middle replaces `size` runs, r words at the end replace r. So single words all over the text,
/// `size` or more apart, and fewer than `size` at its end replace any number of runs exactly. In texts that repeat
/// their own runs the similarity is slightly different.
pub(super) fn edit(
    words: &mut [u32],
    target: f64,
    size: usize,
    vocabulary: &Vocabulary,
    random: &mut SplitMix64,
) {
    let Some(runs) = (words.len() + 1).checked_sub(size) else { return };
    let lost = (runs as f64 * (1.0 - target) / (1.0 + target)).round() as usize;
    let (mut single, at_end) = (lost / size, lost % size);
    let blocks = (runs - at_end) / size;
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

/// Keeps one passage: half of the words, and at least `size`.
pub(super) fn passage(words: &mut Vec<u32>, size: usize, random: &mut SplitMix64) {
    let length = (words.len() / 2).max(size).min(words.len());
    let start = below(random.next(), (words.len() - length + 1) as u64) as usize;
    words.truncate(start + length);
    words.drain(..start);
}

/// The Jaccard similarity of two texts as sets of their runs of `size` words; NaN if neither has one.
pub(super) fn jaccard(a: &[u32], b: &[u32], size: usize) -> f64 {
    let (a, b) = (runs(a, size), runs(b, size));
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        shared += u64::from(x == y);
        let (left, right) = (x <= y, y <= x);
        i += usize::from(left);
        j += usize::from(right);
    }
    jaccard_of(shared, a.len() as u64, b.len() as u64)
}

/// The distinct runs of `size` words, in an order.
fn runs(words: &[u32], size: usize) -> Vec<&[u32]> {
    let mut runs: Vec<&[u32]> = words.windows(size).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

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
            // Words outside the vocabulary, so that no replacement can restore a word.
            let before: Vec<u32> = (0..words as u32).map(|word| 10_000 + word).collect();
            let mut after = before.clone();
            edit(&mut after, target, size, &VOCABULARY, &mut SplitMix64(seed));
            let runs = (words + 1 - size) as f64;
            let lost = (runs * (1.0 - target) / (1.0 + target)).round();
            let found = jaccard(&before, &after, size);
            let expected = (runs - lost) / (runs + lost);
            // New words may repeat each other if the shingles are single words.
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
