//! Writes fields of CSV records.

use crate::job;

/// Appends a field, in quotes where it needs them.
pub(super) fn append_field(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| [csv.delimiter, csv.quote, b'\n', b'\r'].contains(byte);
    if !value.iter().any(needs_quotes) {
        return to.extend_from_slice(value);
    }
    append_quoted(csv, value, to);
}

/// Appends a field in quotes.
pub(super) fn append_quoted(csv: job::Csv, value: &[u8], to: &mut Vec<u8>) {
    to.push(csv.quote);
    for &byte in value {
        if byte == csv.quote {
            to.push(byte);
        }
        to.push(byte);
    }
    to.push(csv.quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_fields_are_quoted_where_they_need_it() {
        let csv = job::Csv { delimiter: b';', header: true, quote: b'"' };
        for (value, expected) in [("k", "k"), ("x;\"y\"", "\"x;\"\"y\"\"\""), ("a\rb", "\"a\rb\""), ("", "")]
        {
            let mut to = Vec::new();
            append_field(csv, value.as_bytes(), &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), expected);
        }
    }
}
