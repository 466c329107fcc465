//! Winnowing (Schleimer, Wilkerson, Aiken, *Winnowing: Local Algorithms for Document Fingerprinting*, SIGMOD 2003): few of the
//! hashes of a text, chosen so that two texts with the same run of hashes have chosen the same one in it.

use std::ops::Range;

/// Words in each hashed run for windows of `length` words: half of them, so that a text keeps about four hashes for each `length`
/// words.
pub(crate) fn run_of(length: usize) -> usize {
    length.div_ceil(2)
}

/// Replaces the hashes of words by the hash of each run of `size` of them, in order: equal for equal runs. Fewer words than
/// `size` have none.
///
/// The hash rolls (Karp and Rabin, *Efficient randomized pattern-matching algorithms*, IBM Journal of Research and Development
/// 31, 1987): a run of any size costs as much as one word. Runs are chosen by it, and never compared by it alone.
pub(crate) fn hash_runs(words: &mut Vec<u64>, size: usize) {
    let runs = (words.len() + 1).saturating_sub(size);
    if runs == 0 || size == 0 {
        words.clear();
        return;
    }
    let append = |run: u64, word: u64| run.wrapping_mul(BASE).wrapping_add(word);
    // What the first word of a run has become when the next one is appended.
    let gone = (0..size).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut run = words[..size].iter().fold(0, |run, &word| append(run, word));
    for at in 0..runs {
        let first = std::mem::replace(&mut words[at], spread(run));
        if let Some(&next) = words.get(at + size) {
            run = append(run, next).wrapping_sub(first.wrapping_mul(gone));
        }
    }
    words.truncate(runs);
}

/// The base of [`hash_runs`]: odd, so that no word vanishes from a run however long it is.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads what two hashes differ in over all their bits, because the smallest hash is chosen.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// Calls `found` with the place of each chosen hash, in order: of every `window` consecutive hashes the least one, and the last
/// of them if it occurs several times. Fewer hashes than `window` have none.
pub(crate) fn winnow(hashes: &[u64], window: usize, mut found: impl FnMut(usize)) {
    let Some(first) = hashes.get(..window) else { return };
    let Some(mut least) = last_least(first) else { return };
    found(least);
    for (at, hash) in hashes.iter().enumerate().skip(window) {
        if *hash <= hashes[least] {
            least = at;
        } else if least + window <= at {
            let start = at + 1 - window;
            // The window has a hash.
            least = start + last_least(&hashes[start..=at]).unwrap_or_default();
        } else {
            continue;
        }
        found(least);
    }
}

/// The place of the smallest number in `hashes`, and the last one if it occurs several times.
fn last_least(hashes: &[u64]) -> Option<usize> {
    let (mut least, mut rest) = (0, hashes.iter().enumerate());
    let (_, mut hash) = rest.next()?;
    for (at, next) in rest {
        if next <= hash {
            (least, hash) = (at, next);
        }
    }
    Some(least)
}

/// The starts of the windows of `length` words in which one of `runs` lies whole, joined where they touch. `runs` are the first
/// words of runs of [`run_of`] words, in order, in a text of `words` words.
pub(crate) fn windows_around(
    runs: impl IntoIterator<Item = usize>,
    length: usize,
    words: usize,
) -> Vec<Range<usize>> {
    let (reach, end) = (length - run_of(length), (words + 1).saturating_sub(length));
    let mut starts: Vec<Range<usize>> = Vec::new();
    for run in runs {
        let next = run.saturating_sub(reach)..(run + 1).min(end);
        match starts.last_mut() {
            Some(before) if next.start <= before.end => before.end = before.end.max(next.end),
            _ if next.is_empty() => {}
            _ => starts.push(next),
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chosen(hashes: &[u64], window: usize) -> Vec<usize> {
        let mut all = Vec::new();
        winnow(hashes, window, |at| all.push(at));
        all
    }

    /// The example of the paper, section 2.
    #[test]
    fn the_hashes_of_the_paper() {
        let hashes = [77, 74, 42, 17, 98, 50, 17, 98, 8, 88, 67, 39, 77, 74, 42, 17, 98];
        let chosen: Vec<u64> = chosen(&hashes, 4).into_iter().map(|at| hashes[at]).collect();
        assert_eq!(chosen, [17, 17, 8, 39, 17]);
    }

    proptest! {
        #[test]
        fn equal_runs_have_equal_hashes(words in prop::collection::vec(0_u64..3, 0..60), size in 1_usize..9) {
            let mut hashes = words.clone();
            hash_runs(&mut hashes, size);
            let runs: Vec<&[u64]> = words.windows(size).collect();
            prop_assert_eq!(hashes.len(), runs.len());
            for (at, run) in runs.iter().enumerate() {
                for (other, hash) in runs.iter().zip(&hashes) {
                    prop_assert_eq!(run == other, hashes[at] == *hash);
                }
            }
        }

        #[test]
        fn each_window_has_its_last_least_hash(hashes in prop::collection::vec(0_u64..20, 0..60), window in 1_usize..9) {
            let all = chosen(&hashes, window);
            let mut wanted = Vec::new();
            for (start, hashes) in hashes.windows(window).enumerate() {
                let least = hashes.iter().min().unwrap();
                wanted.push(start + hashes.iter().rposition(|hash| hash == least).unwrap());
            }
            wanted.dedup();
            prop_assert_eq!(all, wanted);
        }

        #[test]
        fn windows_are_those_that_hold_a_run(
            runs in prop::collection::btree_set(0_usize..40, 0..6), length in 1_usize..12, more in 0_usize..12
        ) {
            let size = run_of(length);
            let words = runs.last().map_or(0, |last| last + size) + more;
            let found = windows_around(runs.iter().copied(), length, words);
            let holds = |start: usize| runs.iter().any(|run| start <= *run && run + size <= start + length);
            let wanted: Vec<usize> = (0..(words + 1).saturating_sub(length)).filter(|&start| holds(start)).collect();
            prop_assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), wanted);
        }
    }
}
