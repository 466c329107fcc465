//! URLs, folders and globs -> the sorted list of files behind them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path as LocalPath;
use std::time::SystemTime;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use super::bytes::LOCAL;
use super::pin::Pin;
use super::to_parse::FileToParse;
use super::walk::{self, Entry, What};
use crate::address;
use crate::error::{Context, Error, Result};
use crate::job;
use crate::local_path;

/// One file of the input.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// The path as the user would write it: the URL of the job, and below it the file.
    pub path: String,
    /// The path relative to the folder of its URL, with `/`. No two files of a listing share it.
    pub name: String,
    /// The store that has it.
    pub store: ObjectStoreUrl,
    /// Location, size and age in that store.
    pub meta: ObjectMeta,
}

impl File {
    /// The file as it was listed, which whoever reads it must find.
    pub(crate) fn pin(&self) -> Pin {
        Pin::new(&self.store, &self.meta)
    }

    /// What the fingerprint of a run takes of this file.
    pub(crate) fn input(&self) -> job::InputFile {
        job::InputFile {
            path: self.path.clone(),
            bytes: self.meta.size,
            modified: SystemTime::from(self.meta.last_modified),
            e_tag: if self.is_local() { None } else { self.meta.e_tag.clone() },
        }
    }

    /// What whoever reads this file must know of it.
    pub(crate) fn to_parse(&self) -> FileToParse {
        FileToParse {
            source: self.path.as_str().into(),
            name: self.name.as_str().into(),
            store: self.store.as_str().to_owned(),
            pin: self.pin(),
            wanted: None,
        }
    }

    fn is_local(&self) -> bool {
        self.store.as_str() == LOCAL
    }
}

/// What the URLs of a source name.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The files, sorted by path, each once.
    pub files: Vec<File>,
    /// Files whose names are not UTF-8 or hold control characters, which nothing could name in an output; sorted.
    pub unnamable: Vec<job::InputFile>,
    /// Columns of Delta tables whose values are in no file.
    pub partition_columns: Vec<String>,
}

/// The files of `source`.
///
/// Folders are read to any depth. What is passed over is counted and named in the log: names that start with `.` or
/// `_`, in folders everything that has not one of the format's extensions, and on disks what is not a file. A file that
/// is named outright or matched by a glob to its last letter is taken whatever its extension.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a path is missing, a folder is empty or a glob matches nothing.
pub(super) async fn files(ctx: &SessionContext, source: &job::Source) -> Result<Found> {
    let mut found = Vec::with_capacity(source.urls.len());
    for url in &source.urls {
        found.push(under(ctx, url, source.format).await?);
    }
    Ok(together(found))
}

/// What several URLs name, together.
pub(super) fn together(found: Vec<Found>) -> Found {
    let mut files = BTreeMap::new();
    let mut unnamable = BTreeMap::new();
    let mut partition_columns = Vec::new();
    for found in found {
        partition_columns.extend(found.partition_columns);
        for file in found.files {
            files.entry((file.store.clone().to_string(), file.meta.location.clone())).or_insert(file);
        }
        unnamable.extend(found.unnamable.into_iter().map(|file| (file.path.clone(), file)));
    }
    let mut files: Vec<File> = files.into_values().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    name_apart(&mut files);
    Found { files, unnamable: unnamable.into_values().collect(), partition_columns }
}

/// Two folders may hold files of one name, and names are parts of ids: then every file goes by its whole path.
fn name_apart(files: &mut [File]) {
    let distinct: HashSet<&str> = files.iter().map(|f| f.name.as_str()).collect();
    if distinct.len() < files.len() {
        for file in files {
            file.name = file.path.clone();
        }
    }
}

/// The files behind one URL.
async fn under(ctx: &SessionContext, url: &str, format: job::Format) -> Result<Found> {
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
            let file = File { path: url.to_owned(), name, store: store_url, meta };
            check_name(&file, format)?;
            return Ok(Found { files: vec![file], ..Found::default() });
        }
    }

    let mut listed = match local {
        true => walk::below(prefix).await?,
        false => objects(store.as_ref(), prefix, url).await?,
    };
    listed.sort_by(|a, b| a.name.cmp(&b.name));

    let mut found = Found::default();
    let mut passed = PassedOver::default();
    for Entry { name, what } in listed {
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
            What::Hidden { folder: true } => passed.hidden.add(format!("{path}/")),
            What::LoopingLink => passed.looping.add(path),
            What::DanglingLink if wanted => passed.dangling.add(path),
            What::Special if wanted => passed.special.add(path),
            What::Hidden { folder: false } if wanted => passed.hidden.add(path),
            // An extension that nobody asked for would have been passed over anyway.
            What::Hidden { .. } => {}
            _ if !wanted => passed.other_endings += 1,
            What::File(meta) => {
                let file = File { path, name, store: store_url.clone(), meta };
                check_name(&file, format)?;
                found.files.push(file);
            }
            What::Unnamable { bytes, modified } => {
                passed.unnamable.add(path.clone());
                found.unnamable.push(job::InputFile { path, bytes, modified, e_tag: None });
            }
            What::DanglingLink | What::Special => {}
        }
    }
    passed.tell(url, format);
    if found.files.is_empty() {
        return Err(nothing_at(url, &pattern, format, &passed));
    }
    Ok(found)
}

/// The objects below `prefix`, those with a hidden name among them.
async fn objects(store: &dyn ObjectStore, prefix: &Path, url: &str) -> Result<Vec<Entry>> {
    let listed: Vec<ObjectMeta> =
        store.list(Some(prefix)).try_collect().await.context(|| format!("`{url}` cannot be listed"))?;
    let entry = |meta: ObjectMeta| {
        let name = below(prefix, &meta.location)?.to_owned();
        let what = match name.split('/').any(|part| part.starts_with(['.', '_'])) {
            true => What::Hidden { folder: false },
            false => What::File(meta),
        };
        Some(Entry { name, what })
    };
    Ok(listed.into_iter().filter_map(entry).collect())
}

/// The engine's own reader of local files takes names that end in `#` and digits for unfinished writes of its own.
pub(super) fn check_name(file: &File, format: job::Format) -> Result<()> {
    let ending = file.name.rsplit('/').next().and_then(|name| name.split_once('#')).map(|(_, ending)| ending);
    let digits = ending.is_some_and(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()));
    if matches!(format, job::Format::Parquet | job::Format::Delta) && file.is_local() && digits {
        return Err(Error::input(format!(
            "{} cannot be read as Parquet, because its name ends in `#` and digits: rename it",
            file.path
        )));
    }
    Ok(())
}

/// Names that a sentence mentions.
const NAMED: usize = 5;

/// How many there are, and the first names of them.
#[derive(Debug, Default)]
struct Names {
    count: usize,
    first: Vec<String>,
}

impl Names {
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(name);
        }
    }

    fn tell(&self, url: &str, said: &str) {
        if self.count > 0 {
            let more = if self.count > self.first.len() { ", ..." } else { "" };
            tracing::warn!(url, count = self.count, "{said}: {}{more}", self.first.join(", "));
        }
    }
}

/// What of a listing is not read.
#[derive(Debug, Default)]
struct PassedOver {
    hidden: Names,
    special: Names,
    dangling: Names,
    looping: Names,
    unnamable: Names,
    other_endings: usize,
}

impl PassedOver {
    fn tell(&self, url: &str, format: job::Format) {
        self.hidden.tell(url, "files and folders whose names start with . or _ are skipped");
        self.special.tell(url, "named pipes, sockets and devices are skipped");
        self.dangling.tell(url, "broken symbolic links are skipped");
        self.looping.tell(url, "symbolic links to a folder that they are in are skipped");
        self.unnamable.tell(
            url,
            "files whose names are not UTF-8 or hold control characters go to the table rejects; rename them",
        );
        if self.other_endings > 0 {
            let (ignored, extensions) = (self.other_endings, extensions(format).join(", "));
            tracing::warn!(url, ignored, "files that do not end in {extensions} are skipped");
        }
    }

    fn not_read(&self) -> usize {
        let names = [&self.hidden, &self.special, &self.dangling, &self.looping, &self.unnamable];
        names.into_iter().map(|names| names.count).sum()
    }
}

/// The file at `location`; `None` if there is a folder or nothing.
async fn head(store: &dyn ObjectStore, location: &Path, url: &str) -> Result<Option<ObjectMeta>> {
    match store.head(location).await {
        Ok(meta) => Ok(Some(meta)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e).context(|| format!("`{url}` cannot be read")),
    }
}

fn nothing_at(url: &str, pattern: &InputPattern, format: job::Format, passed: &PassedOver) -> Error {
    let extensions = extensions(format).join(", ");
    let ignored = passed.other_endings;
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
    if passed.not_read() > 0 {
        return Error::input(format!(
            "there is no file under `{url}` that can be read, and {} were skipped, as the log says: name or rename \
             them",
            passed.not_read()
        ));
    }
    let there = pattern.url.scheme() != "file"
        || pattern.url.get_url().to_file_path().is_ok_and(|path| path.exists());
    if there {
        Error::input(format!("there is no file under `{url}`: put the input there, or correct [source] url"))
    } else {
        Error::input(format!(
            "there is no `{url}`: correct [source] url (relative paths start at the working directory)"
        ))
    }
}

/// A URL of the job taken apart.
pub(super) struct InputPattern {
    /// Where to list.
    pub url: ListingTableUrl,
    /// What of the listing is meant, relative to `url`.
    pub glob: Option<glob::Pattern>,
    /// What stands before a listed file's name to make its path.
    base: String,
}

impl InputPattern {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let wrong =
            |e: &dyn std::fmt::Display| Error::input(format!("`{url}` is neither a path nor a URL: {e}"));
        address::check(url).map_err(|said| Error::job(format!("a URL in [source] url {said}")))?;
        let remote = address::scheme(url).is_some();
        // A file whose own name holds `[` or `*` is that file and no pattern.
        if !remote && LocalPath::new(url).exists() {
            let mut absolute = local_path::absolute(url).map_err(|e| wrong(&e))?;
            if absolute.is_dir() {
                absolute.push("");
            }
            let exact = Url::from_file_path(&absolute).map_err(|()| wrong(&"it cannot be made absolute"))?;
            let listing = ListingTableUrl::try_new(exact, None).map_err(|e| wrong(&e))?;
            return Ok(Self { url: listing, glob: None, base: url.to_owned() });
        }
        let (base, pattern) = split_glob(url);
        let glob = pattern.map(glob::Pattern::new).transpose().map_err(|e| wrong(&e))?;
        let place = if base.is_empty() { "./" } else { base };
        let listing = if remote {
            ListingTableUrl::try_new(address::url(place)?, None).map_err(|e| wrong(&e))?
        } else {
            let mut absolute = local_path::absolute(place).map_err(|e| wrong(&e))?;
            if place.ends_with('/') {
                absolute.push("");
            }
            let exact = Url::from_file_path(&absolute).map_err(|()| wrong(&"it cannot be made absolute"))?;
            ListingTableUrl::try_new(exact, None).map_err(|e| wrong(&e))?
        };
        Ok(Self { url: listing, glob, base: base.to_owned() })
    }
}

/// `data/2024-*/x.csv` -> (`data/`, `2024-*/x.csv`): the folder up to the first segment with a wildcard.
///
/// In a URL with a scheme `?` starts a query, and `[` is legal; only `*` is a wildcard there.
fn split_glob(url: &str) -> (&str, Option<&str>) {
    let wild: &[char] = if address::scheme(url).is_some() { &['*'] } else { &['*', '?', '['] };
    match url.find(wild) {
        None => (url, None),
        Some(at) => {
            let start = url[..at].rfind('/').map_or(0, |slash| slash + 1);
            (&url[..start], Some(&url[start..]))
        }
    }
}

enum Matched {
    /// The pattern gives the file.
    Whole,
    /// The pattern gives a folder above the file.
    Folder,
    Not,
}

/// As in a shell: `*` stays within a segment, `**` crosses segments, and a folder stands for what is in it.
fn matched(glob: &glob::Pattern, name: &str) -> Matched {
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    if glob.matches_with(name, options) {
        return Matched::Whole;
    }
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if glob.matches_with(above, options) {
            return Matched::Folder;
        }
        folder = above;
    }
    Matched::Not
}

/// The part of `location` below `prefix`; `None` if it is not a descendant.
fn below<'a>(prefix: &Path, location: &'a Path) -> Option<&'a str> {
    let rest = location.as_ref().strip_prefix(prefix.as_ref())?;
    let rest = if prefix.as_ref().is_empty() { rest } else { rest.strip_prefix('/')? };
    (!rest.is_empty()).then_some(rest)
}

/// What a folder's files of `format` end in; empty is everything.
fn extensions(format: job::Format) -> &'static [&'static str] {
    match format {
        job::Format::Reuters => &[".sgm", ".sgml"],
        job::Format::Csv => {
            &[".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst", ".txt.zst"]
        }
        job::Format::Parquet | job::Format::Delta => &[".parquet"],
        job::Format::Jsonl => &[
            ".jsonl",
            ".ndjson",
            ".json",
            ".jsonl.gz",
            ".ndjson.gz",
            ".json.gz",
            ".jsonl.zst",
            ".ndjson.zst",
            ".json.zst",
        ],
        job::Format::Text => &[],
    }
}

fn has_extension(name: &str, format: job::Format) -> bool {
    let all = extensions(format);
    let lower = name.to_ascii_lowercase();
    all.is_empty() || all.iter().any(|end| lower.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_starts_at_the_first_segment_with_a_wildcard() {
        assert_eq!(split_glob("a/b*/c.csv"), ("a/", Some("b*/c.csv")));
        assert_eq!(split_glob("*.csv"), ("", Some("*.csv")));
        assert_eq!(split_glob("a/b.csv"), ("a/b.csv", None));
        assert_eq!(split_glob("s3://bucket/a/*.csv"), ("s3://bucket/a/", Some("*.csv")));
    }

    #[test]
    fn a_star_stays_within_its_folder() {
        let kind = |pattern: &str, name: &str| match matched(&glob::Pattern::new(pattern).unwrap(), name) {
            Matched::Whole => "whole",
            Matched::Folder => "folder",
            Matched::Not => "not",
        };
        assert_eq!(kind("*.csv", "a.csv"), "whole");
        assert_eq!(kind("*.csv", "sub/a.csv"), "not");
        assert_eq!(kind("**/*.csv", "sub/deep/a.csv"), "whole");
        assert_eq!(kind("2024-*", "2024-01/a.csv"), "folder");
    }

    #[test]
    fn a_sibling_that_only_starts_alike_is_not_below() {
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/b/c.csv")), Some("c.csv"));
        assert_eq!(below(&Path::from("a/b"), &Path::from("a/bc.csv")), None);
        assert_eq!(below(&Path::from(""), &Path::from("c.csv")), Some("c.csv"));
    }
}
