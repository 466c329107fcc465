//! Names of the files that a run writes: they carry the attempt that wrote them, and an ending that no other program gives.
//!
//! ```text
//! part-00003-0123456789abcdef0123456789abcdef-89abcdef0123.resemblance.parquet
//!      |     |                                |
//!      |     the attempt                      of the file alone
//!      the partition
//! ```

use std::fmt;

/// The ending of every table file.
const ENDING: &str = ".resemblance.parquet";

/// Hexadecimal digits of an attempt.
const ATTEMPT_DIGITS: usize = 32;

/// Hexadecimal digits that are the file's own.
const FILE_DIGITS: usize = 12;

/// One attempt at a run: a process that writes to an output. A run that is killed and taken up again has several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(String);

impl Attempt {
    /// An attempt that nobody had before.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The attempt with this id; `None` if the text is not an id.
    pub fn parse(id: &str) -> Option<Self> {
        is_hex(id, ATTEMPT_DIGITS).then(|| Self(id.to_owned()))
    }

    /// Its 32 hexadecimal digits.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A new file name for this attempt. Each call gives another one: a partition that runs again never writes to a
    /// file that somebody may read.
    pub fn part(&self, partition: usize) -> String {
        let random = uuid::Uuid::new_v4().simple().to_string();
        format!("part-{partition:05}-{}-{}{ENDING}", self.0, &random[..FILE_DIGITS])
    }

    /// The attempt that a file's name carries; none for names that [`Attempt::part`] does not give. A number behind `#`
    /// is passed over: that is how a local store calls a file that is not whole yet.
    pub(crate) fn of_part(name: &str) -> Option<Self> {
        let name = whole_name(name);
        let mut parts = name.strip_suffix(ENDING)?.split('-');
        let (prefix, partition, attempt, file) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let ours = prefix == "part"
            && parts.next().is_none()
            && partition.len() >= 5
            && partition.bytes().all(|b| b.is_ascii_digit())
            && is_hex(file, FILE_DIGITS);
        if ours { Self::parse(attempt) } else { None }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file's name without the number that a local store puts behind `#` while it writes.
pub(super) fn whole_name(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((whole, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => whole,
        _ => name,
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_attempt() {
        let attempt = Attempt::random();
        let name = attempt.part(7);
        assert_eq!(Attempt::of_part(&name), Some(attempt.clone()));
        assert_eq!(Attempt::of_part(&format!("{name}#12")), Some(attempt.clone()));
        assert_ne!(name, attempt.part(7));
    }

    #[test]
    fn names_of_other_programs_tell_none() {
        let attempt = Attempt::random();
        for name in [
            "part-00000-abc.snappy.parquet".to_owned(),
            "part-00000-1f8e7c3a-1111-2222-3333-0123456789ab-c000.snappy.parquet".to_owned(),
            "part-00001-9f86d081884c7d659a2feaa0c55ad015.parquet".to_owned(),
            format!("part-00000-{attempt}-0123456789ab.parquet"),
            format!("part-0000x-{attempt}-0123456789ab.resemblance.parquet"),
            format!("my-part-00000-{attempt}-0123456789ab.resemblance.parquet"),
            format!("{}#draft", attempt.part(0)),
            format!("{}.bak", attempt.part(0)),
        ] {
            assert_eq!(Attempt::of_part(&name), None, "{name}");
        }
    }
}
