//! Parquet files.

use crate::source::format::{EmptyFile, Listing, Reading, Rewriting, SourceFormat};

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "Parquet",
    listing: Listing::Files,
    endings: &[".parquet", ".parq", ".pq"],
    empty_file: EmptyFile::NoDocuments,
    reading: Reading::ParquetScan,
    rewriting: Rewriting::ParquetValues,
};
