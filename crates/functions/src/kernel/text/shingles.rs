//! `shingles(text, ...)`: the set of the shingles of a text, as numbers of up to 64 bits or as texts. The number of a shingle never
//! changes, because stored sets are compared with later sets:
//!
//! | hash | unit | number |
//! |---|---|---|
//! | `xxh3` | word | XXH3-64 of the words' own XXH3-64 hashes, each as 8 bytes, little endian, in order |
//! | `xxh3` | char | XXH3-64 of the characters' UTF-8 bytes |
//! | `crc32` | word | CRC-32 (IEEE) of the words' UTF-8 bytes with the separator between words |
//! | `crc32` | char | CRC-32 (IEEE) of the characters' UTF-8 bytes |
//! | `sha256-31` | both | SHA-256 of the bytes that `crc32` takes, as a big-endian number, modulo 2^31 - 1 |
//!
//! By the first definition, each word is hashed only once, however many shingles contain it. The hash `dictionary` numbers the shingles of
//! a whole collection, so this module cannot compute its numbers.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::kernel::distinct::{self, sort_distinct};
use crate::kernel::shingle::{Shingle, ShingleHash};
use crate::kernel::text::cut::{self, CutScratch, Cutting, Sink, cut, in_pieces};
use crate::kernel::text::words::next_cut;

/// The maximum number of distinct shingles in a text, because Parquet stores a list in one page of less than 2 GiB.
pub const MAX_SHINGLES: usize = (1 << 27) - 1;

/// The maximum value of `min_words`. No text has more words, because strings are shorter than 2^31 bytes.
pub(crate) const MAX_MIN_WORDS: usize = 1 << 31;

/// The minimum length of the list at which repeats are dropped while the text is still being read.
pub(crate) const UNSORTED: usize = 1 << 16;

/// Appends the sorted distinct numbers of the shingles of `text` to `out`. For a text with more than `MAX_SHINGLES` shingles, appends
/// `MAX_SHINGLES + 1` numbers, so that the caller can reject the text.
///
/// Appends nothing if the normalised text has fewer words than `by.min_words`. A normalised text with fewer units than `by.size` has no
/// shingles; with [`Short::Whole`](crate::kernel::shingle::Short::Whole) it is one shingle. The size of `out` depends on the number of
/// *distinct* shingles, and all other memory contains one piece of text. A text is a single piece, and takes two buffers of its size, in
/// three cases. No space precedes an ASCII letter, stop words are removed by Unicode's rules, or newlines are removed.
/// # Errors
/// [`Error`] if `by.normalize` names a language without stop words, or if `by.hash` is [`ShingleHash::Dictionary`]. `out` is then
/// unchanged.
pub fn shingles(text: &str, by: &Shingle, scratch: &mut ShingleBuffers, out: &mut Vec<u64>) -> Result<()> {
    let start = out.len();
    let ShingleBuffers { cut, sort, most } = scratch;
    let set = Distinct { start, limit: start + UNSORTED, most: *most, out: &mut *out, sort: &mut *sort };
    let enough = match by.hash {
        ShingleHash::Xxh3 => self::cut(text, by, cut, &mut Hashed(set, xxh3_64))?,
        ShingleHash::Crc32 => self::cut(text, by, cut, &mut Hashed(set, crc32))?,
        ShingleHash::Sha256Mod31 => self::cut(text, by, cut, &mut Hashed(set, sha256_mod_31))?,
        ShingleHash::Dictionary => return Err(needs_collection()),
    };
    if enough {
        sort_distinct(out, start, sort);
        out.truncate(start + *most + 1);
    } else {
        out.truncate(start);
    }
    Ok(())
}

/// Returns the set of [`shingles`] of a single text.
/// # Errors
/// As for [`shingles`].
pub fn shingle_set(text: &str, by: &Shingle) -> Result<Vec<u64>> {
    let mut set = Vec::new();
    shingles(text, by, &mut ShingleBuffers::default(), &mut set)?;
    Ok(set)
}

pub(crate) fn hash_function(hash: ShingleHash) -> Result<fn(&[u8]) -> u64> {
    match hash {
        ShingleHash::Xxh3 => Ok(xxh3_64),
        ShingleHash::Crc32 => Ok(crc32),
        ShingleHash::Sha256Mod31 => Ok(sha256_mod_31),
        ShingleHash::Dictionary => Err(needs_collection()),
    }
}

fn needs_collection() -> Error {
    Error::new("the hash `dictionary` needs a whole collection, and this is one text: use another hash")
}

fn crc32(bytes: &[u8]) -> u64 {
    crc32fast::hash(bytes).into()
}

/// Returns the SHA-256 digest, as a big-endian number, modulo 2^31 - 1.
fn sha256_mod_31(bytes: &[u8]) -> u64 {
    const MODULUS: u64 = (1 << 31) - 1;
    let digest = Sha256::digest(bytes);
    let (words, _) = digest.as_slice().as_chunks::<4>();
    words.iter().fold(0, |rest, &word| ((rest << 32) + u64::from(u32::from_be_bytes(word))) % MODULUS)
}

/// Buffers that [`shingles`] reuses between texts.
#[derive(Debug)]
pub struct ShingleBuffers {
    cut: cut::CutScratch,
    sort: distinct::DistinctBuffers,
    /// The maximum number of distinct shingles. Once a text has more, all later shingles are ignored.
    most: usize,
}

impl Default for ShingleBuffers {
    fn default() -> Self {
        let (cut, sort) = Default::default();
        Self { cut, sort, most: MAX_SHINGLES }
    }
}

/// The numbers of the shingles in one text. Repeats are dropped each time the list has doubled.
pub(crate) struct Distinct<'a> {
    pub(crate) out: &'a mut Vec<u64>,
    /// The start of this text's numbers in `out`.
    pub(crate) start: usize,
    /// The length of `out` at which repeats are dropped.
    pub(crate) limit: usize,
    pub(crate) most: usize,
    pub(crate) sort: &'a mut distinct::DistinctBuffers,
}

/// A sink that adds the hashes of shingles to a set.
pub(crate) struct Hashed<'a, H>(pub(crate) Distinct<'a>, pub(crate) H);

impl<H: Fn(&[u8]) -> u64> Sink for Hashed<'_, H> {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        let Hashed(set, hash) = self;
        if set.limit == set.start {
            return;
        }
        set.out.extend(shingles.map(hash));
        if set.out.len() >= set.limit {
            sort_distinct(set.out, set.start, set.sort);
            let distinct = set.out.len() - set.start;
            set.limit = set.start + if distinct > set.most { 0 } else { (2 * distinct).max(UNSORTED) };
        }
    }
}

/// Returns the distinct shingles of `text` as texts, sorted by their bytes. Words are joined by `by.separator`. The set is empty if the
/// normalised text has fewer units than `by.size`, or fewer words than `by.min_words`. Fails if `by.normalize` names a language without
/// stop words.
pub fn shingle_texts(text: &str, by: &Shingle, scratch: &mut CutScratch) -> Result<BTreeSet<String>> {
    let mut texts = TextSet::default();
    let enough = cut(text, by, scratch, &mut texts)?;
    Ok(if enough { texts.0 } else { BTreeSet::new() })
}

/// Returns, for each number in `wanted`, the shingle of `text` with this number as a text; `None` if `text` has no such shingle.
pub(crate) fn shingles_numbered(
    text: &str,
    wanted: &[u64],
    by: &Shingle,
    scratch: &mut CutScratch,
) -> Result<Vec<Option<String>>> {
    let hash = hash_function(by.hash)?;
    let mut places: HashMap<u64, usize> = wanted.iter().map(|&number| (number, usize::MAX)).collect();
    let mut at = 0;
    cut(
        text,
        by,
        scratch,
        &mut Each(|shingle: &[u8]| {
            if let Some(place) = places.get_mut(&hash(shingle)) {
                *place = at.min(*place);
            }
            at += 1;
        }),
    )?;
    // A second pass produces the same shingles in the same order, as texts.
    let mut texts: HashMap<usize, String> = HashMap::new();
    let there: BTreeSet<usize> = places.values().copied().collect();
    at = 0;
    cut(
        text,
        &Shingle { hash: ShingleHash::Dictionary, ..by.clone() },
        scratch,
        &mut Each(|shingle: &[u8]| {
            if there.contains(&at) {
                texts.insert(at, String::from_utf8_lossy(shingle).into_owned());
            }
            at += 1;
        }),
    )?;
    Ok(wanted.iter().map(|number| texts.get(places.get(number)?).cloned()).collect())
}

/// Returns the shingles of `text` as texts, in order and with repeats. `by.hash` must be [`ShingleHash::Dictionary`]. Fails like
/// [`shingle_texts`].
pub fn shingles_in_order(text: &str, by: &Shingle, scratch: &mut CutScratch) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut each = Each(|shingle: &[u8]| texts.push(String::from_utf8_lossy(shingle).into_owned()));
    let enough = cut(text, by, scratch, &mut each)?;
    Ok(if enough { texts } else { Vec::new() })
}

struct Each<F>(F);

impl<F: FnMut(&[u8])> Sink for Each<F> {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        shingles.for_each(&mut self.0);
    }
}

#[derive(Default)]
struct TextSet(BTreeSet<String>);

impl Sink for TextSet {
    fn take<'a>(&mut self, shingles: impl Iterator<Item = &'a [u8]>) {
        // Shingles start and end at character boundaries, so the conversion is lossless.
        self.0.extend(shingles.map(|shingle| String::from_utf8_lossy(shingle).into_owned()));
    }
}

/// The size of all pieces after the first is the length of the text divided by this number.
const LATER_PIECES: usize = 16;

/// Computes the shingles at the beginning of a text, with which callers rule out that two whole texts are similar. The buffers are reused.
#[derive(Debug, Default)]
pub struct Beginning {
    cut: CutScratch,
    sort: distinct::DistinctBuffers,
    set: Vec<u64>,
}

impl Beginning {
    /// Returns at least `least` sorted distinct shingles from the beginning of `text`, which has `all` shingles in total. Returns `None` if
    /// the text would have to be read to its end to find so many shingles, or cannot be cut into pieces. Fails like [`shingles`].
    pub fn shingles(&mut self, text: &str, by: &Shingle, least: usize, all: usize) -> Result<Option<&[u64]>> {
        let Self { cut, sort, set } = self;
        let hash = hash_function(by.hash)?;
        set.clear();
        if !in_pieces(by) {
            return Ok(None);
        }
        let mut cutting = Cutting::begin(by, cut)?;
        // A shingle begins about every `bytes / all` bytes, and the last shingle spans `size` units.
        let units = least.saturating_add(by.size);
        let first =
            (text.len() as u128 * units as u128 / (all.max(1) as u128)).min(text.len() as u128) as usize;
        let (mut rest, mut piece) = (text, first);
        while set.len() < least {
            let (head, tail) = rest.split_at(next_cut(rest.as_bytes(), piece.max(1)));
            if tail.is_empty() {
                return Ok(None);
            }
            let distinct =
                Distinct { start: 0, limit: usize::MAX, most: usize::MAX, out: &mut *set, sort: &mut *sort };
            cutting.piece(head, by, cut, &mut Hashed(distinct, hash));
            sort_distinct(set, 0, sort);
            (rest, piece) = (tail, text.len() / LATER_PIECES);
        }
        Ok(Some(set.as_slice()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::{Normalize, ShingleHash, Short, Unit, Words};
    use crate::kernel::text::cut::{BLOCK, PIECE};
    use crate::kernel::text::normalize::definition::{
        any_steps, any_text, any_words, by_definition, words_by_definition,
    };

    const QUICK: &str = "the quick brown fox jumps over the lazy dog";

    pub(crate) fn by(unit: Unit, size: usize, hash: ShingleHash) -> Shingle {
        let (words, separator) = (Words::Unicode, " ".into());
        Shingle {
            normalize: Vec::new(),
            unit,
            words,
            size,
            separator,
            hash,
            min_words: 0,
            short: Short::Reject,
        }
    }

    pub(crate) fn set_of(text: &str, by: &Shingle) -> Vec<u64> {
        shingle_set(text, by).unwrap()
    }

    /// The expected values come from Python: `xxhash`, `zlib.crc32`, and `int.from_bytes(hashlib.sha256(shingle).digest()) % (2**31 - 1)`.
    /// The tokens are `re.findall(r"\b\w+\b", text)`.
    #[test]
    fn known_sets() {
        let (words, chars) = (by(Unit::Word, 3, ShingleHash::Xxh3), by(Unit::Char, 3, ShingleHash::Xxh3));
        assert_eq!(set_of("a", &Shingle { size: 1, ..words.clone() }), [9643915146934709058]);
        assert_eq!(set_of("héllo, wörld ñ", &words), [15254957581189018832]);
        assert!(set_of("a b", &Shingle { size: usize::MAX, ..words }).is_empty());
        let expected = [7599934886905450225, 8696274497037089104, 11233357625814872456, 11809769247464961317];
        assert_eq!(set_of("abcdef", &chars), expected);
        assert_eq!(set_of("naïve", &chars), [990508381971899460, 5939532578930859539, 12866152198629293938]);
        let crc32 = by(Unit::Word, 3, ShingleHash::Crc32);
        let expected = [688936931, 709202338, 1272230570, 1834140213, 1897471436, 3249799493, 3573724801];
        assert_eq!(set_of(QUICK, &crc32), expected);
        let tokens = Shingle { words: Words::WordCharacters, separator: ", ".into(), ..crc32 };
        assert_eq!(set_of("it's don't-know 42", &tokens), [743952655, 3084914548, 3939684202, 3993413336]);
        assert_eq!(sha256_mod_31(b""), 524392846);
        let found = set_of("abcdef", &by(Unit::Char, 3, ShingleHash::Sha256Mod31));
        assert_eq!(found, [77440179, 841262361, 1946333667, 2046373753]);
        let found = set_of(QUICK, &by(Unit::Word, 5, ShingleHash::Sha256Mod31));
        assert_eq!(found, [634360026, 896348737, 1330830894, 1349353119, 1398326572]);
    }

    /// The lower case of a sigma depends on the letter after it, which can be in the next piece of the text.
    #[test]
    fn a_sigma_before_a_cut_that_vanishes_is_not_the_last() {
        let normalize =
            vec![Normalize::SpacesToUnderscores, Normalize::RemoveNonLetters, Normalize::Lowercase];
        let plain = by(Unit::Char, 3, ShingleHash::Crc32);
        let text = "ΑΣ the ".repeat(PIECE / 4);
        let normalized = text.replace(' ', "").to_lowercase();
        assert!(normalized.contains("ασt") && !normalized.contains("ας"));
        assert_eq!(set_of(&normalized, &plain), set_of(&text, &Shingle { normalize, ..plain }));
    }

    #[test]
    fn what_was_there_before_stays() {
        let (mut scratch, mut out) = (ShingleBuffers::default(), vec![9, 9, 1]);
        let words = by(Unit::Word, 1, ShingleHash::Crc32);
        shingles("b a b a", &words, &mut scratch, &mut out).unwrap();
        assert_eq!(out, [9, 9, 1, 1908338681, 3904355907]);
        let unknown = Shingle { normalize: vec![Normalize::StopWords("xx".into())], ..words };
        // The numbers of a dictionary need a whole collection.
        for wrong in [unknown, by(Unit::Word, 1, ShingleHash::Dictionary)] {
            assert!(shingles("b a", &wrong, &mut scratch, &mut out).is_err());
            assert_eq!(out.len(), 5);
        }
    }

    /// For a long text with few distinct shingles, memory is proportional to the set.
    #[test]
    fn room_follows_the_distinct_shingles() {
        let text = "one two three four five six seven ".repeat(100_000);
        for (unit, distinct) in [(Unit::Word, 7), (Unit::Char, 34)] {
            let out = set_of(&text, &by(unit, 5, ShingleHash::Xxh3));
            assert_eq!(out.len(), distinct);
            assert!(out.capacity() <= 2 * (UNSORTED + BLOCK), "{}", out.capacity());
        }
    }

    #[test]
    fn a_text_too_long_is_marked_as_such_in_bounded_room() {
        let text: String = (0..400_000).map(|n| format!("{n} ")).collect();
        let mut scratch = ShingleBuffers { most: 100_000, ..ShingleBuffers::default() };
        let (words, mut out) = (by(Unit::Word, 1, ShingleHash::Xxh3), vec![7]);
        shingles(&text, &words, &mut scratch, &mut out).unwrap();
        assert_eq!(out.len(), 1 + 100_001);
        assert!(out.capacity() <= 4 * 100_000 + UNSORTED + BLOCK, "{}", out.capacity());
        scratch.most = 400_000;
        shingles(&text, &words, &mut scratch, &mut out).unwrap();
        assert_eq!(out.len(), 1 + 100_001 + 400_000, "none too many");
    }

    /// After a removed stop word, a piece can start with white space and a combining mark. By Unicode's rules, these are one segment.
    #[test]
    fn a_stop_word_between_pieces_changes_no_word() {
        let mut words = by(Unit::Word, 1, ShingleHash::Xxh3);
        words.normalize = vec![Normalize::StopWords("en".into())];
        for text in ["x a a \u{93e}y", "x a \u{93e}", "x 1 a a \u{301}\u{93e} b"] {
            let mut scratch = ShingleBuffers::default();
            scratch.cut.piece = 1;
            let mut out = Vec::new();
            shingles(text, &words, &mut scratch, &mut out).unwrap();
            assert_eq!(out, set_by_definition(text, &words), "{text:?}");
        }
    }

    fn any_shingle() -> impl Strategy<Value = Shingle> {
        let unit = prop_oneof![Just(Unit::Word), Just(Unit::Char)];
        let hash =
            prop_oneof![Just(ShingleHash::Xxh3), Just(ShingleHash::Crc32), Just(ShingleHash::Sha256Mod31)];
        let separator = prop_oneof![Just(" "), Just(", "), Just("")].prop_map(String::from);
        let short = prop_oneof![Just(Short::Reject), Just(Short::Whole), Just(Short::Empty)];
        let parts = (any_steps(), unit, any_words(), 1usize..5, separator, hash, 0usize..4, short);
        parts.prop_map(|(normalize, unit, words, size, separator, hash, min_words, short)| {
            let plain = by(unit, size, hash);
            Shingle { normalize, words, separator, min_words, short, ..plain }
        })
    }

    fn set_by_definition(text: &str, by: &Shingle) -> Vec<u64> {
        let text = by_definition(text, &by.normalize, by.words);
        let mut words = words_by_definition(&text, by.words);
        if words.len() < by.min_words {
            return Vec::new();
        }
        let collapsed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.is_empty() && by.short == Short::Whole && !collapsed.is_empty() {
            words.push(&collapsed);
        }
        let chars: Vec<char> = text.chars().collect();
        let whole = |units: usize| by.short == Short::Whole && units < by.size && !text.trim().is_empty();
        let size = match by.unit {
            Unit::Word if whole(words.len()) => words.len().max(1),
            Unit::Char if whole(chars.len()) => chars.len(),
            Unit::Word | Unit::Char => by.size,
        };
        let runs: Vec<String> = match by.unit {
            Unit::Word => words.windows(size).map(|run| run.join(&by.separator)).collect(),
            Unit::Char => chars.windows(size).map(|run| run.iter().collect()).collect(),
        };
        let of_words = |run: &[&str]| {
            xxh3_64(&run.iter().flat_map(|w| xxh3_64(w.as_bytes()).to_le_bytes()).collect::<Vec<_>>())
        };
        let set: BTreeSet<u64> = match (by.unit, by.hash) {
            (Unit::Word, ShingleHash::Xxh3) => words.windows(size).map(of_words).collect(),
            (Unit::Char, ShingleHash::Xxh3) => runs.iter().map(|run| xxh3_64(run.as_bytes())).collect(),
            (_, ShingleHash::Crc32) => {
                runs.iter().map(|run| crc32fast::hash(run.as_bytes()).into()).collect()
            }
            _ => runs.iter().map(|run| sha256_mod_31(run.as_bytes())).collect(),
        };
        set.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn sets_are_their_definition(
            texts in proptest::collection::vec(any_text(), 1..3),
            by in any_shingle(),
            piece in prop_oneof![1usize..20, Just(PIECE)],
        ) {
            let mut scratch = ShingleBuffers::default();
            scratch.cut.piece = piece;
            for text in texts {
                let mut out = Vec::new();
                shingles(&text, &by, &mut scratch, &mut out).unwrap();
                prop_assert_eq!(out, set_by_definition(&text, &by), "text {:?}", text);
            }
        }
    }

    fn texts(text: &str, unit: Unit, size: usize, min_words: usize) -> Vec<String> {
        let plain = by(unit, size, ShingleHash::Dictionary);
        let by = Shingle { words: Words::Spaces, separator: ", ".into(), min_words, ..plain };
        shingle_texts(text, &by, &mut CutScratch::default()).unwrap().into_iter().collect()
    }

    #[test]
    fn shingles_read_as_they_were_cut() {
        assert_eq!(texts("b a\nb a", Unit::Word, 2, 0), ["a, b", "b, a"]);
        assert_eq!(texts("néné", Unit::Char, 2, 0), ["né", "én"]);
        assert!(texts("b a", Unit::Word, 3, 0).is_empty());
        assert!(texts("b a", Unit::Char, 2, 3).is_empty());
    }

    #[test]
    fn numbers_lead_back_to_their_shingles() {
        let long = "the Quick brown fox, and  the quick brown dog ".repeat(2_000);
        for hash in [ShingleHash::Xxh3, ShingleHash::Crc32, ShingleHash::Sha256Mod31] {
            for (unit, short, text) in [
                (Unit::Word, Short::Reject, long.as_str()),
                (Unit::Char, Short::Reject, long.as_str()),
                (Unit::Word, Short::Whole, "the fox"),
            ] {
                let (normalize, separator) = (vec![Normalize::Lowercase], "-".into());
                let by = Shingle { normalize, separator, short, ..by(unit, 3, hash) };
                let mut numbers = set_of(text, &by);
                numbers.push(7);
                let found = shingles_numbered(text, &numbers, &by, &mut CutScratch::default()).unwrap();
                assert_eq!(found.last(), Some(&None));
                let found: BTreeSet<String> = found.into_iter().flatten().collect();
                let by = Shingle { hash: ShingleHash::Dictionary, ..by };
                assert_eq!(found, shingle_texts(text, &by, &mut CutScratch::default()).unwrap());
                assert_eq!(found.len(), numbers.len() - 1);
            }
        }
    }

    proptest! {
        #[test]
        fn they_are_shingles_of_the_text(
            text in any_text(),
            steps in any_steps(),
            words in any_words(),
            chars in any::<bool>(),
            size in 1_usize..6,
            least in 1_usize..20,
        ) {
            let unit = if chars { Unit::Char } else { Unit::Word };
            let by = Shingle { normalize: steps, words, ..by(unit, size, ShingleHash::Xxh3) };
            let all = set_of(&text, &by);
            let mut beginning = Beginning::default();
            if let Some(some) = beginning.shingles(&text, &by, least, all.len()).unwrap() {
                prop_assert!(some.len() >= least);
                let all: BTreeSet<u64> = all.into_iter().collect();
                prop_assert!(some.iter().all(|shingle| all.contains(shingle)), "{some:?}");
            }
        }
    }

    #[test]
    fn a_part_of_the_text_is_enough() {
        let text: String = (0..200).map(|at| format!("w{at} ")).collect();
        let by = by(Unit::Word, 5, ShingleHash::Xxh3);
        let mut beginning = Beginning::default();
        let some = beginning.shingles(&text, &by, 40, 196).unwrap().unwrap();
        assert!((40..80).contains(&some.len()), "{}", some.len());
        // The first words repeat.
        let text = format!("{}{text}", "again and ".repeat(100));
        let all = set_of(&text, &by);
        assert!(beginning.shingles(&text, &by, 40, all.len()).unwrap().unwrap().len() >= 40);
        assert_eq!(beginning.shingles(&text, &by, all.len(), all.len()).unwrap(), None);
        assert_eq!(beginning.shingles("no-cut", &by, 1, 1).unwrap(), None);
    }
}
