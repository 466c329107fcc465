//! JSON as YAML in blocks, which people can read. Strings are quoted as in JSON, which is YAML too.

use std::fmt::Write;

use serde_json::Value;

/// The value as a YAML document.
pub(crate) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes a value whose lines begin with `depth` times two blanks. Those of its first line are there already.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = |text: &mut String, first: bool| {
        if !first {
            text.extend(std::iter::repeat_n("  ", depth));
        }
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (at, (key, value)) in fields.iter().enumerate() {
                indent(text, at == 0);
                text.push_str(key);
                text.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => nested(value, depth + 1, text),
                    Value::Array(inner) if !inner.is_empty() => nested(value, depth + 1, text),
                    scalar => line(scalar, text),
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                indent(text, at == 0);
                text.push('-');
                match item {
                    Value::Object(inner) if !inner.is_empty() => {
                        text.push(' ');
                        block(item, depth + 1, text);
                    }
                    other => line(other, text),
                }
            }
        }
        scalar => line(scalar, text),
    }
}

/// A value on lines of its own.
fn nested(value: &Value, depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
    block(value, depth, text);
}

/// A value at the end of a line.
fn line(value: &Value, text: &mut String) {
    // Writing to a string does not fail.
    let _ = writeln!(text, " {value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_lists_are_blocks() {
        let value = json!({
            "a": "1: \"x\"\n# y", "b": [], "c": [1, { "d": true, "e": { "f": [null, [2, 3]] } }], "g": {},
        });
        let expected = "a: \"1: \\\"x\\\"\\n# y\"\nb: []\nc:\n  - 1\n  - d: true\n    e:\n      f:\n        - null\n        - [2,3]\ng: {}\n";
        assert_eq!(yaml(&value), expected);
    }
}
