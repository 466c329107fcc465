//! Cuts spans out of one field of a CSV record.

use std::ops::Range;

use super::field::{append_field, append_quoted};
use super::records::RecordCutter;
use crate::job;
use crate::kernel::text::without_spans::without_spans;

/// Appends a record without `spans` of the value of its field number `field`. A field in quotes stays in quotes, and all other
/// bytes stay as they are. `None` if the record has no such field, or the field not these spans.
pub(super) fn cut_field(
    csv: job::Csv,
    record: &[u8],
    field: usize,
    spans: &[Range<usize>],
    to: &mut Vec<u8>,
) -> Option<()> {
    let records = RecordCutter::of_row(csv, record);
    let read = records.record();
    let (place, csv) = (read.place(field)?, read.csv());
    let value = read.value(field)?;
    let value = without_spans(std::str::from_utf8(&value).ok()?, spans)?;
    to.extend_from_slice(&record[..place.start]);
    // An empty line would be no record.
    match csv.quote.is_some() && record.get(place.start).copied() == csv.quote || value.is_empty() {
        true => append_quoted(csv, value.as_bytes(), to),
        false => append_field(csv, value.as_bytes(), to)?,
    }
    to.extend_from_slice(&record[place.end..]);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CSV: job::Csv = job::Csv::new(b',');

    fn cut(record: &str, field: usize, spans: &[Range<usize>]) -> Option<String> {
        let mut to = Vec::new();
        cut_field(CSV, record.as_bytes(), field, spans, &mut to)?;
        Some(String::from_utf8(to).unwrap())
    }

    #[test]
    fn only_the_field_changes() {
        for (record, field, span, wanted) in [
            ("1,abcd,3", 1, 1..3, Some("1,ad,3")),
            ("1,\"a\"\"b,\nc\",3", 1, 0..2, Some("1,\"b,\nc\",3")),
            ("1,\"a\"\"b\"", 1, 0..1, Some("1,\"\"\"b\"")),
            // A quote in the middle is a character, and one at the start would not be.
            ("ab\"c\",2", 0, 0..2, Some("\"\"\"c\"\"\",2")),
            ("abc", 0, 0..3, Some("\"\"")),
            ("\"abc\",", 0, 0..3, Some("\"\",")),
            (",é", 1, 0..1, None),
            (",é", 1, 0..2, Some(",\"\"")),
            ("1,2", 2, 0..1, None),
            ("1,2", 1, 0..2, None),
        ] {
            assert_eq!(cut(record, field, &[span]).as_deref(), wanted, "{record}");
        }
    }

    proptest! {
        /// The fields of the new record are those of the old one, and that of the text lacks the span.
        #[test]
        fn other_fields_keep_their_bytes(
            fields in prop::collection::vec("[aé,\"\r\n ]{0,8}", 1..4),
            quoted in prop::collection::vec(any::<bool>(), 4),
            (field, start, length) in (0_usize..4, 0_usize..9, 0_usize..9),
        ) {
            let field = field % fields.len();
            let written: Vec<Vec<u8>> = fields.iter().zip(&quoted).map(|(value, is_quoted)| {
                let mut to = Vec::new();
                match *is_quoted || value.is_empty() {
                    true => append_quoted(CSV, value.as_bytes(), &mut to),
                    false => append_field(CSV, value.as_bytes(), &mut to).unwrap(),
                }
                to
            }).collect();
            let record = written.join(&b","[..]);
            let text = &fields[field];
            let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let span = boundary(start)..boundary(start + length);
            let value = format!("{}{}", &text[..span.start], &text[span.end..]);
            let mut to = Vec::new();
            prop_assert_eq!(cut_field(CSV, &record, field, &[span], &mut to), Some(()));
            let records = RecordCutter::of_row(CSV, &to);
            let read = records.record();
            prop_assert_eq!(read.fields(), fields.len());
            for other in 0..fields.len() {
                let wanted = if other == field { &value } else { &fields[other] };
                prop_assert_eq!(&*read.value(other).unwrap(), wanted.as_bytes());
                if other != field {
                    prop_assert_eq!(&to[read.place(other).unwrap()], &written[other][..]);
                }
            }
        }
    }
}
