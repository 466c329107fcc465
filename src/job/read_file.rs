//! The files that a run read, as they were when it listed them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One file of the input, as it was when the run listed it. Part of the run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// The file's URL or path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// What its object store calls its content; none for files on disks, where a copy of a file would have another.
    pub e_tag: Option<String>,
}

impl InputFile {
    /// When it was last written, in nanoseconds since 1970.
    pub(crate) fn nanoseconds(&self) -> i64 {
        match self.modified.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
        }
    }
}

/// A file that was read, as manifests have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// Its path or URL.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970; none if it is an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// See [`InputFile::e_tag`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// CRC-32 (IEEE) of the bytes that the run read of it, in their order: of all, or of the columns and the footer of a Parquet
    /// file. None if the run did not compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<u32>,
    /// The number of those bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32_bytes: Option<u64>,
}

/// The bytes that were read of a file, as records of stages have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRanges {
    /// See [`ReadFile::path`].
    pub path: String,
    /// See [`ReadFile::bytes`].
    pub bytes: u64,
    /// See [`ReadFile::modified`].
    pub modified: i64,
    /// The first byte, the number of bytes and the CRC-32 of each range, in their order.
    pub ranges: Vec<(u64, u64, u32)>,
}

impl ReadFile {
    /// The record of a file with this checksum of so many bytes.
    pub(crate) fn new(file: &InputFile, checksum: Option<(u32, u64)>) -> Self {
        let InputFile { path, bytes, modified, e_tag } = file;
        let is_file = *modified != UNIX_EPOCH;
        Self {
            path: path.clone(),
            bytes: *bytes,
            modified: is_file.then(|| file.nanoseconds()),
            e_tag: e_tag.clone(),
            crc32: checksum.map(|(crc32, _)| crc32),
            crc32_bytes: checksum.map(|(_, bytes)| bytes),
        }
    }

    /// The file as the fingerprint of its run has it; `None` if the time was not recorded.
    pub(crate) fn input(&self) -> Option<InputFile> {
        let nanoseconds = self.modified?;
        let since = Duration::from_nanos(nanoseconds.unsigned_abs());
        let modified = if nanoseconds < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since };
        Some(InputFile { path: self.path.clone(), bytes: self.bytes, modified, e_tag: self.e_tag.clone() })
    }
}
