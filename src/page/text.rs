//! Formats ids, texts and numbers for pages and terminals.

use crate::error::counts::{count, counted};
use crate::error::visible::{shortened, visible};

/// The maximum number of characters that are shown of an id.
const MAX_ID_CHARS: usize = 100;

/// Formats an id, a path or a value on one line, with escaped control characters, and cut off if it is long.
fn one_line(id: &str) -> String {
    visible(&shortened(id, MAX_ID_CHARS)).into_owned()
}

/// Replaces the characters that XML forbids.
pub(crate) fn without_forbidden(text: &str) -> String {
    text.replace(
        |c| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'),
        "\u{fffd}",
    )
}

/// Methods for the templates of pages, since templates can only call methods.
pub(crate) trait PageWords {
    fn n(&self, number: &u64) -> String {
        count(*number)
    }

    /// Formats a similarity with three digits after the point.
    fn share(&self, share: &f64) -> String {
        decimal(*share, 3)
    }

    fn maybe(&self, share: &Option<f64>) -> String {
        share.map_or("-".to_owned(), |share| decimal(share, 3))
    }

    fn tenths(&self, number: &f64) -> String {
        decimal(*number, 1)
    }

    fn percent(&self, part: &u64, of: &u64) -> String {
        format!("{} %", decimal(100.0 * *part as f64 / (*of).max(1) as f64, 1))
    }

    fn percent_of(&self, share: &f64) -> String {
        format!("{} %", decimal(100.0 * share, 2))
    }

    fn seconds(&self, seconds: &f64) -> String {
        decimal(*seconds, 2)
    }

    fn bytes(&self, number: &u64) -> String {
        bytes(*number)
    }

    fn id(&self, id: &str) -> String {
        one_line(id)
    }

    fn sample(&self, text: &str) -> String {
        visible(text.trim()).into_owned()
    }

    fn or_none(&self, id: &Option<String>) -> String {
        id.as_deref().map_or("(none)".to_owned(), one_line)
    }
}

/// Formats a number of bytes, in the largest unit of which there is at least one.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut size, mut unit) = (bytes as f64, None);
    for name in UNITS {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = Some(name);
    }
    match unit {
        None => counted(bytes, "byte"),
        Some(unit) => format!("{size:.1} {unit}"),
    }
}

/// Formats a number with `digits` digits after the point and commas between thousands. Numbers of 1e15 or more have an exponent.
pub(crate) fn decimal(value: f64, digits: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e15 {
        return format!("{value:e}");
    }
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { "-" } else { "" };
    format!("{sign}{}{rest}", count(whole.parse().unwrap_or_default()))
}

pub(crate) fn seconds(seconds: f64) -> String {
    decimal(seconds, 3)
}

/// Formats a fragment as a sentence: adds a capital letter and a full stop.
pub(crate) fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_replaced() {
        assert_eq!(without_forbidden("a\u{0}b\u{1b}c\td\ne"), "a\u{fffd}b\u{fffd}c\td\ne");
    }

    #[test]
    fn numbers_read_easily() {
        for (number, shown) in [(7, "7"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), shown);
        }
        assert_eq!(decimal(1234.5678, 2), "1,234.57");
        assert_eq!(decimal(-0.001, 2), "0.00");
        assert_eq!(decimal(-1000.0, 0), "-1,000");
        assert_eq!(decimal(1e15, 0), "1e15");
        assert_eq!(decimal(f64::NAN, 2), "NaN");
    }

    #[test]
    fn bytes_have_units() {
        for (number, shown) in [
            (1, "1 byte"),
            (1023, "1,023 bytes"),
            (1536, "1.5 KiB"),
            (3 << 30, "3.0 GiB"),
            (5 << 60, "5120.0 PiB"),
        ] {
            assert_eq!(bytes(number), shown);
        }
    }
}
