//! Finds windows of words that are repeated in a collection. Selects hashes by which texts are compared, and computes the runs of words in
//! repeated windows. Winnowing (Schleimer, Wilkerson, Aiken, *Winnowing: Local Algorithms for Document Fingerprinting*, SIGMOD 2003)
//! selects a few hashes per text. If two texts contain the same window of hashes, it selects the same hash in both.

use std::collections::HashSet;
use std::ops::Range;

/// Returns the number of words in a hashed run: half of a window of `length` words. About four hashes are then selected per `length` words.
pub(crate) fn run_length(length: usize) -> usize {
    length.div_ceil(2)
}

/// Replaces the hashes of words by the hashes of all runs of `size` consecutive words, in order. Equal runs have equal hashes. Fewer than
/// `size` words leave no hashes. The hash is a rolling hash (Karp and Rabin, *Efficient randomized pattern-matching algorithms*, IBM
/// Journal of Research and Development 31, 1987). So the time per run does not depend on `size`. This hash only selects runs; a stronger
/// hash compares them.
pub(crate) fn hash_runs(words: &mut Vec<u64>, size: usize) {
    let runs = (words.len() + 1).saturating_sub(size);
    if runs == 0 || size == 0 {
        words.clear();
        return;
    }
    let append = |run: u64, word: u64| run.wrapping_mul(BASE).wrapping_add(word);
    // The factor that the oldest word of the run has when the next word is appended. The product is then subtracted.
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

/// Returns ranges of start indexes of all windows of `length` words that contain one of `runs`. The text has `words` words. `runs` contains
/// the sorted indexes of the first words of runs with [`run_length`] words.
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
    /// The index of the first word.
    pub(crate) at: usize,
    pub(crate) is_first: bool,
    pub(crate) occurrences: u64,
    /// The number of reference documents that contain the window.
    pub(crate) reference_documents: u64,
    /// The document with the first occurrence.
    pub(crate) kept_doc: u64,
    /// The index of the first word of the first occurrence.
    pub(crate) kept_at: usize,
    /// The number of characters before the first occurrence.
    pub(crate) kept_char_start: u64,
}

impl RepeatedWindow {
    /// Returns whether the first occurrences of both windows are in the same document and as far apart as the windows.
    fn is_aligned(&self, other: &Self) -> bool {
        self.kept_doc == other.kept_doc && self.kept_at + other.at == other.kept_at + self.at
    }
}

/// Consecutive words of a text that also occur at an earlier place in the collection, the *kept* place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordRun {
    pub(crate) words: Range<usize>,
    /// The number of occurrences of the most frequent window in the run.
    pub(crate) occurrences: u64,
    /// The maximum of [`RepeatedWindow::reference_documents`] over the windows of the run.
    pub(crate) reference_documents: u64,
    pub(crate) kept_doc: u64,
    /// The index of the word at which the run begins in `kept_doc`.
    pub(crate) kept_at: usize,
    /// The number of words up to the end of the run's last window. Words after that window are a gap.
    pub(crate) kept_words: usize,
    /// The number of characters in `kept_doc` before the last window that starts at or before the first word of the run.
    pub(crate) kept_char_start: u64,
    /// Whether the words can be cut out. If not, each of the words is in a span or is kept.
    pub(crate) is_span: bool,
}

/// Returns the runs of words in `windows` that are not first occurrences. Each window has `length` words, and the windows are sorted by
/// `at`. The spans come first, sorted and without common words. Then one run follows for each other document that contains a first
/// occurrence.
///
/// A word is kept if it is in the first occurrence of any window. So the first occurrence of every repeated window is kept completely.
/// Spans are all other words. A span ends where the next one begins, or where the document `kept_doc` has other words. In a span, up to
/// `gap` consecutive words can be outside of windows.
pub(crate) fn runs(windows: &[RepeatedWindow], length: usize, gap: usize) -> Vec<WordRun> {
    // For each run, its words up to the end of its last window, its end, and the index of its first window. The end can be after a gap.
    let mut runs: Vec<(Range<usize>, usize, usize)> = Vec::new();
    let (mut start, mut is_next) = (0, false);
    loop {
        let from = windows.partition_point(|window| window.at + length <= start);
        let Some(next) = windows.get(from) else { break };
        is_next &= next.at <= start + gap;
        start = start.max(next.at);
        let first = windows.partition_point(|window| window.at <= start) - 1;
        if let Some(kept) = windows[from..=first].iter().rfind(|window| window.is_first) {
            (start, is_next) = (kept.at + length, false);
            continue;
        }
        let (_, end) = end_of_run(&windows[first..], length, gap);
        if let Some((before, before_end, _)) = runs.last_mut().filter(|_| is_next) {
            start = windows[first].at;
            (before.end, *before_end) = (before.end.min(start), start);
        }
        runs.push((start..end, end, first));
        (start, is_next) = (end, true);
    }
    let spans = runs.len();
    let mut kept_docs: HashSet<u64> = runs.iter().map(|(.., first)| windows[*first].kept_doc).collect();
    for (first, window) in windows.iter().enumerate() {
        if !window.is_first && kept_docs.insert(window.kept_doc) {
            let (end, _) = end_of_run(&windows[first..], length, gap);
            runs.push((window.at..end, end, first));
        }
    }
    let run = |(place, (in_windows, end, first)): (usize, (Range<usize>, usize, usize))| {
        let to = windows.partition_point(|window| window.at + length <= in_windows.end).max(first + 1);
        let most =
            |of: fn(&RepeatedWindow) -> u64| windows[first..to].iter().map(of).max().unwrap_or_default();
        let RepeatedWindow { at, kept_doc, kept_at, kept_char_start, .. } = windows[first];
        WordRun {
            occurrences: most(|window| window.occurrences),
            reference_documents: most(|window| window.reference_documents),
            kept_doc,
            kept_at: kept_at + in_windows.start - at,
            kept_words: in_windows.len(),
            kept_char_start,
            is_span: place < spans,
            words: in_windows.start..end,
        }
    };
    runs.into_iter().enumerate().map(run).collect()
}

/// Returns two ends of the run that begins with the first window. These are the end of its last window, and the end of its words that are
/// not kept.
fn end_of_run(windows: &[RepeatedWindow], length: usize, gap: usize) -> (usize, usize) {
    let mut end = windows[0].at + length;
    for window in windows {
        if window.at > end + gap || window.is_first {
            return (end, end.min(window.at));
        }
        if window.is_aligned(&windows[0]) {
            end = window.at + length;
        }
    }
    (end, end)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn chosen(hashes: &[u64], window: usize) -> Vec<usize> {
        let mut all = Vec::new();
        winnow(hashes, window, |at| all.push(at));
        all
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

        #[test]
        fn runs_are_the_words_that_other_places_keep(
            documents in prop::collection::vec(prop::collection::vec(0_u8..4, 0..30), 1..5),
            length in 2_usize..6, gap in 0_usize..4
        ) {
            let windows = repeated(&documents, length);
            let mut keeps = vec![false; documents.len()];
            for (doc, (words, windows)) in documents.iter().zip(&windows).enumerate() {
                // Returns whether a word is kept; `None` for a word outside of windows.
                let state = |word: usize| {
                    let holds = |w: &&RepeatedWindow| (w.at..w.at + length).contains(&word);
                    windows.iter().filter(holds).map(|w| w.is_first).max()
                };
                let (mut cut, mut end) = (vec![false; words.len()], 0);
                for run in runs(windows, length, gap) {
                    let (kept_doc, kept) = (run.kept_doc as usize, run.kept_at..run.kept_at + run.kept_words);
                    keeps[kept_doc] = true;
                    prop_assert!((kept_doc, run.kept_at) < (doc, run.words.start));
                    prop_assert!(run.occurrences > 1 && run.kept_words <= run.words.len());
                    if gap == 0 {
                        prop_assert_eq!(&documents[kept_doc][kept], &words[run.words.clone()]);
                    }
                    if run.is_span {
                        prop_assert!(end <= run.words.start && run.words.start < run.words.end);
                        end = run.words.end;
                        cut[run.words].fill(true);
                    }
                }
                for (word, cut) in cut.into_iter().enumerate() {
                    let wanted = state(word).map(|kept| !kept);
                    prop_assert!(wanted.map_or(gap > 0 || !cut, |wanted| wanted == cut), "{}", word);
                }
            }
            // Each document with a first occurrence is named.
            let wanted: Vec<bool> = windows.iter().map(|all| all.iter().any(|window| window.is_first)).collect();
            prop_assert_eq!(keeps, wanted);
        }
    }

    /// The repeated windows of each document. The documents are in the order in which they keep windows.
    fn repeated(documents: &[Vec<u8>], length: usize) -> Vec<Vec<RepeatedWindow>> {
        let mut places: HashMap<&[u8], Vec<(usize, usize)>> = HashMap::new();
        for (doc, words) in documents.iter().enumerate() {
            for (at, window) in words.windows(length).enumerate() {
                places.entry(window).or_default().push((doc, at));
            }
        }
        let of_document = |(doc, words): (usize, &Vec<u8>)| {
            let windows = words.windows(length).enumerate().filter(|(_, window)| places[window].len() > 1);
            let window = |(at, window)| {
                let (places, (kept_doc, kept_at)) = (&places[window], places[window][0]);
                RepeatedWindow {
                    at,
                    is_first: (kept_doc, kept_at) == (doc, at),
                    occurrences: places.len() as u64,
                    reference_documents: places.len() as u64 / 2,
                    kept_doc: kept_doc as u64,
                    kept_at,
                    kept_char_start: kept_at as u64,
                }
            };
            windows.map(window).collect()
        };
        documents.iter().enumerate().map(of_document).collect()
    }

    /// The runs of each text: words, number of occurrences, and kept place. The words of a run that is not a span are in brackets.
    fn written(texts: &[&str], length: usize, gap: usize) -> Vec<Vec<String>> {
        let documents: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let of_document = |(windows, text): (&Vec<RepeatedWindow>, &&str)| {
            let written = |run: WordRun| {
                let (words, kept) = (&text[run.words], format!("{}@{}", run.kept_doc, run.kept_at));
                let words = if run.is_span { words.to_owned() } else { format!("[{words}]") };
                format!("{words} {} {kept}", run.occurrences)
            };
            runs(windows, length, gap).into_iter().map(written).collect()
        };
        repeated(&documents, length).iter().zip(texts).map(of_document).collect()
    }

    #[test]
    fn runs_by_example() {
        assert_eq!(written(&["abcdefgh", "efghabcd"], 3, 0)[1], ["efgh 2 0@4", "abcd 2 0@0"]);
        assert_eq!(written(&["abcdef", "abcd", "cdef"], 3, 0)[1..], [["abcd 2 0@0"], ["cdef 2 0@2"]]);
        // The last document contains parts of the others, and these parts overlap.
        let found = &written(&["abcde", "defgh", "cdef", "abcdefgh"], 3, 0)[3];
        assert_eq!(found, &["abcde 3 0@0", "fgh 2 1@2"]);
        assert_eq!(written(&["aaaaaaaa"], 3, 0), [["aa 6 0@0", "aaa 6 0@0"]]);
        assert_eq!(written(&["abcd", "bcde", "abcde"], 4, 0)[2], ["a 2 0@0", "bcde 2 1@0"]);
        // No span begins with the window of the second document.
        let found = &written(&["abcd", "cde", "defg", "abcdefg"], 3, 0)[3];
        assert_eq!(found, &["abcd 2 0@0", "efg 2 2@1", "[cde] 2 1@0"]);
        // Other words are between the parts.
        assert_eq!(written(&["abcxdef", "abcydef"], 3, 1)[1], ["abcydef 2 0@0"]);
        assert_eq!(written(&["abcxxdef", "abcydef"], 3, 1)[1], ["abcy 2 0@0", "def 2 0@5"]);
        assert_eq!(written(&["abcxdef", "abcydef"], 3, 0)[1], ["abc 2 0@0", "def 2 0@4"]);
    }
}
