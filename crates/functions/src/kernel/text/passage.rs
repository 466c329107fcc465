//! The longest passage that two texts have in common.
//!
//! Texts are compared by words (Unicode, UAX #29), ignoring case and the characters between words. The runs of one text
//! are held in a suffix automaton (Blumer et al., "The smallest automaton recognizing the subwords of a text",
//! Theoretical Computer Science 40, 1985), which reads the other text. The time is linear in the length of both.

use std::collections::HashMap;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// The places of the longest common passage in both texts, in bytes; `None` if they have no word in common. Of several
/// it is the one that ends first in `b`, and if `a` has that one several times, the one that ends first there.
pub(crate) fn longest_passage(a: &str, b: &str) -> Option<(Range<usize>, Range<usize>)> {
    let mut numbers = HashMap::new();
    let (of_a, of_b) = (tokens(a, &mut numbers), tokens(b, &mut numbers));
    let runs = SequenceRuns::new(of_a.iter().map(|token| token.number));
    let (end_a, end_b, length) = runs.longest(of_b.iter().map(|token| token.number))?;
    let place = |tokens: &[NumberedWord], end: usize| {
        let run = tokens.get(end.checked_sub(length)?..end)?;
        Some(run.first()?.at.start..run.last()?.at.end)
    };
    Some((place(&of_a, end_a)?, place(&of_b, end_b)?))
}

/// A word: its number, the same for all words of this spelling, and its place in bytes.
struct NumberedWord {
    number: u32,
    at: Range<usize>,
}

fn tokens(text: &str, numbers: &mut HashMap<String, u32>) -> Vec<NumberedWord> {
    let number = |(start, word): (usize, &str)| {
        let next = numbers.len() as u32;
        let number = *numbers.entry(word.to_lowercase()).or_insert(next);
        NumberedWord { number, at: start..start + word.len() }
    };
    text.unicode_word_indices().map(number).collect()
}

/// All runs of a sequence.
struct SequenceRuns {
    states: Vec<SuffixState>,
    /// (state, token) -> the state of the runs that the token extends.
    next: HashMap<(u32, u32), u32>,
}

/// Runs that end at the same places.
#[derive(Clone, Copy)]
struct SuffixState {
    /// Tokens of the longest of them.
    length: u32,
    /// The state of the longest suffix of these runs that ends at more places.
    shorter: Option<u32>,
    /// Tokens from the beginning of the sequence to the first place where they end.
    end: u32,
}

impl SequenceRuns {
    fn new(sequence: impl Iterator<Item = u32>) -> Self {
        let mut runs =
            Self { states: vec![SuffixState { length: 0, shorter: None, end: 0 }], next: HashMap::new() };
        let mut whole = 0;
        // The tokens of a state's transitions, which its copy gets too.
        let mut tokens: Vec<Vec<u32>> = vec![Vec::new()];
        for token in sequence {
            let length = runs.states[whole as usize].length + 1;
            let new = runs.add(SuffixState { length, shorter: Some(0), end: length });
            tokens.push(Vec::new());
            let mut from = Some(whole);
            while let Some(state) = from
                && !runs.next.contains_key(&(state, token))
            {
                runs.next.insert((state, token), new);
                tokens[state as usize].push(token);
                from = runs.states[state as usize].shorter;
            }
            if let Some(state) = from {
                let there = runs.next[&(state, token)];
                let length = runs.states[state as usize].length + 1;
                let shorter = match runs.states[there as usize].length == length {
                    true => there,
                    false => {
                        let copy = runs.add(SuffixState { length, ..runs.states[there as usize] });
                        tokens.push(tokens[there as usize].clone());
                        for &token in &tokens[copy as usize] {
                            let to = runs.next[&(there, token)];
                            runs.next.insert((copy, token), to);
                        }
                        let mut from = Some(state);
                        while let Some(state) = from
                            && runs.next.get(&(state, token)) == Some(&there)
                        {
                            runs.next.insert((state, token), copy);
                            from = runs.states[state as usize].shorter;
                        }
                        runs.states[there as usize].shorter = Some(copy);
                        copy
                    }
                };
                runs.states[new as usize].shorter = Some(shorter);
            }
            whole = new;
        }
        runs
    }

    fn add(&mut self, state: SuffixState) -> u32 {
        self.states.push(state);
        self.states.len() as u32 - 1
    }

    /// The longest run of `other` that is here: (its end here, its end there, its length), in tokens; `None` if no
    /// token is shared.
    fn longest(&self, other: impl Iterator<Item = u32>) -> Option<(usize, usize, usize)> {
        let (mut state, mut length) = (0, 0);
        let mut longest = None;
        for (at, token) in other.enumerate() {
            loop {
                if let Some(&next) = self.next.get(&(state, token)) {
                    (state, length) = (next, length + 1);
                    break;
                }
                match self.states[state as usize].shorter {
                    Some(shorter) => {
                        state = shorter;
                        length = self.states[state as usize].length;
                    }
                    None => {
                        length = 0;
                        break;
                    }
                }
            }
            if longest.is_none_or(|(_, _, most)| length as usize > most) && length > 0 {
                longest = Some((self.states[state as usize].end as usize, at + 1, length as usize));
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passage<'t>(a: &'t str, b: &'t str) -> Option<(&'t str, &'t str)> {
        longest_passage(a, b).map(|(of_a, of_b)| (&a[of_a], &b[of_b]))
    }

    #[test]
    fn the_longest_run_of_words_is_found_as_it_stands_in_either_text() {
        assert_eq!(
            passage("Well: What is  the capital, of France? Paris.", "(what is the CAPITAL of France)"),
            Some(("What is  the capital, of France", "what is the CAPITAL of France"))
        );
        assert_eq!(passage("one two", "three four"), None);
        assert_eq!(passage("", "three four"), None);
        // Of two equally long ones, that which ends first in b, where it comes first in a.
        assert_eq!(longest_passage("x y . a b . a b", "a b , x y"), Some((6..9, 0..3)));
        assert_eq!(passage("größer als das Größte", "GRÖSSER ALS DAS"), Some(("als das", "ALS DAS")));
    }

    /// Every run of one sequence that the other has, the plain way: the longest one's (length, end there, end here).
    fn plain(a: &[u32], b: &[u32]) -> Option<(usize, usize, usize)> {
        let mut longest = None;
        for end_b in 1..=b.len() {
            for length in (1..=end_b).rev() {
                let run = &b[end_b - length..end_b];
                if let Some(start) = a.windows(length).position(|window| window == run) {
                    if longest.is_none_or(|(_, _, most)| length > most) {
                        longest = Some((start + length, end_b, length));
                    }
                    break;
                }
            }
        }
        longest
    }

    proptest! {
        #[test]
        fn runs_are_those_of_a_plain_search(
            a in prop::collection::vec(0_u32..4, 0..40),
            b in prop::collection::vec(0_u32..4, 0..40),
        ) {
            prop_assert_eq!(SequenceRuns::new(a.iter().copied()).longest(b.iter().copied()), plain(&a, &b));
        }
    }
}
