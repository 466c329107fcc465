//! Delimited text: the character between its fields, whether it has a header, and its columns.

use std::collections::BTreeMap;

use super::column::{ColumnSample, InspectedColumn, is_number};
use crate::job::Csv;
use crate::source::first_records;

/// The characters that are tried, the more usual ones first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Records by which a character is judged.
const JUDGED: usize = 100;
/// Records from which columns are known.
const SAMPLED: usize = 1000;
/// The characters before quotes that are tried, and none.
const ESCAPES: [Option<u8>; 2] = [None, Some(b'\\')];
/// The shares of records with the usual number of fields are compared in such parts, so that one odd record in many does not
/// decide.
const PARTS: usize = 20;

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub csv: Csv,
    /// Records that were judged.
    records: usize,
    /// Whether all of them have several fields, and as many as the first.
    is_even: bool,
}

impl Dialect {
    /// Whether this can hardly be anything but a table: some records with several fields, all alike.
    pub(super) fn is_table(&self) -> bool {
        self.is_even && self.records >= 5
    }
}

/// How the records of a file are written that begins with `text`, which is all of it if `whole`.
///
/// The delimiter and the escape are the characters by which the most records have as many fields as the first, two at least; of several such
/// characters the one that gives the most fields. The first record is a header if its fields are distinct and none is empty or a
/// number.
pub(super) fn sniff(text: &str, whole: bool) -> Dialect {
    let syntaxes = ESCAPES.into_iter().flat_map(|escape| {
        DELIMITERS.into_iter().map(move |delimiter| Csv { escape, ..Csv::new(delimiter) })
    });
    let judged: Vec<_> = syntaxes.map(|csv| (csv, Judgement::of(text, whole, csv))).collect();
    // Of equals, `max_by_key` has the last.
    let best = judged.into_iter().rev().max_by_key(|(_, judgement)| judgement.rank());
    let (csv, judgement) =
        best.unwrap_or_else(|| (Csv::new(b','), Judgement::of(text, whole, Csv::new(b','))));
    let header = judgement.first.as_ref().is_none_or(|first| is_header(first));
    Dialect {
        csv: Csv { header, ..csv },
        records: judgement.records,
        is_even: judgement.fields() > 1 && judgement.alike == judgement.records,
    }
}

/// What a delimiter makes of the first records.
struct Judgement {
    first: Option<Vec<String>>,
    records: usize,
    /// Records with as many fields as the first.
    alike: usize,
}

impl Judgement {
    fn of(text: &str, whole: bool, csv: Csv) -> Self {
        let records = first_records(text, whole, csv, JUDGED);
        let first = records.first().cloned();
        let fields = first.as_ref().map_or(0, Vec::len);
        let alike = records.iter().filter(|record| record.len() == fields).count();
        Self { first, records: records.len(), alike }
    }

    fn fields(&self) -> usize {
        self.first.as_ref().map_or(0, Vec::len)
    }

    /// Higher for the better delimiter; 0 for one that is not there.
    fn rank(&self) -> (usize, usize) {
        match self.fields() {
            0 | 1 => (0, 0),
            fields => (self.alike * PARTS / self.records.max(1), fields),
        }
    }
}

fn is_header(record: &[String]) -> bool {
    let mut fields: Vec<&str> = record.iter().map(|field| field.trim()).collect();
    let named = fields.iter().all(|field| !field.is_empty() && !is_number(field));
    let all = fields.len();
    fields.sort_unstable();
    fields.dedup();
    named && fields.len() == all
}

/// The columns of a file that begins with `text`.
pub(super) fn columns(text: &str, whole: bool, csv: Csv) -> Vec<InspectedColumn> {
    let records = first_records(text, whole, csv, SAMPLED);
    let Some(first) = records.first() else { return Vec::new() };
    let names: Vec<String> = match csv.header {
        true => first.clone(),
        false => (1..=first.len()).map(|at| format!("column_{at}")).collect(),
    };
    let rows = &records[usize::from(csv.header)..];
    let mut values: BTreeMap<usize, ColumnSample> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.len() == names.len()) {
        for (at, field) in row.iter().enumerate() {
            values.entry(at).or_default().add((!field.is_empty()).then_some(field));
        }
    }
    let column = |(at, name): (usize, &String)| {
        let values = values.remove(&at).unwrap_or_default();
        let is_text = values.are_words();
        values.column(name, if is_text { "text" } else { "number" }, is_text)
    };
    names.iter().enumerate().map(column).collect()
}

/// The number of rows in `text`, the beginning of a file.
pub(super) fn rows(text: &str, whole: bool, csv: Csv) -> u64 {
    let records = first_records(text, whole, csv, usize::MAX).len();
    records.saturating_sub(usize::from(csv.header)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delimiters_and_headers_are_found() {
        for (text, delimiter, header) in [
            ("id,text\n1,one two\n2,\"three, four\"\n", b',', true),
            ("id;text\n1;one, two, three\n2;four, five\n3;six\n", b';', true),
            ("id\ttext\n1\ta;b\n2\tc;d\n", b'\t', true),
            ("id|name|text\n1|x|a, b\n", b'|', true),
            ("1;one\n2;two\n", b';', false),
            ("a,a\n1,2\n", b',', false),
            ("id,\n1,2\n", b',', false),
            ("id,text\n1,\"a\nb;c;d\"\n2,\"e\nf\"\n", b',', true),
            ("id,text\n1,\"a \\\"b, c\\\"\"\n2,\"d\"\n", b',', true),
            ("just one line of words", b',', true),
            ("", b',', true),
        ] {
            let csv = sniff(text, true).csv;
            assert_eq!((csv.delimiter, csv.header), (delimiter, header), "{text:?}");
        }
    }

    #[test]
    fn a_record_that_is_cut_off_is_left_out() {
        let csv = Csv::new(b',');
        let text = "id,text\n1,one\n2,tw";
        assert_eq!((rows(text, true, csv), rows(text, false, csv)), (2, 1));
        let columns = columns(text, false, csv);
        let found: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.kind.as_str(), c.is_unique)).collect();
        assert_eq!(found, [("id", "number", true), ("text", "text", true)]);
    }

    #[test]
    fn a_table_has_records_that_are_alike() {
        let table = |text: &str| sniff(text, true).is_table();
        assert!(table(&"a\tb\n".repeat(5)));
        assert!(!table(&"a\tb\n".repeat(4)));
        assert!(!table(
            "Dear reader,\nthis is prose, with commas,\nand more, of them,\nin lines\nof its own,\nand so on\n"
        ));
    }

    proptest! {
        #[test]
        fn any_text_has_a_dialect(text in "(?s)[,;\\t|\"\n\r a-c1é]{0,80}", whole: bool) {
            let csv = sniff(&text, whole).csv;
            columns(&text, whole, csv);
            rows(&text, whole, csv);
        }
    }
}
