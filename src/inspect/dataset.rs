//! Describes a dataset, whose rows are documents: its dialect and its columns. Chooses the columns for the text and the id.

use datafusion::execution::context::SessionContext;

use super::columns::{InspectedColumn, RecordFile, SAMPLED_BYTES, table_columns};
use super::sniff::is_number;
use crate::error::{Error, Result};
use crate::job::file::JobFile;
use crate::job::{
    Csv, DocumentColumns, DuplicateIds, Encoding, Format, Names, OnError, References, Source, SourceId,
    SourceSection,
};
use crate::source::{self, SourceFile, first_names};

#[derive(Debug)]
pub(crate) struct Dataset {
    pub urls: Vec<String>,
    pub format: Format,
    pub encoding: Encoding,
    pub csv: Csv,
    /// Whether there are HTML tags in lines of text.
    pub has_tags: bool,
    /// The columns of the first non-empty file. Values that are also in the second file are not unique.
    pub columns: Vec<InspectedColumn>,
}

impl Dataset {
    /// Inspects the files at `urls` in the format `format`. Detects the encoding if `given` is `None`.
    pub(super) async fn open(
        ctx: &SessionContext,
        urls: &[String],
        format: Format,
        given: Option<Encoding>,
    ) -> Result<Self> {
        let source = any_source(format, urls);
        let files: Vec<SourceFile> = source::list_quietly(ctx, &source).await?.files().collect();
        let mut full = files.iter().filter(|file| file.size() > 0);
        let Some(first) = full.next() else {
            return Err(source::without_rows(files.iter().map(SourceFile::path), ["is", "are"], "empty"));
        };
        let mut has_tags = false;
        let has_rows = source::format_of(format).has_rows();
        let (encoding, csv, mut columns) = if has_rows {
            let file = RecordFile::open(ctx, first, format, given, None).await?;
            has_tags = format == Format::Lines && file.has_tags();
            (file.encoding, file.csv, file.columns())
        } else {
            (given.unwrap_or_default(), Csv::new(b','), table_columns(ctx, &source, first).await?)
        };
        // Files of lines often have different origins, so their encodings can differ.
        if given.is_none() && (encoding != Encoding::Utf8 || format == Format::Lines) {
            check_encodings(ctx, &files, (first, encoding)).await?;
        }
        // Many exports number their rows anew in each file, so values are only unique if the second file does not repeat them.
        if let Some(second) = full.next() {
            let others = match format {
                // A file of a Delta table may contain deleted rows.
                Format::Delta => Ok(Vec::new()),
                _ if has_rows => RecordFile::open(ctx, second, format, Some(encoding), Some(csv))
                    .await
                    .map(|file| file.columns()),
                _ => table_columns(ctx, &source, second).await,
            };
            // A run will report files that cannot be read, or reject their rows.
            let others = others.unwrap_or_default();
            for column in &mut columns {
                let other = others.iter().find(|other| other.name == column.name);
                column.is_unique &= other.is_none_or(|other| column.hashes.is_disjoint(&other.hashes));
            }
        }
        Ok(Self { urls: urls.to_vec(), format, encoding, csv, has_tags, columns })
    }

    /// Returns the first path and the number of other paths, for messages.
    pub(crate) fn shown(&self) -> String {
        match self.urls.as_slice() {
            [] => "the input".to_owned(),
            [only] => only.clone(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }

    /// Describes the dialect and the columns in one line. If ids are row numbers and no id was `asked` for, proposes a column for them.
    pub(crate) fn sentence(&self, text: &str, id: Option<&str>, asked: Option<&str>) -> String {
        let mut parts = Vec::new();
        if self.format == Format::Csv {
            parts.push(format!("delimiter {:?}", char::from(self.csv.delimiter).to_string()));
            parts.push(if self.csv.header { "header" } else { "no header" }.to_owned());
            parts
                .extend(self.csv.escape.map(|escape| format!("escape {:?}", char::from(escape).to_string())));
        }
        if source::format_of(self.format).has_rows() {
            parts.push(self.encoding.to_string());
        }
        parts.extend(self.has_tags.then(|| "HTML tags compared as words".to_owned()));
        parts.push(format!("text column {text}"));
        parts.push(match (id, self.proposed_id(text).filter(|_| asked.is_none())) {
            (Some(id), _) => format!("id column {id}"),
            (None, Some(other)) => {
                format!("ids are row numbers (or --id {other}, whose inspected values are unique)")
            }
            (None, None) => "ids are row numbers".to_owned(),
        });
        format!("reading {} as {}: {}", self.shown(), title(self.format), parts.join(", "))
    }

    /// Splits a list of column names at commas, unless the whole list is the name of a column.
    pub(super) fn names(&self, list: &str) -> Vec<String> {
        if self.columns.iter().any(|column| column.name == list) {
            return vec![list.to_owned()];
        }
        list.split(',').map(|name| name.trim().to_owned()).collect()
    }

    /// Returns a job file that reads the columns `text` and `id` (or row numbers), and writes to `output`. Unreadable rows become
    /// rejects.
    pub(crate) fn job(&self, text: &str, id: Option<&str>, output: &str) -> Result<JobFile> {
        let mut file = JobFile::new(self.format, &self.urls, output)?;
        file.source.text = Some(Names::Many(self.names(text)));
        let numbers = || self.has_own_id().then(|| Names::One("row_number".to_owned()));
        file.source.id = id.map(|id| Names::Many(self.names(id))).or_else(numbers);
        file.source.encoding = (self.encoding != Encoding::Utf8).then(|| self.encoding.to_string());
        file.source.delimiter = char::from(self.csv.delimiter).to_string();
        file.source.header = self.csv.header;
        file.source.escape = self.csv.escape.map(|escape| char::from(escape).to_string());
        file.source.on_error = OnError::Reject;
        Ok(file)
    }
}

pub(super) fn title(format: Format) -> &'static str {
    source::format_of(format).title
}

/// Returns a source with these files, whose other settings do not matter.
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
        forgotten: None,
        duplicate_ids: DuplicateIds::Error,
        on_error: OnError::Reject,
        max_text: SourceSection::MAX_TEXT,
        csv: Csv::new(b','),
        references: References::default(),
        html: None,
    }
}

/// Checks that all files begin with the same encoding as the first one.
async fn check_encodings(
    ctx: &SessionContext,
    files: &[SourceFile],
    (first, encoding): (&SourceFile, Encoding),
) -> Result<()> {
    for file in files {
        let head = file.head(ctx, SAMPLED_BYTES).await?;
        let found = Encoding::detected(&head.bytes, head.whole);
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

/// Usual names of text columns, most common first.
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
/// Usual names of id columns, most common first.
const IDS: [&str; 9] = ["id", "_id", "uuid", "guid", "key", "doc_id", "document_id", "url", "uri"];

impl Dataset {
    /// Returns the text column: the column `asked`, or the only string column besides `id`, or a string column with a usual name. Fails
    /// with `Kind::Job` if the choice is not clear.
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
        let example =
            |column: &InspectedColumn| column.example.as_deref().unwrap_or_default().replace('"', "\\\"");
        let shown = |column: &&InspectedColumn| format!("`{}` (\"{}\")", column.name, example(column));
        Err(Error::job(format!(
            "{} has several columns of strings: name the column with the texts by --text COL; the columns are {}",
            self.shown(),
            first_names(&texts.iter().map(shown).collect::<Vec<_>>())
        )))
    }

    /// Like [`Self::text_column`], but if the choice is not clear, guesses the column with the longest values on average. Returns whether
    /// it is a guess. Fails with `Kind::Job` if no column contains strings.
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

    /// Returns the id column: the column `asked` for, or the column `id` if its inspected values are unique. Formats with fixed columns
    /// have their own id instead. Returns `None` for row numbers, which `row_number` asks for unless it is the name of a column.
    pub(crate) fn id_column(&self, asked: Option<&str>) -> Option<String> {
        let is_unique =
            |name: &str| self.columns.iter().any(|column| column.name == name && column.is_unique);
        match asked {
            Some("row_number") if self.columns.iter().all(|column| column.name != "row_number") => None,
            Some(asked) => Some(asked.to_owned()),
            None => match self.format.rules().columns {
                // A part of the id is enough for a single file.
                DocumentColumns::Fixed { id, .. } => match id.iter().find(|name| is_unique(name)) {
                    Some(part) => Some((*part).to_owned()),
                    None => (id.len() > 1).then(|| id.join(",")),
                },
                _ => is_unique("id").then(|| "id".to_owned()),
            },
        }
    }

    /// Returns whether ids of this format are not row numbers by default.
    pub(super) fn has_own_id(&self) -> bool {
        matches!(self.format.rules().columns, DocumentColumns::Fixed { .. })
    }

    /// Returns a column to propose for ids, with unique inspected values, besides the column `text`. Usual names come first, then columns
    /// without white space and fractions.
    pub(super) fn proposed_id(&self, text: &str) -> Option<&str> {
        let texts = self.names(text);
        let is_key = |column: &&InspectedColumn| {
            column.is_unique && !texts.contains(&column.name) && !column.kind.contains("array")
        };
        let unique: Vec<&InspectedColumn> = self.columns.iter().filter(is_key).collect();
        let is_unlikely = |column: &&&InspectedColumn| {
            let example = column.example.as_deref().unwrap_or_default();
            example.contains(char::is_whitespace) || is_number(example) && example.contains('.')
        };
        let found = named(&unique, &IDS).or_else(|| unique.iter().min_by_key(is_unlikely).copied());
        found.map(|column| column.name.as_str())
    }

    fn texts(&self, id: Option<&str>) -> Vec<&InspectedColumn> {
        self.columns.iter().filter(|column| column.is_text && Some(column.name.as_str()) != id).collect()
    }

    fn no_text(&self) -> Error {
        let shown = |column: &InspectedColumn| format!("`{}` ({})", column.name, column.kind);
        let there: Vec<String> = self.columns.iter().map(shown).collect();
        Error::job(format!(
            "no column of {} holds texts: name other files, or the column by --text COL; there are {}",
            self.shown(),
            if there.is_empty() { "no columns".to_owned() } else { first_names(&there) }
        ))
    }
}

/// Returns the column whose name comes first in `names`. Ignores case. Of the fields of structs and objects, compares the last part of
/// the name.
fn named<'a>(columns: &[&'a InspectedColumn], names: &[&str]) -> Option<&'a InspectedColumn> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let is_named = |column: &'a InspectedColumn, name: &str| last(&column.name).eq_ignore_ascii_case(name);
    names.iter().find_map(|name| columns.iter().copied().find(|column| is_named(column, name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Encoding, Format};

    /// Returns a dataset with these columns: (name, is_text, is_unique, mean_characters).
    fn dataset(columns: &[(&str, bool, bool, f64)]) -> Dataset {
        let column =
            |(name, is_text, is_unique, mean_characters): &(&str, bool, bool, f64)| InspectedColumn {
                name: (*name).to_owned(),
                kind: "text".to_owned(),
                is_text: *is_text,
                is_unique: *is_unique,
                hashes: Default::default(),
                example: Some(format!("a {name}")),
                mean_characters: *mean_characters,
            };
        Dataset {
            urls: vec!["a.csv".to_owned()],
            format: Format::Csv,
            encoding: Encoding::Utf8,
            csv: Csv::new(b','),
            has_tags: false,
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
        assert_eq!(some.proposed_id("text"), Some("key"));
        let other = dataset(&[("title", true, true, 9.0), ("sku", true, true, 9.0), ("n", true, false, 1.0)]);
        assert_eq!((other.id_column(None), other.proposed_id("title")), (None, Some("sku")));
        assert_eq!(other.proposed_id("title,sku"), None);
        let said = other.sentence("title", None, None);
        let proposed = "ids are row numbers (or --id sku, whose inspected values are unique)";
        assert!(said.ends_with(proposed), "{said}");
        assert!(other.sentence("title", None, Some("row_number")).ends_with("ids are row numbers"));
        assert_eq!(dataset(&[("id", false, true, 1.0)]).id_column(None).as_deref(), Some("id"));
    }
}
