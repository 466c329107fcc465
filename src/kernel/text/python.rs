//! Characters as Python's `str` classifies them, for words and steps that other programs define by it.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

/// Whether `\w` of Python's `re` matches the character: `str.isalnum`, or an underscore. These are the letters and numbers of all
/// scripts. The marks that [`char::is_alphanumeric`] takes, such as the vowel signs of Hindi, are not among them.
pub(crate) fn is_word_character(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    [GeneralCategoryGroup::Letter, GeneralCategoryGroup::Number]
        .iter()
        .any(|group| group.contains(category(c)))
}

/// Whether `str.isdigit` is true for the character: a decimal digit of any script, or one of [`OTHER_DIGITS`].
pub(crate) fn is_digit(c: char) -> bool {
    let is_inside = |[first, last]: &[u32; 2]| (*first..=*last).contains(&c.into());
    category(c) == GeneralCategory::DecimalNumber || OTHER_DIGITS.as_chunks().0.iter().any(is_inside)
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

/// The first and last character of each run with `Numeric_Type=Digit`: superscripts, circled digits and the like. Unicode adds no
/// others (UAX #44, section 5.7).
const OTHER_DIGITS: [u32; 40] = [
    0xb2, 0xb3, 0xb9, 0xb9, 0x1369, 0x1371, 0x19da, 0x19da, 0x2070, 0x2070, 0x2074, 0x2079, 0x2080, 0x2089,
    0x2460, 0x2468, 0x2474, 0x247c, 0x2488, 0x2490, 0x24ea, 0x24ea, 0x24f5, 0x24fd, 0x24ff, 0x24ff, 0x2776,
    0x277e, 0x2780, 0x2788, 0x278a, 0x2792, 0x10a40, 0x10a43, 0x10e60, 0x10e68, 0x11052, 0x1105a, 0x1f100,
    0x1f10a,
];
