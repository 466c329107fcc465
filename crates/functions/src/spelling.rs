//! Suggestions for misspelled words.

use strsim::{levenshtein, normalized_levenshtein};

/// Returns the edit distance between `word` and `candidate`, if it is at most two or at most a third of the characters in `word`.
pub fn near(word: &str, candidate: &str) -> Option<usize> {
    let chars = word.chars().count();
    let most = (chars / 3).max(2);
    // The difference in length is a cheap lower bound on the number of edits.
    if candidate.chars().count().abs_diff(chars) > most {
        return None;
    }
    Some(levenshtein(word, candidate)).filter(|&edits| edits <= most)
}

/// Returns the candidate with the smallest edit distance, if `word` may be a misspelling of it. Ties go to the first candidate.
pub fn nearest<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let near = candidates.filter_map(|candidate| Some((near(word, candidate)?, candidate)));
    near.min_by_key(|&(edits, _)| edits).map(|(_, candidate)| candidate)
}

/// Sorts words by their similarity to `word`, ignoring case. Equally similar words keep their order.
pub fn sort_by_likeness(word: &str, others: &mut [String]) {
    let word = word.to_lowercase();
    let likeness = |other: &String| normalized_levenshtein(&word, &other.to_lowercase());
    others.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let keys = ["normalize", "unit", "size"];
        assert_eq!(nearest("normalise", keys.into_iter()), Some("normalize"));
        assert_eq!(nearest("permutations", keys.into_iter()), None);
        assert_eq!(near("kitten", "sitting"), None);
        assert_eq!(near("kitten", "sitten"), Some(1));
    }
}
