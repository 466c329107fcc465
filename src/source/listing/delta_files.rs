use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::disk;
use super::files::{Listed, check_name};
use super::pattern::InputPattern;
use crate::delta::{self, Add, Snapshot};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::source::file::{SourceFile, log_partitions};
use crate::source::format::SourceFormat;

/// Lists the files of the Delta tables of `source`, in the versions from the job or the newest versions. Fails with `Kind::Input` if a
/// table cannot be read, a table has no files, or a file is missing. Fails with `Kind::Job` if a URL is a pattern.
pub(super) async fn list(
    ctx: &SessionContext,
    source: &job::Source,
    format: &SourceFormat,
) -> Result<Listed> {
    let mut found = Vec::with_capacity(source.urls.len());
    for (at, url) in source.urls.iter().enumerate() {
        found.push(list_table(ctx, format, url, source.table_versions.get(at).copied()).await?);
    }
    Ok(Listed::merge(found))
}

async fn list_table(
    ctx: &SessionContext,
    format: &SourceFormat,
    url: &str,
    version: Option<u64>,
) -> Result<Listed> {
    let pattern = InputPattern::parse(url)?;
    if pattern.glob.is_some() {
        return Err(Error::job(format!(
            "`{url}` is a pattern, and [source] format is \"delta\": name the folder of a table, or a list of them"
        )));
    }
    let store = pattern.store(ctx, url)?;
    let root = pattern.url.prefix();
    let table = delta::read(&store, root, url, version).await?;
    tracing::info!(url, version = table.version, files = table.files.len(), "the Delta table was listed");
    if table.files.is_empty() {
        return Err(Error::input(format!(
            "the Delta table `{url}` is empty: add documents, or name another table"
        )));
    }
    let there = if pattern.is_local() {
        files_on_disk(&table, root, url).await?
    } else {
        objects(store.as_ref(), root, url).await?
    };
    let mut files = Vec::with_capacity(table.files.len());
    for (name, Add { size, partition_values, .. }) in table.files {
        let path = format!("{}/{name}", url.trim_end_matches('/'));
        let Some(meta) = there.get(&location(root, &name)?) else {
            return Err(Error::input(format!(
                "{path} is gone, but version {} of the Delta table contains it: restore it, or repair the table",
                table.version
            )));
        };
        if meta.size != size {
            return Err(Error::input(format!(
                "{path} has {} bytes, and the log of the Delta table says {size}: restore it, or repair the table",
                meta.size
            )));
        }
        let mut file = SourceFile::new(&path, &name, pattern.url.object_store(), meta.clone());
        file.partitions = log_partitions(&table.partition_columns, &partition_values);
        check_name(&file, format)?;
        files.push(Arc::new(file));
    }
    let (partition_columns, table_versions) = (table.partition_columns, vec![table.version]);
    Ok(Listed { files, partition_columns, table_versions, ..Listed::default() })
}

/// Whether `url` is the folder of a Delta table. Fails with `Kind::Input` if the object store cannot be reached.
pub(crate) async fn is_table(ctx: &SessionContext, url: &str) -> Result<bool> {
    let pattern = InputPattern::parse(url)?;
    // A pattern or a file is not a folder.
    if pattern.glob.is_some()
        || pattern.is_local() && matches!(disk::file(pattern.url.prefix()).await, Ok(Some(_)))
    {
        return Ok(false);
    }
    let log = pattern.url.prefix().clone().join(delta::FOLDER);
    let first = pattern.store(ctx, url)?.list(Some(&log)).try_next().await;
    Ok(first.context(|| format!("`{url}` cannot be listed"))?.is_some())
}

fn location(root: &Path, name: &str) -> Result<Path> {
    let separator = if root.as_ref().is_empty() { "" } else { "/" };
    Ok(Path::parse(format!("{root}{separator}{name}")).map_err(object_store::Error::from)?)
}

async fn files_on_disk(table: &Snapshot, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let mut found = BTreeMap::new();
    for name in table.files.keys() {
        let location = location(root, name)?;
        let meta = disk::file(&location).await.context(|| format!("`{url}/{name}` cannot be read"))?;
        found.extend(meta.map(|meta| (location, meta)));
    }
    Ok(found)
}

/// Lists all objects in the folder of a table. The log was read before this listing, so the listing contains all files in the log.
async fn objects(store: &dyn ObjectStore, root: &Path, url: &str) -> Result<BTreeMap<Path, ObjectMeta>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(root)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    Ok(listed.into_iter().map(|meta| (meta.location.clone(), meta)).collect())
}
