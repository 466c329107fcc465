//! The frame of a table that a manifest names, file by file.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::{DataFrame, SessionContext};

use super::Layout;
use super::manifest::File;
use crate::error::{Error, Result};

/// The rows of `files`, which have the columns of `schema`. Reads nothing yet.
///
/// # Errors
/// When there is no file, or a path makes no URL.
pub fn frame(
    session: &SessionContext,
    layout: &Layout,
    files: &[File],
    schema: SchemaRef,
) -> Result<DataFrame> {
    let table = provider(layout, files, schema)?;
    Ok(session.read_table(Arc::new(table))?)
}

/// The same as a table that SQL can be given.
///
/// # Errors
/// When there is no file, or a path makes no URL.
pub fn provider(layout: &Layout, files: &[File], schema: SchemaRef) -> Result<ListingTable> {
    if files.is_empty() {
        return Err(Error::bug("a table without a file is to be read"));
    }
    let mut urls = Vec::with_capacity(files.len());
    for file in files {
        urls.push(ListingTableUrl::try_new(layout.url(&file.path)?, None)?);
    }
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
    let config =
        ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
    Ok(ListingTable::try_new(config)?)
}
