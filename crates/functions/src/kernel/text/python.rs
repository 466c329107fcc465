//! Characters as Python's `str` classifies them, for words and steps that other programs define by it.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup, NumericType};

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

/// Whether `str.isdigit` is true for the character: a decimal digit of any script, or a digit in a superscript, a circle and the
/// like (UAX #44, section 5.7, `Numeric_Type`).
pub(crate) fn is_digit(c: char) -> bool {
    let kind = CodePointMapData::<NumericType>::new().get(c);
    kind == NumericType::Decimal || kind == NumericType::Digit
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}
