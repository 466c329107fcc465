//! Winnowing (Schleimer, Wilkerson, Aiken, *Winnowing: Local Algorithms for Document Fingerprinting*, SIGMOD 2003): few of the hashes
//! of a text, chosen so that two texts with the same run of hashes have chosen the same one in it.

use std::collections::VecDeque;
use std::ops::Range;

/// Words in each hashed run for windows of `length` words: half of them, so that a text keeps about four hashes for each `length`
/// words.
pub(crate) fn run_of(length: usize) -> usize {
    length.div_ceil(2)
}

/// Calls `found` with the place of each chosen hash, in order: of every `window` consecutive hashes the least one, and the last of them
/// if it occurs several times. Fewer hashes than `window` have none.
pub(crate) fn winnow(hashes: &[u64], window: usize, mut found: impl FnMut(usize)) {
    // Places whose hashes grow, from the least one in the window.
    let mut rising: VecDeque<usize> = VecDeque::new();
    let mut last = None;
    for (at, hash) in hashes.iter().enumerate() {
        while rising.back().is_some_and(|&back| hashes[back] >= *hash) {
            rising.pop_back();
        }
        rising.push_back(at);
        while rising.front().is_some_and(|&front| front + window <= at) {
            rising.pop_front();
        }
        let least = rising.front().copied();
        if at + 1 >= window && least != last {
            last = least;
            least.into_iter().for_each(&mut found);
        }
    }
}

/// The starts of the windows of `length` words in which one of `runs` lies whole, joined where they touch. `runs` are the first words of
/// runs of [`run_of`] words, in order, in a text of `words` words.
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
