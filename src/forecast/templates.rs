//! Passages that many documents of a sample have: its most frequent shingles, those that follow each other joined.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::view::Template;
use crate::error::Result;
use crate::job::Shingle;
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingle_texts::shingles_in_order;

/// The most frequent shingles that are listed; more of them where others are as frequent as the last one.
const SHINGLES: usize = 50;
const MOST_SHINGLES: usize = 2_000;
/// The fewest documents with a shingle that is listed, and their least share.
pub(super) const FEWEST: u64 = 20;
const LEAST: f64 = 0.01;
/// Characters of a passage.
const TEXT: usize = 400;

/// The documents of shingles, by the hashes of their texts.
pub(super) type ShingleCounts = HashMap<u64, u64, BuildHasherDefault<Xxh3Default>>;

/// The passages made of the most frequent shingles of `texts`, whose `counts` are given; the most frequent first.
///
/// # Errors
/// When a text cannot be cut into shingles.
pub(super) fn of(texts: &[String], shingle: &Shingle, counts: &ShingleCounts) -> Result<Vec<Template>> {
    let counted = texts.len() as u64;
    let least = FEWEST.max((LEAST * counted as f64).ceil() as u64);
    let mut frequent: Vec<u64> = counts.values().copied().filter(|documents| *documents >= least).collect();
    frequent.sort_unstable_by(|a, b| b.cmp(a));
    let Some(&last) = frequent.get(SHINGLES - 1).or(frequent.last()) else { return Ok(Vec::new()) };
    let is_listed = |documents: u64| documents >= last && documents >= least;
    let mut left: HashSet<u64> =
        counts.iter().filter(|(_, documents)| is_listed(**documents)).map(|(hash, _)| *hash).collect();
    if left.len() > MOST_SHINGLES {
        left.retain(|hash| counts.get(hash).is_some_and(|documents| *documents > last));
    }
    let (mut found, mut scratch) = (Vec::new(), CutScratch::default());
    for text in texts {
        if left.is_empty() {
            break;
        }
        let shingles = shingles_in_order(text, shingle, &mut scratch)?;
        passages(&shingles, counts, counted, &mut left, &mut found);
    }
    // By text where they are as frequent, so that the list is the same each time.
    found.sort_by(|a: &Template, b| b.documents.cmp(&a.documents).then_with(|| a.text.cmp(&b.text)));
    Ok(found)
}

/// Adds the passages of a document: the longest runs of its shingles that are `left`, which are taken out there.
fn passages(
    shingles: &[String],
    counts: &ShingleCounts,
    counted: u64,
    left: &mut HashSet<u64>,
    found: &mut Vec<Template>,
) {
    let hashes: Vec<u64> = shingles.iter().map(|shingle| xxh3_64(shingle.as_bytes())).collect();
    let taken: BTreeSet<u64> = hashes.iter().copied().filter(|hash| left.contains(hash)).collect();
    let mut at = 0;
    while at < hashes.len() {
        let length = hashes[at..].iter().take_while(|hash| taken.contains(hash)).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let run = at..at + length;
        at = run.end;
        let own: BTreeSet<u64> =
            hashes[run.clone()].iter().copied().filter(|hash| left.remove(hash)).collect();
        // A run that only repeats another one of this document.
        if own.is_empty() {
            continue;
        }
        let documents = own.iter().filter_map(|hash| counts.get(hash)).copied().max().unwrap_or_default();
        found.push(Template {
            text: beginning(&joined(&shingles[run]), TEXT),
            shingles: own.len() as u64,
            documents,
            share: documents as f64 / counted.max(1) as f64,
        });
    }
}

/// The text of shingles that follow each other: of each, the part that the one before does not have.
fn joined(shingles: &[String]) -> String {
    let Some(first) = shingles.first() else { return String::new() };
    let mut text = first.clone();
    for pair in shingles.windows(2) {
        let (before, next) = (&pair[0], &pair[1]);
        let common = before.char_indices().skip(1).map(|(at, _)| before.len() - at);
        let common = common.into_iter().find(|length| next.starts_with(&before[before.len() - length..]));
        match common {
            Some(common) => text.push_str(&next[common..]),
            // Shingles of one unit.
            None => text.extend([" ", next]),
        }
    }
    text
}

/// The beginning of a text, without ends of lines.
pub(super) fn beginning(text: &str, characters: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn shingles_that_follow_each_other_are_one_text() {
        assert_eq!(
            joined(&texts(&["all rights are", "rights are reserved", "are reserved by"])),
            "all rights are reserved by"
        );
        assert_eq!(joined(&texts(&["la la la", "la la la", "la la lo"])), "la la la la lo");
        assert_eq!(joined(&texts(&["né", "él"])), "nél");
        assert_eq!(joined(&[]), "");
    }

    #[test]
    fn runs_of_frequent_shingles_are_passages() {
        let shingles = texts(&["a b", "b c", "c x", "x a", "a b", "b d"]);
        let count = |shingle: &str, documents| (xxh3_64(shingle.as_bytes()), documents);
        let counts: ShingleCounts =
            [count("a b", 30), count("b c", 40), count("b d", 25), count("c x", 1)].into_iter().collect();
        let mut left: HashSet<u64> = ["a b", "b c", "b d"].map(|shingle| xxh3_64(shingle.as_bytes())).into();
        let mut found = Vec::new();
        passages(&shingles, &counts, 80, &mut left, &mut found);
        let found: Vec<_> =
            found.into_iter().map(|one| (one.text, one.shingles, one.documents, one.share)).collect();
        assert_eq!(found, [("a b c".to_owned(), 2, 40, 0.5), ("a b d".to_owned(), 1, 25, 25.0 / 80.0)]);
        assert!(left.is_empty());
    }
}
