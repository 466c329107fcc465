//! The list of source formats. A new format needs a file here, a line in [`format_of`], and a variant of [`Format`](crate::job::Format)
//! with its rules.

pub(in crate::source) mod csv;
pub(in crate::source) mod jsonl;
mod lines;
pub(in crate::source) mod parquet;
pub(in crate::source) mod reuters;
pub(in crate::source) mod text;

use super::format::SourceFormat;
use crate::job::Format;

pub(crate) fn format_of(format: Format) -> &'static SourceFormat {
    match format {
        Format::Csv => &csv::CSV,
        Format::Delta => &parquet::DELTA,
        Format::Jsonl => &jsonl::JSONL,
        Format::Lines => &lines::LINES,
        Format::Parquet => &parquet::PARQUET,
        Format::Reuters => &reuters::REUTERS,
        Format::Text => &text::TEXT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_determine_the_format() {
        for format in Format::ALL.iter().copied() {
            for ending in format_of(format).endings {
                let found = Format::from_path(&format!("a{ending}"));
                // The exceptions are Delta, whose files end like Parquet files, and `.txt`, which stands for single texts.
                let known = format == Format::Delta || ending.starts_with(".txt");
                assert!(known || found == Some(format), "{ending} gives {found:?}");
            }
        }
    }
}
