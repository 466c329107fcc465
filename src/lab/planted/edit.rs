//! Makes planted texts from real ones.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::Result;
use crate::job::Shingle;
use crate::kernel::hash::SplitMix64;
use crate::kernel::measure::{jaccard_of, shared};
use crate::kernel::text::shingles::{ShingleBuffers, shingles};

/// Words that are remembered.
const POOL: usize = 1_000;
/// Draws of a word that differs from the one that it replaces.
const DRAWS: usize = 8;

/// The last words that were read: real words replace others.
#[derive(Debug, Default)]
pub(super) struct Pool(VecDeque<String>);

impl Pool {
    /// Remembers the words of a text.
    pub(super) fn add(&mut self, text: &str) {
        self.0.extend(text.split_whitespace().take(POOL).map(str::to_owned));
        let over = self.0.len().saturating_sub(POOL);
        self.0.drain(..over);
    }

    /// A word other than `old`.
    fn draw(&self, old: &str, random: &mut SplitMix64) -> String {
        let word = |random: &mut SplitMix64| self.0.get(below(random, self.0.len()));
        let other =
            (0..DRAWS).filter_map(|_| word(random)).find(|word| word.to_lowercase() != old.to_lowercase());
        other.cloned().unwrap_or_else(|| format!("{old}x"))
    }
}

/// A number below `n`, or 0.
fn below(random: &mut SplitMix64, n: usize) -> usize {
    ((u128::from(random.next()) * n as u128) >> 64) as usize
}

/// The places of the words of a text, which are runs of characters other than white space.
pub(super) fn words(text: &str) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect()
}

/// The text with as many words replaced as bring its Jaccard similarity with the unchanged text the closest to `target`, and that
/// similarity. The fewer words a text has, the larger are the steps.
pub(super) fn edit(
    text: &str,
    target: f64,
    shingle: &Shingle,
    pool: &Pool,
    random: &mut SplitMix64,
) -> Result<(String, f64)> {
    let places = words(text);
    // The words that are replaced, in the order in which they are, each with its new word.
    let mut order: Vec<usize> = (0..places.len()).collect();
    for at in 0..order.len() {
        let other = at + below(random, order.len() - at);
        order.swap(at, other);
    }
    let new: Vec<String> = order.iter().map(|&word| pool.draw(&text[places[word].clone()], random)).collect();
    let replaced = |count: usize| {
        let mut chosen: Vec<(usize, &String)> = order[..count].iter().copied().zip(&new).collect();
        chosen.sort_unstable_by_key(|(word, _)| *word);
        let (mut edited, mut at) = (String::with_capacity(text.len()), 0);
        for (word, new) in chosen {
            edited.push_str(&text[at..places[word].start]);
            edited.push_str(new);
            at = places[word].end;
        }
        edited.push_str(&text[at..]);
        edited
    };
    // The similarity falls with the number of replaced words: the last one that is still above the target, or the next.
    let (mut low, mut high) = (0, places.len());
    while high - low > 1 {
        let middle = low.midpoint(high);
        match similarity(text, &replaced(middle), shingle)? >= target {
            true => low = middle,
            false => high = middle,
        }
    }
    let [a, b] = [low, high].map(replaced);
    let [of_a, of_b] = [similarity(text, &a, shingle)?, similarity(text, &b, shingle)?];
    Ok(if (of_a - target).abs() <= (of_b - target).abs() { (a, of_a) } else { (b, of_b) })
}

/// One passage: half of the words in a row, and at least `least`.
pub(super) fn passage<'a>(text: &'a str, least: usize, random: &mut SplitMix64) -> &'a str {
    let places = words(text);
    let length = (places.len() / 2).max(least).min(places.len());
    let first = below(random, places.len() - length + 1);
    match (places.get(first), places.get((first + length).wrapping_sub(1))) {
        (Some(first), Some(last)) => &text[first.start..last.end],
        _ => text,
    }
}

/// The Jaccard similarity of the shingle sets of two texts; NaN if neither has a shingle.
pub(super) fn similarity(a: &str, b: &str, shingle: &Shingle) -> Result<f64> {
    let mut scratch = ShingleBuffers::default();
    let mut sets = [Vec::new(), Vec::new()];
    for (text, set) in [a, b].into_iter().zip(&mut sets) {
        shingles(text, shingle, &mut scratch, set)?;
    }
    let [a, b] = sets;
    Ok(jaccard_of(shared(&a, &b), a.len() as u64, b.len() as u64))
}
