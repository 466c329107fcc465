//! A rule that the value of a key breaks.

use std::borrow::Cow;

/// A rule that the value of a key breaks: the message is the key's name and `fault`.
pub(crate) struct Wrong {
    pub(crate) key: Cow<'static, str>,
    pub(crate) fault: String,
}

pub(crate) type Checked<T> = std::result::Result<T, Wrong>;

pub(super) fn wrong<T>(key: &'static str, fault: impl Into<String>) -> Checked<T> {
    Err(Wrong { key: key.into(), fault: fault.into() })
}

/// Refuses the value of `key` unless its rule is met.
pub(super) fn require(is_met: bool, key: &'static str, fault: impl Into<String>) -> Checked<()> {
    if is_met { Ok(()) } else { wrong(key, fault) }
}
