//! A dataset: files whose rows are documents, how they are written, and their columns.

use datafusion::execution::context::SessionContext;

use super::column::Column;
use super::{delimited, encoding, json_lines, parquet};
use crate::error::{Error, Result};
use crate::job::file::{self, File, Names};
use crate::job::{Csv, DuplicateIds, Encoding, Format, Id, OnError, References, Source};
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
    pub columns: Vec<Column>,
}

/// How the rows of a file are written, and its columns.
struct Records {
    encoding: Encoding,
    csv: Csv,
    columns: Vec<Column>,
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
        let Records { encoding, csv, columns } = match format {
            Format::Csv => csv_records(ctx, first, given).await?,
            Format::Jsonl => json_records(ctx, first, given).await?,
            Format::Parquet | Format::Delta => Records {
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
    pub(crate) fn job(&self, text: &str, id: Option<&str>, output: &str) -> File {
        let mut file = File::new(self.format.into(), self.urls.clone(), output);
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
        id: Id::RowNumber,
        id_separator: ":".to_owned(),
        text: Vec::new(),
        columns: Vec::new(),
        group: None,
        condition: None,
        limit: None,
        duplicate_ids: DuplicateIds::Error,
        on_error: OnError::Reject,
        max_text: file::Source::MAX_TEXT,
        csv: CSV,
        references: References::default(),
    }
}

async fn csv_records(ctx: &SessionContext, file: &SourceFile, given: Option<Encoding>) -> Result<Records> {
    let (text, encoding, whole) = beginning(ctx, file, given).await?;
    let csv = delimited::sniff(&text, whole).csv;
    Ok(Records { encoding, csv, columns: delimited::columns(&text, whole, csv) })
}

async fn json_records(ctx: &SessionContext, file: &SourceFile, given: Option<Encoding>) -> Result<Records> {
    let (text, encoding, whole) = beginning(ctx, file, given).await?;
    Ok(Records { encoding, csv: CSV, columns: json_lines::columns(&text, whole) })
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
