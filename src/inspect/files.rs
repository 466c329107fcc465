//! Lists the files at given paths, and groups them by format.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::context::SessionContext;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::dataset::{any_source, title};
use super::sniff::{self, FileKind, JUDGED_BYTES, ending, kind};
use crate::error::{Error, Result};
use crate::job::{Encoding, Format};
use crate::source::{self, SourceFile, first_names, quoted};

/// For each ending, this number of the largest files are read to determine their formats. All other files get the format of the largest
/// file.
const JUDGED_FILES: usize = 256;
/// The number of files that are read at the same time to determine their format.
const CONCURRENT_HEADS: usize = 16;
/// Files of other formats are skipped if the files of the main format are this many times as large together.
const NEGLIGIBLE: u64 = 20;
const SHOWN: usize = 3;

pub(crate) struct FilesOfFormat {
    pub format: Format,
    /// Paths, URLs and patterns that match exactly these files.
    pub urls: Vec<String>,
    /// Skipped files, except for [`Self::not_text`].
    pub left_out: Vec<String>,
    /// Files that cannot be read in their current form, with their remedies.
    pub not_text: Vec<(String, String)>,
    /// Sentences about skipped files and about detected encodings.
    pub notes: Vec<String>,
    /// The encoding of texts: the given encoding, or [`Encoding::Detect`] if the beginning of a text is not in UTF-8.
    pub encoding: Option<Encoding>,
    pub is_single: bool,
}

struct FileGroup<'a> {
    kind: FileKind,
    bytes: u64,
    files: Vec<&'a SourceFile>,
    /// The paths of files that are not in UTF-8, by their encoding.
    not_utf_8: BTreeMap<String, Vec<&'a str>>,
}

impl<'a> FileGroup<'a> {
    fn paths(&self) -> Vec<&'a str> {
        self.files.iter().map(|file| file.path()).collect()
    }

    /// Returns a sentence for each encoding besides UTF-8.
    fn encoding_notes(&self) -> impl Iterator<Item = String> {
        self.not_utf_8
            .iter()
            .map(|(encoding, paths)| format!("detected encoding: {encoding} in {}", first_names(paths)))
    }
}

/// Determines the format of the files at `paths`. Skips files that describe a dataset or cannot be read, and files of other formats if
/// they are small. Detects the encoding of texts if `given` is `None`. With `by_lines`, the format of texts is [`Format::Lines`].
/// Messages propose calls of `command`. Fails with `Kind::Input` if a path is empty or cannot be read. Fails with `Kind::Job` if there
/// are several formats, no readable file, or no lines of text despite `by_lines`.
pub(super) async fn find(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
    by_lines: bool,
) -> Result<FilesOfFormat> {
    if let Some(tables) = delta_tables(ctx, paths, by_lines).await? {
        return Ok(tables);
    }
    let (all, hidden) = source::every_file(ctx, paths).await?;
    let (companions, mut files): (Vec<_>, Vec<_>) =
        all.iter().partition(|file| source::is_companion(file.name()));
    if files.is_empty() {
        files.clone_from(&companions);
    }
    let (groups, others): (Vec<_>, Vec<_>) =
        by_kind(ctx, &files, given).await?.into_iter().partition(|group| group.kind.is_ok());
    let mut notes: Vec<String> =
        others.iter().filter_map(|group| Some(group.kind.err()?.sentence(&group.paths()))).collect();
    let bytes: u64 = groups.iter().skip(1).map(|group| group.bytes).sum();
    let main = groups.first().filter(|group| bytes.saturating_mul(NEGLIGIBLE) <= group.bytes);
    let Some((format, main)) = main.and_then(|group| Some((group.kind.ok()?, group))) else {
        return Err(refusal(ctx, command, paths, &all, &groups, &notes).await);
    };
    let format = match format {
        _ if by_lines && format.rules().has_own_encoding => return Err(no_lines(&paths.join(", "), format)),
        _ if by_lines => Format::Lines,
        format => format,
    };
    notes.iter_mut().for_each(|sentence| sentence.insert_str(0, "not compared: "));
    let mut read: BTreeSet<&str> = main.paths().into_iter().collect();
    if format == Format::Text {
        read.extend(companions.iter().map(|file| file.path()));
    }
    let mut encoding = given;
    if format == Format::Text && given.is_none() && !main.not_utf_8.is_empty() {
        encoding = Some(Encoding::Detect);
        notes.extend(main.encoding_notes());
    }
    let kinds = others.iter().filter_map(|group| Some((group.kind.err()?, group.paths())));
    let remedies =
        kinds.flat_map(|(kind, paths)| paths.into_iter().map(|path| (path, kind.remedy_for(path))));
    let not_text: BTreeMap<&str, String> = remedies.collect();
    let is_left_out = |path: &&str| !read.contains(path) && !not_text.contains_key(path);
    let left_out = all.iter().map(SourceFile::path).filter(is_left_out).map(str::to_owned);
    let left_out: Vec<String> = left_out.chain(hidden).collect();
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(String::as_str).collect();
        let note = format!("left out, because they are no data of this format: {}", first_names(&names));
        notes.insert(0, note);
    }
    let urls = narrowed_urls(ctx, paths, format, &all, &read).await;
    let is_single = read.len() == 1;
    if let (Format::Text, [only], true) = (format, main.files.as_slice(), is_single) {
        refuse_lines(ctx, command, only, given, (&urls, &notes)).await?;
    }
    let not_text = not_text.into_iter().map(|(path, remedy)| (path.to_owned(), remedy)).collect();
    Ok(FilesOfFormat { format, urls, left_out, not_text, notes, encoding, is_single })
}

/// Returns the tables at `paths` if they are Delta tables. Fails with `Kind::Input` if a path cannot be read, and with `Kind::Job` for
/// `by_lines` or if only some paths are tables.
async fn delta_tables(
    ctx: &SessionContext,
    paths: &[String],
    by_lines: bool,
) -> Result<Option<FilesOfFormat>> {
    let mut tables = Vec::new();
    for path in paths {
        if source::is_delta_table(ctx, path).await? {
            tables.push(path);
        }
    }
    let Some(table) = tables.first() else { return Ok(None) };
    if by_lines {
        return Err(no_lines(table, Format::Delta));
    }
    if tables.len() < paths.len() {
        return Err(Error::job(format!(
            "`{table}` is a Delta table, but not all other paths are Delta tables: name files of one format"
        )));
    }
    Ok(Some(FilesOfFormat {
        format: Format::Delta,
        urls: paths.to_vec(),
        left_out: Vec::new(),
        not_text: Vec::new(),
        notes: Vec::new(),
        encoding: None,
        is_single: false,
    }))
}

/// Refuses the `only` file, a text at `urls`, if it has several lines. It is then unclear whether the file or each line is a document.
/// `notes` name files that are skipped.
async fn refuse_lines(
    ctx: &SessionContext,
    command: &str,
    only: &SourceFile,
    given: Option<Encoding>,
    (urls, notes): (&[String], &[String]),
) -> Result<()> {
    let head = only.head(ctx, JUDGED_BYTES).await?;
    let encoding = given.unwrap_or_else(|| Encoding::detected(&head.bytes, head.whole));
    if sniff::lines(&sniff::decode(&head.bytes, encoding), true).nth(1).is_none() {
        return Ok(());
    }
    let urls: Vec<String> = urls.iter().map(|url| quoted(url)).collect();
    let notes: String = notes.iter().map(|note| format!(" ({note})")).collect();
    Err(Error::job(format!(
        "{} is the only file{notes}, and it has several lines: if each line is a document, run `resemblance {command} {} --lines`; if \
         the whole file is a document, name more files",
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
        let kinds: Vec<(FileKind, Encoding)> =
            stream::iter(judged).buffered(CONCURRENT_HEADS).try_collect().await?;
        for (at, file) in alike.into_iter().enumerate() {
            let Some((kind, _)) = kinds.get(at).or(kinds.first()).copied() else { continue };
            let found = groups.iter().position(|group| group.kind == kind).unwrap_or_else(|| {
                groups.push(FileGroup { kind, bytes: 0, files: Vec::new(), not_utf_8: BTreeMap::new() });
                groups.len() - 1
            });
            let group = &mut groups[found];
            group.bytes += file.size();
            group.files.push(file);
            if let Some((_, encoding)) = kinds.get(at).filter(|(_, encoding)| *encoding != Encoding::Utf8) {
                group.not_utf_8.entry(encoding.to_string()).or_default().push(file.path());
            }
        }
    }
    groups.sort_by_key(|group| Reverse((group.bytes, group.files.len())));
    Ok(groups)
}

/// Returns URLs that match exactly the files `read` out of `all`: the paths themselves, or narrower patterns, or each file.
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

/// Returns the error for files with several formats or without a readable one. The message lists the formats with a command for each.
/// `others` describes the unreadable files.
async fn refusal(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    all: &[SourceFile],
    groups: &[FileGroup<'_>],
    others: &[String],
) -> Error {
    if groups.is_empty() {
        return Error::job(format!("nothing in {} can be compared: {}", paths.join(", "), others.join("; ")));
    }
    let (mut there, mut commands) = (Vec::new(), Vec::new());
    for group in groups {
        let (Ok(format), Some(first)) = (group.kind, group.files.first()) else { continue };
        let FileGroup { bytes, files, .. } = group;
        there.push(format!("{} {} ({bytes} bytes, such as {})", files.len(), title(format), first.path()));
        // The command inspects the contents of files, so the endings do not matter.
        let read = group.paths().into_iter().collect();
        let urls = narrowed_urls(ctx, paths, Format::Text, all, &read).await;
        let more = if urls.len() > SHOWN { " ..." } else { "" };
        let urls: Vec<String> = urls.iter().take(SHOWN).map(|url| quoted(url)).collect();
        commands.push(format!("`resemblance {command} {}{more}`", urls.join(" ")));
    }
    Error::job(format!(
        "{} cannot be read as files of one format; there are {}: run {}",
        paths.join(", "),
        there.join(", "),
        commands.join(" or ")
    ))
}
