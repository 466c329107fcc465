//! Lists the files at given paths and groups them by format.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::dataset::{any_source, title};
use super::sniff::{self, FileKind, JSON, JUDGED_BYTES, ending, kind};
use crate::error::{Error, Result};
use crate::job::{Encoding, Format};
use crate::source::{self, SourceFile};

/// The number of files per ending that are read to determine their format. These are the largest files. All others are assumed to have the
/// format of the largest file.
const JUDGED_FILES: usize = 16;
/// Files of other formats are skipped if the files of the main format are together at least this many times as large.
const NEGLIGIBLE: u64 = 20;
/// The maximum number of URLs that a message shows.
const SHOWN: usize = 3;

pub(super) struct FilesOfFormat {
    pub format: Format,
    /// Paths, URLs and patterns that match exactly these files.
    pub urls: Vec<String>,
    /// Files that are skipped.
    pub left_out: Vec<String>,
}

/// Files of one kind.
struct FileGroup<'a> {
    kind: FileKind,
    bytes: u64,
    files: Vec<&'a SourceFile>,
}

/// Determines the format of the files at `paths`. Skips files that describe a dataset, and files of other formats if they are small.
/// Detects the encoding of texts if `given` is `None`. If `by_lines` is true, the format of texts is [`Format::Lines`]. Messages propose
/// calls of `command`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a path is empty or cannot be read. [`Kind::Job`](crate::error::Kind::Job) if the files
/// have several formats, an unknown format, or no lines of text despite `by_lines`.
pub(super) async fn find(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
    by_lines: bool,
) -> Result<FilesOfFormat> {
    let mut tables = Vec::new();
    for path in paths {
        if source::is_delta_table(ctx, path).await? {
            tables.push(path);
        }
    }
    if let Some(table) = tables.first() {
        if by_lines {
            return Err(no_lines(table, Format::Delta));
        }
        if tables.len() == paths.len() {
            return Ok(FilesOfFormat { format: Format::Delta, urls: paths.to_vec(), left_out: Vec::new() });
        }
        return Err(Error::job(format!(
            "`{table}` is a Delta table, and not all of the other paths are: name files of one format"
        )));
    }
    let (all, hidden) = source::every_file(ctx, paths).await?;
    let (companions, mut files): (Vec<_>, Vec<_>) =
        all.iter().partition(|file| source::is_companion(file.name()));
    if files.is_empty() {
        files.clone_from(&companions);
    }
    let groups = by_kind(ctx, &files, given).await?;
    let bytes: u64 = groups.iter().skip(1).map(|group| group.bytes).sum();
    let main = groups.first().filter(|group| bytes.saturating_mul(NEGLIGIBLE) <= group.bytes);
    let Some((format, main)) = main.and_then(|group| Some((group.kind.ok()?, group))) else {
        return Err(refusal(ctx, command, paths, &all, &groups).await);
    };
    let format = match format {
        Format::Parquet if by_lines => return Err(no_lines(&paths.join(", "), format)),
        _ if by_lines => Format::Lines,
        format => format,
    };
    let mut read: BTreeSet<&str> = main.files.iter().map(|file| file.path()).collect();
    if format == Format::Text {
        read.extend(companions.iter().map(|file| file.path()));
    }
    let others = all.iter().map(SourceFile::path).filter(|path| !read.contains(path)).map(str::to_owned);
    let left_out = others.chain(hidden).collect();
    let urls = narrowed_urls(ctx, paths, format, &all, &read).await;
    if let (Format::Text, [only], 1) = (format, main.files.as_slice(), read.len()) {
        refuse_lines(ctx, command, only, given, &urls).await?;
    }
    Ok(FilesOfFormat { format, urls, left_out })
}

/// Refuses the `only` file, a text at `urls`, if it has several lines. It is then unclear whether the file or each line is a document.
async fn refuse_lines(
    ctx: &SessionContext,
    command: &str,
    only: &SourceFile,
    given: Option<Encoding>,
    urls: &[String],
) -> Result<()> {
    let head = only.head(ctx, JUDGED_BYTES).await?;
    let encoding = given.map_or_else(|| sniff::encoding(&head.bytes, head.whole), Ok)?;
    if sniff::lines(&sniff::decode(&head.bytes, encoding), true).nth(1).is_none() {
        return Ok(());
    }
    let urls: Vec<String> = urls.iter().map(|url| quoted(url)).collect();
    Err(Error::job(format!(
        "{} is the only file, and it has several lines: if each line is a document, run `resemblance {command} {} --lines`; if the \
         whole file is a document, name more files",
        only.path(),
        urls.join(" ")
    )))
}

fn no_lines(shown: &str, format: Format) -> Error {
    let title = title(format);
    Error::job(format!("--lines reads lines of text, and {shown} is {title}: leave --lines out"))
}

/// Groups the files by kind. The kind with the most bytes comes first.
async fn by_kind<'a>(
    ctx: &SessionContext,
    files: &[&'a SourceFile],
    given: Option<Encoding>,
) -> Result<Vec<FileGroup<'a>>> {
    let mut by_ending: BTreeMap<String, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        by_ending.entry(ending(file.name()).to_ascii_lowercase()).or_default().push(file);
    }
    let mut groups: Vec<FileGroup<'a>> = Vec::new();
    for mut alike in by_ending.into_values() {
        alike.sort_by_key(|file| Reverse(file.size()));
        let judged: Vec<_> =
            alike.iter().take(JUDGED_FILES).map(|file| kind(ctx, file, given, files.len() == 1)).collect();
        let kinds: Vec<FileKind> = stream::iter(judged).buffered(JUDGED_FILES).try_collect().await?;
        for (at, file) in alike.into_iter().enumerate() {
            let Some(kind) = kinds.get(at).or(kinds.first()).copied() else { continue };
            let at = groups.iter().position(|group| group.kind == kind).unwrap_or_else(|| {
                groups.push(FileGroup { kind, bytes: 0, files: Vec::new() });
                groups.len() - 1
            });
            groups[at].bytes += file.size();
            groups[at].files.push(file);
        }
    }
    groups.sort_by_key(|group| Reverse((group.bytes, group.files.len())));
    Ok(groups)
}

/// Returns URLs that match exactly the files `read` out of `all`: the paths themselves if they do, or else narrower patterns, or else each
/// file.
async fn narrowed_urls(
    ctx: &SessionContext,
    paths: &[String],
    format: Format,
    all: &[SourceFile],
    read: &BTreeSet<&str>,
) -> Vec<String> {
    let is_other = |path: &str| !read.contains(path) && all.iter().any(|file| file.path() == path);
    let paths: Vec<String> = paths.iter().filter(|path| !is_other(path)).cloned().collect();
    let below = |ending: &str| -> Vec<String> {
        paths.iter().map(|path| format!("{}/**/*{ending}", path.trim_end_matches('/'))).collect()
    };
    let endings: BTreeSet<&str> = read.iter().map(|path| ending(path)).collect();
    for urls in [paths.clone(), endings.into_iter().flat_map(below).collect(), below("")] {
        if let Ok(listed) = source::list_quietly(ctx, &any_source(format, &urls)).await
            && listed.files().map(|file| file.path().to_owned()).eq(read.iter().copied())
        {
            return urls;
        }
    }
    read.iter().map(|path| (*path).to_owned()).collect()
}

/// Returns the error for files that have several formats or an unknown format. The message lists the kinds of files and a command for each
/// format.
async fn refusal(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    all: &[SourceFile],
    groups: &[FileGroup<'_>],
) -> Error {
    let (mut there, mut commands) = (Vec::new(), Vec::new());
    for FileGroup { kind, bytes, files } in groups {
        let Some(first) = files.first().map(|file| file.path()) else { continue };
        there.push(format!(
            "{} {} ({bytes} bytes, such as {first})",
            files.len(),
            kind.map_or_else(|other| other, title)
        ));
        if kind.is_ok() {
            // The endings do not matter, because the command inspects the contents of files.
            let read = files.iter().map(|file| file.path()).collect();
            let urls = narrowed_urls(ctx, paths, Format::Text, all, &read).await;
            let more = if urls.len() > SHOWN { " ..." } else { "" };
            let urls: Vec<String> = urls.iter().take(SHOWN).map(|url| quoted(url)).collect();
            commands.push(format!("`resemblance {command} {}{more}`", urls.join(" ")));
        } else if *kind == Err(JSON) {
            let lines = format!("{}.jsonl", first.strip_suffix(".json").unwrap_or(first));
            let (json, lines) = (quoted(first), quoted(&lines));
            commands.push(format!("`jq -c '.[]' {json} > {lines} && resemblance {command} {lines}`"));
        }
    }
    let advice = if commands.is_empty() {
        "decompress or convert them to Parquet, CSV, JSON lines or text".to_owned()
    } else {
        format!("run {}", commands.join(" or "))
    };
    Error::job(format!(
        "{} cannot be read as files of one format; there are {}: {advice}",
        paths.join(", "),
        there.join(", ")
    ))
}

/// Quotes an argument for a shell, if necessary.
fn quoted(argument: &str) -> String {
    if argument.chars().all(|c| c.is_alphanumeric() || "/._-:=".contains(c)) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}
