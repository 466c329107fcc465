//! Whether paths name texts or a dataset, by the endings of the files or by what is in them.

use std::collections::BTreeMap;

use datafusion::execution::context::SessionContext;

use super::{delimited, encoding, json_lines};
use crate::error::{Error, Result};
use crate::job::Format;
use crate::source::{self, SourceFile};

/// Bytes of a file by which its content is judged.
const JUDGED_BYTES: usize = 64 * 1024;
/// The bytes that a Parquet file begins with.
const PARQUET: &[u8] = b"PAR1";
/// Files of records that are named among texts.
const NAMED: usize = 5;

/// What paths name.
pub(super) enum Named {
    /// Files that are documents each, with the first files of records among them.
    Texts { data_files: Vec<String> },
    /// Files of records of one format.
    Data(Format),
}

/// Finds out what `paths` name.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where nothing is found there or it cannot be read, and
/// [`Kind::Job`](crate::error::Kind::Job) where the files are of several formats.
pub(super) async fn named(ctx: &SessionContext, paths: &[String]) -> Result<Named> {
    let mut tables = Vec::new();
    for path in paths {
        if source::is_delta_table(ctx, path).await? {
            tables.push(path);
        }
    }
    if let Some(table) = tables.first() {
        return match tables.len() == paths.len() {
            true => Ok(Named::Data(Format::Delta)),
            false => Err(Error::job(format!(
                "`{table}` is a Delta table, and not all of the other paths are: name files of one format"
            ))),
        };
    }
    let files = source::every_file(ctx, paths).await?;
    let mut texts: Vec<&SourceFile> = Vec::new();
    let mut data: BTreeMap<&str, (Format, Vec<&SourceFile>)> = BTreeMap::new();
    for file in &files {
        match Format::of_ending(file.path()) {
            Some(format @ (Format::Parquet | Format::Csv | Format::Jsonl)) => {
                data.entry(title(format)).or_insert((format, Vec::new())).1.push(file);
            }
            _ => texts.push(file),
        }
    }
    documents_in_json(ctx, &mut texts, &mut data).await?;
    if data.is_empty() {
        return Ok(match by_content(ctx, paths, &files).await? {
            Some(format) => Named::Data(format),
            None => Named::Texts { data_files: Vec::new() },
        });
    }
    if !texts.is_empty() {
        let files = data.values().flat_map(|(_, files)| files).take(NAMED);
        return Ok(Named::Texts { data_files: files.map(|file| file.path().to_owned()).collect() });
    }
    let mut formats = data.values();
    match (formats.next(), formats.next()) {
        (Some((format, _)), None) => Ok(Named::Data(*format)),
        _ => {
            let counts = data.iter().map(|(title, (_, files))| format!("{} {title}", files.len()));
            let counts: Vec<String> = counts.collect();
            Err(Error::job(format!(
                "the files are of several formats ({}): name files of one format, one by one or by a pattern",
                counts.join(", ")
            )))
        }
    }
}

/// What messages call files of a format.
pub(super) fn title(format: Format) -> &'static str {
    source::format_of(format).title
}

/// Moves the files that end in `.json` to the texts where the first of them holds one document instead of a row per line.
async fn documents_in_json<'a>(
    ctx: &SessionContext,
    texts: &mut Vec<&'a SourceFile>,
    data: &mut BTreeMap<&str, (Format, Vec<&'a SourceFile>)>,
) -> Result<()> {
    let key = title(Format::Jsonl);
    let Some((_, files)) = data.get_mut(key) else { return Ok(()) };
    let of_any_kind =
        |file: &&SourceFile| file.path().to_ascii_lowercase().contains(".json") && !is_lines(file);
    let Some(first) = files.iter().copied().find(of_any_kind) else { return Ok(()) };
    if first.size() == 0 || json_lines::are_there(&start(ctx, first).await?.1) {
        return Ok(());
    }
    let (documents, lines) = files.drain(..).partition::<Vec<_>, _>(of_any_kind);
    *files = lines;
    if files.is_empty() {
        data.remove(key);
    }
    texts.extend(documents);
    Ok(())
}

/// Whether the ending of a file says that it has a row per line.
fn is_lines(file: &SourceFile) -> bool {
    let path = file.path().to_ascii_lowercase();
    [".jsonl", ".ndjson"].into_iter().any(|ending| {
        let path = path.strip_suffix(".gz").or_else(|| path.strip_suffix(".zst")).unwrap_or(&path);
        path.ends_with(ending)
    })
}

/// The format of files without an ending that says it, by the first of them that a path names. A table is looked for only in a file
/// that is named alone: as a text it would have nothing to be compared with.
async fn by_content(ctx: &SessionContext, paths: &[String], files: &[SourceFile]) -> Result<Option<Format>> {
    let Some(first) = files.iter().find(|file| paths.iter().any(|path| path == file.path())) else {
        return Ok(None);
    };
    let (head, text) = start(ctx, first).await?;
    if head.bytes.starts_with(PARQUET) {
        return Ok(Some(Format::Parquet));
    }
    if json_lines::are_there(&text) {
        return Ok(Some(Format::Jsonl));
    }
    Ok((files.len() == 1 && delimited::sniff(&text, head.whole).is_table()).then_some(Format::Csv))
}

/// The first bytes of a file, and the text that they are.
async fn start(ctx: &SessionContext, file: &SourceFile) -> Result<(source::Head, String)> {
    let head = file.head(ctx, JUDGED_BYTES).await?;
    let text = encoding::text(&head.bytes, encoding::sniff(&head.bytes, head.whole)?).into_owned();
    Ok((head, text))
}
