//! CSV: the marks, the size of chunks, and the records.

use resemblance::job::{Csv, Format, SourceId};

use super::reading::{Reading, Row, outcome};

/// However the bytes come in, the same rows come out; without quotes they are what splitting gives.
pub fn check(bytes: &[u8]) {
    let [marks, chunk, file @ ..] = bytes else { return };
    let csv = Csv {
        header: marks & 4 != 0,
        quote: Some(if marks & 8 != 0 { b'\'' } else { b'"' }),
        quotes_end_in_line: marks & 16 != 0,
        escape: (marks & 32 != 0).then_some(b'\\'),
        ..Csv::new([b',', b'\t', b';', b'|'][usize::from(marks & 3)])
    };
    let (id, text) = match csv.header {
        true => (SourceId::Columns(vec!["id".into()]), "text".to_owned()),
        false => (SourceId::RowNumber, "column_1".to_owned()),
    };
    let reading = Reading { format: Format::Csv, name: "documents.csv", id, text: vec![text], csv };
    let whole = reading.rows(file, usize::MAX);
    let chunks = reading.rows(file, 1 + usize::from(*chunk));
    assert_eq!(outcome(&chunks), outcome(&whole), "in chunks of {}", 1 + usize::from(*chunk));
    if let (Ok(rows), Some(expected)) = (whole, split(file, csv)) {
        let texts: Vec<&str> = rows.iter().map(text_of).collect();
        assert_eq!(texts, expected);
    }
}

/// A field without characters may be read as none.
fn text_of(row: &Row) -> &str {
    row.text.as_deref().unwrap_or_default()
}

/// The first field of each record; `None` if splitting alone does not find it.
fn split(file: &[u8], csv: Csv) -> Option<Vec<&str>> {
    let text = std::str::from_utf8(file).ok()?;
    if csv.header || text.contains(['"', '\'', '\\', '\r', '\u{feff}']) {
        return None;
    }
    let records = text.split('\n').filter(|record| !record.is_empty());
    Some(records.map(|record| record.split(char::from(csv.delimiter)).next().unwrap_or_default()).collect())
}
