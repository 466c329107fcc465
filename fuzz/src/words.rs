//! Word cutting, and shingles of words: a rule, how often the text is repeated, and the text.

use std::collections::BTreeSet;

use resemblance::job::{Shingle, ShingleHash, Short, Unit};
use resemblance::kernel::text::shingles::{ShingleBuffers, shingles};
use resemblance::kernel::text::words::each_word;
use xxhash_rust::xxh3::xxh3_64;

use super::definitions;

/// Words, and shingles of a text that is cut in pieces, follow the definition.
pub fn check(bytes: &[u8]) {
    let [rule, times, size, text @ ..] = bytes else { return };
    let rule = definitions::rule(*rule);
    let text = String::from_utf8_lossy(text);
    // Words are looked for in blocks of 64 bytes, so a text also stands at other places of a block.
    let text = text.repeat(1 + usize::from(*times) % 4);
    let mut found = Vec::new();
    let mut end = 0;
    each_word(&text, rule, |word| {
        assert!(end <= word.start && word.start < word.end && word.end <= text.len(), "{word:?} after {end}");
        end = word.end;
        found.push(&text[word]);
    });
    assert_eq!(found, definitions::words(&text, rule));

    // A text is normalised and cut 16 KiB at a time. One that is repeated is longer than that, and the same shingles come
    // again; a blank between the copies lets them be cut there.
    let long = if *times % 8 == 7 { format!("{text} ").repeat(1 + 40_000 / (text.len() + 1)) } else { text };
    let size = 1 + usize::from(*size) % 4;
    let (unit, separator) = (Unit::Word, " ".into());
    let by = Shingle {
        normalize: Vec::new(),
        unit,
        words: rule,
        size,
        separator,
        hash: ShingleHash::Xxh3,
        min_words: 0,
        short: Short::Reject,
    };
    let mut cut = Vec::new();
    shingles(&long, &by, &mut ShingleBuffers::default(), &mut cut).expect("no step can be wrong");
    let hashes: Vec<[u8; 8]> =
        definitions::words(&long, rule).iter().map(|word| xxh3_64(word.as_bytes()).to_le_bytes()).collect();
    let expected: BTreeSet<u64> = hashes.windows(size).map(|window| xxh3_64(window.as_flattened())).collect();
    assert_eq!(cut, expected.into_iter().collect::<Vec<_>>());
}
