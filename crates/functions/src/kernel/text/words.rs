//! Finds the words of a text, and the positions at which a text can be cut without changing its words.

use std::ops::Range;
use std::sync::LazyLock;

use icu_properties::props::{
    EmojiPresentation, ExtendedPictographic, GeneralCategory, GeneralCategoryGroup, NumericType, Script,
};
use icu_properties::{CodePointMapData, CodePointSetData};
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};
use unicode_segmentation::UnicodeSegmentation;

use crate::kernel::shingle::Words;

/// Calls `found` with the byte range of each word of `text`, in order.
pub fn each_word(text: &str, words: Words, found: impl FnMut(Range<usize>)) {
    match words {
        Words::Unicode => unicode_words::<false>(text, found),
        Words::Auto => unicode_words::<true>(text, found),
        Words::WordCharacters => runs(text, is_word_character, found),
        Words::Spaces => runs(text, |c| !c.is_whitespace(), found),
    }
}

/// Finds the maximal runs of characters for which `inside` is true.
fn runs(text: &str, inside: impl Fn(char) -> bool, mut found: impl FnMut(Range<usize>)) {
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found(from..text.len());
    }
}

/// Finds the words of [`UnicodeSegmentation::unicode_words`] (UAX #29, section 4): the segments between word boundaries that contain a
/// letter or a number. Runs of ASCII characters and [plain letters](is_plain_letter) take a fast path. With `AUTO`, [`auto_words`]
/// handles all other runs.
fn unicode_words<const AUTO: bool>(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let foreign =
            non_ascii(&text[at..]).find(|&(_, c)| !is_plain_letter(c)).map_or(bytes.len(), |(n, _)| at + n);
        let plain = if foreign == bytes.len() { foreign } else { last_cut(bytes, at, foreign) };
        plain_words(bytes, at..plain, &mut found);
        if plain == bytes.len() {
            return;
        }
        let end = next_cut(bytes, foreign);
        let stretch = &text[plain..end];
        if AUTO {
            auto_words(stretch, |word| found(plain + word.start..plain + word.end));
        } else {
            for (start, word) in stretch.unicode_word_indices() {
                found(plain + start..plain + start + word.len());
            }
        }
        at = end;
    }
}

/// Returns whether a cut before the byte at `at` leaves the words on both sides unchanged. This is true between ASCII white space and an
/// ASCII letter. No rule of UAX #29 looks ahead past white space. Only the rule for marks (WB4) looks back past it, and a letter is no
/// mark. Such a cut also leaves the lower case (final sigma) and the Unicode composition unchanged.
fn is_cut(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_white(bytes[at - 1]) && bytes[at].is_ascii_alphabetic()
}

/// Returns the first cut at or after `from`, or the end.
pub(crate) fn next_cut(bytes: &[u8], from: usize) -> usize {
    (from..bytes.len()).find(|&at| is_cut(bytes, at)).unwrap_or(bytes.len())
}

/// Returns the last cut in `from..to`, or `from`.
fn last_cut(bytes: &[u8], from: usize, to: usize) -> usize {
    (from + 1..to).rev().find(|&at| is_cut(bytes, at)).unwrap_or(from)
}

/// Returns whether [`char::is_whitespace`] is true for an ASCII byte. This includes the vertical tab, unlike [`u8::is_ascii_whitespace`].
pub(crate) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns the characters outside ASCII with their positions. Blocks of ASCII bytes are skipped as a whole.
pub(crate) fn non_ascii(text: &str) -> impl Iterator<Item = (usize, char)> {
    const BLOCK: usize = 32;
    let bytes = text.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        while bytes.get(from)?.is_ascii()
            && bytes[from..].first_chunk::<BLOCK>().is_some_and(|block| block.is_ascii())
        {
            from += BLOCK;
        }
        let at = from + bytes[from..].iter().position(|byte| !byte.is_ascii())?;
        let c = text[at..].chars().next()?;
        from = at + c.len_utf8();
        Some((at, c))
    })
}

/// Returns whether the word rules treat a character outside ASCII like an ASCII letter. This is true for most letters of the Latin, Greek,
/// Cyrillic, Arabic and Korean scripts.
fn is_plain_letter(c: char) -> bool {
    matches!(c, 'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ʯ' | 'Α'..='Ρ' | 'Σ'..='ώ' | 'Ѐ'..='ҁ' | 'Ҋ'..='ԯ' | '\u{620}'..='\u{64a}' | '가'..='힣')
}

/// The byte belongs to words: a letter, a digit or an underscore. Each of these bits is a property of a byte in the word rules.
const CORE: u8 = 1;
const LETTER: u8 = 2;
const DIGIT: u8 = 4;
/// The byte joins the letters on both sides of it (WB6, WB7).
const MID_LETTER: u8 = 8;
/// The byte joins the digits on both sides of it (WB11, WB12).
const MID_NUMBER: u8 = 16;

/// The properties of each ASCII byte according to the table in UAX #29, section 4.1. All other bytes belong to plain letters.
const CLASS: [u8; 256] = {
    let mut class = [CORE | LETTER; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        class[byte] = if b.is_ascii_alphabetic() {
            CORE | LETTER
        } else if b.is_ascii_digit() {
            CORE | DIGIT
        } else {
            match b {
                b'_' => CORE,
                b':' => MID_LETTER,
                b',' | b';' => MID_NUMBER,
                b'.' | b'\'' => MID_LETTER | MID_NUMBER,
                _ => 0,
            }
        };
        byte += 1;
    }
    class
};

/// Finds the words of `bytes[range]`, which consists of ASCII and plain letters. Words are short and their lengths are unpredictable, so
/// a loop over bytes would mispredict a branch at both ends of each word. Masks instead mark the starts and ends of runs of [`CORE`] bytes,
/// for 64 bytes at a time.
fn plain_words(bytes: &[u8], range: Range<usize>, found: &mut impl FnMut(Range<usize>)) {
    let bytes = &bytes[..range.end];
    let class = |at: usize| bytes.get(at).map_or(0, |&b| CLASS[usize::from(b)]);
    let mut emit = |word: Range<usize>| {
        // Underscores join words, but underscores alone are not a word.
        if bytes[word.start] != b'_' || bytes[word.clone()].iter().any(|&b| b != b'_') {
            found(word);
        }
    };
    let (mut start, mut inside, mut joined) = (range.start, false, false);
    let mut base = range.start;
    for block in bytes[range.start..].chunks(64) {
        let core = core_mask(block);
        let mut edges = core ^ (core << 1 | u64::from(inside));
        while edges != 0 {
            let at = base + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            inside = !inside;
            if !inside {
                joined = joins(class(at - 1), class(at), class(at + 1));
                if !joined {
                    emit(start..at);
                }
            } else if !joined {
                start = at;
            }
        }
        base += 64;
    }
    // If the last block is partial, its padding has already ended the last word.
    if inside {
        emit(start..bytes.len());
    }
}

/// Returns a mask in which bit i is set if byte i of the block is [`CORE`]. The block has at most 64 bytes.
fn core_mask(block: &[u8]) -> u64 {
    let mut filled = [0; 64];
    filled[..block.len()].copy_from_slice(block);
    // The compiler vectorises these comparisons, but not look-ups in the table.
    let core = filled.map(|b| {
        let letter = (b | 0x20).wrapping_sub(b'a') < 26;
        let digit = b.wrapping_sub(b'0') < 10;
        u8::from(letter | digit | (b == b'_') | !b.is_ascii())
    });
    let mut mask = 0;
    for (byte, ones) in core.as_chunks::<8>().0.iter().enumerate() {
        // Each of the eight bytes is 0 or 1. The product gathers them as bits in its highest byte.
        mask |= (u64::from_le_bytes(*ones).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * byte);
    }
    mask
}

fn joins(before: u8, middle: u8, after: u8) -> bool {
    middle & MID_LETTER != 0 && before & after & LETTER != 0
        || middle & MID_NUMBER != 0 && before & after & DIGIT != 0
}

static SEGMENTER: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(Default::default()));

/// Calls `found` with the byte range of each word of `text`, in order. ICU's dictionaries divide the runs of characters for which
/// [`is_inside`] is true, and Unicode's rules (UAX #29, section 4) divide all other text. A pictograph, such as an emoji, is a word.
pub(crate) fn auto_words(text: &str, mut found: impl FnMut(Range<usize>)) {
    let mut rest = 0;
    while rest < text.len() {
        let start = text[rest..].find(begins).map_or(text.len(), |at| rest + at);
        for (at, part) in text[rest..start].split_word_bound_indices() {
            if part.contains(char::is_alphanumeric) || part.contains(is_pictograph) {
                found(rest + at..rest + at + part.len());
            }
        }
        let run = &text[start..];
        let run = &run[..run.find(|c| !is_inside(c)).unwrap_or(run.len())];
        let mut from = 0;
        for to in SEGMENTER.segment_str(run) {
            if run[from..to].contains(char::is_alphanumeric) {
                found(start + from..start + to);
            }
            from = to;
        }
        rest = start + run.len();
    }
}

/// Returns whether a character is a pictograph, such as an emoji or a part of a flag.
fn is_pictograph(c: char) -> bool {
    // Digits, `#` and `*` can be parts of emoji, but have neither of these properties.
    !c.is_ascii()
        && (CodePointSetData::new::<ExtendedPictographic>().contains(c)
            || CodePointSetData::new::<EmojiPresentation>().contains(c))
}

/// Returns whether a character belongs to a script that dictionaries divide into words.
fn begins(c: char) -> bool {
    // Thai is the first of these scripts in Unicode's order.
    c >= '\u{e00}'
        && matches!(
            CodePointMapData::<Script>::new().get(c),
            Script::Han
                | Script::Hiragana
                | Script::Katakana
                | Script::Thai
                | Script::Lao
                | Script::Khmer
                | Script::Myanmar
        )
}

/// Returns whether a character continues a run that a dictionary divides: a letter, a mark, or a sign that lengthens or voices a Japanese
/// syllable.
fn is_inside(c: char) -> bool {
    begins(c)
        || matches!(c, 'ー' | 'ｰ' | 'ﾞ' | 'ﾟ')
        || c >= '\u{300}' && CodePointMapData::<Script>::new().get(c) == Script::Inherited
}

/// Returns whether `\w` in Python's module `re` matches the character: an underscore, or a letter or number of any script (`str.isalnum`).
/// Unlike [`char::is_alphanumeric`], it excludes marks such as the vowel signs of Hindi.
pub(crate) fn is_word_character(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    GeneralCategoryGroup::Letter.union(GeneralCategoryGroup::Number).contains(category)
}

/// Returns whether Python's `str.isdigit` is true for the character. It is true for decimal digits of any script, and for digits in forms
/// such as superscripts or circles (UAX #44, section 5.7, `Numeric_Type`).
pub(crate) fn is_digit(c: char) -> bool {
    let kind = CodePointMapData::<NumericType>::new().get(c);
    kind == NumericType::Decimal || kind == NumericType::Digit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        words_by(Words::Unicode, text)
    }

    fn words_by(rule: Words, text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        each_word(text, rule, |word| words.push(&text[word]));
        words
    }

    /// The expected words come from Python's `re.findall(r"\b\w+\b", text)` and `text.split()`.
    #[test]
    fn words_by_the_other_rules() {
        let text = "Don't stop_now, it's 32.3\tdegrées\u{a0}—4×4 in Łódź!";
        let found = words_by(Words::WordCharacters, text);
        assert_eq!(found, ["Don", "t", "stop_now", "it", "s", "32", "3", "degrées", "4", "4", "in", "Łódź"]);
        let found = words_by(Words::Spaces, text);
        assert_eq!(found, ["Don't", "stop_now,", "it's", "32.3", "degrées", "—4×4", "in", "Łódź!"]);
        assert!(words_by(Words::WordCharacters, "--").is_empty());
        assert!(words_by(Words::Spaces, " \n").is_empty());
    }

    #[test]
    fn plain_letters_have_the_words_of_ascii_letters() {
        for c in ('\u{80}'..char::MAX).filter(|&c| is_plain_letter(c)) {
            let text = format!("{c} a{c}.{c}1,{c}'{c}_{c}:1{c} {c}{c} __ {c}");
            assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
            assert_eq!(words_by(Words::Auto, &text), words_by_dictionary(&text));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn word_characters_are_those_of_regular_expressions(text in "[\\x00-\\x7f]{0,60}") {
            let token = regex::Regex::new(r"\b\w+\b").unwrap();
            let expected: Vec<_> = token.find_iter(&text).map(|token| token.as_str()).collect();
            prop_assert_eq!(words_by(Words::WordCharacters, &text), expected);
            prop_assert_eq!(words_by(Words::Spaces, &text), text.split_whitespace().collect::<Vec<_>>());
        }

        #[test]
        fn words_are_as_unicode_has_them(
            ascii in "[\\x00-\\x7f]{0,60}",
            dense in "[ab1 ._',:;\"\r\n-]{0,30}",
            mixed in "([ab1 ._'\t\n]|[éжΣσ中かカ\u{301}\u{93e}\u{200d}\u{1f600}א\"]){0,40}",
            any in any::<String>(),
        ) {
            // With a non-ASCII character at the end, the reference takes the general path.
            let padded = format!("{dense} z \u{e9}");
            for text in [ascii, dense, padded, mixed, any] {
                prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
            }
        }

        #[test]
        fn dictionaries_leave_other_scripts_alone(text in "([ab1 ._'\t\n]|[éΣσא\u{301}\u{93e}\u{200d}\"]){0,40}") {
            prop_assert_eq!(words_by(Words::Auto, &text), words(&text));
        }

        /// ASCII characters take a separate code path, also between words from dictionaries.
        #[test]
        fn mixed_text_has_the_words_of_its_stretches(text in "([ab1 ._'\t\n]|[é人自由すべてカーคนและ\u{301}\u{1f600}「、\"]){0,40}") {
            prop_assert_eq!(words_by(Words::Auto, &text), words_by_dictionary(&text));
        }

        /// In any text, the words are in order, do not overlap, and are not empty.
        #[test]
        fn words_are_apart(text in "([ab1 .']|[é人自由のカーคนและ\u{301}「、]|\\PC){0,30}") {
            let mut end = 0;
            let mut letters = 0;
            auto_words(&text, |word| {
                assert!(end <= word.start && word.start < word.end, "{word:?}");
                letters += text[word.clone()].chars().filter(|c| c.is_alphanumeric()).count();
                end = word.end;
            });
            // Every letter is in a word.
            prop_assert_eq!(letters, text.chars().filter(|c| c.is_alphanumeric()).count());
        }
    }

    fn words_by_dictionary(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        auto_words(text, |word| words.push(&text[word]));
        words
    }

    /// The texts are from the first article of the Universal Declaration of Human Rights, and the expected words from ICU 72 in C++. In other
    /// parts of the article the libraries differ: ICU weighs words by their frequency, and ICU4X takes the longest word.
    #[test]
    fn known_words_of_six_scripts() {
        for (text, expected) in [
            ("自由,在尊严和权利上一律平等。他们", "自由|在|尊严|和|权利|上|一律|平等|他们"),
            (
                "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
                "すべて|の|人間|は|生まれながら|にし|て|自由|で|あり|かつ|尊厳|と|権利|と|について|平等|で|ある",
            ),
            (
                "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
                "มนุษย์|ทั้ง|หลาย|เกิด|มา|มี|อิสระ|และ|เสมอ|ภาค|กัน|ใน|เกียรติศักดิ์|และ|สิทธิ|ต่าง|มี|เหตุผล|และ|มโนธรรม|และ|ควร|ปฏิบัติ|ต่อ|กัน|ด้วย|เจตนารมณ์|แห่ง|ภราดรภาพ",
            ),
            (
                "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ, ສິດທິ, ເສລີພາບແລະຄວາມສະເໝີພາບເທົ່າທຽມກັນ.",
                "ມະນຸດ|ທຸກຄົນ|ເກີດ|ມາ|ມີ|ກຽດສັກສີ|ສິດທິ|ເສລີພາບ|ແລະ|ຄວາມ|ສະເໝີພາບ|ເທົ່າທຽມ|ກັນ",
            ),
            ("មនុស្សទាំងអស់កើតមកមានសេរីភាពនិង", "មនុស្ស|ទាំងអស់|កើតមក|មាន|សេរីភាព|និង"),
            (
                "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။",
                "လူ|တိုင်း|သည်|တူညီ|လွတ်လပ်|သော|ဂုဏ်သိက္ခာ|ဖြင့်|လည်းကောင်း|တူညီ|လွတ်လပ်|သော|အခွင့်အရေး|များ|ဖြင့်|လည်းကောင်း|မွေး|ဖွား|လာ|သူများ|ဖြစ်သည်",
            ),
        ] {
            assert_eq!(words_by_dictionary(text).join("|"), expected);
        }
    }

    /// The example for `unicode` in docs/job-file.md.
    #[test]
    fn without_dictionaries_each_letter_is_a_word() {
        assert_eq!(words("สวัสดี").len(), 4);
        assert_eq!(words("カタカナ ひら 自由"), ["カタカナ", "ひ", "ら", "自", "由"]);
        assert_eq!(words("သည် ສິດ សេរី").iter().map(|word| word.chars().count()).max(), Some(2));
    }

    #[test]
    fn other_scripts_keep_their_rules_and_pictographs_are_words() {
        assert!(words_by_dictionary("。、 ー!").iter().all(|word| *word == "ー"));
        for (text, expected) in [
            ("can't 1,000 déjà-vu Привет 自由 x", "can't|1,000|déjà|vu|Привет|自由|x"),
            ("iPhoneと自由。A社", "iPhone|と|自由|A|社"),
            ("", ""),
            ("Love it 😍", "Love|it|😍"),
            ("Love it😡😡!", "Love|it|😡|😡"),
            // Each of these is one word: a family joined by ZWJ, a skin tone, a flag, a keycap, a heart in emoji presentation.
            ("👨‍👩‍👧👍🏽🇩🇪🇫🇷1️⃣❤️", "👨‍👩‍👧|👍🏽|🇩🇪|🇫🇷|1️⃣|❤️"),
            ("☂ 5 © — … ' \" # * • ‚", "☂|5|©"),
            ("自由😍", "自由|😍"),
        ] {
            assert_eq!(words_by_dictionary(text).join("|"), expected);
        }
    }
}
