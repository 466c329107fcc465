//! Finds windows of words that are repeated in a collection: selects the hashes that find them, and computes the runs of words that they
//! cover. Winnowing (Schleimer, Wilkerson, Aiken, *Winnowing: Local Algorithms for Document Fingerprinting*, SIGMOD 2003) selects a few
//! hashes per text. If two texts contain the same window of hashes, it selects the same hash in both.

use std::ops::Range;

/// Returns the number of words in a hashed run: half of a window of `length` words. About four hashes are then selected per `length` words.
pub(crate) fn run_length(length: usize) -> usize {
    length.div_ceil(2)
}

/// Replaces the hashes of words by the hashes of all runs of `size` consecutive words, in order. Equal runs have equal hashes. Fewer than
/// `size` words leave no hashes. The hash is a rolling hash (Karp and Rabin, *Efficient randomized pattern-matching algorithms*, IBM
/// Journal of Research and Development 31, 1987), so the time per run does not depend on `size`. It only selects runs, and a stronger hash
/// compares them.
pub(crate) fn hash_runs(words: &mut Vec<u64>, size: usize) {
    let runs = (words.len() + 1).saturating_sub(size);
    if runs == 0 || size == 0 {
        words.clear();
        return;
    }
    let append = |run: u64, word: u64| run.wrapping_mul(BASE).wrapping_add(word);
    // The factor of the word that leaves the run when the next word is appended.
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

/// The base of the polynomial in [`hash_runs`]. It is odd, so that the hash of a long run depends on all words.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads differences over all bits, because the smallest hash is selected.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// Calls `found` with the index of each selected hash, in order. Among every `window` consecutive hashes, the smallest is selected, or the
/// last of several smallest hashes. If there are fewer than `window` hashes, none is selected.
pub(crate) fn winnow(hashes: &[u64], window: usize, mut found: impl FnMut(usize)) {
    let Some(first) = hashes.get(..window) else { return };
    let Some(mut least) = last_least(first) else { return };
    found(least);
    for (at, hash) in hashes.iter().enumerate().skip(window) {
        if *hash <= hashes[least] {
            least = at;
        } else if least + window <= at {
            let start = at + 1 - window;
            // A window is never empty, so the default is never used.
            least = start + last_least(&hashes[start..=at]).unwrap_or_default();
        } else {
            continue;
        }
        found(least);
    }
}

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

/// Returns the starts of all windows of `length` words that contain one of `runs`, as joined ranges. The text has `words` words. `runs` are
/// the sorted indexes of first words of runs with [`run_length`] words.
pub(crate) fn windows_around(
    runs: impl IntoIterator<Item = usize>,
    length: usize,
    words: usize,
) -> Vec<Range<usize>> {
    let (reach, end) = (length - run_length(length), (words + 1).saturating_sub(length));
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

/// A window of a text that occurs more than once in the collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedWindow {
    /// The first word.
    pub(crate) at: usize,
    pub(crate) is_first: bool,
    pub(crate) occurrences: u64,
    /// The number of reference documents that contain the window.
    pub(crate) reference_documents: u64,
}

/// Consecutive words that are all in repeated windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordRun {
    pub(crate) words: Range<usize>,
    /// Whether the words are kept, because each of them is in the first occurrence of a window.
    pub(crate) kept: bool,
    /// The number of occurrences of the most frequent window in the run.
    pub(crate) occurrences: u64,
    /// The largest number of reference documents that contain the same window of the run.
    pub(crate) reference_documents: u64,
    /// The index of the last window that starts at or before the first word of the run.
    pub(crate) window: usize,
}

/// Returns the runs of words that `windows` cover. Each window has `length` words, and the windows are sorted by `at`. The first occurrence
/// of every repeated window is kept completely, so a word is kept if it is in the first occurrence of any window. Two consecutive runs with
/// the same `kept` are joined if at most `gap` words separate them.
pub(crate) fn runs(windows: &[RepeatedWindow], length: usize, gap: usize) -> Vec<WordRun> {
    let kept =
        joined(windows.iter().filter(|window| window.is_first).map(|window| window.at..window.at + length));
    let all = joined(windows.iter().map(|window| window.at..window.at + length));
    let mut parts: Vec<(Range<usize>, bool)> = kept.iter().map(|words| (words.clone(), true)).collect();
    parts.extend(without(&all, &kept).into_iter().map(|words| (words, false)));
    parts.sort_by_key(|(words, _)| words.start);
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    for (words, kept) in parts {
        match runs.last_mut() {
            Some((before, same)) if *same == kept && words.start <= before.end + gap => {
                before.end = words.end
            }
            _ => runs.push((words, kept)),
        }
    }
    let run = |(words, kept): (Range<usize>, bool)| {
        let from = windows.partition_point(|window| window.at + length <= words.start);
        let to = windows.partition_point(|window| window.at < words.end);
        let in_run = |&place: &usize| windows[place].is_first == kept;
        let most = |of: fn(&RepeatedWindow) -> u64| {
            (from..to).filter(in_run).map(|place| of(&windows[place])).max().unwrap_or_default()
        };
        let occurrences = most(|window| window.occurrences);
        let reference_documents = most(|window| window.reference_documents);
        let window = (from..to).filter(in_run).take_while(|&place| windows[place].at <= words.start).last();
        WordRun { words, kept, occurrences, reference_documents, window: window.unwrap_or(from) }
    };
    runs.into_iter().map(run).collect()
}

/// Joins sorted ranges that touch or overlap.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for next in ranges {
        match all.last_mut() {
            Some(before) if next.start <= before.end => before.end = before.end.max(next.end),
            _ => all.push(next),
        }
    }
    all
}

/// Returns the parts of `all` that are outside of `taken`. Both are sorted, and every range in `taken` is inside a range in `all`.
fn without(all: &[Range<usize>], taken: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    let mut taken = taken.iter().peekable();
    for range in all {
        let mut start = range.start;
        while let Some(next) = taken.next_if(|next| next.start < range.end) {
            if start < next.start {
                rest.push(start..next.start);
            }
            start = next.end;
        }
        if start < range.end {
            rest.push(start..range.end);
        }
    }
    rest
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

    /// The example in section 2 of the paper.
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
            let size = run_length(length);
            let words = runs.last().map_or(0, |last| last + size) + more;
            let found = windows_around(runs.iter().copied(), length, words);
            let holds = |start: usize| runs.iter().any(|run| start <= *run && run + size <= start + length);
            let wanted: Vec<usize> = (0..(words + 1).saturating_sub(length)).filter(|&start| holds(start)).collect();
            prop_assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), wanted);
        }
    }

    fn window(at: usize, is_first: bool, occurrences: u64) -> RepeatedWindow {
        RepeatedWindow { at, is_first, occurrences, reference_documents: occurrences / 2 }
    }

    #[test]
    fn words_of_first_occurrences_stay() {
        let windows = [
            window(0, false, 2),
            window(1, true, 3),
            window(2, false, 9),
            window(7, false, 4),
            window(12, false, 5),
        ];
        let run = |words, kept, occurrences: u64, window| WordRun {
            words,
            kept,
            occurrences,
            reference_documents: occurrences / 2,
            window,
        };
        assert_eq!(
            runs(&windows, 4, 0),
            [
                run(0..1, false, 2, 0),
                run(1..5, true, 3, 1),
                run(5..6, false, 9, 2),
                run(7..11, false, 4, 3),
                run(12..16, false, 5, 4)
            ]
        );
        assert_eq!(
            runs(&windows, 4, 1),
            [run(0..1, false, 2, 0), run(1..5, true, 3, 1), run(5..16, false, 9, 2)]
        );
    }

    proptest! {
        #[test]
        fn runs_are_the_words_of_windows(
            places in prop::collection::btree_map(0_usize..40, any::<bool>(), 0..12), length in 1_usize..7, gap in 0_usize..4
        ) {
            let windows: Vec<RepeatedWindow> = places.iter().map(|(&at, &is_first)| window(at, is_first, at as u64)).collect();
            // Whether each word is kept; `None` for a word outside of windows.
            let state = |word: usize| {
                let holds = |w: &&RepeatedWindow| (w.at..w.at + length).contains(&word);
                windows.iter().filter(holds).map(|w| w.is_first).max()
            };
            let found = runs(&windows, length, gap);
            for run in &found {
                prop_assert_eq!(state(run.words.start), Some(run.kept));
                prop_assert_eq!(state(run.words.end - 1), Some(run.kept));
                let first = windows[run.window];
                prop_assert!(first.is_first == run.kept && (first.at..first.at + length).contains(&run.words.start));
            }
            for word in 0..50 {
                let of = found.iter().find(|run| run.words.contains(&word));
                match state(word) {
                    Some(kept) => prop_assert_eq!(of.map(|run| run.kept), Some(kept)),
                    None => prop_assert!(of.is_none() || gap > 0),
                }
            }
            for pair in found.windows(2) {
                prop_assert!(pair[0].words.end <= pair[1].words.start);
                prop_assert!(pair[0].kept != pair[1].kept || pair[0].words.end + gap < pair[1].words.start);
            }
        }
    }
}
