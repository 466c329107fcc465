//! The kinds of values in the first lines of JSON files.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::line::{ValueKind, for_each_field, with_finite_numbers};
use crate::error::{Error, Result};

/// The maximum depth of objects whose fields a job can name.
const MAX_DEPTH: usize = 32;

/// The kinds of values at one path.
#[derive(Debug, Default, Clone)]
pub(super) struct JsonShape {
    string: bool,
    integer: bool,
    float: bool,
    boolean: bool,
    array: bool,
    items: Option<Box<JsonShape>>,
    fields: BTreeMap<String, JsonShape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Text,
    Id,
    /// The table `documents` contains the column as text.
    Carried,
    /// `source.where` uses the column in a comparison.
    Compared,
}

impl JsonShape {
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(super) fn add_row(&mut self, text: &str) -> serde_json::Result<()> {
        self.add_object(text, MAX_DEPTH).or_else(|error| {
            let finite = with_finite_numbers(text.as_bytes()).and_then(|text| String::from_utf8(text).ok());
            self.add_object(&finite.ok_or(error)?, MAX_DEPTH)
        })
    }

    fn add_object(&mut self, text: &str, depth: usize) -> serde_json::Result<()> {
        for_each_field(text, |name, raw| {
            self.fields.entry(name.into_owned()).or_default().add_value(raw.get(), depth);
            Ok(())
        })
    }

    fn add_value(&mut self, raw: &str, depth: usize) {
        match raw.as_bytes().first() {
            Some(b'n') => {}
            Some(b't' | b'f') => self.boolean = true,
            Some(b'"') => self.string = true,
            Some(b'[') => {
                self.array = true;
                let Some(depth) = depth.checked_sub(1) else { return };
                for item in serde_json::from_str::<Vec<&RawValue>>(raw).unwrap_or_default() {
                    self.items.get_or_insert_default().add_value(item.get(), depth);
                }
            }
            Some(b'{') => {
                if let Some(depth) = depth.checked_sub(1) {
                    // The value is valid JSON, so only a field name can be invalid. A job cannot name such a field.
                    let _ = self.add_object(raw, depth);
                }
            }
            _ if raw.contains(['.', 'e', 'E']) => self.float = true,
            _ => self.integer = true,
        }
    }

    pub(super) fn merge(&mut self, other: &JsonShape) {
        self.string |= other.string;
        self.integer |= other.integer;
        self.float |= other.float;
        self.boolean |= other.boolean;
        self.array |= other.array;
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().merge(items);
        }
        for (name, shape) in &other.fields {
            self.fields.entry(name.clone()).or_default().merge(shape);
        }
    }

    /// Returns the names by which a job refers to the values.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, shape) in &self.fields {
            if shape.fields.is_empty() {
                names.push(name.clone());
            }
            names.extend(shape.names().into_iter().map(|field| format!("{name}.{field}")));
        }
        names
    }

    /// Returns the path of the value called `name`: a column with that name, or a field of a column.
    pub(super) fn path<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
        if self.fields.contains_key(name) {
            return Some(vec![name]);
        }
        let path: Vec<&str> = name.split('.').collect();
        self.at(&path).map(|_| path)
    }

    /// Returns the path of the list that contains the texts called `name`, and the path of the texts in its elements. As in Parquet,
    /// `a[].b` is the field `b` of the objects in the list `a`.
    pub(super) fn texts_in_list(&self, name: &str) -> Option<(Vec<String>, Vec<String>)> {
        let trimmed = |part: &str| part.trim_end_matches("[]").to_owned();
        let mut path = vec![trimmed(name)];
        if !self.fields.contains_key(&path[0]) {
            path = name.split('.').map(trimmed).collect();
        }
        let (mut shape, mut list) = (self, None);
        for (at, part) in path.iter().enumerate() {
            shape = shape.fields.get(part)?;
            while let (Some(items), false, true) = (&shape.items, shape.string, shape.fields.is_empty()) {
                (shape, list) = (items, list.or(Some(at + 1)));
            }
        }
        let inside = path.split_off(list?);
        (shape.string && !shape.array && shape.fields.is_empty()).then_some((path, inside))
    }

    fn at(&self, path: &[&str]) -> Option<&JsonShape> {
        path.iter().try_fold(self, |shape, name| shape.fields.get(*name))
    }

    fn kinds(&self) -> String {
        let kinds = [
            (self.string, "strings"),
            (self.integer, "integers"),
            (self.float, "fractions"),
            (self.boolean, "booleans"),
            (self.array, "arrays"),
            (!self.fields.is_empty(), "objects"),
        ];
        let seen: Vec<&str> = kinds.into_iter().filter(|(seen, _)| *seen).map(|(_, kind)| kind).collect();
        seen.join(" and ")
    }
}

/// Returns the kind that the value called `name` at `path` must have in every row. Fails with `Kind::Job` if the role cannot use the
/// values, and with `Kind::Input` if the ids have several kinds.
pub(super) fn kind_of(shape: &JsonShape, path: &[&str], name: &str, role: Role) -> Result<ValueKind> {
    let Some(shape) = shape.at(path) else {
        return Err(Error::bug(format!("the path of `{name}` was lost")));
    };
    let JsonShape { string, integer, float, boolean, array, items: _, fields } = shape;
    let kinds = || shape.kinds();
    // If other rows have usable values, the reader rejects the rows with arrays or objects.
    if (*array || !fields.is_empty()) && !(*string || *integer || *float || *boolean) {
        let column = match role {
            Role::Text => format!("text column `{name}`"),
            Role::Id => format!("id column `{name}`"),
            Role::Carried => format!("the column `{name}` of `source.columns`"),
            Role::Compared => format!("the column `{name}` of `source.where`"),
        };
        return Err(Error::job(format!(
            "{column} holds {}: name one of their fields, or another column",
            kinds()
        )));
    }
    match (role, *string, *integer || *float, *boolean) {
        (Role::Carried | Role::Compared, ..) => Ok(ValueKind::Any),
        (Role::Text, true, ..) | (Role::Text, _, false, false) => Ok(ValueKind::String),
        (Role::Text, ..) => Err(Error::job(format!("text column `{name}` holds {}, not strings", kinds()))),
        // The sample contains only nulls.
        (Role::Id, false, false, false) => Ok(ValueKind::Any),
        (Role::Id, true, false, false) => Ok(ValueKind::String),
        (Role::Id, false, false, true) => Ok(ValueKind::Boolean),
        (Role::Id, false, true, false) if *float => Ok(ValueKind::Number),
        (Role::Id, false, true, false) => Ok(ValueKind::Integer),
        (Role::Id, ..) => {
            Err(Error::input(format!("id column `{name}` holds {}: ids must be of one type", kinds())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: &[&str]) -> JsonShape {
        let mut shape = JsonShape::default();
        rows.iter().for_each(|row| shape.add_row(row).unwrap());
        shape
    }

    #[test]
    fn a_column_with_a_dot_wins_over_a_field() {
        let both = shape(&[r#"{"a.b": "flat", "a": {"b": "deep"}}"#]);
        assert_eq!(both.path("a.b"), Some(vec!["a.b"]));
        let deep = shape(&[r#"{"a": {"b": "deep"}}"#]);
        assert_eq!(deep.path("a.b"), Some(vec!["a", "b"]));
        assert_eq!(deep.path("a.c"), None);
        assert_eq!(both.names(), ["a.b", "a.b"]);
    }

    #[test]
    fn the_kind_depends_on_all_rows() {
        let rows = shape(&[
            r#"{"n": 1, "m": 1, "x": null, "f": 1}"#,
            r#"{"n": 18446744073709551617, "m": "one", "f": 1e2}"#,
        ]);
        let kind = |name, role| kind_of(&rows, &[name], name, role);
        assert_eq!(kind("n", Role::Id).unwrap(), ValueKind::Integer);
        assert_eq!(kind("f", Role::Id).unwrap(), ValueKind::Number);
        assert_eq!(kind("x", Role::Text).unwrap(), ValueKind::String);
        assert_eq!(kind("x", Role::Id).unwrap(), ValueKind::Any);
        assert_eq!(kind("m", Role::Carried).unwrap(), ValueKind::Any);
        let error = kind("m", Role::Id).unwrap_err();
        assert!(error.to_string().contains("strings and integers"), "{error}");
        assert!(kind("n", Role::Text).is_err());
        assert_eq!(kind("m", Role::Text).unwrap(), ValueKind::String);
        let deep = format!("{{\"x\":{}1{}, \"id\": 2}}", "{\"y\":".repeat(5_000), "}".repeat(5_000));
        let seen = shape(&[&deep]);
        assert_eq!(kind_of(&seen, &["id"], "id", Role::Id).unwrap(), ValueKind::Integer);
    }
}
