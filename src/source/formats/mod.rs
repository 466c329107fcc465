//! The list of source formats. A new one gets a file here, a line in [`of`], and a variant of
//! [`Format`](crate::job::Format).

pub(in crate::source) mod csv;
mod delta;
pub(in crate::source) mod jsonl;
mod parquet;
pub(in crate::source) mod reuters;
mod text;

use super::format::SourceFormat;
use crate::job::Format;

/// The format of this name.
pub(crate) fn of(format: Format) -> &'static SourceFormat {
    match format {
        Format::Csv => &csv::FORMAT,
        Format::Delta => &delta::FORMAT,
        Format::Jsonl => &jsonl::FORMAT,
        Format::Parquet => &parquet::FORMAT,
        Format::Reuters => &reuters::FORMAT,
        Format::Text => &text::FORMAT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job may leave its format out where the ending of its files says it.
    #[test]
    fn the_endings_of_a_format_say_that_format() {
        let formats =
            [Format::Csv, Format::Delta, Format::Jsonl, Format::Parquet, Format::Reuters, Format::Text];
        for format in formats {
            for ending in of(format).endings {
                let said = Format::of_ending(&format!("a{ending}"));
                // A Delta table is a folder of Parquet files, and most files of this ending are texts.
                let known = format == Format::Delta || ending.starts_with(".txt");
                assert!(known || said == Some(format), "{ending} says {said:?}");
            }
        }
    }
}
