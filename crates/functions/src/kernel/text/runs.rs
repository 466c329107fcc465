//! The runs of words of a text that occur elsewhere too, from the windows that do.

use std::ops::Range;

/// A window of a text that occurs more than once in all texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedWindow {
    /// The first of its words.
    pub(crate) at: usize,
    /// Whether this is its first occurrence.
    pub(crate) is_first: bool,
    /// How often it occurs.
    pub(crate) occurrences: u64,
    /// The reference documents that have it.
    pub(crate) reference_documents: u64,
}

/// A run of words that are in repeated windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordRun {
    /// Its words.
    pub(crate) words: Range<usize>,
    /// Whether its words are in first occurrences of windows, so that they stay.
    pub(crate) kept: bool,
    /// How often the most frequent window in it occurs.
    pub(crate) occurrences: u64,
    /// The reference documents of the window in it that most of them have.
    pub(crate) reference_documents: u64,
    /// The place in `windows` of the last window before or at its first word that holds that word.
    pub(crate) window: usize,
}

/// The runs of words in `windows`, which have `length` words each and are sorted by `at`.
///
/// A word stays if it is in the first occurrence of a window, also if it is in a later occurrence of another one: so every repeated
/// window stays whole in one place. Runs that both stay, or both go, are joined if at most `gap` other words are between them.
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
    let of_run = |(words, kept): (Range<usize>, bool)| {
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
    runs.into_iter().map(of_run).collect()
}

/// Sorted ranges, joined where they touch or overlap.
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

/// The parts of `all` that are not in `taken`; both are sorted, and `taken` lies in `all`.
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
            // Of each word: whether it stays; none if it is in no window.
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
