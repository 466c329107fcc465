//! Attempts, and the names of the files that they write. A name contains the id of the attempt, and a hash of the name and the folder. So a
//! copy in another folder is recognised as a copy:
//!
//! ```text
//! part-00003-0123456789abcdef0123456789abcdef-89abcdef0123-4567cdef.resemblance.parquet
//!      |     |                                |            |
//!      |     the attempt                      random       a hash of all this and of the folder
//!      the partition
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Layout;
use crate::error::Result;

pub(crate) const ATTEMPTS: &str = "_work/attempts";

/// The record of an attempt. It is written before the attempt's first file, so that each of the attempt's files can be recognised later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptRecord {
    pub attempt: String,
    /// The fingerprint of the run: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    pub resemblance: String,
    /// The files of the finished output that this attempt replaces and then removes, as paths inside the output. Without this list, they
    /// would count as foreign if the process died before it removed them.
    pub replaces: Vec<String>,
}

impl AttemptRecord {
    pub(crate) async fn put(&self, output: &Layout) -> Result<()> {
        output.create(&path(&self.attempt), self).await?;
        Ok(())
    }
}

/// The ids of the attempts that have records, sorted.
pub(crate) async fn ids(output: &Layout) -> Result<Vec<String>> {
    let listed = output.list(ATTEMPTS).await?;
    let inside = listed.iter().filter_map(|meta| output.inside(&meta.location));
    Ok(inside.filter_map(|inside| Some(attempt_of(&inside)?.to_string())).collect())
}

/// Whether the store refuses a conditional put to an existing path: the path of `record`, which is already in the store. Some servers
/// ignore the condition and replace the file.
pub(crate) async fn keeps_conditions(output: &Layout, record: &AttemptRecord) -> Result<bool> {
    if output.folder().is_some() {
        return Ok(true);
    }
    let other = AttemptRecord { resemblance: format!("{} probe", record.resemblance), ..record.clone() };
    let replaced = output.create(&path(&record.attempt), &other).await?;
    if replaced {
        // The server replaced the record despite the condition, so it is written again.
        record.put(output).await?;
    }
    Ok(!replaced)
}

fn path(attempt: &str) -> String {
    format!("{ATTEMPTS}/{attempt}.json")
}

/// Returns the attempt with a record at this path inside the output.
pub(super) fn attempt_of(inside: &str) -> Option<Attempt> {
    Attempt::parse(inside.strip_prefix(ATTEMPTS)?.strip_prefix('/')?.strip_suffix(".json")?)
}

/// The folder of the documents that `apply` removed. It is inside the folder of the kept documents, so its files must not match patterns
/// such as `clean/**/*.parquet`.
pub(crate) const REMOVED: &str = "removed";

/// The folder of the passages that `apply` cut out of documents.
pub(crate) const REMOVED_SPANS: &str = "removed_spans";

/// The folder of row sets that are too large for a plan.
pub(crate) const STORED_ROWS: &str = "_work/rows";

/// The ending of the names of a table's files.
fn ending(folder: &str) -> &'static str {
    if [REMOVED, REMOVED_SPANS, STORED_ROWS].contains(&folder) {
        ".resemblance"
    } else {
        ".resemblance.parquet"
    }
}

/// The number of hexadecimal digits in the id of an attempt.
const ATTEMPT_DIGITS: usize = 32;

/// The number of random hexadecimal digits in a file name.
const FILE_DIGITS: usize = 12;

/// The number of hexadecimal digits in the hash of a file's name and folder.
const PLACE_DIGITS: usize = 8;

/// An attempt at a run, which is one process that writes to an output. A resumed run has several attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attempt(String);

impl Attempt {
    /// Returns a new attempt with a random id.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Parses an id. Returns `None` if the text is not an id.
    pub fn parse(id: &str) -> Option<Self> {
        is_hex(id, ATTEMPT_DIGITS).then(|| Self(id.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path inside the output for a new file of this attempt in `folder`. Each call returns a different path, so that a
    /// partition that runs twice never overwrites a file.
    pub fn part(&self, folder: &str, partition: usize) -> String {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("part-{partition:05}-{}-{}", self.0, &random[..FILE_DIGITS]);
        format!("{folder}/{name}-{}{}", place(folder, &name), ending(folder))
    }

    /// Returns the attempt that wrote the file at a path inside the output. Returns `None` for a path that [`Attempt::part`] cannot have
    /// returned, such as a copy in another folder. Ignores the `#` and number that a local store appends to incomplete files.
    pub(crate) fn from_path(inside: &str) -> Option<Self> {
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

/// Returns the hash of a file's name and folder, in hexadecimal digits.
fn place(folder: &str, name: &str) -> String {
    let hash = xxh3_64(format!("{folder}/{name}").as_bytes());
    format!("{hash:016x}")[..PLACE_DIGITS].to_owned()
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file name without the `#` and number that a local store appends during a write.
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
        assert_eq!(Attempt::from_path(&inside), Some(attempt.clone()));
        assert_eq!(Attempt::from_path(&format!("{inside}#12")), Some(attempt.clone()));
        assert_ne!(inside, attempt.part("_work/keys", 7));
        let removed = attempt.part(REMOVED, 0);
        assert!(removed.ends_with(".resemblance"), "{removed}");
        assert_eq!(Attempt::from_path(&removed), Some(attempt.clone()));
        assert_eq!(Attempt::from_path(&format!("{removed}.parquet")), None);
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
            assert_eq!(Attempt::from_path(&path), None, "{path}");
        }
    }
}
