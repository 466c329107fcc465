//! Formats counts with their nouns, for messages and pages.

use indicatif::HumanCount;

/// Formats a count with commas between thousands.
pub(crate) fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// Formats a count with its noun: `1 pair`, `1,000 pairs`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {}", count(n), plural(n, noun))
}

/// Returns the noun in the singular for 1, otherwise in the plural.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{noun}{}", either(n, "", "s"))
}

/// Returns `one` if `n` is 1, and otherwise `other`, as in `1 text has` and `2 texts have`.
pub(crate) fn either<'a>(n: u64, one: &'a str, other: &'a str) -> &'a str {
    if n == 1 { one } else { other }
}
