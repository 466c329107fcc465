//! Makes foreign text, such as the ids of documents, safe for terminals and logs.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with an escape for every character that a terminal would interpret instead of showing.
///
/// | character | becomes |
/// |---|---|
/// | line feed, carriage return, tab | `\n`, `\r`, `\t` |
/// | other control characters, ESC among them | `\u{1b}` |
/// | characters that change the direction of writing, or end a line | `\u{202e}` |
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escape(text, acts, |c, shown| shown.extend(c.escape_default()))
}

/// Returns the first `most` characters of `text`, with an ellipsis if it has more.
pub(crate) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns JSON `text` with a JSON escape for every character that a terminal would interpret, except line feeds and tabs. The JSON values
/// do not change.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| acts(c) && !matches!(c, '\n' | '\t');
    escape(text, is_escaped, |c, shown| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{unit:04x}");
        });
    })
}

/// Replaces each character in `text` for which `is_escaped` is true by the escape that `write` appends.
fn escape(text: &str, is_escaped: impl Fn(char) -> bool, write: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            write(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a terminal can interpret the character instead of showing it.
pub(crate) fn acts(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_a_line = matches!(c, '\u{2028}' | '\u{2029}');
    let unseen = matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || turns || ends_a_line || unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_act_are_escaped() {
        for (text, shown) in [
            ("plain, ä, 日本, 👩\u{200d}💻 \\n", "plain, ä, 日本, 👩\u{200d}💻 \\n"),
            ("a\nb\r\n\tc", "a\\nb\\r\\n\\tc"),
            ("\u{1b}[31mred\u{7}\u{9b}", "\\u{1b}[31mred\\u{7}\\u{9b}"),
            ("gpj.\u{202e}exe\u{2066}\u{2028}", "gpj.\\u{202e}exe\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn escaped_json_is_the_same_json() {
        let text = "a\u{1b}[2J \u{9b}31m \u{202e} \u{e0041} é\n";
        let json = serde_json::json!({ "text": text });
        let shown = format!("{json:#}\n");
        assert!(shown.contains('\u{9b}'));
        let shown = escaped(&shown);
        assert!(!shown.contains(|c| acts(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
        assert_eq!(escaped("plain\tä\n"), "plain\tä\n");
    }
}
