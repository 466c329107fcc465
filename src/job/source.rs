//! `[source]`: the files with the documents, and their columns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::encoding::Encoding;
use super::forgotten::Forgotten;
use super::format::{DocumentColumns, Format, FormatName, FormatRules};
use super::values::{Checked, Names, number_or_text, parse_size, require, wrong};
use super::where_and_limit::{Condition, Limit, LimitSize};
use crate::address;
use crate::error::one_line;

/// `[source]`: the files with the documents, and their columns.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    /// `reuters`, `csv`, `parquet`, `delta`, `jsonl`, `text` (each file is a document) or `lines` (each line of a text file is a document),
    /// or `output` for a finished output whose sketches are reused. Default: the format that belongs to the ending of `url`, such as
    /// `.parquet`, `.csv.gz` or `.jsonl`. Required if the ending does not determine a format.
    pub format: Option<FormatName>,
    /// File, folder, glob or URL, or a list of them. With the format `delta`, folders of tables. With `output`, one folder or URL prefix.
    /// Required.
    pub url: Names,
    /// Column, or list of columns, that identifies a document, or one of the words `"row_number"` and `"path"`. A column with the name of
    /// such a word is written as a list: `["path"]`. A row number is `FILE:ROW`: the path of the file below `url`, and the row in the file,
    /// counted from 0. If two folders contain files with the same name, FILE is the whole path. Default: `oldid` for reuters, `path` for
    /// text, `["file", "line"]` for lines, `row_number` for other formats. With `against.output`, required for lines and these formats.
    pub id: Option<Names>,
    /// The encoding of the files. `utf-8`: invalid bytes are an error or a rejected document, and Reuters stories read them as Latin-1.
    /// `utf-8-lossy`: invalid bytes become U+FFFD. `latin-1`: ISO 8859-1 as in Python, in which every byte is a character. Labels of the
    /// Encoding Standard are allowed too, such as `windows-1252`, which also has the labels `latin1` and `iso-8859-1`. `detect`, for text:
    /// each file has the encoding that its beginning shows. Not for parquet and delta, whose texts are UTF-8. Default: `utf-8`.
    pub encoding: Option<String>,
    /// The separator between the parts of an id with several columns.
    #[serde(default = "SourceSection::id_separator")]
    pub id_separator: String,
    /// Column, or list of columns, with the text. Default: `body` for reuters, `text` for lines. With the format `text`, each file is a
    /// document and there is no column. Required for other formats.
    pub text: Option<Names>,
    /// Column, or list of columns, that the table `documents` carries after its own columns, under their own names. Parquet columns keep
    /// their types; columns from other formats are text. Default: none.
    pub columns: Option<Names>,
    /// Column with the group of a document, such as its crawl or shop. The table `documents` carries it too. Documents without a value form
    /// one group. Default: none.
    pub group: Option<String>,
    /// SQL condition over the columns. Rows that do not meet it are not documents, and are only counted. Only functions of DataFusion that
    /// return the same value in every run are allowed. Default: all rows are documents.
    #[serde(rename = "where")]
    pub condition: Option<String>,
    /// Number of documents, or a share of the documents such as `"1%"`: a random sample of the documents that meet `where`. The sample is
    /// the same in every run. Default: all documents.
    #[serde(default)]
    #[schemars(schema_with = "number_or_text")]
    pub limit: Option<LimitSize>,
    /// The seed of the sample that `limit` draws. Default: 0.
    pub seed: Option<u64>,
    /// The treatment of a repeated id: `error` ends the run, `reject` keeps the first document that can be compared.
    #[serde(default)]
    pub duplicate_ids: DuplicateIds,
    /// The treatment of an unreadable row of a CSV or JSON lines file: `error` ends the run and names the line, `reject` puts the
    /// row into the table `rejects`.
    #[serde(default)]
    pub on_error: OnError,
    /// The maximum size of a JSON line, an element of a JSON array, a CSV record or an HTML file, in bytes. Longer JSON and HTML is
    /// rejected as `too_long`; a longer CSV record ends the run.
    #[serde(default = "SourceSection::max_text")]
    pub max_text: String,
    /// Reuters: `decode` replaces character references such as `&lt;` with their characters, `keep` keeps them unchanged. Default:
    /// `decode`.
    pub references: Option<References>,
    /// Text: `text` reads the text that a browser shows of HTML files, `source` reads HTML files as written, with their tags. Default:
    /// `text`.
    pub html: Option<Html>,
    /// CSV: the character between fields.
    #[serde(default = "SourceSection::delimiter")]
    pub delimiter: String,
    /// CSV: whether the first line contains the column names. Otherwise the columns are `column_1`, `column_2`, ...
    #[serde(default = "SourceSection::header")]
    pub header: bool,
    /// CSV: the character around fields that contain delimiters, quotes or newlines. `""` means that quotes have no special meaning.
    /// Default: `"`. If the delimiter is a tab, it applies only in lines that close each quote.
    pub quote: Option<String>,
    /// CSV: the escape character, such as the backslash in `\"`. Default: none.
    pub escape: Option<String>,
}

// A section without its required keys is invalid, so there is no `Default`.
impl SourceSection {
    /// The default of `max_text`, in bytes.
    pub const MAX_TEXT: u64 = 128 << 20;

    fn max_text() -> String {
        format!("{}MiB", Self::MAX_TEXT >> 20)
    }
    fn id_separator() -> String {
        ":".into()
    }
    fn delimiter() -> String {
        ",".into()
    }
    fn header() -> bool {
        true
    }

    pub(super) fn resolved(self) -> Checked<Source> {
        let source = self;
        let csv = csv_of(&source)?;
        let max_text = parse_size(&source.max_text)
            .or_else(|e| wrong("source.max_text", format!("cannot be read: {e}")))?;
        let urls = source.url.filled("source.url", "file, folder, glob or URL")?;
        let format = format_of(source.format, &urls)?;
        for url in &urls {
            address::check(url).or_else(|fault| wrong("source.url", fault))?;
        }
        let rules = format.rules();
        let whole_file = rules.columns == DocumentColumns::WholeFile;
        let encoding = encoding_of(rules, source.encoding.as_deref())?;
        let id = match source.id {
            Some(Names::One(word)) if word == "row_number" => SourceId::RowNumber,
            Some(Names::One(word)) if word == "path" && whole_file => SourceId::Path,
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
            Some(columns) => SourceId::Columns(columns.filled("source.id", "column")?),
            None => match rules.columns {
                DocumentColumns::Fixed { id, .. } => {
                    SourceId::Columns(id.iter().map(|name| (*name).to_owned()).collect())
                }
                DocumentColumns::WholeFile => SourceId::Path,
                DocumentColumns::OfFile => SourceId::RowNumber,
            },
        };
        let text = match (rules.columns, source.text) {
            (DocumentColumns::WholeFile, text) => match text.map(Names::into_vec) {
                Some(columns) if columns != ["text"] => return wrong("source.text", NO_COLUMNS),
                _ => vec!["text".into()],
            },
            (_, Some(columns)) => columns.filled("source.text", "column")?,
            (DocumentColumns::Fixed { text, .. }, None) => vec![text.into()],
            (DocumentColumns::OfFile, None) => {
                return wrong(
                    "source.text",
                    "is required but missing: the column, or the list of columns, that holds the text",
                );
            }
        };
        let several = matches!(&id, SourceId::Columns(names) if names.len() > 1);
        if several && (source.id_separator.is_empty() || source.id_separator.contains('\\')) {
            return wrong(
                "source.id_separator",
                format!(
                    "is {:?}: expected one or more characters without a backslash, which separate the parts of an id",
                    source.id_separator
                ),
            );
        }
        let columns = columns_of(rules, source.columns)?;
        let (columns, group) = with_group(rules, columns, source.group)?;
        let (condition, limit) = rows_of(source.condition, source.limit, source.seed)?;
        let references = match source.references {
            Some(_) if !rules.has_references => {
                return wrong(
                    "source.references",
                    "is set, but only the format reuters has references: remove the key",
                );
            }
            references => references.unwrap_or_default(),
        };
        require(
            source.html.is_none() || whole_file,
            "source.html",
            "is set, but only the format text reads HTML files: remove the key",
        )?;
        let html = whole_file.then(|| source.html.unwrap_or_default());
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
            forgotten: None,
            duplicate_ids: source.duplicate_ids,
            on_error: source.on_error,
            max_text,
            csv,
            references,
            html,
        })
    }
}

/// The fault of a key that names a column although the format is `text`.
const NO_COLUMNS: &str = "names a column, but text files have none: remove the key";

fn csv_of(source: &SourceSection) -> Checked<Csv> {
    let delimiter = ascii("source.delimiter", &source.delimiter)?;
    let escape = source.escape.as_deref().map(|escape| ascii("source.escape", escape)).transpose()?;
    let usual = Csv::new(delimiter);
    let (quote, quotes_end_in_line) = match source.quote.as_deref() {
        None => (usual.quote, usual.quotes_end_in_line),
        Some("") => (None, false),
        Some(quote) => (Some(ascii("source.quote", quote)?), false),
    };
    let csv = Csv { delimiter, header: source.header, quote, quotes_end_in_line, escape };
    let fault = "is the same character as `source.delimiter`";
    require(csv.quote != Some(delimiter), "source.quote", fault)?;
    let is_taken = escape.is_some() && [Some(delimiter), csv.quote].contains(&escape);
    require(!is_taken, "source.escape", "is the same character as `source.delimiter` or `source.quote`")?;
    Ok(csv)
}

/// Returns the given format, or the format of the endings of `urls`.
fn format_of(given: Option<FormatName>, urls: &[String]) -> Checked<Format> {
    const KEY: &str = "source.format";
    if let Some(given) = given {
        return match given.file_format() {
            Some(format) => Ok(format),
            None => wrong(KEY, "is \"output\", which has no files"),
        };
    }
    let mut found: Option<(&String, Format)> = None;
    for url in urls {
        match (Format::from_path(url), found) {
            (None, _) => {
                return wrong(
                    KEY,
                    format!(
                        "is required but missing: `{url}` has no ending that determines it, as .parquet, .csv or .jsonl would; expected \
                         one of {}",
                        FormatName::list()
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
        Some("detect") if rules.columns != DocumentColumns::WholeFile => wrong(
            KEY,
            "is \"detect\", which only works with the format text: expected the encoding of the files",
        ),
        Some(_) if rules.has_own_encoding => {
            wrong(KEY, "is set, but texts in files of this format are always UTF-8: remove the key")
        }
        Some(name) => name.parse().or_else(|e| wrong(KEY, format!("is {e}"))),
    }
}

/// Returns the carried columns of `documents`. Refuses names that differ only by case, because many engines ignore case.
fn columns_of(rules: FormatRules, columns: Option<Names>) -> Checked<Vec<String>> {
    const KEY: &str = "source.columns";
    let Some(columns) = columns else { return Ok(Vec::new()) };
    let columns = columns.filled(KEY, "column")?;
    require(rules.columns != DocumentColumns::WholeFile, KEY, NO_COLUMNS)?;
    for (at, name) in columns.iter().enumerate() {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let stored = Source::stored(name);
        let mut before = columns[..at].iter().map(|other| (other, Source::stored(other)));
        if let Some((other, _)) = before.find(|(_, other)| same(other, &stored)) {
            let fault = if same(other, name) {
                format!(
                    "names `{name}` twice: expected each column once, without regard to upper and lower case"
                )
            } else {
                format!(
                    "names `{other}` and `{name}`, which are both `{stored}` in the table documents: expected one of them"
                )
            };
            return wrong(KEY, fault);
        }
    }
    Ok(columns)
}

fn with_group(
    rules: FormatRules,
    mut columns: Vec<String>,
    group: Option<String>,
) -> Checked<(Vec<String>, Option<String>)> {
    const KEY: &str = "source.group";
    let Some(name) = group else { return Ok((columns, None)) };
    require(!name.trim().is_empty(), KEY, "is empty: expected a column")?;
    require(rules.columns != DocumentColumns::WholeFile, KEY, NO_COLUMNS)?;
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

/// Returns the condition and the sample of `source.where`, `source.limit` and `source.seed`.
fn rows_of(
    condition: Option<String>,
    limit: Option<LimitSize>,
    seed: Option<u64>,
) -> Checked<(Option<Condition>, Option<Limit>)> {
    let condition = condition.map(|text| Condition::parse(&text)).transpose();
    let condition = condition.or_else(|error| wrong("source.where", one_line(&error)))?;
    require(
        limit.is_some() || seed.is_none(),
        "source.seed",
        "is set, but only source.limit uses it: set source.limit, or remove the key",
    )?;
    Ok((condition, limit.map(|size| Limit { size, seed: seed.unwrap_or_default() })))
}

/// Parses one ASCII character that is not a line end.
fn ascii(key: &'static str, text: &str) -> Checked<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => wrong(key, format!("is {text:?}: expected one ASCII character, as in \",\" or \"\\t\"")),
    }
}

/// `[source]`: the files with the documents, and their columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The format of the files.
    pub format: Format,
    /// The encoding of the files. Parquet files are always UTF-8.
    pub encoding: Encoding,
    /// Files, folders, globs or URLs; at least one.
    pub urls: Vec<String>,
    /// The versions of the Delta tables in `urls` that a finished run read. The list is empty before a run, because a run reads the newest
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table_versions: Vec<u64>,
    /// The id of a document.
    pub id: SourceId,
    /// The separator between the parts of an id with several columns.
    pub id_separator: String,
    /// The columns that contain the text. Their values are joined by a newline. At least one.
    pub text: Vec<String>,
    /// The columns that the table `documents` carries.
    pub columns: Vec<String>,
    /// The carried column with the group of a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The condition that documents meet, or `None` if all rows are documents.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The sample of the documents, or `None` for all documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The documents that `forget` leaves out, or `None` if it made no part of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<Forgotten>,
    /// The treatment of a repeated id.
    pub duplicate_ids: DuplicateIds,
    /// The treatment of an unreadable row of a CSV or JSON lines file.
    pub on_error: OnError,
    /// The maximum size of a JSON line, an element of a JSON array, a CSV record or an HTML file, in bytes.
    pub max_text: u64,
    /// The syntax of CSV files. Other formats ignore it.
    pub csv: Csv,
    /// The treatment of character references in Reuters stories.
    pub references: References,
    /// The treatment of HTML files, or `None` if the format is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<Html>,
}

/// The columns of the table `documents` that are not carried from the source: see `schemas/documents.toml`.
pub(crate) const DOCUMENTS_COLUMNS: [&str; 11] = [
    "id",
    "source",
    "position",
    "origin_number",
    "doc",
    "shingle_count",
    "set_hash_0",
    "set_hash_1",
    "signature",
    "bucket_tags",
    "shingles",
];

impl Source {
    /// Returns the name of the carried column `name` in the table `documents`. A `_` is appended if the table has its own column with
    /// this name.
    pub(crate) fn stored(name: &str) -> String {
        let is_taken = DOCUMENTS_COLUMNS.contains(&name.to_lowercase().as_str());
        if is_taken { format!("{name}_") } else { name.to_owned() }
    }

    /// Returns whether a condition or a sample can skip rows of the source.
    pub(crate) fn leaves_rows_out(&self) -> bool {
        self.condition.is_some() || self.limit.is_some()
    }
}

/// The treatment of character references in SGML, such as `&lt;`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum References {
    /// Each reference is replaced with its character.
    #[default]
    Decode,
    /// References are kept as written.
    Keep,
}

/// The treatment of HTML files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Html {
    /// The text that a browser shows is read
    #[default]
    Text,
    /// The files are read as written, with their tags
    Source,
}

/// The id of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceId {
    /// The values of these columns, joined by `id_separator`. A single Parquet column of integers gives numeric ids.
    Columns(Vec<String>),
    /// `file:row`: the path of the document's file below the URL of the source, and its row, counted from 0.
    RowNumber,
    /// The path of the file relative to the folder of the source. Requires [`Format::Text`].
    Path,
}

impl SourceId {
    /// Returns the columns whose values are the id.
    pub(crate) fn columns(&self) -> &[String] {
        match self {
            Self::Columns(columns) => columns,
            Self::RowNumber | Self::Path => &[],
        }
    }
}

/// The treatment of a repeated id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DuplicateIds {
    /// The run ends with an error that names the ids.
    #[default]
    Error,
    /// The first comparable document in the order of (file, row) is kept. The other documents are put into `rejects`.
    Reject,
}

/// The treatment of an unreadable row in a CSV or JSON lines file. Such a row is a record with the wrong number of fields, or a line
/// without a JSON object. It can also have an id of the wrong type, or bytes that are not UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The run ends with an error that names the file and the line.
    #[default]
    Error,
    /// The row is put into `rejects`.
    Reject,
}

/// The syntax of CSV files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Csv {
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether the first line contains the column names. Otherwise the columns are `column_1`, `column_2`, ...
    pub header: bool,
    /// The byte around fields that contain delimiters, quotes or newlines. `None` means that quotes are ordinary characters.
    pub quote: Option<u8>,
    /// Whether quotes are ordinary characters in a line that leaves a quote open.
    pub quotes_end_in_line: bool,
    /// The escape byte, if any.
    pub escape: Option<u8>,
}

impl Csv {
    /// Returns the default syntax of files with this delimiter.
    pub const fn new(delimiter: u8) -> Self {
        let quotes_end_in_line = delimiter == b'\t';
        Self { delimiter, header: true, quote: Some(b'"'), quotes_end_in_line, escape: None }
    }
}
