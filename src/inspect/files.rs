//! The format of the files that paths name, by their contents and bytes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::dataset::{any_source, title};
use super::{delimited, encoding, json_lines};
use crate::error::{Error, Result};
use crate::job::{self, Encoding, Format};
use crate::source::{self, SourceFile};

/// Bytes of a file by which its content is judged.
const JUDGED_BYTES: usize = 64 * 1024;
/// The largest files of an ending that are judged; the others are like the largest.
const JUDGED_FILES: usize = 16;
/// The bytes that a Parquet file begins with.
const PARQUET: &[u8] = b"PAR1";
/// Files of other formats are left out if their bytes are at most one part of so many.
const NEGLIGIBLE: u64 = 20;
/// Characters of the longest ending that says a format.
const MAX_ENDING: usize = 8;
/// URLs that a message shows.
const SHOWN: usize = 3;

/// Files of one format.
pub(super) struct Named {
    pub format: Format,
    /// The paths, URLs and patterns that name these files and no others.
    pub urls: Vec<String>,
    /// Other files.
    pub left_out: Vec<String>,
}

/// What the content of a file is: a format, or the title of files that cannot be read as they are.
type FileKind = std::result::Result<Format, &'static str>;

/// JSON arrays, and a JSON document without other files.
const JSON: &str = "JSON documents that are not an object per line";
/// Files of other formats, and Parquet files and texts that must be decompressed first.
const UNKNOWN: &str = "files of no known format, or compressed";

/// Files of one kind.
struct Group<'a> {
    kind: FileKind,
    bytes: u64,
    files: Vec<&'a SourceFile>,
}

/// Finds the format of the files that `paths` name. Companions of data, and files with few bytes of other formats, are left out.
/// Texts are in the encoding `given`, if one is. Messages propose to run `command`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where nothing is found there or it cannot be read, and
/// [`Kind::Job`](crate::error::Kind::Job) where the files are of several formats or of none that is known.
pub(super) async fn named(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
) -> Result<Named> {
    let mut tables = Vec::new();
    for path in paths {
        if source::is_delta_table(ctx, path).await? {
            tables.push(path);
        }
    }
    if let Some(table) = tables.first() {
        return match tables.len() == paths.len() {
            true => Ok(Named { format: Format::Delta, urls: paths.to_vec(), left_out: Vec::new() }),
            false => Err(Error::job(format!(
                "`{table}` is a Delta table, and not all of the other paths are: name files of one format"
            ))),
        };
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
    let mut read: BTreeSet<&str> = main.files.iter().map(|file| file.path()).collect();
    if format == Format::Text {
        read.extend(companions.iter().map(|file| file.path()));
    }
    let others = all.iter().map(SourceFile::path).filter(|path| !read.contains(path)).map(str::to_owned);
    let left_out = others.chain(hidden).collect();
    Ok(Named { format, urls: urls_of(ctx, paths, format, &all, &read).await, left_out })
}

/// The files by kind, the kind with the most bytes first.
async fn by_kind<'a>(
    ctx: &SessionContext,
    files: &[&'a SourceFile],
    given: Option<Encoding>,
) -> Result<Vec<Group<'a>>> {
    let mut by_ending: BTreeMap<String, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        by_ending.entry(ending(file.name()).to_ascii_lowercase()).or_default().push(file);
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    for mut alike in by_ending.into_values() {
        alike.sort_by_key(|file| Reverse(file.size()));
        let judged: Vec<_> =
            alike.iter().take(JUDGED_FILES).map(|file| kind(ctx, file, given, files.len() == 1)).collect();
        let kinds: Vec<FileKind> = stream::iter(judged).buffered(JUDGED_FILES).try_collect().await?;
        for (at, file) in alike.into_iter().enumerate() {
            let Some(kind) = kinds.get(at).or(kinds.first()).copied() else { continue };
            let at = groups.iter().position(|group| group.kind == kind).unwrap_or_else(|| {
                groups.push(Group { kind, bytes: 0, files: Vec::new() });
                groups.len() - 1
            });
            groups[at].bytes += file.size();
            groups[at].files.push(file);
        }
    }
    groups.sort_by_key(|group| Reverse((group.bytes, group.files.len())));
    Ok(groups)
}

/// The ending of a name, with that of its compression; empty for endings that are numbers or long.
fn ending(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    let inner = job::without_compression(last).unwrap_or(last);
    let ending = inner.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.len() <= MAX_ENDING && ending.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => &last[inner.len() - ending.len() - 1..],
        false => "",
    }
}

/// What the content of a file is; `alone` if there is no other file.
async fn kind(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
    alone: bool,
) -> Result<FileKind> {
    let named = Format::of_ending(file.path())
        .filter(|format| matches!(format, Format::Parquet | Format::Csv | Format::Jsonl));
    if file.size() == 0 {
        return Ok(Ok(named.unwrap_or(Format::Text)));
    }
    let ending = ending(file.name()).to_ascii_lowercase();
    let may_be_document = ending == ".json" || ending.starts_with(".json.");
    let head = file.head(ctx, JUDGED_BYTES).await?;
    let encoding = match given {
        Some(given) => given,
        None => encoding::sniff(&head.bytes, head.whole)?,
    };
    let text = encoding::text(&head.bytes, encoding);
    Ok(match named {
        _ if head.bytes.starts_with(PARQUET) && head.compressed => Err(UNKNOWN),
        _ if head.bytes.starts_with(PARQUET) => Ok(Format::Parquet),
        Some(Format::Parquet) => Ok(Format::Parquet),
        _ if json_lines::is_array(&text) => Err(JSON),
        _ if json_lines::are_there(&text, head.whole) => Ok(Format::Jsonl),
        Some(Format::Jsonl) if may_be_document && alone => Err(JSON),
        Some(Format::Jsonl) if may_be_document => Ok(Format::Text),
        Some(format) => Ok(format),
        None if is_binary(&text) => Err(UNKNOWN),
        // As a text, a table would have nothing to be compared with.
        None if alone && delimited::sniff(&text, head.whole).is_table() => Ok(Format::Csv),
        None if head.compressed => Err(UNKNOWN),
        None => Ok(Format::Text),
    })
}

/// Whether more than one character in a hundred is a control character that texts do not have.
fn is_binary(text: &str) -> bool {
    let is_control = |c: &char| matches!(c, '\0'..'\t' | '\u{e}'..'\u{1a}' | '\u{1c}'..' ');
    text.starts_with("%PDF") || text.chars().filter(is_control).count() * 100 > text.chars().count()
}

/// The paths, or narrower patterns, that name the files `read` and no others of `all`; or else these files one by one.
async fn urls_of(
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

/// The error for files of several formats, or of none that is known: what there is, and a command for each format.
async fn refusal(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    all: &[SourceFile],
    groups: &[Group<'_>],
) -> Error {
    let (mut there, mut commands) = (Vec::new(), Vec::new());
    for Group { kind, bytes, files } in groups {
        let Some(first) = files.first().map(|file| file.path()) else { continue };
        there.push(format!(
            "{} {} ({bytes} bytes, such as {first})",
            files.len(),
            kind.map_or_else(|other| other, title)
        ));
        if kind.is_ok() {
            // Of these URLs, the command looks at files with any ending.
            let read = files.iter().map(|file| file.path()).collect();
            let urls = urls_of(ctx, paths, Format::Text, all, &read).await;
            let more = if urls.len() > SHOWN { " ..." } else { "" };
            let urls: Vec<String> = urls.iter().take(SHOWN).map(|url| quoted(url)).collect();
            commands.push(format!("`resemblance {command} {}{more}`", urls.join(" ")));
        } else if *kind == Err(JSON) {
            let lines = format!("{}.jsonl", first.strip_suffix(".json").unwrap_or(first));
            let (json, lines) = (quoted(first), quoted(&lines));
            commands.push(format!("`jq -c '.[]' {json} > {lines} && resemblance {command} {lines}`"));
        }
    }
    let what_to_do = match commands.is_empty() {
        true => "decompress or convert them to Parquet, CSV, JSON lines or text".to_owned(),
        false => format!("run {}", commands.join(" or ")),
    };
    Error::job(format!(
        "{} cannot be read as files of one format; there are {}: {what_to_do}",
        paths.join(", "),
        there.join(", ")
    ))
}

/// An argument as a shell reads it.
fn quoted(argument: &str) -> String {
    match argument.chars().all(|c| c.is_alphanumeric() || "/._-:=".contains(c)) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_formats_unless_they_are_numbers_or_long() {
        for (name, expected) in [
            ("a/b.parquet", ".parquet"),
            ("a.JSON.gz", ".JSON.gz"),
            ("a.gz", ""),
            ("a.b/c", ""),
            ("1.001", ""),
            ("00001.a7c53336b37003a9286aba55d2945844c", ""),
        ] {
            assert_eq!(ending(name), expected, "{name}");
        }
    }

    #[test]
    fn texts_have_few_control_characters() {
        assert!(is_binary("\0\u{1}ab") && is_binary("%PDF-1.7\n"));
        assert!(
            !is_binary("") && !is_binary("a\tb\r\n\u{1b}[1m") && !is_binary(&format!("\0{}", "a".repeat(99)))
        );
    }
}
