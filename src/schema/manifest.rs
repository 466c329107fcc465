//! The contract of `manifest.json`.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};

const TEXT: &str = include_str!("../../schemas/manifest.toml");

/// The file `schemas/manifest.toml`.
#[derive(Deserialize)]
struct ManifestSchema {
    fields: Vec<Field>,
}

/// A key of the manifest.
#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: JsonKind,
}

/// The JSON types that keys have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JsonKind {
    Integer,
    String,
    Array,
    Object,
}

impl JsonKind {
    fn accepts(self, value: &Value) -> bool {
        match self {
            JsonKind::Integer => value.is_u64(),
            JsonKind::String => value.is_string(),
            JsonKind::Array => value.is_array(),
            JsonKind::Object => value.is_object(),
        }
    }
}

/// Whether `manifest` has the keys of `schemas/manifest.toml`, with their types. Further keys pass.
///
/// # Errors
/// [`Kind::Bug`](crate::error::Kind::Bug) with the key and what it should be.
pub(crate) fn check_manifest(manifest: &Value) -> Result<()> {
    let contract: ManifestSchema = toml::from_str(TEXT)
        .map_err(|e| Error::bug("schemas/manifest.toml cannot be read").because(e.to_string()))?;
    for Field { name, kind } in contract.fields {
        if !manifest.get(&name).is_some_and(|value| kind.accepts(value)) {
            return Err(Error::bug(format!(
                "manifest.json has no `{name}` of type {kind:?} (schemas/manifest.toml)"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_keeps_the_contract_and_needs_every_key() {
        let file: serde_json::Map<String, Value> = toml::from_str(TEXT).unwrap();
        let example = &file["example"];
        check_manifest(example).unwrap();
        for key in example.as_object().unwrap().keys() {
            let mut less = example.clone();
            less.as_object_mut().unwrap().remove(key);
            assert!(check_manifest(&less).unwrap_err().to_string().contains(key.as_str()));
        }
    }
}
