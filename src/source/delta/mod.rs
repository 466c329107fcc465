//! Delta tables: the log of each says which Parquet files it has, and those are read as other Parquet files are.
//!
//! `snapshot` reads the log: which of its files are needed (`names`), what they say (`action`, `checkpoint`), and whether
//! that is all that a reader has to know (`features`).

mod action;
mod checkpoint;
mod features;
mod names;
mod snapshot;

use std::collections::BTreeMap;

use datafusion::execution::context::SessionContext;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::bytes::LOCAL;
use super::columns::needed;
use super::listing::{self, File, Found, InputPattern};
use super::walk;
use crate::error::{Context, Error, Result};
use crate::job;
use snapshot::Snapshot;

/// The files of the newest versions of the Delta tables of `source`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a table cannot be read or has no files, or a file of it is gone;
/// [`Kind::Job`](crate::error::Kind::Job) when the job names a column whose values are not in the files.
pub(super) async fn files(ctx: &SessionContext, source: &job::Source) -> Result<Found> {
    let mut found = Vec::with_capacity(source.urls.len());
    for url in &source.urls {
        found.push(of_table(ctx, source, url).await?);
    }
    Ok(listing::together(found))
}

async fn of_table(ctx: &SessionContext, source: &job::Source, url: &str) -> Result<Found> {
    let pattern = InputPattern::parse(url)?;
    if pattern.glob.is_some() {
        return Err(Error::job(format!(
            "`{url}` is a pattern, and [source] format is \"delta\": name the folder of a table, or a list of them"
        )));
    }
    let store_url = pattern.url.object_store();
    let store =
        ctx.runtime_env().object_store(&store_url).context(|| format!("no storage is set up for `{url}`"))?;
    let root = pattern.url.prefix();
    let table = snapshot::read(&store, root, url).await?;
    if let Some(column) =
        needed(source).into_iter().find(|name| table.partition_columns.iter().any(|of| of == name))
    {
        return Err(Error::job(format!(
            "the column `{column}` is a partition column of the Delta table `{url}`, whose values are not in its files: name \
             other columns, or copy the table into one without partitions"
        )));
    }
    tracing::info!(url, version = table.version, files = table.files.len(), "the Delta table was listed");
    if table.files.is_empty() {
        return Err(Error::input(format!(
            "the Delta table `{url}` is empty: add documents, or correct [source] url"
        )));
    }
    let there = match store_url.as_str() {
        LOCAL => on_disk(&table, root, url).await?,
        _ => in_store(store.as_ref(), root, url).await?,
    };
    let mut files = Vec::with_capacity(table.files.len());
    for (name, size) in table.files {
        let path = format!("{}/{name}", url.trim_end_matches('/'));
        let Some(meta) = there.get(&location(root, &name)?) else {
            return Err(Error::input(format!(
                "{path} is gone, which version {} of the Delta table names: restore it, or repair the table",
                table.version
            )));
        };
        if meta.size != size {
            return Err(Error::input(format!(
                "{path} has {} bytes, and the log of the Delta table says {size}: restore it, or repair the table",
                meta.size
            )));
        }
        let file = File { path, name, store: store_url.clone(), meta: meta.clone() };
        listing::check_name(&file, job::Format::Delta)?;
        files.push(file);
    }
    Ok(Found { files, partition_columns: table.partition_columns, ..Found::default() })
}

/// Where a file of the table in the folder `root` is.
fn location(root: &Path, name: &str) -> Result<Path> {
    let location = match root.as_ref() {
        "" => name.to_owned(),
        root => format!("{root}/{name}"),
    };
    Ok(Path::parse(location).map_err(object_store::Error::from)?)
}

/// The files of a table on this machine that are there.
async fn on_disk(table: &Snapshot, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let mut found = BTreeMap::new();
    for name in table.files.keys() {
        let location = location(root, name)?;
        let meta = walk::file(&location).await.context(|| format!("`{url}/{name}` cannot be read"))?;
        found.extend(meta.map(|meta| (location, meta)));
    }
    Ok(found)
}

/// Everything in the table's folder. A listing has a thousand files for one request, and was made after the log was read:
/// what the log names was there before it.
async fn in_store(store: &dyn ObjectStore, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(root)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    Ok(listed.into_iter().map(|meta| (meta.location.clone(), meta)).collect())
}
