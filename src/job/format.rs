//! `source.format`: the formats of source files, and the rules for sources in each format.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// The formats of source files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The SGML files of the Reuters-21578 collection.
    Reuters,
    /// Delimited text, possibly compressed.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// The Parquet files of the newest version of a Delta table.
    Delta,
    /// One JSON object per line, possibly compressed.
    Jsonl,
    /// One document per file.
    Text,
    /// One document per line of a text file, possibly compressed.
    Lines,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatRules {
    /// The columns of documents in the format.
    pub columns: DocumentColumns,
    /// Whether the encoding is fixed or declared in the files, so that the job must not set it.
    pub has_own_encoding: bool,
    /// Whether texts contain character references such as `&lt;`.
    pub has_references: bool,
    /// Whether a source that is a folder would also read the tables of an output inside it.
    pub takes_in_outputs: bool,
}

/// The columns of documents in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentColumns {
    /// Each file names its own columns.
    OfFile,
    /// All files have the same columns. `id` and `text` are the default columns for the id and the text.
    Fixed { id: &'static [&'static str], text: &'static str },
    /// No columns: each file is one text.
    WholeFile,
}

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

const COMPRESSED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];

/// Returns the path of a compressed file without the ending of the compression.
pub(crate) fn without_compression(path: &str) -> Option<&str> {
    COMPRESSED.into_iter().find_map(|ending| {
        let (inner, last) = path.split_at_checked(path.len().checked_sub(ending.len())?)?;
        last.eq_ignore_ascii_case(ending).then_some(inner)
    })
}

impl Format {
    /// All formats, in the order in which messages list them.
    pub const ALL: &[Self] =
        &[Self::Reuters, Self::Csv, Self::Parquet, Self::Delta, Self::Jsonl, Self::Text, Self::Lines];

    /// Returns the name of the format in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Format::Reuters => "reuters",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Delta => "delta",
            Format::Jsonl => "jsonl",
            Format::Text => "text",
            Format::Lines => "lines",
        }
    }

    /// Returns the format for the ending of a path, URL or pattern. The ending of a compression may follow, if the format can be read
    /// compressed. Tables in `.txt` files count as text.
    pub(crate) fn from_path(path: &str) -> Option<Format> {
        let path = path.trim_end_matches('/').to_ascii_lowercase();
        let inner = without_compression(&path);
        let (_, format) = ENDINGS.into_iter().find(|(ending, _)| inner.unwrap_or(&path).ends_with(ending))?;
        (inner.is_none() || matches!(format, Format::Csv | Format::Jsonl)).then_some(format)
    }

    /// Returns the rules for sources in this format.
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
                columns: DocumentColumns::Fixed { id: &["oldid"], text: "body" },
                has_references: true,
                ..records
            },
            Format::Text => {
                FormatRules { columns: DocumentColumns::WholeFile, takes_in_outputs: true, ..records }
            }
            Format::Lines => FormatRules {
                columns: DocumentColumns::Fixed { id: &["file", "line"], text: "text" },
                takes_in_outputs: true,
                ..records
            },
        }
    }
}

/// The value of `source.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatName {
    /// Files in this format.
    Files(Format),
    /// `output`: a finished output whose sketches are reused. See [`Input::Reuse`](super::Input::Reuse).
    Output,
}

const OUTPUT: &str = "output";

impl FormatName {
    /// Returns the format of the source files, or `None` if the source is an output.
    pub fn file_format(self) -> Option<Format> {
        match self {
            FormatName::Files(format) => Some(format),
            FormatName::Output => None,
        }
    }

    fn names() -> impl Iterator<Item = &'static str> {
        Format::ALL.iter().map(|format| format.name()).chain([OUTPUT])
    }
}

impl<'de> Deserialize<'de> for FormatName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == OUTPUT {
            return Ok(FormatName::Output);
        }
        let format = Format::ALL.iter().find(|format| format.name() == name);
        format.map(|&format| FormatName::Files(format)).ok_or_else(|| {
            let names: Vec<_> = FormatName::names().map(|name| format!("`{name}`")).collect();
            de::Error::custom(format!("unknown variant `{name}`, expected one of {}", names.join(", ")))
        })
    }
}

impl JsonSchema for FormatName {
    fn schema_name() -> Cow<'static, str> {
        "FormatName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = FormatName::names().collect();
        json_schema!({ "type": "string", "enum": names })
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
            assert_eq!(Format::from_path(path), format, "{path}");
        }
    }
}
