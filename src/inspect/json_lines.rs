//! JSON lines: whether a file has them, and their columns.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::column::{ColumnSample, InspectedColumn};
use crate::source::readable_json;

/// Lines from which columns are known.
const SAMPLED: usize = 1000;
/// Nested objects whose fields are columns.
const MAX_DEPTH: usize = 32;

/// Whether a file that begins with `text` has an object in its first line that is not blank. Its values are not parsed: a line
/// may be longer than `text`, or have values such as NaN.
pub(super) fn are_there(text: &str, whole: bool) -> bool {
    let Some(line) = lines(text, true).next().map(str::trim) else { return false };
    let inside = line.strip_prefix('{').map(str::trim_start);
    let begins = inside.is_some_and(|inside| inside.starts_with(['"', '}']));
    begins && (line.ends_with('}') || !whole && text.trim_end().ends_with(line))
}

/// Whether a file that begins with `text` is an array of objects.
pub(super) fn is_array(text: &str) -> bool {
    text.trim_start().strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with('{'))
}

fn object(line: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&readable_json(line.as_bytes())).ok()
}

/// The lines that are not blank, without one that the end of `text` cuts off.
fn lines(text: &str, whole: bool) -> impl Iterator<Item = &str> {
    let end = match whole {
        true => text.len(),
        false => text.rfind(['\n', '\r']).map_or(0, |at| at + 1),
    };
    // Where files were concatenated, lines may begin with byte order marks.
    let lines = text[..end].split(['\n', '\r']).map(|line| line.trim_start_matches('\u{feff}'));
    lines.filter(|line| !line.trim().is_empty())
}

/// The number of rows in `text`, the beginning of a file.
pub(super) fn rows(text: &str, whole: bool) -> u64 {
    lines(text, whole).count() as u64
}

/// The kinds of the values of a column.
#[derive(Debug, Default)]
struct Kinds {
    values: ColumnSample,
    strings: u64,
    number: bool,
    boolean: bool,
    array: bool,
}

/// The columns of a file that begins with `text`; a field `b` of the object `a` is `a.b`. Lines that are not objects have none.
pub(super) fn columns(text: &str, whole: bool) -> Vec<InspectedColumn> {
    let mut columns: BTreeMap<String, Kinds> = BTreeMap::new();
    let mut rows = 0;
    for object in lines(text, whole).filter_map(object).take(SAMPLED) {
        let mut fields = Vec::new();
        flatten("", object, MAX_DEPTH, &mut fields);
        for (name, value) in fields {
            let kinds = columns.entry(name).or_default();
            // Rows in which the field was missing so far.
            (kinds.values.rows()..rows).for_each(|_| kinds.values.add(None));
            kinds.add(&value);
        }
        rows += 1;
    }
    let column = |(name, mut kinds): (String, Kinds)| {
        (kinds.values.rows()..rows).for_each(|_| kinds.values.add(None));
        // Rows with other values are rejects.
        let is_text = 2 * kinds.strings > kinds.values.filled() && kinds.values.are_words();
        let kind = kinds.shown();
        kinds.values.column(&name, &kind, is_text)
    };
    columns.into_iter().map(column).collect()
}

impl Kinds {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => return self.values.add(None),
            Value::Bool(_) => self.boolean = true,
            Value::Number(_) => self.number = true,
            Value::Array(_) | Value::Object(_) => self.array = true,
            Value::String(text) => {
                self.strings += 1;
                return self.values.add(Some(text));
            }
        }
        self.values.add(Some(&value.to_string()));
    }

    fn shown(&self) -> String {
        let kinds = [
            (self.strings > 0, "text"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.array, "array"),
        ];
        let met: Vec<&str> = kinds.into_iter().filter(|(met, _)| *met).map(|(_, kind)| kind).collect();
        if met.is_empty() { "null".to_owned() } else { met.join(" or ") }
    }
}

/// Adds the fields of an object, and of the objects in it, to `fields`.
fn flatten(above: &str, object: Map<String, Value>, depth: usize, fields: &mut Vec<(String, Value)>) {
    for (name, value) in object {
        let name = if above.is_empty() { name } else { format!("{above}.{name}") };
        match (value, depth.checked_sub(1)) {
            (Value::Object(inner), Some(depth)) => flatten(&name, inner, depth, fields),
            (value, _) => fields.push((name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_columns() {
        let text = "{\"id\": 1, \"meta\": {\"title\": \"one\"}, \"n\": \"5\"}\n\n[1]\n{\"id\": 2, \"tags\": []}\n{\"id\": 3";
        let found: Vec<_> =
            columns(text, false).into_iter().map(|c| (c.name, c.kind, c.is_text, c.is_unique)).collect();
        let expected = [
            ("id", "number", false, true),
            ("meta.title", "text", true, false),
            ("n", "text", false, false),
            ("tags", "array", false, false),
        ];
        assert_eq!(
            found,
            expected.map(|(name, kind, text, unique)| (name.into(), kind.into(), text, unique))
        );
        assert_eq!((rows(text, false), rows(text, true)), (3, 4));
    }

    #[test]
    fn an_object_on_a_line_is_a_row() {
        for row in ["\n {\"a\": 1}\n{", "{}", "{\"a\": NaN}\n"] {
            assert!(are_there(row, true), "{row}");
        }
        for other in ["", "[]", "{\n\"a\": 1}", "words", "{\"a\": 1} words", "{words}"] {
            assert!(!are_there(other, true), "{other}");
        }
        let long = "{\"a\": \"a line that is longer than";
        assert!(are_there(long, false) && !are_there(long, true));
        assert!(is_array(" [\n{\"a\"") && !is_array("[1]") && !is_array("[words]"));
    }

    proptest! {
        #[test]
        fn any_text_has_columns(text in "(?s)[{}\\[\\]\":,a1\n ]{0,60}", whole: bool) {
            columns(&text, whole);
            rows(&text, whole);
            are_there(&text, whole);
        }
    }
}
