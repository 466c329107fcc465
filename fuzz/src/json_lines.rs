//! JSON lines: how often the first line is repeated, the size of chunks, and the lines.

use resemblance::job::Format;
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
    let reading = Reading::of(Format::Jsonl, "documents.jsonl");
    let whole = reading.rows(&lines, usize::MAX);
    let size = if lines.len() > file.len() { 997 } else { 1 + usize::from(*chunk) };
    let chunks = reading.rows(&lines, size);
    assert_eq!(outcome(&chunks), outcome(&whole), "in chunks of {size}");

    let (Ok(rows), Some(objects)) = (whole, objects(&lines)) else { return };
    assert_eq!(rows.len(), objects.len());
    for (row, (line, object)) in rows.iter().zip(&objects) {
        match &object["text"] {
            Value::String(text) => assert_eq!(row.text.as_ref(), Some(text)),
            Value::Null => assert_eq!(row.text, None),
            other => panic!("{other} was taken for a text: {row:?}"),
        }
        match &object["id"] {
            Value::String(id) => assert_eq!(row.id.as_ref(), Some(id)),
            Value::Null => assert_eq!(row.id, None),
            Value::Number(_) => {
                let written = literal(line);
                let id = row.id.as_deref().unwrap_or_default();
                assert!(
                    decimal(id).is_some() && decimal(id) == decimal(written),
                    "{written} became the id {id:?}"
                );
            }
            _ => {}
        }
    }
}

/// The lines as objects; `None` if a line is not an object, or has a key twice.
fn objects(lines: &[u8]) -> Option<Vec<(&str, Value)>> {
    let text = std::str::from_utf8(lines).ok()?;
    let mut objects = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let object: Value = serde_json::from_str(line).ok()?;
        let twice = line.matches("\"text\"").count() > 1 || line.matches("\"id\"").count() > 1;
        if !object.is_object() || twice || line.contains('\\') {
            return None;
        }
        objects.push((line, object));
    }
    Some(objects)
}

/// The value of the id as it is written.
fn literal(line: &str) -> &str {
    let behind = line.split_once("\"id\"").map_or("", |(_, behind)| behind);
    let value = behind.trim_start().trim_start_matches(':').trim_start();
    value.split(|c: char| c == ',' || c == '}' || c.is_whitespace()).next().unwrap_or_default()
}

/// A number as sign, digits and power of ten, the same for all forms of it: `1.50` and `15e-1` are (false, 15, -1).
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = power.parse::<i64>().ok()?.checked_sub(part.len() as i64)?;
    let short = digits.trim_end_matches('0');
    let zeros = (digits.len() - short.len()) as i64;
    match short.trim_start_matches('0') {
        "" => Some((false, "0".into(), 0)),
        digits => Some((negative, digits.into(), power.checked_add(zeros)?)),
    }
}
