//! What a plan says about files that this program parses: where they are, and how they are parsed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::formats::jsonl::line::JsonValue;
use super::pin::Pin;
use super::selection::RowSet;
use crate::job::{self, Shingle};

/// The column of the shingles of texts that were cut while they were read; null for other texts. The text in the same row is
/// then a sample of the whole: see [`CutText`](crate::kernel::text::long_text::CutText).
pub(crate) const CUT: &str = "cut";

/// How files are parsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parser {
    /// The format and its settings.
    pub source: job::Source,
    /// Where the values are in each document.
    pub wanted: WantedValues,
    /// The partition columns, whose values the files have with them.
    pub partition_columns: Vec<String>,
    /// How long texts are cut into shingles while they are read; `None` if every text is wanted whole.
    pub cut: Option<Shingle>,
}

/// Where the values are in each document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WantedValues {
    /// The format has these many values, and all of them are read.
    All(usize),
    /// In the columns of these names, which a file need not have.
    Columns(Vec<String>),
    /// In these fields of objects.
    Fields(Vec<JsonValue>),
}

impl WantedValues {
    /// The number of values of a document.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(values) => *values,
            Self::Columns(names) => names.len(),
            Self::Fields(fields) => fields.len(),
        }
    }
}

/// A file to parse, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileToParse {
    /// The file's path, as tables have it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The URL of its object store, such as `file:///` or `s3://bucket/`.
    pub store: String,
    /// Its place in the store, and its state when it was listed.
    pub pin: Pin,
    /// The documents that are read, by their numbers in the file; `None` for all.
    pub wanted: Option<RowSet>,
    /// The values of the partition columns of a plan.
    pub partitions: Vec<Option<String>>,
}

impl FileToParse {
    /// Whether the document of this number is read.
    pub(super) fn wants(&self, position: u64) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(position))
    }
}
