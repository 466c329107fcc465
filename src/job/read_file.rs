//! The files of the input of a run.

use serde::{Deserialize, Serialize};

/// A file of the input, as it was when the run listed it, and as manifests have it. Part of the run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// The file's URL or path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970; `None` if it is an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// What its object store calls its content; none for files on disks, where a copy of a file would have another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// CRC-32 (IEEE) of the bytes that the run read of it, in their order: of all, or of the columns and the footer of a Parquet
    /// file. `None` if the run did not compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<u32>,
    /// The number of those bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32_bytes: Option<u64>,
}

impl InputFile {
    /// A file whose bytes have not been read.
    pub fn new(path: String, bytes: u64, modified: Option<i64>, e_tag: Option<String>) -> Self {
        Self { path, bytes, modified, e_tag, crc32: None, crc32_bytes: None }
    }

    /// The file as it was listed, without the checksum of what a run read of it.
    pub(crate) fn as_listed(&self) -> Self {
        Self { crc32: None, crc32_bytes: None, ..self.clone() }
    }
}

/// The bytes that were read of a file, as records of stages have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRanges {
    /// See [`InputFile::path`].
    pub path: String,
    /// See [`InputFile::bytes`].
    pub bytes: u64,
    /// See [`InputFile::modified`].
    pub modified: i64,
    /// The first byte, the number of bytes and the CRC-32 of each range, in their order.
    pub ranges: Vec<(u64, u64, u32)>,
}
