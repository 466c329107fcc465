//! The variables of the environment, as stores read them.

use std::collections::BTreeMap;

/// Environment variables. An empty one is none, as where a compose file passes on what is not set, and the white space
/// around a value is not a part of it: a secret that is mounted as a file ends in a line break.
pub(super) struct Variables(pub(super) BTreeMap<String, String>);

impl Variables {
    /// The value of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Those whose names start with `prefix`.
    pub(super) fn starting(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.as_str(), value.trim())).filter(|(_, value)| !value.is_empty())
    }
}
