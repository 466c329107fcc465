//! `shingles(text, ...)`: a text as the set of its shingles, each hashed to 64 bits.
//!
//! A shingle is a run of `size` consecutive units, words or characters (Broder, *On the resemblance and containment of
//! documents*, SEQUENCES 1997, section 2, which calls it a shingle too; Leskovec, Rajaraman and Ullman, *Mining of
//! Massive Datasets*, section 3.2).
//!
//! What a shingle's number is, fixed for good, since stored sets are compared with later ones:
//!
//! | hash | unit | number |
//! |---|---|---|
//! | `xxh3` | word | XXH3-64 of the words' own XXH3-64 hashes, each as 8 bytes, little endian, in order |
//! | `xxh3` | char | XXH3-64 of the characters' UTF-8 bytes |
//! | `crc32` | word | CRC-32 (IEEE) of the words' UTF-8 bytes with one space (0x20) between words |
//! | `crc32` | char | CRC-32 (IEEE) of the characters' UTF-8 bytes |
//!
//! The first hashes each word once and joins nothing, whatever the size.

use std::sync::LazyLock;

use datafusion::arrow::array::{
    Array, ArrayRef, LargeStringArray, StringArray, StringArrayType, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, FieldRef, UInt64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use xxhash_rust::xxh3::xxh3_64;

use super::arguments::{self, Lists};
use super::distinct::{self, sort_distinct};
use super::normalize::{Normalizer, parse_steps};
use super::words::{each_word, next_cut};
use crate::error::Result;
use crate::job::{Normalize, Shingle, ShingleHash, Unit};

/// Bytes of text that are normalised at a time: few enough that every step finds them in the first-level cache.
const PIECE: usize = 16 << 10;
/// Words, or characters, between two looks at how many shingles there are.
const BLOCK: usize = 1 << 10;
/// Shingles up to which nothing is sorted before the end.
const UNSORTED: usize = 1 << 16;

/// Appends the sorted distinct shingle hashes of `text` to `out`.
///
/// Appends nothing if the normalised text has fewer units than `by.size`, or fewer words than `by.min_words`. Beside
/// `out`, which follows the number of *distinct* shingles and not the text's length, the room needed is that of a piece
/// of text; texts in which no space precedes an ASCII letter are normalised whole, into two buffers.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if `by.normalize` names a language without stop words; `out` is then as it
/// was.
pub fn shingles(text: &str, by: &Shingle, scratch: &mut Scratch, out: &mut Vec<u64>) -> Result<()> {
    scratch.resolve(by)?;
    let Scratch { normalizer: Some(normalizer), words, chars, sort, piece, .. } = scratch else {
        return Ok(());
    };
    normalizer.begin();
    words.clear();
    chars.clear();

    let start = out.len();
    let mut set = Distinct { start, limit: start + UNSORTED, out, sort };
    let size = by.size.max(1);
    let piece_bytes = if in_pieces(by) { *piece } else { text.len() };
    let (mut rest, mut counted) = (text, 0);
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(next_cut(rest.as_bytes(), piece_bytes));
        rest = tail;
        let text = normalizer.piece(head);
        match by.unit {
            Unit::Word => {
                each_word(text, |word| {
                    words.add(&text.as_bytes()[word], by.hash);
                    counted += 1;
                    if words.count() >= BLOCK.saturating_add(size) {
                        words.shingle(size, by.hash, &mut set);
                    }
                });
                words.shingle(size, by.hash, &mut set);
            }
            Unit::Char => {
                if by.min_words > 0 {
                    each_word(text, |_| counted += 1);
                }
                chars.shingle(text, size, by.hash, &mut set);
            }
        }
    }
    if counted < by.min_words {
        out.truncate(start);
    } else {
        sort_distinct(out, start, sort);
    }
    Ok(())
}

/// Whether the text may be normalised piece by piece: once white space has become underscores, a cut between words is
/// none any more.
fn in_pieces(by: &Shingle) -> bool {
    let mut steps =
        by.normalize.iter().skip_while(|step| **step != Normalize::SpacesToUnderscores).peekable();
    let underscores = steps.peek().is_some();
    let by_words = by.unit == Unit::Word || by.min_words > 0;
    !(underscores && (by_words || steps.any(|s| matches!(s, Normalize::DigitsOut | Normalize::StopWords(_)))))
}

/// Room that [`shingles`] reuses from text to text.
#[derive(Debug)]
pub struct Scratch {
    normalizer: Option<Normalizer>,
    unit: Unit,
    words: Words,
    chars: Chars,
    sort: distinct::Scratch,
    piece: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            normalizer: None,
            unit: Unit::Word,
            words: Words::default(),
            chars: Chars::default(),
            sort: distinct::Scratch::default(),
            piece: PIECE,
        }
    }
}

impl Scratch {
    /// Makes the normaliser that `by` asks for, unless the last text used it too.
    fn resolve(&mut self, by: &Shingle) -> Result<()> {
        let same = |n: &Normalizer| n.steps() == by.normalize && self.unit == by.unit;
        if !self.normalizer.as_ref().is_some_and(same) {
            self.normalizer = Some(match by.unit {
                Unit::Word => Normalizer::for_words(&by.normalize)?,
                Unit::Char => Normalizer::new(&by.normalize)?,
            });
            self.unit = by.unit;
        }
        Ok(())
    }
}

/// The hashes of one text, made distinct whenever they have doubled in number since the last time.
struct Distinct<'a> {
    out: &'a mut Vec<u64>,
    /// Where this text's hashes start in `out`.
    start: usize,
    /// The length of `out` at which it is made distinct.
    limit: usize,
    sort: &'a mut distinct::Scratch,
}

impl Distinct<'_> {
    fn extend(&mut self, hashes: impl Iterator<Item = u64>) {
        self.out.extend(hashes);
        if self.out.len() >= self.limit {
            sort_distinct(self.out, self.start, self.sort);
            self.limit = self.start + (2 * (self.out.len() - self.start)).max(UNSORTED);
        }
    }
}

/// The last words of a text: their hashes under [`ShingleHash::Xxh3`], themselves under [`ShingleHash::Crc32`].
#[derive(Debug, Default)]
struct Words {
    /// 8 bytes a hash, or the words with one space behind each.
    bytes: Vec<u8>,
    /// Where each word ends in `bytes`, its space not counted.
    ends: Vec<usize>,
}

impl Words {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn add(&mut self, word: &[u8], hash: ShingleHash) {
        match hash {
            ShingleHash::Xxh3 => self.bytes.extend_from_slice(&xxh3_64(word).to_le_bytes()),
            ShingleHash::Crc32 => {
                self.bytes.extend_from_slice(word);
                self.ends.push(self.bytes.len());
                self.bytes.push(b' ');
            }
        }
    }

    /// Words held. Only one of the two vectors says so, depending on the hash.
    fn count(&self) -> usize {
        if self.ends.is_empty() { self.bytes.len() / 8 } else { self.ends.len() }
    }

    /// Takes out every shingle of the words held, and keeps the last `size - 1` words.
    fn shingle(&mut self, size: usize, hash: ShingleHash, set: &mut Distinct) {
        if self.count() < size {
            return;
        }
        match hash {
            ShingleHash::Xxh3 => {
                set.extend(self.bytes.windows(8 * size).step_by(8).map(xxh3_64));
                self.bytes.drain(..self.bytes.len() - 8 * (size - 1));
            }
            ShingleHash::Crc32 => {
                let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
                let runs = starts.zip(&self.ends[size - 1..]);
                set.extend(runs.map(|(start, &end)| u64::from(crc32fast::hash(&self.bytes[start..end]))));
                let gone = self.ends.len() - (size - 1);
                let gone_bytes = self.ends[gone - 1] + 1;
                self.bytes.drain(..gone_bytes);
                self.ends.drain(..gone);
                self.ends.iter_mut().for_each(|end| *end -= gone_bytes);
            }
        }
    }
}

/// The last characters of the piece before.
#[derive(Debug, Default)]
struct Chars(String);

impl Chars {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn shingle(&mut self, piece: &str, size: usize, hash: ShingleHash, set: &mut Distinct) {
        if self.0.is_empty() {
            let kept = shingle_chars(piece, size, hash, set);
            self.0.push_str(&piece[kept..]);
        } else {
            self.0.push_str(piece);
            let kept = shingle_chars(&self.0, size, hash, set);
            self.0.drain(..kept);
        }
    }
}

/// Takes out every shingle of `text`; where its last `size - 1` characters start.
fn shingle_chars(text: &str, size: usize, hash: ShingleHash, set: &mut Distinct) -> usize {
    let number = |run: &[u8]| match hash {
        ShingleHash::Xxh3 => xxh3_64(run),
        ShingleHash::Crc32 => u64::from(crc32fast::hash(run)),
    };
    let bytes = text.as_bytes();
    if text.is_ascii() {
        let Some(shingles) = (bytes.len() + 1).checked_sub(size) else { return 0 };
        for block in (0..shingles).step_by(BLOCK) {
            let end = (block + BLOCK).min(shingles);
            set.extend((block..end).map(|at| number(&bytes[at..at + size])));
        }
        return shingles;
    }
    // Two walks over the text, one `size` characters ahead of the other.
    let starts = || text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    let mut runs = starts().zip(starts().skip(size)).peekable();
    let mut kept = 0;
    while runs.peek().is_some() {
        set.extend(runs.by_ref().take(BLOCK).map(|(start, end)| {
            kept = start + text[start..].chars().next().map_or(0, char::len_utf8);
            number(&bytes[start..end])
        }));
    }
    kept
}

/// The SQL function `shingles`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Shingles {
    signature: Signature,
}

impl Default for Shingles {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Shingles {
    fn name(&self) -> &str {
        "shingles"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(arguments::list_of(DataType::UInt64))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        settings(&args.scalar_arguments[1..])?;
        arguments::field(self.name(), arguments::list_of(DataType::UInt64))
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        if types.is_empty() || types.len() > 6 {
            return plan_err!(
                "shingles takes a text and up to five settings, and got {} arguments",
                types.len()
            );
        }
        let mut types = types.to_vec();
        types[0] = text_type(&types[0])?;
        Ok(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let by = settings(&arguments::scalars(&args.args[1..]))?;
        arguments::map_first(&args, |texts| match texts.data_type() {
            DataType::Utf8 => shingle_rows(arguments::downcast::<StringArray>(texts)?, &by),
            DataType::LargeUtf8 => shingle_rows(arguments::downcast::<LargeStringArray>(texts)?, &by),
            DataType::Utf8View => shingle_rows(arguments::downcast::<StringViewArray>(texts)?, &by),
            other => internal_err!("shingles got {other} after coercion"),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::DOC_SECTION,
                "Returns the sorted distinct hashes of the shingles of a text: of every run of `size` consecutive words \
                 or characters. Returns NULL for a NULL text, and an empty list for a text of fewer units than `size` \
                 or, after normalisation, of fewer words than `min_words`. The settings must be literals.",
                "shingles(text[, unit[, size[, hash[, normalize[, min_words]]]]])",
            )
            .with_sql_example(
                "```sql\n\
                 > select shingles('the quick brown fox', 'word', 3, 'crc32');\n\
                 [1272230570, 1834140213]\n\
                 ```",
            )
            .with_argument("text", "The text; any string type.")
            .with_argument(
                "unit",
                "`'word'` (by Unicode word boundaries, UAX #29; the default) or `'char'` (Unicode scalar values).",
            )
            .with_argument("size", "Units in a shingle, at least 1; 5 by default.")
            .with_argument(
                "hash",
                "`'xxh3'` (the default): XXH3-64 of the words' own XXH3-64 hashes, 8 bytes each, little endian, or of the \
                 characters' UTF-8 bytes. `'crc32'`: CRC-32 of the shingle's UTF-8 bytes, words joined by one space.",
            )
            .with_argument(
                "normalize",
                "Steps that the text goes through first, in order, separated by commas; none by default. Allowed: \
                 `lowercase`, `letters-only`, `collapse-whitespace`, `digits-out`, `stop-words:LANGUAGE` (ISO 639-1 \
                 code), `spaces-to-underscores`, `nfkc`.",
            )
            .with_argument("min_words", "Texts of fewer words than this have no shingles; 0 by default.")
            .with_related_udf("minhash")
            .with_related_udf("jaccard")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

/// The string type that a text argument is read as.
fn text_type(given: &DataType) -> DfResult<DataType> {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(given.clone()),
        DataType::Null => Ok(DataType::Utf8),
        DataType::Dictionary(_, values) => text_type(values),
        other => plan_err!("shingles takes a string as its text, and got {other}"),
    }
}

/// The settings from the literal arguments behind the text.
fn settings(literals: &[Option<&ScalarValue>]) -> DfResult<Shingle> {
    let literal = |at: usize| literals.get(at).copied();
    let unit = match arguments::string("shingles", "unit", literal(0), "word")? {
        "word" => Unit::Word,
        "char" => Unit::Char,
        other => return plan_err!("shingles has no unit '{other}'; allowed are 'word' and 'char'"),
    };
    let size = arguments::number("shingles", "size", literal(1), 1, Some(5))?;
    let hash = match arguments::string("shingles", "hash", literal(2), "xxh3")? {
        "xxh3" => ShingleHash::Xxh3,
        "crc32" => ShingleHash::Crc32,
        other => return plan_err!("shingles has no hash '{other}'; allowed are 'xxh3' and 'crc32'"),
    };
    let normalize = match parse_steps(arguments::string("shingles", "normalize", literal(3), "")?) {
        Ok(steps) => steps,
        Err(error) => return plan_err!("shingles: {error}"),
    };
    let min_words = arguments::number("shingles", "min_words", literal(4), 0, Some(0))?;
    Ok(Shingle { normalize, unit, size, hash, min_words })
}

fn shingle_rows<'a>(texts: impl StringArrayType<'a>, by: &Shingle) -> DfResult<ArrayRef> {
    let mut lists = Lists::<UInt64Type>::with_capacity("shingles", texts.len());
    let mut scratch = Scratch::default();
    for row in 0..texts.len() {
        if texts.is_null(row) {
            lists.push_null();
        } else {
            shingles(texts.value(row), by, &mut scratch, &mut lists.values)?;
            lists.end_row()?;
        }
    }
    lists.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation;

    use super::*;
    use crate::udf::normalize::tests::{any_steps, any_text, by_definition};

    const QUICK: &str = "the quick brown fox jumps over the lazy dog";

    fn by(unit: Unit, size: usize, hash: ShingleHash) -> Shingle {
        Shingle { normalize: Vec::new(), unit, size, hash, min_words: 0 }
    }

    fn set_of(text: &str, by: &Shingle) -> Vec<u64> {
        let mut out = Vec::new();
        shingles(text, by, &mut Scratch::default(), &mut out).unwrap();
        out
    }

    /// Computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn known_xxh3_words() {
        let fives = by(Unit::Word, 5, ShingleHash::Xxh3);
        assert_eq!(
            set_of(QUICK, &fives),
            [
                6495463565088978042,
                8120075078598575150,
                10032146244790053704,
                13328364952953312484,
                16450190200610409694
            ]
        );
        assert_eq!(set_of("a", &Shingle { size: 1, ..fives.clone() }), [9643915146934709058]);
        assert_eq!(set_of("héllo, wörld ñ", &Shingle { size: 3, ..fives }), [15254957581189018832]);
    }

    /// Computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn known_xxh3_characters() {
        let threes = by(Unit::Char, 3, ShingleHash::Xxh3);
        assert_eq!(
            set_of("abcdef", &threes),
            [7599934886905450225, 8696274497037089104, 11233357625814872456, 11809769247464961317]
        );
        assert_eq!(set_of("naïve", &threes), [990508381971899460, 5939532578930859539, 12866152198629293938]);
    }

    /// Computed with Python's `zlib.crc32`.
    #[test]
    fn known_crc32() {
        assert_eq!(
            set_of(QUICK, &by(Unit::Word, 3, ShingleHash::Crc32)),
            [688936931, 709202338, 1272230570, 1834140213, 1897471436, 3249799493, 3573724801]
        );
        assert_eq!(
            set_of("abcdef", &by(Unit::Char, 3, ShingleHash::Crc32)),
            [214229345, 891568578, 2308544287, 2954713977]
        );
    }

    #[test]
    fn too_short_a_text_has_none() {
        for unit in [Unit::Word, Unit::Char] {
            for hash in [ShingleHash::Xxh3, ShingleHash::Crc32] {
                assert!(set_of("", &by(unit, 1, hash)).is_empty());
                assert!(set_of("a b", &by(unit, 4, hash)).is_empty());
                assert!(set_of("é", &by(unit, 2, hash)).is_empty());
                assert!(set_of("a b", &by(unit, usize::MAX, hash)).is_empty());
            }
        }
    }

    #[test]
    fn too_few_words_leave_none() {
        let mut least = by(Unit::Char, 1, ShingleHash::Xxh3);
        least.normalize = vec![Normalize::DigitsOut];
        for (min_words, found) in [(2, true), (3, false)] {
            least.min_words = min_words;
            assert_eq!(!set_of("two 1 words", &least).is_empty(), found);
        }
    }

    #[test]
    fn what_was_there_before_stays() {
        let (mut scratch, mut out) = (Scratch::default(), vec![9, 9, 1]);
        shingles("b a b a", &by(Unit::Word, 1, ShingleHash::Crc32), &mut scratch, &mut out).unwrap();
        assert_eq!(out, [9, 9, 1, 1908338681, 3904355907]);
        let unknown = Shingle {
            normalize: vec![Normalize::StopWords("xx".into())],
            ..by(Unit::Word, 1, ShingleHash::Crc32)
        };
        assert!(shingles("b", &unknown, &mut scratch, &mut out).is_err());
        assert_eq!(out.len(), 5);
    }

    /// A long text of few distinct shingles: memory follows the set.
    #[test]
    fn room_follows_the_distinct_shingles() {
        let text = "one two three four five six seven ".repeat(100_000);
        for (unit, distinct) in [(Unit::Word, 7), (Unit::Char, 34)] {
            let mut out = Vec::new();
            shingles(&text, &by(unit, 5, ShingleHash::Xxh3), &mut Scratch::default(), &mut out).unwrap();
            assert_eq!(out.len(), distinct);
            assert!(out.capacity() <= 2 * (UNSORTED + BLOCK), "{}", out.capacity());
        }
    }

    fn any_shingle() -> impl Strategy<Value = Shingle> {
        let unit = prop_oneof![Just(Unit::Word), Just(Unit::Char)];
        let hash = prop_oneof![Just(ShingleHash::Xxh3), Just(ShingleHash::Crc32)];
        (any_steps(), unit, 1usize..5, hash, 0usize..4).prop_map(
            |(normalize, unit, size, hash, min_words)| Shingle { normalize, unit, size, hash, min_words },
        )
    }

    fn set_by_definition(text: &str, by: &Shingle) -> Vec<u64> {
        let text = by_definition(text, &by.normalize);
        let words: Vec<&str> = text.unicode_words().collect();
        if words.len() < by.min_words {
            return Vec::new();
        }
        let chars: Vec<char> = text.chars().collect();
        let set: BTreeSet<u64> = match (by.unit, by.hash) {
            (Unit::Word, ShingleHash::Xxh3) => {
                let number = |run: &[&str]| {
                    xxh3_64(&run.iter().flat_map(|w| xxh3_64(w.as_bytes()).to_le_bytes()).collect::<Vec<_>>())
                };
                words.windows(by.size).map(number).collect()
            }
            (Unit::Word, ShingleHash::Crc32) => {
                words.windows(by.size).map(|run| crc32fast::hash(run.join(" ").as_bytes()).into()).collect()
            }
            (Unit::Char, hash) => {
                let runs = chars.windows(by.size).map(|run| run.iter().collect::<String>());
                match hash {
                    ShingleHash::Xxh3 => runs.map(|run| xxh3_64(run.as_bytes())).collect(),
                    ShingleHash::Crc32 => runs.map(|run| crc32fast::hash(run.as_bytes()).into()).collect(),
                }
            }
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
            let mut scratch = Scratch { piece, ..Scratch::default() };
            for text in texts {
                let mut out = Vec::new();
                shingles(&text, &by, &mut scratch, &mut out).unwrap();
                prop_assert_eq!(out, set_by_definition(&text, &by), "text {:?}", text);
            }
        }
    }
}
