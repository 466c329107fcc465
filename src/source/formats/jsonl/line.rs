//! JSON lines: extracts the wanted values of a line as text. Numbers are not parsed, so ids keep all digits. Unwanted fields may be nested
//! to any depth, but must be valid JSON. Some programs write non-finite numbers and lone surrogates, which are invalid. They are replaced
//! by valid text of the same length, so that positions do not change.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, Deserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::library_errors;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ValueKind {
    String,
    /// A number without a fraction or an exponent.
    Integer,
    /// Any number.
    Number,
    Boolean,
    /// A value of any kind.
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

/// A wanted value of each line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JsonValue {
    pub name: String,
    /// The name of the column, then the name of a field in it, and so on.
    pub path: Vec<String>,
    /// The path of the texts in the elements of the list at `path`, or `None` if the value is not a list.
    pub inside: Option<Vec<String>>,
    pub kind: ValueKind,
}

/// The wanted values as a tree. With the tree, a line is parsed once for all values.
#[derive(Debug, Default)]
pub(super) struct WantedFields {
    children: Vec<JsonNode>,
    values: Vec<JsonValue>,
}

#[derive(Debug)]
struct JsonNode {
    field: String,
    /// The index, in the list of wanted values, of this field's value.
    place: Option<usize>,
    children: Vec<JsonNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnusableLine {
    /// The line is not a JSON object, or a value has the wrong kind. Messages show the text after the line number.
    Malformed(String),
    NotUtf8,
}

impl WantedFields {
    pub(super) fn new(values: &[JsonValue]) -> Self {
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

    /// Returns the wanted values of a line, or `None` for a blank line.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Result<Option<Vec<Option<Cow<'a, str>>>>, UnusableLine> {
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

    /// Returns the wanted values of a line in their raw JSON form.
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
        find_fields(line, &self.children, &mut found)?;
        Ok(found)
    }
}

pub(super) fn raw_value<'a>(line: &'a str, path: &[String]) -> Option<&'a str> {
    let value = JsonValue { name: String::new(), path: path.to_vec(), inside: None, kind: ValueKind::Any };
    WantedFields::new(&[value]).written(line).ok()?.pop()?
}

/// Adds the texts at `path` in the elements of a list. The elements may be objects or lists.
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

/// Returns the text of a value, or `None` if the value is null.
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

/// The maximum number of characters of a value that a message shows.
const SHOWN: usize = 40;

fn wrong(name: &str, found: &str, wanted: ValueKind) -> UnusableLine {
    let mut shown: String = found.chars().take(SHOWN).collect();
    if shown.len() < found.len() {
        shown.push_str("...");
    }
    UnusableLine::Malformed(format!("has {shown} for `{name}`, but {} is expected", wanted.name()))
}

fn find_fields<'a>(
    text: &'a str,
    nodes: &[JsonNode],
    found: &mut [Option<&'a RawValue>],
) -> Result<(), UnusableLine> {
    let mut values: Vec<Option<&'a RawValue>> = vec![None; nodes.len()];
    let read = for_each_field(text, |name, raw| {
        // A linear search is fastest for a small number of names.
        let Some(at) = nodes.iter().position(|node| node.field == name) else { return Ok(()) };
        match values[at].replace(raw) {
            Some(_) => Err(format!("has `{name}` twice")),
            None => Ok(()),
        }
    });
    read.map_err(|error| UnusableLine::Malformed(reason(text, &error)))?;
    for (node, raw) in nodes.iter().zip(values) {
        let Some(raw) = raw else { continue };
        if let Some(place) = node.place {
            found[place] = Some(raw);
        }
        let Some(child) = node.children.first() else { continue };
        match raw.get().as_bytes().first() {
            Some(b'{') => find_fields(raw.get(), &node.children, found)?,
            Some(b'n') => {}
            _ => {
                let (field, child) = (&node.field, &child.field);
                return Err(UnusableLine::Malformed(format!(
                    "has no object `{field}`, so it has no `{child}`"
                )));
            }
        }
    }
    Ok(())
}

/// Calls `take` with the name and the value of each field of the object in `text`, until `take` returns an error.
pub(super) fn for_each_field<'a>(
    text: &'a str,
    take: impl FnMut(Cow<'a, str>, &'a RawValue) -> Result<(), String>,
) -> serde_json::Result<()> {
    /// A field name that is copied only if it contains escapes.
    #[derive(Deserialize)]
    struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);
    struct Fields<F>(F);

    impl<'a, F: FnMut(Cow<'a, str>, &'a RawValue) -> Result<(), String>> Visitor<'a> for Fields<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
            while let Some((FieldName(name), raw)) = map.next_entry()? {
                (self.0)(name, raw).map_err(de::Error::custom)?;
            }
            Ok(())
        }
    }

    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(Fields(take))?;
    reader.end()
}

/// Describes why a text is not a usable object.
fn reason(text: &str, error: &serde_json::Error) -> String {
    if error.is_data() && text.trim_ascii_start().starts_with('{') {
        // In an object, the only such error is the one that `take` returned: a repeated field.
        return library_errors::json_without_place(&error.to_string()).to_owned();
    }
    if error.is_data() {
        return "is not a JSON object: each document must be one".to_owned();
    }
    format!("is not JSON ({})", library_errors::json_at_byte(&error.to_string()))
}

/// Numbers that Python writes but JSON does not allow, each with a valid number of the same length.
const NOT_FINITE: [(&[u8], &[u8]); 2] = [(b"NaN", b"0e0"), (b"Infinity", b"0e000000")];

/// The length of an escape `\u` with four digits.
const ESCAPE: usize = 6;

/// Replaces `NaN` and `Infinity` outside of strings with numbers. Returns `None` if the line contains neither.
pub(super) fn with_finite_numbers(line: &[u8]) -> Option<Vec<u8>> {
    let (mut finite, mut at, mut in_string) = (line.to_vec(), 0, false);
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    while let Some(byte) = line.get(at) {
        let number = NOT_FINITE.into_iter().find(|(name, _)| {
            let is_alone = !is_word(line.get(at + name.len())) && !is_word(line[..at].last());
            !in_string && is_alone && line[at..].starts_with(name)
        });
        at += match (number, byte) {
            (Some((_, number)), _) => {
                finite[at..at + number.len()].copy_from_slice(number);
                number.len()
            }
            (None, b'\\') if in_string => 2,
            (None, byte) => {
                in_string ^= *byte == b'"';
                1
            }
        };
    }
    (finite != line).then_some(finite)
}

/// Replaces each escape of a lone surrogate with U+FFFD.
pub(super) fn with_whole_pairs(line: &[u8]) -> Cow<'_, [u8]> {
    let unit = |at: usize| {
        let digits = line.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut whole, mut at) = (Cow::Borrowed(line), 0);
    while let Some(before) = line.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += before;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 2 * ESCAPE,
            (Some(0xD800..0xE000), _) => {
                whole.to_mut()[at + 2..at + ESCAPE].copy_from_slice(b"fffd");
                ESCAPE
            }
            _ => 2,
        };
    }
    whole
}

/// Replaces non-finite numbers and lone surrogates, for callers that do not depend on the replaced values.
pub(crate) fn readable(line: &[u8]) -> Cow<'_, [u8]> {
    let whole = with_whole_pairs(line);
    with_finite_numbers(&whole).map_or(whole, Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn values_are_the_text_in_the_line() {
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
            ("[1]", "is not a JSON object: each document must be one"),
            ("7", "is not a JSON object: each document must be one"),
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
    fn other_fields_may_be_nested_to_any_depth() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line = format!("{{\"x\":{deep},\"id\":1}}");
        assert_eq!(read(&[value("id", ValueKind::Integer)], &line).unwrap(), [Some("1".to_owned())]);
        let open = format!("{{\"x\":{},\"id\":1}}", "[".repeat(100_000));
        assert!(read(&[value("id", ValueKind::Integer)], &open).is_err());
    }

    fn finite(line: &str) -> Option<String> {
        with_finite_numbers(line.as_bytes()).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn non_finite_numbers_outside_of_strings_are_replaced() {
        for (line, expected) in [
            (r#"{"a":NaN,"b":[-Infinity, Infinity]}"#, Some(r#"{"a":0e0,"b":[-0e000000, 0e000000]}"#)),
            (r#"{"NaN":"NaN \" NaN"}"#, None),
            (r#"{"a":NaN0,"b":1NaN,"c":NaNs}"#, None),
            (r#"{"a":"\\","b":NaN}"#, Some(r#"{"a":"\\","b":0e0}"#)),
        ] {
            assert_eq!(finite(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        for (line, expected) in [
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"a\uD83Db", r"a\ufffdb"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\ud83d\n", r"\ufffd\n"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\ud8", r"\ud8"),
        ] {
            assert_eq!(&*with_whole_pairs(line.as_bytes()), expected.as_bytes(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn positions_do_not_change(line in r#"([\\"{}a1:,-]|NaN|Infinity|\\u[dD][89cC]00){0,20}"#) {
            prop_assert_eq!(readable(line.as_bytes()).len(), line.len());
        }
    }
}
