//! Lists the files of folders and patterns.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::disk::{self, EntryType};
use super::pattern::{InputPattern, Matched, matched};
use crate::address::{self, APPLIED};
use crate::delta::FOLDER;
use crate::error::{Context, Error, Result};
use crate::job;
use crate::source::file::SourceFile;
use crate::source::format::{Reading, SourceFormat};
use crate::source::other_files::{is_companion, is_system_file};

/// The listed files of a source.
#[derive(Debug, Default)]
pub struct Listed {
    /// The files without duplicates, sorted by path.
    pub(in crate::source) files: Vec<Arc<SourceFile>>,
    pub(crate) partition_columns: Vec<String>,
    /// The versions of the Delta tables, in the order of the tables.
    pub(crate) table_versions: Vec<u64>,
    /// The names of the first files and folders that were skipped because they are hidden or describe data.
    pub(super) companions: Vec<String>,
    /// Sentences about skipped files, by reason. Each sentence names the first files.
    pub(crate) skipped: Vec<String>,
}

impl Listed {
    /// Returns the identity of every file, sorted by path.
    pub fn inputs(&self) -> Vec<job::InputFile> {
        self.files.iter().map(|file| file.input()).collect()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = SourceFile> + '_ {
        self.files.iter().map(|file| file.as_ref().clone())
    }

    pub(crate) fn from_files(files: &[SourceFile]) -> Self {
        Self { files: files.iter().cloned().map(Arc::new).collect(), ..Self::default() }
    }

    /// Returns, for every file, its object store, its location in the store, and its path in the tables of a run.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&ObjectStoreUrl, &Path, &str)> {
        self.files.iter().map(|file| (&file.store, &file.pin.location, file.path()))
    }

    /// Merges the listings of several URLs. The names of files can repeat: see [`Self::name_apart`].
    pub(super) fn merge(listings: Vec<Listed>) -> Self {
        let (mut merged, mut files) = (Self::default(), BTreeMap::new());
        for listed in listings {
            merged.partition_columns.extend(listed.partition_columns);
            merged.table_versions.extend(listed.table_versions);
            merged.companions.extend(listed.companions);
            merged.skipped.extend(listed.skipped);
            for file in listed.files {
                files.entry((file.store.to_string(), file.pin.location.clone())).or_insert(file);
            }
        }
        merged.files = files.into_values().collect();
        merged.files.sort_by(|a, b| a.path.cmp(&b.path));
        merged
    }

    /// Makes the names of the files unique, because a name is a part of ids. If two files have the same name, every name becomes the whole
    /// path. Files that a run does not read must be removed before this call, so that they change no name.
    pub(super) fn name_apart(mut self) -> Self {
        let names: HashSet<&str> = self.files.iter().map(|file| file.name()).collect();
        if names.len() < self.files.len() {
            for file in &mut self.files {
                let file = Arc::make_mut(file);
                file.name = Arc::clone(&file.path);
            }
        }
        self
    }

    /// Removes the files below `shown` whose paths are not in `read`, and logs a warning.
    pub(super) fn retain(&mut self, shown: &str, read: &HashSet<&str>) {
        let mut new = SkippedNames::default();
        self.files.retain(|file| {
            let was_read = read.contains(file.path());
            if !was_read {
                new.add(file.path.to_string());
            }
            was_read
        });
        let sentence = new.sentence("files that are new since the run are not read");
        sentence.iter().for_each(|sentence| tracing::warn!(url = shown, "{sentence}"));
    }
}

/// Lists the files of `urls` recursively.
///
/// Names that start with `.` or `_`, files that describe data, and special files are skipped. In folders, files whose ending does not
/// belong to the format are also skipped. If a URL or a pattern matches the whole name of a file, the ending of the file does not matter.
/// If `warns` is true, the log names the first skipped files. It also names the first empty files, which contain no rows.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a path is missing, a folder is empty or a pattern matches nothing.
pub(super) async fn list(
    ctx: &SessionContext,
    urls: &[String],
    format: &SourceFormat,
    warns: bool,
) -> Result<Listed> {
    let mut found = Vec::with_capacity(urls.len());
    for url in urls {
        let mut skipped = Skipped::default();
        let listed = list_url(ctx, url, format, &mut skipped).await;
        let files = listed.iter().flat_map(|listed| &listed.files);
        files
            .filter(|file| file.size() == 0 && !format.is_one_document())
            .for_each(|file| skipped.add(EMPTY, file.path.to_string()));
        let skipped = skipped.sentences(format);
        skipped.iter().filter(|_| warns).for_each(|sentence| tracing::warn!(url, "{sentence}"));
        found.push(Listed { skipped, ..listed? });
    }
    Ok(Listed::merge(found))
}

async fn list_url(
    ctx: &SessionContext,
    url: &str,
    format: &SourceFormat,
    skipped: &mut Skipped,
) -> Result<Listed> {
    let pattern = InputPattern::parse(url)?;
    let store_url = pattern.url.object_store();
    let store = pattern.store(ctx, url)?;
    let prefix = pattern.url.prefix();

    // The root of a bucket is not an object.
    if pattern.glob.is_none() && !pattern.url.is_collection() && !prefix.as_ref().is_empty() {
        let meta = if pattern.is_local() {
            disk::file(prefix).await.context(|| format!("`{url}` cannot be read"))?
        } else {
            object(store.as_ref(), prefix, url).await?
        };
        if let Some(meta) = meta {
            let file = SourceFile::new(url, prefix.filename().unwrap_or(url), store_url, meta);
            check_name(&file, format)?;
            return Ok(Listed { files: vec![Arc::new(file)], ..Listed::default() });
        }
    }

    let mut entries = if pattern.is_local() {
        disk::entries(prefix).await?
    } else {
        objects(store.as_ref(), prefix, url).await?
    };
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut tables = BTreeSet::new();
    if format.is_parquet() {
        tables = table_folders(entries.iter().map(|(name, _)| name.as_str()));
    }
    // If the format reads every file as a text, a description of a dataset is also a text.
    let is_left_out = if format.endings.is_empty() { is_system_file } else { is_companion };
    let mut listed = Listed::default();
    for (name, kind) in entries {
        let matched = match pattern.glob.as_ref().map(|glob| matched(glob, &name)) {
            Some(Matched::Whole) => true,
            Some(Matched::Not) => continue,
            Some(Matched::Folder) | None => false,
        };
        let wanted = matched || has_ending(&name, format);
        let path = child_path(&pattern.base, &name);
        match kind {
            // This folder contains the files that `apply` writes besides the kept documents. The folder is skipped without a warning.
            EntryType::Hidden { folder: true } if name.rsplit('/').next() == Some(APPLIED) => {}
            EntryType::Hidden { folder: true } => skipped.add(HIDDEN, format!("{path}/")),
            EntryType::LoopingLink => skipped.add(LOOPING, path),
            EntryType::DanglingLink if wanted => skipped.add(DANGLING, path),
            EntryType::Special if wanted => skipped.add(SPECIAL, path),
            EntryType::Hidden { folder: false } if wanted => skipped.add(HIDDEN, path),
            EntryType::Hidden { .. } => {}
            _ if !wanted => skipped.other_endings.add(path),
            EntryType::File(_) if is_left_out(&name) => skipped.add(COMPANION, path),
            EntryType::File(meta) => {
                let file = SourceFile::new(&path, &name, store_url.clone(), meta);
                check_name(&file, format)?;
                check_table(&file, &tables)?;
                listed.files.push(Arc::new(file));
            }
            EntryType::DanglingLink | EntryType::Special => {}
        }
    }
    listed.companions = skipped.companions();
    if listed.files.is_empty() {
        return Err(nothing_at(url, &pattern, format, skipped));
    }
    Ok(listed)
}

/// Returns the path of `name` in a folder. An empty folder is the working directory.
pub(super) fn child_path(folder: &str, name: &str) -> String {
    let separator = if folder.is_empty() || folder.ends_with('/') { "" } else { "/" };
    format!("{folder}{separator}{name}")
}

async fn objects(store: &dyn ObjectStore, prefix: &Path, url: &str) -> Result<Vec<(String, EntryType)>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(prefix)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    let entry = |meta: ObjectMeta| {
        let name = below(prefix, &meta.location)?.to_owned();
        let is_hidden = name.split('/').any(|part| part.starts_with(['.', '_']));
        let kind = if is_hidden { EntryType::Hidden { folder: false } } else { EntryType::File(meta) };
        Some((name, kind))
    };
    Ok(listed.into_iter().filter_map(entry).collect())
}

/// Returns the object at `location`. Returns `None` if the location is a folder or does not exist.
async fn object(store: &dyn ObjectStore, location: &Path, url: &str) -> Result<Option<ObjectMeta>> {
    match store.head(location).await {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        found => found.map(Some).context(|| format!("`{url}` cannot be read")),
    }
}

/// Refuses names that end in `#` and digits, because `LocalFileSystem` treats them as its own unfinished writes.
pub(super) fn check_name(file: &SourceFile, format: &SourceFormat) -> Result<()> {
    let ending = file.name.rsplit('/').next().and_then(|name| name.split_once('#')).map(|(_, ending)| ending);
    let digits = ending.is_some_and(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()));
    if format.is_parquet() && file.is_local() && digits {
        return Err(Error::input(format!(
            "{} cannot be read as Parquet, because its name ends in `#` and digits: rename it",
            file.path
        )));
    }
    Ok(())
}

/// Returns the folders of Delta tables among `names`. A folder ends in `/`, and the listed folder itself is an empty string.
fn table_folders<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let log = format!("/{FOLDER}/");
    let folder = |name: &'a str| format!("/{name}/").find(&log).map(|at| name[..at].to_owned());
    names.filter_map(folder).collect()
}

/// Refuses a Parquet file in the folder of a Delta table, because the table may have removed it.
fn check_table(file: &SourceFile, tables: &BTreeSet<String>) -> Result<()> {
    let Some(table) = tables.iter().find(|table| file.name.starts_with(table.as_str())) else {
        return Ok(());
    };
    let above = file.path.len() - file.name.len() + table.len();
    let table = match file.path[..above].trim_end_matches('/') {
        "" => ".",
        table => table,
    };
    Err(Error::job(format!(
        "`{table}` is the folder of a Delta table, which may have removed some of its Parquet files: set [source] format to \"delta\" and url to \
         that folder"
    )))
}

fn nothing_at(url: &str, pattern: &InputPattern, format: &SourceFormat, skipped: &Skipped) -> Error {
    if pattern.glob.is_some() {
        return Error::input(format!("no file matches `{url}`: correct the pattern"));
    }
    if let Some(missing) = address::missing(url) {
        return Error::input(format!(
            "{missing}: correct the path, which starts at the working directory if it is relative"
        ));
    }
    let skipped = skipped.sentences(format).join("; ");
    if !skipped.is_empty() {
        return Error::input(format!(
            "there is no file to read under `{url}`; {skipped}: set [source] format to their format, or name them one by one or by a \
             pattern such as `{}/*`",
            url.trim_end_matches('/')
        ));
    }
    Error::input(format!("there is no file under `{url}`: put the input there, or correct the path"))
}

/// Returns the part of `location` after `prefix`, or `None` if it is not a descendant of `prefix`.
fn below<'a>(prefix: &Path, location: &'a Path) -> Option<&'a str> {
    let rest = location.as_ref().strip_prefix(prefix.as_ref())?;
    let rest = if prefix.as_ref().is_empty() { rest } else { rest.strip_prefix('/')? };
    (!rest.is_empty()).then_some(rest)
}

/// Whether a file with this name is read if it is in a folder.
fn has_ending(name: &str, format: &SourceFormat) -> bool {
    let name = match format.reading {
        Reading::Parser(parser) if parser.may_be_compressed() => {
            job::without_compression(name).unwrap_or(name)
        }
        _ => name,
    };
    let lower = name.to_ascii_lowercase();
    format.endings.is_empty() || format.endings.iter().any(|end| lower.ends_with(end))
}

/// The maximum number of names in a warning.
const SHOWN: usize = 5;

/// The number of skipped files of one kind, and the first names.
#[derive(Debug, Default)]
struct SkippedNames {
    count: usize,
    first: Vec<String>,
}

impl SkippedNames {
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(name);
        }
    }

    /// Returns the reason with the first names, or `None` if there are none.
    fn sentence(&self, why: &str) -> Option<String> {
        let more = match self.count - self.first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (self.count > 0).then(|| format!("{why}: {}{more}", self.first.join(", ")))
    }
}

/// The files of a listing that are not read.
#[derive(Debug, Default)]
struct Skipped {
    names: BTreeMap<&'static str, SkippedNames>,
    /// The files whose endings do not belong to the format.
    other_endings: SkippedNames,
}

/// The reasons why files are skipped.
const HIDDEN: &str = "files and folders whose names start with . or _ are skipped";
const COMPANION: &str = "files that describe data, or belong to the system, are skipped";
const SPECIAL: &str = "named pipes, sockets and devices are skipped";
const DANGLING: &str = "broken symbolic links are skipped";
const EMPTY: &str = "empty files are skipped";
const LOOPING: &str = "symbolic links to a folder that they are in are skipped";

impl Skipped {
    fn add(&mut self, reason: &'static str, name: String) {
        self.names.entry(reason).or_default().add(name);
    }

    /// Returns a sentence for each reason.
    fn sentences(&self, format: &SourceFormat) -> Vec<String> {
        let endings = format!("files that do not end in {} are skipped", format.endings.join(", "));
        let names = self.names.iter().map(|(reason, names)| names.sentence(reason));
        names.chain([self.other_endings.sentence(&endings)]).flatten().collect()
    }

    fn companions(&self) -> Vec<String> {
        let names = [HIDDEN, COMPANION].into_iter().filter_map(|reason| self.names.get(reason));
        names.flat_map(|names| names.first.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_log_is_a_table() {
        let folders = |names: &[&str]| Vec::from_iter(table_folders(names.iter().copied()));
        assert_eq!(folders(&["_delta_log", "a.parquet"]), [""]);
        let two = ["b/_delta_log/0.json", "b/_delta_log/1.json", "c/d/_delta_log"];
        assert_eq!(folders(&two), ["b/", "c/d/"]);
        assert!(folders(&["a.parquet", "not_delta_log/a", "b/_other"]).is_empty());
    }

    #[test]
    fn a_sibling_that_only_starts_alike_is_not_below() {
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/b/c.csv")), Some("c.csv"));
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/bc.csv")), None);
        assert_eq!(below(&Path::from(""), &Path::from("c.csv")), Some("c.csv"));
    }
}
