//! `[source]`: where the documents are and which columns are theirs.

use super::super::file::{self, File, Names};
use super::super::source::{DocumentColumns, FormatRules};
use super::super::{Csv, Encoding, Format, Id, Job, Source, parse_size};
use super::rows;
use super::wrong::{Checked, wrong};
use crate::address;

/// The finished output that is the source of `file`; `None` if the source is files.
pub(in crate::job) fn reuse(file: &File) -> Checked<Option<String>> {
    reuse_of(&file.source, file.shingle.is_some(), file.minhash.is_some())
}

/// The same for a source, and whether the sections `shingle` and `minhash` are given: the output decides them.
pub(super) fn reuse_of(source: &file::Source, shingle: bool, minhash: bool) -> Checked<Option<String>> {
    if source.format != Some(file::Format::Output) {
        return Ok(None);
    }
    let own = [
        ("shingle", shingle),
        ("minhash", minhash),
        ("source.id", source.id.is_some()),
        ("source.text", source.text.is_some()),
        ("source.columns", source.columns.is_some()),
        ("source.encoding", source.encoding.is_some()),
        ("source.references", source.references.is_some()),
        ("source.where", source.condition.is_some()),
        ("source.limit", source.limit.is_some()),
    ];
    if let Some((key, _)) = own.into_iter().find(|(_, given)| *given) {
        return wrong(key, "is set, and the source is an output, which decides it: remove the key");
    }
    let urls = filled("source.url", source.url.clone(), "folder or URL prefix of an output")?;
    match <[String; 1]>::try_from(urls) {
        Ok([url]) => {
            address::check(&url).or_else(|fault| wrong("source.url", fault))?;
            Ok(Some(url))
        }
        Err(urls) => wrong("source.url", format!("names {} outputs: expected one", urls.len())),
    }
}

/// The source of the output whose job is `made`, with the column `group` if one is named.
pub(super) fn reused_source(made: &Job, group: Option<String>) -> Checked<Source> {
    let Some(group) = group else { return Ok(made.source.clone()) };
    if !made.source.columns.contains(&group) {
        return wrong(
            "source.group",
            format!(
                "names `{group}`, which the output does not carry: expected one of its source.columns, or make it again with that \
                 column"
            ),
        );
    }
    Ok(Source { group: Some(group), ..made.source.clone() })
}

pub(super) fn source_of(source: file::Source) -> Checked<Source> {
    let csv = csv_of(&source)?;
    let max_text =
        parse_size(&source.max_text).or_else(|e| wrong("source.max_text", format!("cannot be read: {e}")))?;
    let urls = filled("source.url", source.url, "file, folder, glob or URL")?;
    let format = format_of(source.format, &urls)?;
    for url in &urls {
        address::check(url).or_else(|fault| wrong("source.url", fault))?;
    }
    let rules = format.rules();
    let whole_file = rules.columns == DocumentColumns::WholeFile;
    let encoding = encoding_of(rules, source.encoding.as_deref())?;
    let id = match source.id {
        Some(Names::One(word)) if word == "row_number" => Id::RowNumber,
        Some(Names::One(word)) if word == "path" && whole_file => Id::Path,
        Some(Names::One(word)) if word == "path" => {
            return wrong(
                "source.id",
                "is \"path\", which only works with the format text: expected a column, a list of columns ([\"path\"] \
                 is the column of that name), or \"row_number\"",
            );
        }
        Some(_) if whole_file => {
            return wrong(
                "source.id",
                "names a column, but text files have none: expected \"path\" or \"row_number\"",
            );
        }
        Some(columns) => Id::Columns(filled("source.id", columns, "column")?),
        None => match rules.columns {
            DocumentColumns::Fixed { id, .. } => Id::Columns(vec![id.into()]),
            DocumentColumns::WholeFile => Id::Path,
            DocumentColumns::OfFile => Id::RowNumber,
        },
    };
    let text = match (rules.columns, source.text) {
        (DocumentColumns::WholeFile, text) => match text.map(Names::into_vec) {
            Some(columns) if columns != ["text"] => {
                return wrong("source.text", "names a column, but text files have none: remove the key");
            }
            _ => vec!["text".into()],
        },
        (_, Some(columns)) => filled("source.text", columns, "column")?,
        (DocumentColumns::Fixed { text, .. }, None) => vec![text.into()],
        (DocumentColumns::OfFile, None) => {
            return wrong(
                "source.text",
                "is required but missing: the column, or the list of columns, that holds the text",
            );
        }
    };
    let several = matches!(&id, Id::Columns(names) if names.len() > 1);
    if several && (source.id_separator.is_empty() || source.id_separator.contains('\\')) {
        return wrong(
            "source.id_separator",
            format!(
                "is {:?}: expected one or more characters without a backslash, by which the parts of an id stay apart",
                source.id_separator
            ),
        );
    }
    let columns = columns_of(rules, source.columns)?;
    let (columns, group) = with_group(rules, columns, source.group)?;
    let (condition, limit) = rows::rows_of(source.condition, source.limit, source.seed)?;
    let references = match source.references {
        Some(_) if !rules.has_references => {
            return wrong(
                "source.references",
                "is set, but only the format reuters has references: remove the key",
            );
        }
        references => references.unwrap_or_default(),
    };
    Ok(Source {
        format,
        encoding,
        urls,
        table_versions: Vec::new(),
        id,
        id_separator: source.id_separator,
        text,
        columns,
        group,
        condition,
        limit,
        duplicate_ids: source.duplicate_ids,
        on_error: source.on_error,
        max_text,
        csv,
        references,
    })
}

fn csv_of(source: &file::Source) -> Checked<Csv> {
    let delimiter = ascii("source.delimiter", &source.delimiter)?;
    let escape = source.escape.as_deref().map(|escape| ascii("source.escape", escape)).transpose()?;
    let usual = Csv::new(delimiter);
    let (quote, quotes_end_in_line) = match source.quote.as_deref() {
        None => (usual.quote, usual.quotes_end_in_line),
        Some("") => (None, false),
        Some(quote) => (Some(ascii("source.quote", quote)?), false),
    };
    let csv = Csv { delimiter, header: source.header, quote, quotes_end_in_line, escape };
    if csv.quote == Some(delimiter) {
        return wrong("source.quote", "is the same character as `source.delimiter`");
    }
    if escape.is_some() && [Some(delimiter), csv.quote].contains(&escape) {
        return wrong("source.escape", "is the same character as `source.delimiter` or `source.quote`");
    }
    Ok(csv)
}

/// The given format, or the one of the endings of `urls`.
fn format_of(given: Option<file::Format>, urls: &[String]) -> Checked<Format> {
    const KEY: &str = "source.format";
    if let Some(given) = given {
        return match given.of_files() {
            Some(format) => Ok(format),
            None => wrong(KEY, "is \"output\", which has no files"),
        };
    }
    let mut found: Option<(&String, Format)> = None;
    for url in urls {
        match (Format::of_ending(url), found) {
            (None, _) => {
                return wrong(
                    KEY,
                    format!(
                        "is required but missing: `{url}` has no ending that says it, as .parquet, .csv or .jsonl would; expected \
                         \"parquet\", \"delta\", \"csv\", \"jsonl\", \"reuters\", \"text\" or \"output\""
                    ),
                );
            }
            (Some(format), Some((first, of_first))) if format != of_first => {
                return wrong(
                    KEY,
                    format!(
                        "is required but missing: `{first}` and `{url}` have the endings of different formats; expected files of \
                         one format"
                    ),
                );
            }
            (Some(format), _) => found = Some((url, format)),
        }
    }
    match found {
        Some((_, format)) => Ok(format),
        None => wrong("source.url", "is empty: expected a file, folder, glob or URL, or a list of them"),
    }
}

fn encoding_of(rules: FormatRules, encoding: Option<&str>) -> Checked<Encoding> {
    const KEY: &str = "source.encoding";
    match encoding {
        None => Ok(Encoding::Utf8),
        Some(_) if rules.has_own_encoding => {
            wrong(KEY, "is set, but texts in Parquet files are always UTF-8: remove the key")
        }
        Some(name) => name.parse().or_else(|e| wrong(KEY, format!("is {e}"))),
    }
}

/// The carried columns of `documents`. No name may differ from that of another column only by case, which many engines
/// ignore.
fn columns_of(rules: FormatRules, columns: Option<Names>) -> Checked<Vec<String>> {
    const KEY: &str = "source.columns";
    let Some(columns) = columns else { return Ok(Vec::new()) };
    let columns = filled(KEY, columns, "column")?;
    if rules.columns == DocumentColumns::WholeFile {
        return wrong(KEY, "names a column, but text files have none: remove the key");
    }
    for (at, name) in columns.iter().enumerate() {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let stored = Source::stored(name);
        let mut before = columns[..at].iter().map(|other| (other, Source::stored(other)));
        if let Some((other, _)) = before.find(|(_, other)| same(other, &stored)) {
            let fault = match same(other, name) {
                true => format!(
                    "names `{name}` twice: expected each column once, whether its letters are large or small"
                ),
                false => format!(
                    "names `{other}` and `{name}`, which are both `{stored}` in the table documents: expected one of them"
                ),
            };
            return wrong(KEY, fault);
        }
    }
    Ok(columns)
}

/// The carried columns, including that of the group.
fn with_group(
    rules: FormatRules,
    mut columns: Vec<String>,
    group: Option<String>,
) -> Checked<(Vec<String>, Option<String>)> {
    const KEY: &str = "source.group";
    let Some(name) = group else { return Ok((columns, None)) };
    if name.trim().is_empty() {
        return wrong(KEY, "is empty: expected a column");
    }
    if rules.columns == DocumentColumns::WholeFile {
        return wrong(KEY, "names a column, but text files have none: remove the key");
    }
    let same = |other: &&String| Source::stored(other).to_lowercase() == Source::stored(&name).to_lowercase();
    if !columns.contains(&name) {
        if let Some(other) = columns.iter().find(same) {
            return wrong(
                KEY,
                format!(
                    "names `{name}`, and `source.columns` names `{other}`: expected one spelling of a column"
                ),
            );
        }
        columns.push(name.clone());
    }
    Ok((columns, Some(name)))
}

/// The strings of `names`: one or more, none of them empty.
pub(super) fn filled(key: &'static str, names: Names, noun: &str) -> Checked<Vec<String>> {
    let names = names.into_vec();
    if names.is_empty() || names.iter().any(|name| name.trim().is_empty()) {
        return wrong(key, format!("is empty: expected a {noun}, or a list of them"));
    }
    Ok(names)
}

/// The byte of a string of one ASCII character that does not end a line.
fn ascii(key: &'static str, text: &str) -> Checked<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => wrong(key, format!("is {text:?}: expected one ASCII character, as in \",\" or \"\\t\"")),
    }
}
