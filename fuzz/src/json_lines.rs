//! JSON lines: how often the first line is repeated, the size of chunks, and the lines.

use resemblance::job::{Csv, Format, Id};
use serde_json::Value;

use super::reading::{Reading, outcome};

/// Rows from which columns and their types are taken, and some more.
const MANY: usize = 1_100;

/// However the bytes come in, the same rows come out; where each line is an object, its strings are the rows'.
pub fn check(bytes: &[u8]) {
    let [repeat, chunk, file @ ..] = bytes else { return };
    let mut lines = Vec::new();
    if repeat % 8 == 7
        && let Some(end) = file.iter().position(|byte| *byte == b'\n')
        && end < 200
    {
        lines.extend(std::iter::repeat_n(&file[..=end], MANY).flatten());
    }
    lines.extend(file);
    let reading = Reading {
        format: Format::Jsonl,
        name: "documents.jsonl",
        id: Id::Columns(vec!["id".into()]),
        text: vec!["text".into()],
        csv: Csv { delimiter: b',', header: true, quote: b'"' },
    };
    let whole = reading.rows(&lines, usize::MAX);
    let size = if lines.len() > file.len() { 997 } else { 1 + usize::from(*chunk) };
    let chunks = reading.rows(&lines, size);
    assert_eq!(outcome(&chunks), outcome(&whole), "in chunks of {size}");

    let (Ok(rows), Some(objects)) = (whole, objects(&lines)) else { return };
    assert_eq!(rows.len(), objects.len());
    for (row, object) in rows.iter().zip(&objects) {
        match &object["text"] {
            Value::String(text) => assert_eq!(row.text.as_ref(), Some(text)),
            Value::Null => assert_eq!(row.text, None),
            other => panic!("{other} was taken for a text: {row:?}"),
        }
        match &object["id"] {
            Value::String(id) => assert_eq!(row.id.as_ref(), Some(id)),
            Value::Null => assert_eq!(row.id, None),
            // A number has several forms as text, all of which are the same number.
            Value::Number(number) => {
                let id = row.id.as_deref().unwrap_or_default();
                let whole = number.is_u64() || number.is_i64();
                let same = if whole { number.to_string() == id } else { id.parse().ok() == number.as_f64() };
                assert!(same, "{number} became the id {id:?}");
            }
            _ => {}
        }
    }
}

/// The lines as objects; none where a line is no object, or says something twice.
fn objects(lines: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(lines).ok()?;
    let mut objects = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let object: Value = serde_json::from_str(line).ok()?;
        let twice = line.matches("\"text\"").count() > 1 || line.matches("\"id\"").count() > 1;
        if !object.is_object() || twice || line.contains('\\') {
            return None;
        }
        objects.push(object);
    }
    Some(objects)
}
