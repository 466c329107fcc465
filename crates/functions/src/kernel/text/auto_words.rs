//! Words by Unicode's rules, with pictographs among them, and with dictionaries for scripts that put no spaces between words.

use std::ops::Range;
use std::sync::LazyLock;

use icu_properties::props::{EmojiPresentation, ExtendedPictographic, Script};
use icu_properties::{CodePointMapData, CodePointSetData};
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};
use unicode_segmentation::UnicodeSegmentation;

static SEGMENTER: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(Default::default()));

/// Calls `found` with the byte range of each word of `text`, in order: by Unicode's rules (UAX #29, section 4), and in
/// each run of [`is_inside`] by ICU's dictionaries. An emoji or another pictograph is a word.
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

/// Whether a character is a picture, such as an emoji or a part of a flag.
fn is_pictograph(c: char) -> bool {
    // Digits, `#` and `*` are parts of emoji, and have neither property.
    !c.is_ascii()
        && (CodePointSetData::new::<ExtendedPictographic>().contains(c)
            || CodePointSetData::new::<EmojiPresentation>().contains(c))
}

/// Whether a character belongs to a script that is divided by a dictionary.
fn begins(c: char) -> bool {
    // Thai is the first of them.
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

/// Whether a run of such a script continues with this character: with a letter of it, with a mark, or with a sign that
/// lengthens or voices the Japanese syllable before it.
fn is_inside(c: char) -> bool {
    begins(c)
        || matches!(c, 'ー' | 'ｰ' | 'ﾞ' | 'ﾟ')
        || c >= '\u{300}' && CodePointMapData::<Script>::new().get(c) == Script::Inherited
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        auto_words(text, |word| words.push(&text[word]));
        words
    }

    /// From the first article of the Universal Declaration of Human Rights, in the words that ICU 72 finds (the C++
    /// library, whose code is independent, through its Python bindings). Chinese, Japanese and Khmer are only parts of
    /// it: ICU weighs words by how common they are, and ICU4X takes the longest, so it cuts 有理性 into 有理 and 性.
    #[test]
    fn known_words_of_six_scripts() {
        for (text, expected) in [
            // Chinese.
            ("自由,在尊严和权利上一律平等。他们", "自由|在|尊严|和|权利|上|一律|平等|他们"),
            // Japanese.
            (
                "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
                "すべて|の|人間|は|生まれながら|にし|て|自由|で|あり|かつ|尊厳|と|権利|と|について|平等|で|ある",
            ),
            // Thai.
            (
                "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
                "มนุษย์|ทั้ง|หลาย|เกิด|มา|มี|อิสระ|และ|เสมอ|ภาค|กัน|ใน|เกียรติศักดิ์|และ|สิทธิ|ต่าง|มี|เหตุผล|และ|มโนธรรม|และ|ควร|ปฏิบัติ|ต่อ|กัน|ด้วย|เจตนารมณ์|แห่ง|ภราดรภาพ",
            ),
            // Lao.
            (
                "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ, ສິດທິ, ເສລີພາບແລະຄວາມສະເໝີພາບເທົ່າທຽມກັນ.",
                "ມະນຸດ|ທຸກຄົນ|ເກີດ|ມາ|ມີ|ກຽດສັກສີ|ສິດທິ|ເສລີພາບ|ແລະ|ຄວາມ|ສະເໝີພາບ|ເທົ່າທຽມ|ກັນ",
            ),
            // Khmer.
            ("មនុស្សទាំងអស់កើតមកមានសេរីភាពនិង", "មនុស្ស|ទាំងអស់|កើតមក|មាន|សេរីភាព|និង"),
            // Burmese.
            (
                "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။",
                "လူ|တိုင်း|သည်|တူညီ|လွတ်လပ်|သော|ဂုဏ်သိက္ခာ|ဖြင့်|လည်းကောင်း|တူညီ|လွတ်လပ်|သော|အခွင့်အရေး|များ|ဖြင့်|လည်းကောင်း|မွေး|ဖွား|လာ|သူများ|ဖြစ်သည်",
            ),
        ] {
            assert_eq!(words(text).join("|"), expected);
        }
    }

    /// The example for `unicode` in docs/job-file.md.
    #[test]
    fn without_dictionaries_each_letter_is_a_word() {
        let unicode = |text: &'static str| text.unicode_words().collect::<Vec<_>>();
        assert_eq!(unicode("สวัสดี").len(), 4);
        assert_eq!(unicode("カタカナ ひら 自由"), ["カタカナ", "ひ", "ら", "自", "由"]);
        assert_eq!(unicode("သည် ສິດ សេរី").iter().map(|word| word.chars().count()).max(), Some(2));
    }

    #[test]
    fn other_scripts_keep_their_rules() {
        assert_eq!(
            words("can't 1,000 déjà-vu Привет 自由 x"),
            ["can't", "1,000", "déjà", "vu", "Привет", "自由", "x"]
        );
        assert_eq!(words("iPhoneと自由。A社"), ["iPhone", "と", "自由", "A", "社"]);
        assert!(words("").is_empty() && words("。、 ー!").iter().all(|word| *word == "ー"));
    }

    #[test]
    fn pictographs_are_words() {
        for (text, expected) in [
            ("Love it 😍", "Love|it|😍"),
            ("Love it😡😡!", "Love|it|😡|😡"),
            // One word each: a family joined by ZWJ, a tone of skin, a flag, a keycap, a heart that is shown as an emoji.
            ("👨‍👩‍👧👍🏽🇩🇪🇫🇷1️⃣❤️", "👨‍👩‍👧|👍🏽|🇩🇪|🇫🇷|1️⃣|❤️"),
            ("☂ 5 © — … ' \" # * • ‚", "☂|5|©"),
            ("自由😍", "自由|😍"),
        ] {
            assert_eq!(words(text).join("|"), expected);
        }
    }

    proptest! {
        /// Words of any text are apart, in order, and not empty.
        #[test]
        fn words_are_apart(text in "([ab1 .']|[é人自由のカーคนและ\u{301}「、]|\\PC){0,30}") {
            let mut end = 0;
            let mut letters = 0;
            auto_words(&text, |word| {
                assert!(end <= word.start && word.start < word.end, "{word:?}");
                letters += text[word.clone()].chars().filter(|c| c.is_alphanumeric()).count();
                end = word.end;
            });
            // No letter is lost.
            prop_assert_eq!(letters, text.chars().filter(|c| c.is_alphanumeric()).count());
        }
    }
}
