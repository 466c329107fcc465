//! Lists the files of a source.

mod delta_files;
pub(super) mod disk;
pub(super) mod files;
mod pattern;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::execution::context::SessionContext;

use self::files::child_path;
use self::pattern::split_glob;
use super::file::SourceFile;
use super::formats::format_of;
use crate::error::{Error, Result};
use crate::job::{self, Format};

pub(crate) use self::delta_files::is_table as is_delta_table;
pub use self::files::Listed;
pub(crate) use self::pattern::{Reach, same_store, without_pattern};

/// Lists the files of `source` without duplicates, sorted by path.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a path is missing, a folder is empty, a pattern matches nothing or the object store
/// cannot be reached.
pub async fn list(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    let mut listed = find(ctx, source, true).await?;
    if let Some(forgotten) = source.forgotten.as_ref().filter(|forgotten| !forgotten.files.is_empty()) {
        listed.retain(&source.urls.join(", "), &forgotten.files.iter().map(String::as_str).collect());
    }
    Ok(listed.name_apart())
}

/// Lists files in the same way as [`list`], without warnings about skipped files. A job lists the files again with warnings.
pub(crate) async fn list_quietly(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    Ok(find(ctx, source, false).await?.name_apart())
}

/// Lists the files of `source`, whose names can repeat.
async fn find(ctx: &SessionContext, source: &job::Source, warns: bool) -> Result<Listed> {
    let format = format_of(source.format);
    match source.format {
        // Each URL is a folder with a Delta log, which lists the files.
        Format::Delta => delta_files::list(ctx, source, format).await,
        // Each URL is a file, a folder or a pattern.
        _ => files::list(ctx, &source.urls, format, warns).await,
    }
}

/// Lists the files of `source` that a run `read` and that still exist. `places` contains the new location of each URL, or nothing if the
/// files were not moved. Moved files keep their paths. Fails with `Kind::Job` if there are not as many places as URLs.
pub(crate) async fn list_again(
    ctx: &SessionContext,
    source: &job::Source,
    places: &[String],
    read: &[job::InputFile],
) -> Result<Listed> {
    let mut listed = match places {
        [] => find(ctx, source, true).await?,
        places => list_moved(ctx, source, places).await?,
    };
    let read: HashSet<&str> = read.iter().map(|file| file.path.as_str()).collect();
    listed.retain(&source.urls.join(", "), &read);
    Ok(listed.name_apart())
}

async fn list_moved(ctx: &SessionContext, source: &job::Source, places: &[String]) -> Result<Listed> {
    if places.len() != source.urls.len() {
        return Err(Error::job(format!(
            "the source has the URLs {}: expected one new place for each, in this order, and got {}",
            source.urls.join(", "),
            places.len()
        )));
    }
    let mut found = Vec::with_capacity(places.len());
    for (at, (was, place)) in source.urls.iter().zip(places).enumerate() {
        let (base, pattern) = split_glob(was);
        let now = match pattern {
            Some(pattern) if split_glob(place).1.is_none() => {
                format!("{}/{pattern}", place.trim_end_matches('/'))
            }
            _ => place.clone(),
        };
        let table_versions = source.table_versions.get(at).copied().into_iter().collect();
        let moved = job::Source { urls: vec![now.clone()], table_versions, ..source.clone() };
        let mut listed = find(ctx, &moved, false).await?;
        // Restores the earlier paths and names, which are below `base`.
        for file in listed.files.iter_mut().map(Arc::make_mut) {
            if *file.path == *now {
                file.name = base.rsplit('/').next().unwrap_or(base).into();
                file.path = base.into();
            } else {
                file.path = child_path(base, &file.name).into();
            }
        }
        found.push(listed);
    }
    Ok(Listed::merge(found))
}

/// Lists all files of `urls` with any ending, without warnings. Also returns the names of some skipped files, which are hidden or
/// accompany data files, such as checksums.
pub(crate) async fn every_file(
    ctx: &SessionContext,
    urls: &[String],
) -> Result<(Vec<SourceFile>, Vec<String>)> {
    let listed = files::list(ctx, urls, format_of(job::Format::Text), false).await?;
    Ok((listed.files().collect(), listed.companions))
}
