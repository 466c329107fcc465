//! Text for pages: escaped, with numbers grouped by thousands.

use std::borrow::Cow;

use crate::error::visible::visible;

/// `text` escaped for HTML and SVG, also in attributes.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '"', '\'']) && !text.chars().any(is_forbidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_forbidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Characters of an id that are shown.
const MOST_OF_ID: usize = 100;

/// An id, a path or a value on one line: control characters are escaped, and long ones are cut.
pub(crate) fn one_line(id: &str) -> String {
    match id.char_indices().nth(MOST_OF_ID) {
        Some((end, _)) => visible(&id[..end]).into_owned() + "…",
        None => visible(id).into_owned(),
    }
}

/// Characters that cannot be written in XML.
pub(crate) fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// A count with a comma between thousands.
pub(crate) fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A number with `places` after the point and a comma between thousands; powers of ten if it is very large.
pub(crate) fn decimal(value: f64, places: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e15 {
        return format!("{value:e}");
    }
    let text = format!("{:.places$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { "-" } else { "" };
    format!("{sign}{}{rest}", grouped(whole))
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("plain, 1 > 0 = no"), "plain, 1 &gt; 0 = no");
        assert_eq!(escape(r#"<a href="x">&'</a>"#), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
        assert_eq!(escape("a\u{0}b\u{1b}c\td\ne"), "a\u{fffd}b\u{fffd}c\td\ne");
        assert!(matches!(escape("ordinary é 文"), Cow::Borrowed(_)));
    }

    #[test]
    fn numbers_read_easily() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(decimal(1234.5678, 2), "1,234.57");
        assert_eq!(decimal(-0.001, 2), "0.00");
        assert_eq!(decimal(-1000.0, 0), "-1,000");
        assert_eq!(decimal(1e15, 0), "1e15");
        assert_eq!(decimal(f64::NAN, 2), "NaN");
    }
}
