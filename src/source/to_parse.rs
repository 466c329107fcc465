//! What a plan says of files that this program parses itself: where they are, and how they are read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::json_line::JsonValue;
use super::pin::Pin;
use super::selection::RowSet;
use super::sgml::Story;
use crate::job::{Csv, Encoding, OnError, References, Shingle};

/// The column of the shingles of texts that were cut while they were read; null for the others. The text beside them is a
/// piece of it: see [`CutText`](crate::kernel::text::long_text::CutText).
pub(crate) const CUT: &str = "cut";

/// The formats that [`ParseFiles`](super::ParseFiles) reads, and what it must know of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Parser {
    /// Stories of Reuters-21578; values `oldid`, `newid`, `date`, `topics`, `places`, `title`, `body`.
    Reuters {
        /// How the files are encoded.
        encoding: Encoding,
        /// What becomes of character references.
        references: References,
    },
    /// A document a file; one value, the file's text.
    Text {
        /// How the files are encoded.
        encoding: Encoding,
        /// How long files are cut into shingles while they are read; `None` if every text is wanted whole.
        cut: Option<Shingle>,
    },
    /// A document a record.
    Csv {
        /// How the files are encoded.
        encoding: Encoding,
        /// How the files are written.
        csv: Csv,
        /// How many columns they have.
        columns: usize,
        /// The columns that are the values, from 0.
        wanted: Vec<usize>,
        /// What happens to a record that cannot be read.
        on_error: OnError,
    },
    /// A document a line.
    JsonLines {
        /// How the files are encoded.
        encoding: Encoding,
        /// The values.
        wanted: Vec<JsonValue>,
        /// What happens to a line that cannot be read.
        on_error: OnError,
    },
}

impl Parser {
    /// How many values a row has.
    pub(super) fn values(&self) -> usize {
        match self {
            Parser::Reuters { .. } => Story::COLUMNS.len(),
            Parser::Text { .. } => 1,
            Parser::Csv { wanted, .. } => wanted.len(),
            Parser::JsonLines { wanted, .. } => wanted.len(),
        }
    }

    /// How the files are encoded.
    pub(super) fn encoding(&self) -> Encoding {
        match self {
            Parser::Reuters { encoding, .. }
            | Parser::Text { encoding, .. }
            | Parser::Csv { encoding, .. }
            | Parser::JsonLines { encoding, .. } => *encoding,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Parser::Reuters { .. } => "Reuters",
            Parser::Text { .. } => "Text",
            Parser::Csv { .. } => "Csv",
            Parser::JsonLines { .. } => "JsonLines",
        }
    }
}

/// Where a file is, for whoever reads it, and what it was when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileToParse {
    /// The file's path, as the user would write it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The URL of its object store, such as `file:///` or `s3://bucket/`.
    pub store: String,
    /// Where it is in that store, and what it was when it was listed.
    pub pin: Pin,
    /// The documents that are wanted, by their numbers in the file; none for all.
    pub wanted: Option<RowSet>,
}

impl FileToParse {
    /// Whether the document of this number is wanted.
    pub(super) fn wants(&self, position: u64) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(position))
    }
}
