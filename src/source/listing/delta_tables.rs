//! The files of Delta tables, which their logs name.

use std::collections::BTreeMap;

use datafusion::execution::context::SessionContext;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::pattern::InputPattern;
use super::{ListedFiles, check_name, merge, walk};
use crate::delta::{self, Snapshot, SnapshotFile};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::source::file::{Partitions, SourceFile};
use crate::source::format::SourceFormat;
use crate::source::local_names::LOCAL;

/// The files of the Delta tables of `source`, in the versions that it names, or else in the newest ones.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a table cannot be read or has no files, or a file of it is gone;
/// [`Kind::Job`](crate::error::Kind::Job) for a pattern.
pub(in crate::source) async fn files(
    ctx: &SessionContext,
    source: &job::Source,
    format: &SourceFormat,
) -> Result<ListedFiles> {
    let mut found = Vec::with_capacity(source.urls.len());
    for (at, url) in source.urls.iter().enumerate() {
        found.push(of_table(ctx, format, url, source.table_versions.get(at).copied()).await?);
    }
    Ok(merge(found))
}

async fn of_table(
    ctx: &SessionContext,
    format: &SourceFormat,
    url: &str,
    version: Option<u64>,
) -> Result<ListedFiles> {
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
    let table = delta::read(&store, root, url, version).await?;
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
    for (name, SnapshotFile { size, partition_values }) in table.files {
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
        let partitions = Partitions::of_log(&table.partition_columns, &partition_values);
        let file = SourceFile { path, name, store: store_url.clone(), meta: meta.clone(), partitions };
        check_name(&file, format)?;
        files.push(file);
    }
    let (partition_columns, table_versions) = (table.partition_columns, vec![table.version]);
    Ok(ListedFiles { files, partition_columns, table_versions, ..ListedFiles::default() })
}

/// Whether `url` is the folder of a Delta table.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where the storage cannot be reached.
pub(in crate::source) async fn is_table(ctx: &SessionContext, url: &str) -> Result<bool> {
    let pattern = InputPattern::parse(url)?;
    let local = pattern.url.object_store().as_str() == LOCAL;
    // Below a file there is nothing that can be listed.
    if pattern.glob.is_some() || local && matches!(walk::file(pattern.url.prefix()).await, Ok(Some(_))) {
        return Ok(false);
    }
    let store = ctx
        .runtime_env()
        .object_store(pattern.url.object_store())
        .context(|| format!("no storage is set up for `{url}`"))?;
    let log = pattern.url.prefix().clone().join(delta::FOLDER);
    let first = store.list(Some(&log)).try_next().await;
    Ok(first.context(|| format!("`{url}` cannot be listed"))?.is_some())
}

/// The location of a file of the table in the folder `root`.
fn location(root: &Path, name: &str) -> Result<Path> {
    let location = match root.as_ref() {
        "" => name.to_owned(),
        root => format!("{root}/{name}"),
    };
    Ok(Path::parse(location).map_err(object_store::Error::from)?)
}

/// The existing files of a table on this machine.
async fn on_disk(table: &Snapshot, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let mut found = BTreeMap::new();
    for name in table.files.keys() {
        let location = location(root, name)?;
        let meta = walk::file(&location).await.context(|| format!("`{url}/{name}` cannot be read"))?;
        found.extend(meta.map(|meta| (location, meta)));
    }
    Ok(found)
}

/// All files in the table's folder. A listing returns a thousand files per request. It is made after the log was read, so that it
/// has all files of the log.
async fn in_store(store: &dyn ObjectStore, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(root)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    Ok(listed.into_iter().map(|meta| (meta.location.clone(), meta)).collect())
}
