//! Fields of CSV records, as they are written and as they are read.

use std::borrow::Cow;

use memchr::memchr;

use crate::job;

/// The value of a field as it is written.
pub(super) fn value(csv: job::Csv, raw: &[u8]) -> Cow<'_, [u8]> {
    let (mut in_quotes, inside) = match raw.split_first() {
        Some((first, rest)) if Some(*first) == csv.quote => (true, rest),
        _ => (false, raw),
    };
    let is_plain = |bytes: &[u8]| csv.escape.is_none_or(|escape| memchr(escape, bytes).is_none());
    if !in_quotes && is_plain(raw) {
        return Cow::Borrowed(raw);
    }
    if let (Some(quote), Some((_, text))) = (csv.quote.filter(|_| in_quotes), inside.split_last())
        && memchr(quote, inside) == Some(text.len())
        && is_plain(text)
    {
        return Cow::Borrowed(text);
    }
    let (mut value, mut bytes) = (Vec::with_capacity(inside.len()), inside.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        let is_quote = |byte: &u8| Some(*byte) == csv.quote;
        match byte {
            byte if Some(byte) == csv.escape => value.extend(bytes.next()),
            byte if in_quotes && is_quote(&byte) => match bytes.next_if(is_quote) {
                Some(doubled) => value.push(doubled),
                None => in_quotes = false,
            },
            byte => value.push(byte),
        }
    }
    Cow::Owned(value)
}

/// Appends a field, in quotes where it needs them. `None` if it needs quotes, and the syntax has neither these nor an escape.
pub(super) fn append_field(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let is_end = |byte: &u8| [csv.delimiter, b'\n', b'\r'].contains(byte);
    let needs_quotes = |byte: &u8| is_end(byte) || [csv.quote, csv.escape].contains(&Some(*byte));
    if !value.iter().any(needs_quotes) {
        to.extend_from_slice(value);
        return Some(());
    }
    if csv.quote.is_some() {
        append_quoted(csv, value, to);
        return Some(());
    }
    for byte in value {
        if needs_quotes(byte) {
            to.push(csv.escape?);
        }
        to.push(*byte);
    }
    Some(())
}

/// Appends a field in quotes, where the syntax has them.
pub(super) fn append_quoted(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) {
    to.extend(csv.quote);
    for byte in value.iter().copied() {
        if [csv.quote, csv.escape].contains(&Some(byte)) {
            to.push(byte);
        }
        to.push(byte);
    }
    to.extend(csv.quote);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn added_fields_are_quoted_where_they_need_it() {
        let csv = job::Csv::new(b';');
        let unquoted = job::Csv { quote: None, ..csv };
        let escaped = job::Csv { escape: Some(b'\\'), ..unquoted };
        for (csv, value, expected) in [
            (csv, "k", Some("k")),
            (csv, "x;\"y\"", Some("\"x;\"\"y\"\"\"")),
            (csv, "a\rb", Some("\"a\rb\"")),
            (csv, "", Some("")),
            (unquoted, "\"k", Some("\"k")),
            (unquoted, "x;y", None),
            (escaped, "x;\\y", Some("x\\;\\\\y")),
        ] {
            let mut to = Vec::new();
            let written =
                append_field(csv, value.as_bytes(), &mut to).map(|()| String::from_utf8(to).unwrap());
            assert_eq!(written.as_deref(), expected);
        }
    }

    proptest! {
        #[test]
        fn a_field_that_is_written_is_read(text in "[a;\"\\\\\n é]{0,9}", quote in prop::option::of(Just(b'"')), is_escaped: bool) {
            let csv = job::Csv { quote, escape: is_escaped.then_some(b'\\'), ..job::Csv::new(b';') };
            let mut to = Vec::new();
            if append_field(csv, text.as_bytes(), &mut to).is_some() {
                prop_assert_eq!(&*value(csv, &to), text.as_bytes());
            }
        }
    }
}
