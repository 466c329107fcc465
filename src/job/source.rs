//! `[source]`: where the documents are and which columns are theirs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::encoding::Encoding;
use super::rows::{Condition, Limit};

/// `[source]`: where the documents are and which columns are theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The format of the files.
    pub format: Format,
    /// The encoding of the files; Parquet's is always UTF-8.
    pub encoding: Encoding,
    /// Files, folders, globs or URLs; at least one.
    pub urls: Vec<String>,
    /// In the job of a finished run, the version of each Delta table in `urls` that was read. Empty otherwise: the newest
    /// versions are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table_versions: Vec<u64>,
    /// The id of a document.
    pub id: Id,
    /// The separator between the parts of an id of several columns.
    pub id_separator: String,
    /// The columns that hold the text, joined by a newline; at least one.
    pub text: Vec<String>,
    /// The columns that go into the table `documents` as they are.
    pub columns: Vec<String>,
    /// The one of these that holds a document's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The condition that rows meet to be documents; `None` if all rows are.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The sample of them that is read; `None` if all of them are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What happens when an id is repeated.
    pub duplicate_ids: DuplicateIds,
    /// What happens to a row of a CSV or JSON lines file that cannot be read.
    pub on_error: OnError,
    /// The most bytes of a JSON line or of a CSV record.
    pub max_text: u64,
    /// The syntax of CSV files; other formats ignore it.
    pub csv: Csv,
    /// What happens to the character references of Reuters stories; other formats have none.
    pub references: References,
}

/// The columns of the table `documents` that are not carried: see `schemas/documents.toml`.
pub(crate) const DOCUMENTS_COLUMNS: [&str; 10] = [
    "id",
    "source",
    "position",
    "origin_number",
    "doc",
    "shingle_count",
    "set_hash_0",
    "set_hash_1",
    "signature",
    "shingles",
];

impl Source {
    /// The name of the carried column `name` in the table `documents`: with `_` behind it where the table has a column of that name.
    pub(crate) fn stored(name: &str) -> String {
        let is_taken = DOCUMENTS_COLUMNS.contains(&name.to_lowercase().as_str());
        if is_taken { format!("{name}_") } else { name.to_owned() }
    }

    /// Whether some rows may be no documents, so that a run leaves them out.
    pub(crate) fn leaves_rows_out(&self) -> bool {
        self.condition.is_some() || self.limit.is_some()
    }
}

/// What happens to the character references in SGML, such as `&lt;`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum References {
    /// Each is replaced by its character.
    #[default]
    Decode,
    /// They stay as they are written.
    Keep,
}

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The Reuters-21578 collection's SGML.
    Reuters,
    /// Delimited text, also compressed by gzip or zstd.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// The Parquet files that the newest version of a Delta table has.
    Delta,
    /// One JSON object a line, also compressed by gzip or zstd.
    Jsonl,
    /// One document per file.
    Text,
}

/// The rules for sources of a format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatRules {
    /// The columns of its documents.
    pub columns: DocumentColumns,
    /// Whether the files declare their own encoding.
    pub has_own_encoding: bool,
    /// Whether texts have character references.
    pub has_references: bool,
    /// Whether a folder of such files would include the tables of an output.
    pub takes_in_outputs: bool,
}

/// The columns of the documents of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentColumns {
    /// Each file names its own.
    OfFile,
    /// The same in every file; these are the id and the text unless the job names others.
    Fixed { id: &'static str, text: &'static str },
    /// None: a file is one text.
    WholeFile,
}

/// The endings of files and folders, with their formats.
const ENDINGS: [(&str, Format); 12] = [
    (".parquet", Format::Parquet),
    (".parq", Format::Parquet),
    (".pq", Format::Parquet),
    (".csv", Format::Csv),
    (".tsv", Format::Csv),
    (".jsonl", Format::Jsonl),
    (".jsonlines", Format::Jsonl),
    (".ndjson", Format::Jsonl),
    (".json", Format::Jsonl),
    (".sgm", Format::Reuters),
    (".sgml", Format::Reuters),
    (".txt", Format::Text),
];

/// The endings of compressed files.
const COMPRESSED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];

/// The path of a compressed file without the ending that says so; `None` for other paths.
pub(crate) fn without_compression(path: &str) -> Option<&str> {
    COMPRESSED.into_iter().find_map(|ending| {
        let (inner, last) = path.split_at_checked(path.len().checked_sub(ending.len())?)?;
        last.eq_ignore_ascii_case(ending).then_some(inner)
    })
}

impl Format {
    /// All formats, in the order of messages.
    pub const ALL: &[Self] = &[Self::Reuters, Self::Csv, Self::Parquet, Self::Delta, Self::Jsonl, Self::Text];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Format::Reuters => "reuters",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Delta => "delta",
            Format::Jsonl => "jsonl",
            Format::Text => "text",
        }
    }

    /// The format of the ending of a path, URL or pattern, also before the ending of a compressed file if such files can be read;
    /// `None` for other endings. A table in `.txt` files counts as text.
    pub(crate) fn of_ending(path: &str) -> Option<Format> {
        let path = path.trim_end_matches('/').to_ascii_lowercase();
        let inner = without_compression(&path);
        let (_, format) = ENDINGS.into_iter().find(|(ending, _)| inner.unwrap_or(&path).ends_with(ending))?;
        (inner.is_none() || matches!(format, Format::Csv | Format::Jsonl)).then_some(format)
    }

    /// The rules for sources of this format.
    pub(crate) fn rules(self) -> FormatRules {
        let records = FormatRules {
            columns: DocumentColumns::OfFile,
            has_own_encoding: false,
            has_references: false,
            takes_in_outputs: false,
        };
        match self {
            Format::Csv | Format::Jsonl => records,
            Format::Parquet | Format::Delta => {
                FormatRules { has_own_encoding: true, takes_in_outputs: true, ..records }
            }
            Format::Reuters => FormatRules {
                columns: DocumentColumns::Fixed { id: "oldid", text: "body" },
                has_references: true,
                ..records
            },
            Format::Text => {
                FormatRules { columns: DocumentColumns::WholeFile, takes_in_outputs: true, ..records }
            }
        }
    }
}

/// The id of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Id {
    /// The values of these columns, joined by `id_separator`. One Parquet column of integers gives ids that are numbers.
    Columns(Vec<String>),
    /// `file:row`: the path of its file below the URL of the source, and its row there, counted from 0.
    RowNumber,
    /// The file's path relative to the source's folder. Only for [`Format::Text`].
    Path,
}

/// What happens when an id is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DuplicateIds {
    /// The run ends with an error that names them.
    Error,
    /// The first in order of (file, row) that can be compared stays, the others go to `rejects`.
    Reject,
}

/// What happens to a row of a CSV or JSON lines file that cannot be read: a record with other fields than the others, a line
/// that is not a JSON object, an id of another type, bytes that are not UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The run ends with an error that names the file and the line.
    #[default]
    Error,
    /// The row goes to `rejects`.
    Reject,
}

/// The syntax of CSV files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Csv {
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether the first line names the columns; without it they are `column_1`, `column_2`, ...
    pub header: bool,
    /// The byte around fields that hold delimiters, quotes or newlines; `None` if quotes are characters.
    pub quote: Option<u8>,
    /// Whether quotes are characters in a line that does not close each of them.
    pub quotes_end_in_line: bool,
    /// The byte that takes the meaning of the next one, if files have it.
    pub escape: Option<u8>,
}

impl Csv {
    /// The syntax of files with this delimiter, as a job has it by default.
    pub const fn new(delimiter: u8) -> Self {
        let quotes_end_in_line = delimiter == b'\t';
        Self { delimiter, header: true, quote: Some(b'"'), quotes_end_in_line, escape: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_formats() {
        for (path, format) in [
            ("a/b.parquet", Some(Format::Parquet)),
            ("s3://bucket/day=1/*.PARQUET", Some(Format::Parquet)),
            ("reviews.parquet/", Some(Format::Parquet)),
            ("a.tsv", Some(Format::Csv)),
            ("a.csv.gz", Some(Format::Csv)),
            ("a.ndjson.zst", Some(Format::Jsonl)),
            ("a.JSONLINES.BZ2", Some(Format::Jsonl)),
            ("a.tsv.xz", Some(Format::Csv)),
            ("a.pq", Some(Format::Parquet)),
            ("a.sgm", Some(Format::Reuters)),
            ("a.txt", Some(Format::Text)),
            ("a.txt.gz", None),
            ("a.parquet.gz", None),
            ("data/", None),
            ("data/*", None),
            ("parquet", None),
        ] {
            assert_eq!(Format::of_ending(path), format, "{path}");
        }
    }
}
