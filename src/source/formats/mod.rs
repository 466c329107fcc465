//! The list of source formats. A new one gets a file here, a line in [`of`], and a variant of
//! [`Format`](crate::job::Format).

mod csv;
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
