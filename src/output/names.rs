//! Names of the files that a run writes. They contain the attempt that wrote them and a hash of their folder, so that a copy in
//! another folder is recognised as a copy.
//!
//! ```text
//! part-00003-0123456789abcdef0123456789abcdef-89abcdef0123-4567cdef.resemblance.parquet
//!      |     |                                |            |
//!      |     the attempt                      of the file  a hash of all this and of the folder
//!      the partition
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The folder of the documents that `apply` removed. It is below the folder of those that it kept, so a pattern such as
/// `clean/**/*.parquet` must not match its files.
pub(crate) const REMOVED: &str = "removed";

/// The folder of the spans that `apply` cut out of documents, next to that.
pub(crate) const REMOVED_SPANS: &str = "removed_spans";

/// The folder of sets of rows that are too large for a plan.
pub(crate) const STORED_ROWS: &str = "_work/rows";

/// The ending of the files of a table.
fn ending(folder: &str) -> &'static str {
    if [REMOVED, REMOVED_SPANS, STORED_ROWS].contains(&folder) {
        ".resemblance"
    } else {
        ".resemblance.parquet"
    }
}

/// Hexadecimal digits of an attempt.
const ATTEMPT_DIGITS: usize = 32;

/// Random hexadecimal digits of a file.
const FILE_DIGITS: usize = 12;

/// Hexadecimal digits of the hash of name and folder.
const PLACE_DIGITS: usize = 8;

/// One attempt at a run: a process that writes to an output. A run that is killed and taken up again has several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attempt(String);

impl Attempt {
    /// A new attempt with a random id.
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

    /// The path inside the output of a new file of this attempt in `folder`. Each call returns another path, so that a partition
    /// that runs again never writes to a file that is being read.
    pub fn part(&self, folder: &str, partition: usize) -> String {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("part-{partition:05}-{}-{}", self.0, &random[..FILE_DIGITS]);
        format!("{folder}/{name}-{}{}", place(folder, &name), ending(folder))
    }

    /// The attempt that wrote a file, from the file's path inside the output; `None` for paths that [`Attempt::part`]
    /// does not return, such as that of a copy in another folder. The number after `#` that a local store adds to
    /// incomplete files is ignored.
    pub(crate) fn of_part(inside: &str) -> Option<Self> {
        let (folder, name) = whole_name(inside).rsplit_once('/')?;
        let (name, of_place) = name.strip_suffix(ending(folder))?.rsplit_once('-')?;
        let mut parts = name.split('-');
        let (prefix, partition, attempt, file) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let ours = prefix == "part"
            && parts.next().is_none()
            && partition.len() >= 5
            && partition.bytes().all(|b| b.is_ascii_digit())
            && is_hex(file, FILE_DIGITS)
            && of_place == place(folder, name);
        if ours { Self::parse(attempt) } else { None }
    }
}

/// The digits of the hash of a name and its folder.
fn place(folder: &str, name: &str) -> String {
    let hash = xxh3_64(format!("{folder}/{name}").as_bytes());
    format!("{hash:016x}")[..PLACE_DIGITS].to_owned()
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file's name without the `#` and number that a local store appends while it writes.
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
        let inside = attempt.part("_work/keys", 7);
        assert!(inside.starts_with("_work/keys/part-00007-"), "{inside}");
        assert_eq!(Attempt::of_part(&inside), Some(attempt.clone()));
        assert_eq!(Attempt::of_part(&format!("{inside}#12")), Some(attempt.clone()));
        assert_ne!(inside, attempt.part("_work/keys", 7));
        let removed = attempt.part(REMOVED, 0);
        assert!(removed.ends_with(".resemblance"), "{removed}");
        assert_eq!(Attempt::of_part(&removed), Some(attempt.clone()));
        assert_eq!(Attempt::of_part(&format!("{removed}.parquet")), None);
    }

    #[test]
    fn copies_and_names_of_other_programs_tell_none() {
        let attempt = Attempt::random();
        let inside = attempt.part("pairs", 0);
        let name = inside.strip_prefix("pairs/").unwrap();
        for path in [
            "pairs/part-00000-abc.snappy.parquet".to_owned(),
            "pairs/part-00000-1f8e7c3a-1111-2222-3333-0123456789ab-c000.snappy.parquet".to_owned(),
            "pairs/part-00001-9f86d081884c7d659a2feaa0c55ad015.parquet".to_owned(),
            format!("pairs/part-00000-{attempt}-0123456789ab-01234567.parquet"),
            format!("pairs/part-00000-{attempt}-0123456789ab-01234567.resemblance.parquet"),
            format!("pairs/part-00000-{attempt}-0123456789ab.resemblance.parquet"),
            format!("pairs/my-{name}"),
            format!("pairs/backup/{name}"),
            format!("clusters/{name}"),
            format!("_work/pairs/{name}"),
            name.to_owned(),
            format!("{inside}#draft"),
            format!("{inside}.bak"),
        ] {
            assert_eq!(Attempt::of_part(&path), None, "{path}");
        }
    }
}
