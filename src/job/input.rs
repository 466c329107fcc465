//! The input of a run: texts, the sketches of a finished output, or several finished outputs.

use serde::{Deserialize, Serialize};

/// The input of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "InputKeys", into = "InputKeys")]
pub enum Input {
    /// The texts of the source.
    #[default]
    Read,
    /// The sketches of a finished output, whose job read the source, and cut and hashed it as this one does.
    Reuse(Reuse),
    /// Finished outputs that become one, in the order in which they were made. Nothing is compared.
    Merge(Vec<String>),
}

/// A finished output whose sketches are reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Its folder or URL prefix.
    pub output: String,
    /// Whether it keeps shingles, so that no text is read again.
    pub keeps_shingles: bool,
}

/// An input as keys of the job in a manifest.
#[derive(Serialize, Deserialize)]
struct InputKeys {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reuse: Option<Reuse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merge: Option<Vec<String>>,
}

impl From<InputKeys> for Input {
    fn from(keys: InputKeys) -> Self {
        match (keys.merge, keys.reuse) {
            (Some(outputs), _) => Input::Merge(outputs),
            (None, Some(reuse)) => Input::Reuse(reuse),
            (None, None) => Input::Read,
        }
    }
}

impl From<Input> for InputKeys {
    fn from(input: Input) -> Self {
        match input {
            Input::Read => InputKeys { reuse: None, merge: None },
            Input::Reuse(reuse) => InputKeys { reuse: Some(reuse), merge: None },
            Input::Merge(outputs) => InputKeys { reuse: None, merge: Some(outputs) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Against, NewPairs, Reference, SameId};

    /// Manifests of this format version have these keys.
    #[test]
    fn manifests_have_keys_that_stay() {
        let inputs = [
            (Input::Read, "{}"),
            (
                Input::Reuse(Reuse { output: "a".into(), keeps_shingles: true }),
                r#"{"reuse":{"output":"a","keeps_shingles":true}}"#,
            ),
            (Input::Merge(vec!["a".into(), "b".into()]), r#"{"merge":["a","b"]}"#),
        ];
        for (input, text) in inputs {
            assert_eq!(serde_json::to_string(&input).unwrap(), text);
            assert_eq!(serde_json::from_str::<Input>(text).unwrap(), input);
        }
        let reference = Reference::Outputs { urls: vec!["a".into()], same_id: SameId::Skip };
        let against = Against { reference, pairs: NewPairs::WithReference };
        let text = r#"{"outputs":["a"],"pairs":"new-old","same_id":"skip"}"#;
        assert_eq!(serde_json::to_string(&against).unwrap(), text);
        assert_eq!(serde_json::from_str::<Against>(text).unwrap(), against);
    }
}
