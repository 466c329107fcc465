//! JSON lines: a line -> the wanted values, as the text in it.
//!
//! Numbers are not parsed: an id is the text in the file, to the last digit. Other fields are skipped, however deep they are
//! nested, but must be JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lenient::with_finite_numbers;
use crate::error::library_errors;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ValueKind {
    /// A string.
    String,
    /// A number without a fraction and without an exponent.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any of these.
    Any,
}

impl ValueKind {
    fn name(self) -> &'static str {
        match self {
            ValueKind::String => "a string",
            ValueKind::Integer => "an integer",
            ValueKind::Number => "a number",
            ValueKind::Boolean => "true or false",
            ValueKind::Any => "a string or a number",
        }
    }

    fn takes(self, other: ValueKind) -> bool {
        self == other || self == ValueKind::Any || (self == ValueKind::Number && other == ValueKind::Integer)
    }
}

/// A value that is wanted of each line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JsonValue {
    /// The job's name for it.
    pub name: String,
    /// The column, the field in it, and so on.
    pub path: Vec<String>,
    /// The path of the texts in the elements of the list at `path`; `None` if the value is no list.
    pub inside: Option<Vec<String>>,
    /// The kind that it must have, unless it is null.
    pub kind: ValueKind,
}

/// The wanted values as a tree, so that a line is read once.
#[derive(Debug, Default)]
pub(super) struct WantedFields {
    children: Vec<JsonNode>,
    values: Vec<JsonValue>,
}

#[derive(Debug)]
struct JsonNode {
    field: String,
    /// The index of the value in this field.
    place: Option<usize>,
    children: Vec<JsonNode>,
}

/// Why a line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnusableLine {
    /// The line is not JSON, not an object, or a value has another kind: the text after the number of the line in a message.
    Malformed(String),
    /// The line is not UTF-8.
    NotUtf8,
}

impl WantedFields {
    /// The tree of `values`.
    pub(crate) fn new(values: &[JsonValue]) -> Self {
        let mut wanted = Self::default();
        for (place, value) in values.iter().enumerate() {
            let mut level = &mut wanted.children;
            for (depth, field) in value.path.iter().enumerate() {
                let at = level.iter().position(|node| &node.field == field).unwrap_or_else(|| {
                    level.push(JsonNode { field: field.clone(), place: None, children: Vec::new() });
                    level.len() - 1
                });
                let node = &mut level[at];
                if depth + 1 == value.path.len() {
                    node.place = Some(place);
                }
                level = &mut node.children;
            }
            wanted.values.push(value.clone());
        }
        wanted
    }

    /// The wanted values of a line; none for a line without anything in it.
    pub(crate) fn read<'a>(&self, line: &'a [u8]) -> Result<Option<Vec<Option<Cow<'a, str>>>>, UnusableLine> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let line = std::str::from_utf8(line).map_err(|_| UnusableLine::NotUtf8)?;
        let value = |(raw, wanted): (Option<&'a str>, &JsonValue)| match (raw, &wanted.inside) {
            (Some(raw), None) => value_of(raw, &wanted.name, wanted.kind),
            (Some(raw), Some(path)) if raw != "null" => {
                let mut texts = Vec::new();
                gather(raw, &wanted.name, path, &mut texts)?;
                Ok(Some(Cow::Owned(texts.join("\n"))))
            }
            (Some(_) | None, _) => Ok(None),
        };
        self.written(line)?.into_iter().zip(&self.values).map(value).collect::<Result<_, _>>().map(Some)
    }

    /// The wanted values as they are written in a line.
    fn written<'a>(&self, line: &'a str) -> Result<Vec<Option<&'a str>>, UnusableLine> {
        let error = match self.found(line) {
            Ok(found) => return Ok(found.into_iter().map(|raw| raw.map(RawValue::get)).collect()),
            Err(error) => error,
        };
        let finite = with_finite_numbers(line.as_bytes()).and_then(|finite| String::from_utf8(finite).ok());
        let Some(finite) = finite else { return Err(error) };
        let same_place = |raw: &RawValue| {
            let start = (raw.get().as_ptr() as usize).checked_sub(finite.as_ptr() as usize)?;
            line.get(start..start + raw.get().len())
        };
        Ok(self.found(&finite)?.into_iter().map(|raw| raw.and_then(same_place)).collect())
    }

    fn found<'a>(&self, line: &'a str) -> Result<Vec<Option<&'a RawValue>>, UnusableLine> {
        let mut found = vec![None; self.values.len()];
        fields(line, &self.children, &mut found)?;
        Ok(found)
    }
}

/// The value at `path` as it is written in a line; `None` if the line has none.
pub(super) fn raw_value<'a>(line: &'a str, path: &[String]) -> Option<&'a str> {
    let value = JsonValue { name: String::new(), path: path.to_vec(), inside: None, kind: ValueKind::Any };
    WantedFields::new(&[value]).written(line).ok()?.pop()?
}

/// Adds the texts at `path` in a list, in an object of it, or in lists of these.
fn gather<'a>(
    raw: &'a str,
    name: &str,
    path: &[String],
    to: &mut Vec<Cow<'a, str>>,
) -> Result<(), UnusableLine> {
    let damaged = |error: serde_json::Error| UnusableLine::Malformed(reason(raw, &error));
    match (raw.as_bytes().first(), path) {
        (Some(b'['), _) => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(damaged)?;
            items.into_iter().try_for_each(|item| gather(item.get(), name, path, to))
        }
        (Some(b'{'), [field, rest @ ..]) => {
            let mut fields: HashMap<String, &RawValue> = serde_json::from_str(raw).map_err(damaged)?;
            fields.remove(field).map_or(Ok(()), |value| gather(value.get(), name, rest, to))
        }
        (Some(b'n'), _) => Ok(()),
        (_, []) => {
            to.extend(value_of(raw, name, ValueKind::String)?);
            Ok(())
        }
        _ => Err(wrong(name, raw, ValueKind::String)),
    }
}

/// The text of a value; `None` if it is null.
fn value_of<'a>(raw: &'a str, name: &str, wanted: ValueKind) -> Result<Option<Cow<'a, str>>, UnusableLine> {
    let (kind, found) = match raw.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'"') => (ValueKind::String, "a string"),
        Some(b't' | b'f') => (ValueKind::Boolean, raw),
        Some(b'{') => return Err(wrong(name, "an object", wanted)),
        Some(b'[') => return Err(wrong(name, "an array", wanted)),
        _ if raw.contains(['.', 'e', 'E', 'N', 'I']) => (ValueKind::Number, raw),
        _ => (ValueKind::Integer, raw),
    };
    if !wanted.takes(kind) {
        return Err(wrong(name, found, wanted));
    }
    if kind != ValueKind::String {
        return Ok(Some(Cow::Borrowed(raw)));
    }
    match raw.get(1..raw.len() - 1) {
        Some(inside) if !inside.contains('\\') => Ok(Some(Cow::Borrowed(inside))),
        _ => match serde_json::from_str::<String>(raw) {
            Ok(text) => Ok(Some(Cow::Owned(text))),
            Err(error) => {
                Err(UnusableLine::Malformed(format!("has a string `{name}` that is not text ({error})")))
            }
        },
    }
}

/// Characters of a value that a message shows.
const SHOWN: usize = 40;

fn wrong(name: &str, found: &str, wanted: ValueKind) -> UnusableLine {
    let mut shown: String = found.chars().take(SHOWN).collect();
    if shown.len() < found.len() {
        shown.push_str("...");
    }
    UnusableLine::Malformed(format!("has {shown} for `{name}`, but {} is expected", wanted.name()))
}

/// Finds the wanted fields of the object in `text`.
fn fields<'a>(
    text: &'a str,
    nodes: &[JsonNode],
    found: &mut [Option<&'a RawValue>],
) -> Result<(), UnusableLine> {
    let mut nested: Vec<(usize, &'a RawValue)> = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let object = Object { nodes, found, nested: &mut nested };
    let read = object.deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|error| UnusableLine::Malformed(reason(text, &error)))?;
    for (at, raw) in nested {
        let Some(node) = nodes.get(at) else { continue };
        match raw.get().as_bytes().first() {
            Some(b'{') => fields(raw.get(), &node.children, found)?,
            Some(b'n') => {}
            _ => {
                return Err(UnusableLine::Malformed(format!(
                    "has no object `{}`, so it has no `{}`",
                    node.field,
                    node.children.first().map_or("a field", |child| &child.field)
                )));
            }
        }
    }
    Ok(())
}

/// Why the text is not a usable object.
fn reason(text: &str, error: &serde_json::Error) -> String {
    if error.is_data() && text.trim_ascii_start().starts_with('{') {
        // An error of this program: a repeated field.
        return library_errors::json_without_place(&error.to_string()).to_owned();
    }
    if error.is_data() {
        return "is not a JSON object: each line must be one".to_owned();
    }
    format!("is not JSON ({})", library_errors::json_at_byte(&error.to_string()))
}

/// Reads an object's fields.
struct Object<'n, 'f, 'a> {
    nodes: &'n [JsonNode],
    found: &'f mut [Option<&'a RawValue>],
    /// The fields that have wanted fields, with the indices of their nodes.
    nested: &'f mut Vec<(usize, &'a RawValue)>,
}

impl<'a> DeserializeSeed<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        // Names are few: a linear search is the fastest.
        let mut seen = vec![false; self.nodes.len()];
        while let Some(at) = map.next_key_seed(Field(self.nodes))? {
            let Some((node, seen)) = at.and_then(|at| self.nodes.get(at).zip(seen.get_mut(at))) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(seen, true) {
                return Err(de::Error::custom(format_args!("has `{}` twice", node.field)));
            }
            let raw: &'a RawValue = map.next_value()?;
            if let Some(found) = node.place.and_then(|place| self.found.get_mut(place)) {
                *found = Some(raw);
            }
            if let (false, Some(at)) = (node.children.is_empty(), at) {
                self.nested.push((at, raw));
            }
        }
        Ok(())
    }
}

/// Reads the name of a field: the index of its node, if it is wanted.
struct Field<'n>(&'n [JsonNode]);

impl<'a> DeserializeSeed<'a> for Field<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Field<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|node| node.field == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, kind: ValueKind) -> JsonValue {
        let path = name.split('.').map(str::to_owned).collect();
        JsonValue { name: name.into(), path, inside: None, kind }
    }

    fn read(values: &[JsonValue], line: &str) -> Result<Vec<Option<String>>, String> {
        match WantedFields::new(values).read(line.as_bytes()) {
            Ok(found) => Ok(found.unwrap().into_iter().map(|v| v.map(Cow::into_owned)).collect()),
            Err(UnusableLine::Malformed(said)) => Err(said),
            Err(UnusableLine::NotUtf8) => Err("not UTF-8".into()),
        }
    }

    #[test]
    fn values_are_the_text_in_the_file() {
        let values = [value("id", ValueKind::Number), value("a.b", ValueKind::String)];
        for (id, expected) in [
            ("7", "7"),
            ("9007199254740993.0", "9007199254740993.0"),
            ("1e2", "1e2"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("-0", "-0"),
        ] {
            let line = format!("{{\"x\":[1,{{}}],\"id\": {id} ,\"a\":{{\"c\":1,\"b\":\"\\u00e9\\n\"}}}}");
            assert_eq!(read(&values, &line).unwrap(), [Some(expected.to_owned()), Some("é\n".to_owned())]);
        }
        assert_eq!(read(&values, "{\"a\":null}").unwrap(), [None, None]);
        assert_eq!(read(&values, "{\"a\":{\"b\":null},\"id\":null}").unwrap(), [None, None]);
        assert_eq!(WantedFields::new(&values).read(b" \r").unwrap(), None);
    }

    #[test]
    fn other_kinds_are_errors() {
        let integer = [value("id", ValueKind::Integer)];
        for (line, says) in [
            ("{\"id\":5.7}", "has 5.7 for `id`, but an integer is expected"),
            ("{\"id\":1e2}", "has 1e2 for `id`"),
            ("{\"id\":\"007\"}", "has a string for `id`"),
            ("{\"id\":true}", "has true for `id`"),
            ("{\"id\":[1]}", "has an array for `id`"),
            ("{\"id\":{\"x\":1}}", "has an object for `id`"),
            ("{\"id\":1,\"id\":2}", "has `id` twice"),
            ("{\"id\":007}", "is not JSON (invalid number"),
            ("{\"id\":1} {\"id\":2}", "is not JSON (trailing characters"),
            ("{\"id\":1", "is not JSON (EOF while parsing an object at byte 7)"),
            ("[1]", "is not a JSON object: each line must be one"),
            ("7", "is not a JSON object: each line must be one"),
        ] {
            let said = read(&integer, line).unwrap_err();
            assert!(said.starts_with(says), "{line}: {said}");
        }
        let nested = [value("a.b", ValueKind::String)];
        let said = read(&nested, "{\"a\":\"x\"}").unwrap_err();
        assert_eq!(said, "has no object `a`, so it has no `b`");
        let said = read(&[value("t", ValueKind::String)], "{\"t\":\"\\ud800\"}").unwrap_err();
        assert!(said.starts_with("has a string `t` that is not text"), "{said}");
        assert_eq!(WantedFields::new(&nested).read(b"{\"x\":\"\xE9\"}"), Err(UnusableLine::NotUtf8));
    }

    #[test]
    fn unwanted_fields_may_be_nested_to_any_depth() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line = format!("{{\"x\":{deep},\"id\":1}}");
        assert_eq!(read(&[value("id", ValueKind::Integer)], &line).unwrap(), [Some("1".to_owned())]);
        let open = format!("{{\"x\":{},\"id\":1}}", "[".repeat(100_000));
        assert!(read(&[value("id", ValueKind::Integer)], &open).is_err());
    }
}
