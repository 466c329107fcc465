//! Delta tables: the Parquet files that the newest version of a table has.

use crate::source::format::{Listing, SourceFormat};

pub(super) const FORMAT: SourceFormat =
    SourceFormat { title: "Delta", listing: Listing::DeltaTables, ..super::parquet::FORMAT };
