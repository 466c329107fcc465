//! Cuts spans out of one string of a JSON object without changing its other bytes.

use std::ops::Range;

use super::line::raw_value;

/// Appends a row without `spans` of the string at `path`: characters that stay keep their bytes, escapes too. `None` if there is no
/// string, or it does not have these spans.
pub(super) fn cut_string(
    row: &[u8],
    path: &[String],
    spans: &[Range<usize>],
    to: &mut Vec<u8>,
) -> Option<()> {
    let row = std::str::from_utf8(row).ok()?;
    let raw = raw_value(row, path)?;
    let start = (raw.as_ptr() as usize).checked_sub(row.as_ptr() as usize)?;
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    to.extend_from_slice(row.get(..start + 1)?.as_bytes());
    let (mut at, mut from, mut spans) = (0, 0, spans.iter().peekable());
    while from < inside.len() {
        let (written, bytes) = character(inside.get(from..)?)?;
        let span = spans.peek().copied().filter(|span| span.start < at + bytes);
        let is_cut = span.is_some_and(|span| span.start <= at && at + bytes <= span.end);
        if span.is_some() && !is_cut {
            return None;
        }
        if !is_cut {
            to.extend_from_slice(inside.get(from..from + written)?.as_bytes());
        }
        (at, from) = (at + bytes, from + written);
        spans.next_if(|span| span.end == at);
    }
    to.extend_from_slice(row.get(start + 1 + inside.len()..)?.as_bytes());
    spans.next().is_none().then_some(())
}

/// The bytes of the first character as it is written in a string, and in UTF-8.
fn character(text: &str) -> Option<(usize, usize)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return Some((first.len_utf8(), first.len_utf8()));
    }
    if chars.next()? != 'u' {
        return Some((2, 1));
    }
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let first = unit(2)?;
    let second = text.get(6..).filter(|rest| rest.starts_with("\\u")).and_then(|_| unit(8));
    let decoded = char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?;
    Some((6 * decoded.len_utf16(), decoded.len_utf8()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(row: &str, path: &[&str], spans: &[Range<usize>]) -> Option<String> {
        let path: Vec<String> = path.iter().map(|name| name.to_string()).collect();
        let mut to = Vec::new();
        cut_string(row.as_bytes(), &path, spans, &mut to)?;
        Some(String::from_utf8(to).unwrap())
    }

    #[test]
    fn other_bytes_stay() {
        for (row, path, spans, wanted) in [
            (
                r#" {"a": 1e2, "t" : "abcd" , "b":[ ]} "#,
                &["t"][..],
                &[(1, 3)][..],
                Some(r#" {"a": 1e2, "t" : "ad" , "b":[ ]} "#),
            ),
            (r#"{"t":"\u00e9\/\"x\n"}"#, &["t"], &[(2, 3), (4, 5)], Some(r#"{"t":"\u00e9\"\n"}"#)),
            (r#"{"t":"\ud83d\ude00\ud83d\ude00"}"#, &["t"], &[(0, 4)], Some(r#"{"t":"\ud83d\ude00"}"#)),
            (r#"{"t":"\ud83d\ude00"}"#, &["t"], &[(0, 2)], None),
            (r#"{"t":"é"}"#, &["t"], &[(0, 1)], None),
            (r#"{"t":"é"}"#, &["t"], &[(0, 3)], None),
            (r#"{"a.b":"xy","a":{"b":"xy"}}"#, &["a", "b"], &[(0, 1)], Some(r#"{"a.b":"xy","a":{"b":"y"}}"#)),
            (r#"{"a.b":"xy","a":{"b":"xy"}}"#, &["a.b"], &[(0, 1)], Some(r#"{"a.b":"y","a":{"b":"xy"}}"#)),
            (r#"{"t":1}"#, &["t"], &[(0, 1)], None),
            ("[]", &["t"], &[(0, 1)], None),
        ] {
            let spans: Vec<_> = spans.iter().map(|(start, end)| *start..*end).collect();
            assert_eq!(cut(row, path, &spans).as_deref(), wanted, "{row}");
        }
    }

    proptest! {
        #[test]
        fn the_string_lacks_only_the_span(
            parts in prop::collection::vec((any::<char>(), any::<bool>()), 0..20),
            start in 0_usize..20,
            length in 1_usize..9,
        ) {
            let (mut written, mut wanted, mut span, mut at) = (String::new(), String::new(), 0..0, 0);
            for (number, (char, is_escaped)) in parts.iter().enumerate() {
                match is_escaped {
                    true => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| written += &format!("\\u{unit:04X}")),
                    false => {
                        let quoted = serde_json::to_string(&char).unwrap();
                        written.push_str(&quoted[1..quoted.len() - 1]);
                    }
                }
                if number < start {
                    span = at + char.len_utf8()..at + char.len_utf8();
                }
                match (start..start + length).contains(&number) {
                    true => span.end = at + char.len_utf8(),
                    false => wanted.push(*char),
                }
                at += char.len_utf8();
            }
            if span.is_empty() {
                return Ok(());
            }
            let row = format!("{{\"a\":\"{written}\",\"t\":\"{written}\"}}");
            let found = cut(&row, &["t"], &[span]).unwrap();
            let value: serde_json::Value = serde_json::from_str(&found).unwrap();
            prop_assert_eq!(&value["t"], &wanted);
            let start = format!("{{\"a\":\"{written}\",\"t\":\"");
            prop_assert!(found.starts_with(&start));
        }
    }
}
