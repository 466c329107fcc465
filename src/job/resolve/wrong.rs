//! A rule that the value of a key breaks.

use std::borrow::Cow;

/// A rule that the value of a key breaks: a message is the key's name and `said`.
pub(crate) struct Wrong {
    pub(crate) key: Cow<'static, str>,
    pub(crate) said: String,
}

pub(crate) type Checked<T> = std::result::Result<T, Wrong>;

pub(super) fn wrong<T>(key: &'static str, said: impl Into<String>) -> Checked<T> {
    Err(Wrong { key: key.into(), said: said.into() })
}
