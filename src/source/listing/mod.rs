//! URLs, folders and globs -> the sorted list of files.

mod companions;
pub(super) mod delta_tables;
pub(super) mod moved;
mod pattern;
pub(crate) mod reach;
mod table_folders;
mod walk;

use std::collections::{BTreeMap, HashSet};

use datafusion::execution::context::SessionContext;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

pub(crate) use self::companions::is_companion;
use self::companions::{Skipped, SkippedNames};
pub(crate) use self::pattern::without_pattern;
use self::pattern::{InputPattern, Matched, matched};
use self::walk::{EntryType, FolderEntry};
use super::file::SourceFile;
use super::format::{Reading, SourceFormat};
use super::local_names::LOCAL;
use crate::address::{self, APPLIED};
use crate::error::{Context, Error, Result};
use crate::job;

/// The files that the URLs of a source name.
#[derive(Debug, Default)]
pub(super) struct ListedFiles {
    /// The files, sorted by path, each once.
    pub files: Vec<SourceFile>,
    /// Columns of Delta tables whose values are in no file.
    pub partition_columns: Vec<String>,
    /// The versions of the Delta tables, in their order.
    pub table_versions: Vec<u64>,
    /// The first files and folders that are hidden, or companions of data.
    pub companions: Vec<String>,
}

impl ListedFiles {
    /// Leaves out files below `urls` that are not among those of a run, whose paths are `read`. A warning names them.
    pub(super) fn keep(&mut self, urls: &[String], read: &HashSet<&str>) {
        let mut new = SkippedNames::default();
        self.files.retain(|file| {
            let was_read = read.contains(file.path.as_str());
            if !was_read {
                new.add(file.path.clone());
            }
            was_read
        });
        new.warn(&urls.join(", "), "files that are new since the run are not read");
    }
}

/// The files of `source`.
///
/// Folders are read to any depth. The log counts and names what is skipped: names that start with `.` or `_`, companions of data,
/// in folders all files without one of the format's endings, and on disks what is not a file. A file that a URL names, or whose
/// whole name a pattern matches, is read whatever its ending.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a path is missing, a folder is empty or a glob matches nothing.
pub(super) async fn files(
    ctx: &SessionContext,
    urls: &[String],
    format: &SourceFormat,
) -> Result<ListedFiles> {
    let mut found = Vec::with_capacity(urls.len());
    for url in urls {
        let mut skipped = Skipped::default();
        let under = under(ctx, url, format, &mut skipped).await;
        skipped.warn(url, format);
        found.push(under?);
    }
    Ok(merge(found))
}

/// As [`files`], without a word in the log: for a look at files that a job lists later.
pub(super) async fn quietly(
    ctx: &SessionContext,
    urls: &[String],
    format: &SourceFormat,
) -> Result<ListedFiles> {
    let mut found = Vec::with_capacity(urls.len());
    for url in urls {
        found.push(under(ctx, url, format, &mut Skipped::default()).await?);
    }
    Ok(merge(found))
}

/// The files of several URLs, each once.
fn merge(found: Vec<ListedFiles>) -> ListedFiles {
    let mut files = BTreeMap::new();
    let (mut partition_columns, mut table_versions) = (Vec::new(), Vec::new());
    let mut companions = Vec::new();
    for found in found {
        partition_columns.extend(found.partition_columns);
        table_versions.extend(found.table_versions);
        companions.extend(found.companions);
        for file in found.files {
            files.entry((file.store.clone().to_string(), file.meta.location.clone())).or_insert(file);
        }
    }
    let mut files: Vec<SourceFile> = files.into_values().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    ListedFiles { files, partition_columns, table_versions, companions }
}

/// Makes names unique, since they are parts of ids: where two folders have files of one name, every name is the whole path.
pub(super) fn name_apart(files: &mut [SourceFile]) {
    let distinct: HashSet<&str> = files.iter().map(|f| f.name.as_str()).collect();
    if distinct.len() < files.len() {
        for file in files {
            file.name = file.path.clone();
        }
    }
}

/// The files behind one URL; the others go to `skipped`.
async fn under(
    ctx: &SessionContext,
    url: &str,
    format: &SourceFormat,
    skipped: &mut Skipped,
) -> Result<ListedFiles> {
    let pattern = InputPattern::parse(url)?;
    let store_url = pattern.url.object_store();
    let store =
        ctx.runtime_env().object_store(&store_url).context(|| format!("no storage is set up for `{url}`"))?;
    let prefix = pattern.url.prefix();
    let local = store_url.as_str() == LOCAL;

    // A bucket is no object.
    if pattern.glob.is_none() && !pattern.url.is_collection() && !prefix.as_ref().is_empty() {
        let meta = match local {
            true => walk::file(prefix).await.context(|| format!("`{url}` cannot be read"))?,
            false => head(store.as_ref(), prefix, url).await?,
        };
        if let Some(meta) = meta {
            let name = prefix.filename().unwrap_or(url).to_owned();
            let file = SourceFile::new(url.to_owned(), name, store_url, meta);
            check_name(&file, format)?;
            return Ok(ListedFiles { files: vec![file], ..ListedFiles::default() });
        }
    }

    let mut listed = match local {
        true => walk::below(prefix).await?,
        false => objects(store.as_ref(), prefix, url).await?,
    };
    listed.sort_by(|a, b| a.name.cmp(&b.name));

    let tables = match format.reading {
        Reading::ParquetScan => table_folders::folders(listed.iter().map(|entry| entry.name.as_str())),
        Reading::Parser(_) => Vec::new(),
    };
    // Where each file is a text, a description is one too.
    let is_left_out = if format.endings.is_empty() { companions::is_of_system } else { is_companion };
    let mut found = ListedFiles::default();
    for FolderEntry { name, what } in listed {
        let matched = match &pattern.glob {
            Some(glob) => match matched(glob, &name) {
                Matched::Whole => true,
                Matched::Folder => false,
                Matched::Not => continue,
            },
            None => false,
        };
        let wanted = matched || has_extension(&name, format);
        let path = match pattern.base.as_str() {
            "" => name.clone(),
            base if base.ends_with('/') => format!("{base}{name}"),
            base => format!("{base}/{name}"),
        };
        match what {
            // Everything that `apply` does not keep.
            EntryType::Hidden { folder: true } if name.rsplit('/').next() == Some(APPLIED) => {}
            EntryType::Hidden { folder: true } => skipped.hidden.add(format!("{path}/")),
            EntryType::LoopingLink => skipped.looping.add(path),
            EntryType::DanglingLink if wanted => skipped.dangling.add(path),
            EntryType::Special if wanted => skipped.special.add(path),
            EntryType::Hidden { folder: false } if wanted => skipped.hidden.add(path),
            EntryType::Hidden { .. } => {}
            _ if !wanted => skipped.other_endings += 1,
            EntryType::File(_) if is_left_out(&name) => skipped.companions.add(path),
            EntryType::File(meta) => {
                let file = SourceFile::new(path, name, store_url.clone(), meta);
                check_name(&file, format)?;
                table_folders::refuse_file(&file, &tables)?;
                found.files.push(file);
            }
            EntryType::DanglingLink | EntryType::Special => {}
        }
    }
    found.companions = skipped.companions();
    if found.files.is_empty() {
        return Err(nothing_at(url, &pattern, format, skipped));
    }
    Ok(found)
}

/// The objects below `prefix`, with those that have a hidden name.
async fn objects(store: &dyn ObjectStore, prefix: &Path, url: &str) -> Result<Vec<FolderEntry>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(prefix)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    let entry = |meta: ObjectMeta| {
        let name = below(prefix, &meta.location)?.to_owned();
        let what = match name.split('/').any(|part| part.starts_with(['.', '_'])) {
            true => EntryType::Hidden { folder: false },
            false => EntryType::File(meta),
        };
        Some(FolderEntry { name, what })
    };
    Ok(listed.into_iter().filter_map(entry).collect())
}

/// Refuses names that end in `#` and digits, which the engine's reader of local files takes for its own unfinished writes.
fn check_name(file: &SourceFile, format: &SourceFormat) -> Result<()> {
    let ending = file.name.rsplit('/').next().and_then(|name| name.split_once('#')).map(|(_, ending)| ending);
    let digits = ending.is_some_and(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()));
    if matches!(format.reading, Reading::ParquetScan) && file.is_local() && digits {
        return Err(Error::input(format!(
            "{} cannot be read as Parquet, because its name ends in `#` and digits: rename it",
            file.path
        )));
    }
    Ok(())
}

/// The file at `location`; `None` if there is a folder or nothing.
async fn head(store: &dyn ObjectStore, location: &Path, url: &str) -> Result<Option<ObjectMeta>> {
    match store.head(location).await {
        Ok(meta) => Ok(Some(meta)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e).context(|| format!("`{url}` cannot be read")),
    }
}

fn nothing_at(url: &str, pattern: &InputPattern, format: &SourceFormat, skipped: &Skipped) -> Error {
    let extensions = format.endings.join(", ");
    let ignored = skipped.other_endings;
    if pattern.glob.is_some() {
        return Error::input(format!("no file matches `{url}`: correct the pattern in [source] url"));
    }
    if ignored > 0 {
        return Error::input(format!(
            "no file under `{url}` ends in {extensions}, but {ignored} have other endings: set [source] format to \
             their format, or name them one by one or by a pattern such as `{}/*`",
            url.trim_end_matches('/')
        ));
    }
    if skipped.not_readable() > 0 {
        return Error::input(format!(
            "there is no file under `{url}` that can be read, and {} were skipped, as the log says: name or rename \
             them",
            skipped.not_readable()
        ));
    }
    Error::input(match address::missing(url) {
        Some(missing) => {
            format!("{missing}: correct the path, which starts at the working directory if it is relative")
        }
        None => format!("there is no file under `{url}`: put the input there, or correct the path"),
    })
}

/// The part of `location` below `prefix`; `None` if it is not a descendant.
fn below<'a>(prefix: &Path, location: &'a Path) -> Option<&'a str> {
    let rest = location.as_ref().strip_prefix(prefix.as_ref())?;
    let rest = if prefix.as_ref().is_empty() { rest } else { rest.strip_prefix('/')? };
    (!rest.is_empty()).then_some(rest)
}

fn has_extension(name: &str, format: &SourceFormat) -> bool {
    let all = format.endings;
    let name = match format.reading {
        Reading::Parser(parser) if parser.may_be_compressed() => {
            job::without_compression(name).unwrap_or(name)
        }
        _ => name,
    };
    let lower = name.to_ascii_lowercase();
    all.is_empty() || all.iter().any(|end| lower.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_that_only_starts_alike_is_not_below() {
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/b/c.csv")), Some("c.csv"));
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/bc.csv")), None);
        assert_eq!(below(&Path::from(""), &Path::from("c.csv")), Some("c.csv"));
    }
}
