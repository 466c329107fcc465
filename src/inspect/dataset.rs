//! A dataset: files whose rows are documents, how they are written, their columns, and which of them are the text and the id.

use datafusion::execution::context::SessionContext;

use super::column::InspectedColumn;
use super::{delimited, encoding, json_lines, parquet};
use crate::error::{Error, Result};
use crate::job::file::JobFile;
use crate::job::{
    Csv, DuplicateIds, Encoding, Format, Names, OnError, References, Source, SourceId, SourceSection,
};
use crate::source::{self, SourceFile};

/// Bytes, as they are stored, of the first file that are looked at.
pub(super) const SAMPLED_BYTES: usize = 1024 * 1024;

/// Files whose rows are documents.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// The paths, URLs and patterns that name them.
    pub urls: Vec<String>,
    /// Their format.
    pub format: Format,
    /// Their encoding; that of Parquet is UTF-8.
    pub encoding: Encoding,
    /// How CSV files are written.
    pub csv: Csv,
    /// The columns of the first file that is not empty.
    pub columns: Vec<InspectedColumn>,
}

/// How the rows of a file are written, and its columns.
struct DatasetRecords {
    encoding: Encoding,
    csv: Csv,
    columns: Vec<InspectedColumn>,
}

/// Comma, header and double quotes: the defaults of a job.
pub(super) const CSV: Csv = Csv::new(b',');

impl Dataset {
    /// Looks at the files of `format` that `urls` name. They are taken to be in the encoding `given`, if one is.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where they cannot be read.
    pub(super) async fn look(
        ctx: &SessionContext,
        urls: &[String],
        format: Format,
        given: Option<Encoding>,
    ) -> Result<Self> {
        let source = any_source(format, urls);
        let files: Vec<SourceFile> = source::list_quietly(ctx, &source).await?.files().collect();
        let Some(first) = files.iter().find(|file| file.size() > 0) else {
            return Err(source::without_rows(files.iter().map(SourceFile::path), ["is", "are"], "empty"));
        };
        let DatasetRecords { encoding, csv, columns } = match format {
            Format::Csv => csv_records(ctx, first, given).await?,
            Format::Jsonl => json_records(ctx, first, given).await?,
            Format::Parquet | Format::Delta => DatasetRecords {
                encoding: given.unwrap_or_default(),
                csv: CSV,
                columns: parquet::columns(ctx, &source, first).await?,
            },
            _ => {
                return Err(Error::bug(format!("{} are not looked at for columns", title(format))));
            }
        };
        if given.is_none() && encoding != Encoding::Utf8 {
            check_encodings(ctx, &files, (first, encoding)).await?;
        }
        Ok(Self { urls: urls.to_vec(), format, encoding, csv, columns })
    }

    /// The paths in a message: the first, and how many there are besides.
    pub(crate) fn shown(&self) -> String {
        match self.urls.as_slice() {
            [] => "the input".to_owned(),
            [only] => only.clone(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }

    /// What was found out about the files, in one line.
    pub(crate) fn sentence(&self, text: &str, id: Option<&str>) -> String {
        let mut parts = Vec::new();
        if self.format == Format::Csv {
            parts.push(format!("delimiter {:?}", char::from(self.csv.delimiter).to_string()));
            parts.push(if self.csv.header { "header" } else { "no header" }.to_owned());
            parts
                .extend(self.csv.escape.map(|escape| format!("escape {:?}", char::from(escape).to_string())));
        }
        if matches!(self.format, Format::Csv | Format::Jsonl) {
            parts.push(self.encoding.to_string());
        }
        parts.push(format!("text column {text}"));
        parts.push(id.map_or_else(|| "ids are row numbers".to_owned(), |id| format!("id column {id}")));
        format!("reading {} as {}: {}", self.shown(), title(self.format), parts.join(", "))
    }

    /// The columns in a list with commas, or the column that has the whole list as its name.
    pub(super) fn names(&self, list: &str) -> Vec<String> {
        match self.columns.iter().any(|column| column.name == list) {
            true => vec![list.to_owned()],
            false => list.split(',').map(|name| name.trim().to_owned()).collect(),
        }
    }

    /// A job file that reads the columns `text` and `id`, or row numbers without an id, and writes to `output`. Rows that cannot be
    /// read are rejects.
    pub(crate) fn job(&self, text: &str, id: Option<&str>, output: &str) -> JobFile {
        let mut file = JobFile::new(self.format.into(), self.urls.clone(), output);
        file.source.text = Some(Names::Many(self.names(text)));
        file.source.id = id.map(|id| Names::Many(self.names(id)));
        file.source.encoding = (self.encoding != Encoding::Utf8).then(|| self.encoding.to_string());
        file.source.delimiter = char::from(self.csv.delimiter).to_string();
        file.source.header = self.csv.header;
        file.source.escape = self.csv.escape.map(|escape| char::from(escape).to_string());
        file.source.on_error = OnError::Reject;
        file
    }
}

/// The name of files of a format in messages.
pub(super) fn title(format: Format) -> &'static str {
    source::format_of(format).title
}

/// A source of these files, whose other settings do not matter.
pub(super) fn any_source(format: Format, urls: &[String]) -> Source {
    Source {
        format,
        encoding: Encoding::Utf8,
        urls: urls.to_vec(),
        table_versions: Vec::new(),
        id: SourceId::RowNumber,
        id_separator: ":".to_owned(),
        text: Vec::new(),
        columns: Vec::new(),
        group: None,
        condition: None,
        limit: None,
        duplicate_ids: DuplicateIds::Error,
        on_error: OnError::Reject,
        max_text: SourceSection::MAX_TEXT,
        csv: CSV,
        references: References::default(),
    }
}

async fn csv_records(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
) -> Result<DatasetRecords> {
    let (text, encoding, whole) = beginning(ctx, file, given).await?;
    let csv = delimited::sniff(&text, whole).csv;
    Ok(DatasetRecords { encoding, csv, columns: delimited::columns(&text, whole, csv) })
}

async fn json_records(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
) -> Result<DatasetRecords> {
    let (text, encoding, whole) = beginning(ctx, file, given).await?;
    Ok(DatasetRecords { encoding, csv: CSV, columns: json_lines::columns(&text, whole) })
}

/// Refuses files that begin in another encoding than the one that was found for the first of them.
async fn check_encodings(
    ctx: &SessionContext,
    files: &[SourceFile],
    (first, encoding): (&SourceFile, Encoding),
) -> Result<()> {
    for file in files {
        let head = file.head(ctx, SAMPLED_BYTES).await?;
        let found = encoding::sniff(&head.bytes, head.whole)?;
        if found != encoding && !(encoding.has_ascii() && head.bytes.is_ascii()) {
            return Err(Error::input(format!(
                "{} is {encoding}, and {} is {found}: name files of one encoding, or give it with --encoding",
                first.path(),
                file.path()
            )));
        }
    }
    Ok(())
}

/// The first text of a file, its encoding, and whether it is all of the file.
async fn beginning(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
) -> Result<(String, Encoding, bool)> {
    let head = file.head(ctx, SAMPLED_BYTES).await?;
    let encoding = match given {
        Some(given) => given,
        None => encoding::sniff(&head.bytes, head.whole)?,
    };
    Ok((encoding::text(&head.bytes, encoding).into_owned(), encoding, head.whole))
}

/// Names that columns of texts have, the more usual ones first.
const TEXTS: [&str; 10] = [
    "text",
    "body",
    "content",
    "description",
    "article",
    "document",
    "message",
    "review",
    "abstract",
    "comment",
];
/// Columns that a message lists.
const SHOWN: usize = 20;
/// Names that columns of ids have, the more usual ones first.
const IDS: [&str; 9] = ["id", "_id", "uuid", "guid", "key", "doc_id", "document_id", "url", "uri"];

impl Dataset {
    /// The column of texts: the one that is `asked` for, or else the only column of strings besides the `id`, or the one that has
    /// the name of a text.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the columns of strings and a value of each, where none of them is chosen.
    pub(crate) fn text_column(&self, asked: Option<&str>, id: Option<&str>) -> Result<String> {
        if let Some(asked) = asked {
            return Ok(asked.to_owned());
        }
        let texts = self.texts(id);
        match texts.as_slice() {
            [only] => return Ok(only.name.clone()),
            [] => return Err(self.no_text()),
            _ => {}
        }
        if let Some(named) = named(&texts, &TEXTS) {
            return Ok(named.name.clone());
        }
        // Control characters are escaped in it already.
        let example =
            |column: &InspectedColumn| column.example.as_deref().unwrap_or_default().replace('"', "\\\"");
        let shown = texts.iter().map(|column| format!("`{}` (\"{}\")", column.name, example(column)));
        Err(Error::job(format!(
            "{} has several columns of strings: name the one of the texts by --text COL; there are {}",
            self.shown(),
            listed(shown)
        )))
    }

    /// The column of texts as [`Self::text_column`] has it, or else the one with the longest values, which is only a guess.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where no column holds strings.
    pub(crate) fn guessed_text(&self, asked: Option<&str>, id: Option<&str>) -> Result<(String, bool)> {
        if let Ok(column) = self.text_column(asked, id) {
            return Ok((column, false));
        }
        let longest =
            |a: &&&InspectedColumn, b: &&&InspectedColumn| a.mean_characters.total_cmp(&b.mean_characters);
        match self.texts(id).iter().max_by(longest) {
            Some(column) => Ok((column.name.clone(), true)),
            None => Err(self.no_text()),
        }
    }

    /// The column of ids: the one that is `asked` for, or else one that is named `id` and has another value in
    /// every row that was looked at.
    pub(crate) fn id_column(&self, asked: Option<&str>) -> Option<String> {
        let own = || self.columns.iter().find(|column| column.name == "id" && column.is_unique);
        asked.map(str::to_owned).or_else(|| own().map(|column| column.name.clone()))
    }

    /// A column to propose for ids: one with the name of an id and another value in every row that was looked at.
    pub(super) fn proposed_id(&self) -> Option<&str> {
        let unique: Vec<&InspectedColumn> = self.columns.iter().filter(|column| column.is_unique).collect();
        named(&unique, &IDS).map(|column| column.name.as_str())
    }

    /// The columns that may hold the text.
    fn texts(&self, id: Option<&str>) -> Vec<&InspectedColumn> {
        self.columns.iter().filter(|column| column.is_text && Some(column.name.as_str()) != id).collect()
    }

    fn no_text(&self) -> Error {
        let there = self.columns.iter().map(|column| format!("`{}` ({})", column.name, column.kind));
        Error::job(format!(
            "no column of {} holds texts: name other files, or the column by --text COL; there are {}",
            self.shown(),
            if self.columns.is_empty() { "no columns".to_owned() } else { listed(there) }
        ))
    }
}

/// The first columns of a list, and how many more there are.
fn listed(columns: impl ExactSizeIterator<Item = String>) -> String {
    let left = columns.len().saturating_sub(SHOWN);
    let mut shown = columns.take(SHOWN).collect::<Vec<_>>().join(", ");
    if left > 0 {
        shown.push_str(&format!(" and {left} more"));
    }
    shown
}

/// The first of `columns` that has one of `names`, in upper or lower case, also as a field of a struct or an object.
fn named<'a>(columns: &[&'a InspectedColumn], names: &[&str]) -> Option<&'a InspectedColumn> {
    names.iter().find_map(|name| {
        columns.iter().find(|column| last_part(&column.name).eq_ignore_ascii_case(name)).copied()
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::super::dataset::CSV;
    use super::*;
    use crate::job::{Encoding, Format};

    /// A dataset of these columns: (name, text, unique, characters).
    fn dataset(columns: &[(&str, bool, bool, f64)]) -> Dataset {
        let column =
            |(name, is_text, is_unique, mean_characters): &(&str, bool, bool, f64)| InspectedColumn {
                name: (*name).to_owned(),
                kind: "text".to_owned(),
                is_text: *is_text,
                is_unique: *is_unique,
                example: Some(format!("a {name}")),
                mean_characters: *mean_characters,
            };
        Dataset {
            urls: vec!["a.csv".to_owned()],
            format: Format::Csv,
            encoding: Encoding::Utf8,
            csv: CSV,
            columns: columns.iter().map(column).collect(),
        }
    }

    #[test]
    fn texts_are_chosen_by_being_alone_or_by_name() {
        let two = dataset(&[("id", true, true, 5.0), ("words", true, false, 50.0)]);
        assert_eq!(two.text_column(None, Some("id")).unwrap(), "words");
        assert_eq!(two.text_column(Some("other"), None).unwrap(), "other");
        let named = dataset(&[("title", true, false, 9.0), ("Body", true, false, 5.0)]);
        assert_eq!(named.text_column(None, None).unwrap(), "Body");
        let open =
            dataset(&[("title", true, false, 9.0), ("notes", true, false, 50.0), ("n", false, true, 1.0)]);
        let said = open.text_column(None, None).unwrap_err().to_string();
        assert!(said.contains("--text COL") && said.contains("`title` (\"a title\")"), "{said}");
        assert!(!said.contains("`n`"), "{said}");
        assert_eq!(open.guessed_text(None, None).unwrap(), ("notes".to_owned(), true));
        let none = dataset(&[("n", false, true, 1.0)]);
        assert!(none.text_column(None, None).unwrap_err().to_string().contains("`n` (text)"));
        assert!(none.guessed_text(None, None).is_err());
    }

    #[test]
    fn ids_are_unique() {
        let some = dataset(&[("url", true, true, 9.0), ("key", true, true, 9.0), ("id", true, false, 9.0)]);
        assert_eq!(some.id_column(None), None);
        assert_eq!(some.id_column(Some("id")).as_deref(), Some("id"));
        assert_eq!(some.proposed_id(), Some("key"));
        assert_eq!(dataset(&[("id", false, true, 1.0)]).id_column(None).as_deref(), Some("id"));
    }
}
