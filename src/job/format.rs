//! `source.format`: the formats of source files, and the rules for sources in each format.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Defines [`Format`] from its variants and their names in job files.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident = $name:literal,)*) => {
        /// The formats of source files.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// All formats, in the order in which messages list them.
            pub const ALL: &[Self] = &[$(Self::$format),*];

            /// Returns the name of the format in a job file.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }
        }
    };
}

formats! {
    /// The SGML files of the Reuters-21578 collection.
    Reuters = "reuters",
    /// Delimited text, possibly compressed.
    Csv = "csv",
    /// Apache Parquet.
    Parquet = "parquet",
    /// The Parquet files of the newest version of a Delta table.
    Delta = "delta",
    /// One JSON object per line, possibly compressed.
    Jsonl = "jsonl",
    /// One document per file.
    Text = "text",
    /// One document per line of a text file, possibly compressed.
    Lines = "lines",
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatRules {
    /// The columns of documents in the format.
    pub columns: DocumentColumns,
    /// The lower-case endings of files that are read in a folder, without the ending of a compression. If empty, every file is read.
    pub endings: &'static [&'static str],
    /// The first bytes of every file, or no bytes if files can begin differently.
    pub magic: &'static [u8],
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

const COMPRESSED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];

/// Returns the path of a compressed file without the ending of the compression.
pub(crate) fn without_compression(path: &str) -> Option<&str> {
    COMPRESSED.into_iter().find_map(|ending| {
        let (inner, last) = path.split_at_checked(path.len().checked_sub(ending.len())?)?;
        last.eq_ignore_ascii_case(ending).then_some(inner)
    })
}

impl Format {
    /// Returns the format for the ending of a path, URL or pattern. The ending of a compression may follow, if the format can be read
    /// compressed. Tables in `.txt` files count as text.
    pub(crate) fn from_path(path: &str) -> Option<Format> {
        let path = path.trim_end_matches('/').to_ascii_lowercase();
        let inner = without_compression(&path);
        let has_ending = |ending: &&str| inner.unwrap_or(&path).ends_with(ending);
        let reads = |format: &Format| format.rules().endings.iter().any(has_ending);
        let text = has_ending(&".txt").then_some(Format::Text);
        let format = text.or_else(|| Self::ALL.iter().copied().find(reads))?;
        (inner.is_none() || matches!(format, Format::Csv | Format::Jsonl)).then_some(format)
    }

    /// Returns the format of a file that begins with `bytes`, if it is known by its magic number. Files of Delta tables count as Parquet.
    pub(crate) fn from_magic(bytes: &[u8]) -> Option<Format> {
        Self::ALL.iter().copied().find(|format| {
            let magic = format.rules().magic;
            !magic.is_empty() && bytes.starts_with(magic)
        })
    }

    /// Returns the rules for sources in this format.
    pub(crate) const fn rules(self) -> FormatRules {
        let records = FormatRules {
            columns: DocumentColumns::OfFile,
            endings: &[],
            magic: b"",
            has_own_encoding: false,
            has_references: false,
            takes_in_outputs: false,
        };
        match self {
            Format::Csv => FormatRules { endings: &[".csv", ".tsv", ".txt"], ..records },
            Format::Jsonl => {
                FormatRules { endings: &[".jsonl", ".jsonlines", ".ndjson", ".json"], ..records }
            }
            Format::Parquet | Format::Delta => FormatRules {
                endings: &[".parquet", ".parq", ".pq"],
                magic: b"PAR1",
                has_own_encoding: true,
                takes_in_outputs: true,
                ..records
            },
            Format::Reuters => FormatRules {
                columns: DocumentColumns::Fixed { id: &["oldid"], text: "body" },
                endings: &[".sgm", ".sgml"],
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

    /// Returns the names of all formats, for messages.
    pub(super) fn list() -> String {
        Self::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
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
            de::Error::custom(format!("unknown variant `{name}`, expected one of {}", FormatName::list()))
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
