//! Arguments of commands that read data without a job file. The arguments describe a job.

use crate::cli::process::{files, on_session};
use crate::cli::screen::Screen;
use crate::engine::spills::SpillFolder;
use crate::error::{Error, Result};
use crate::inspect::{self, InspectedPaths};
use crate::job::file::JobFile;
use crate::job::{
    self, Encoding, Html, Job, MAX_SHINGLE_SIZE, Method, ParsedArgument, Score, ShingleSection, Unit,
    similarity, whole,
};
use crate::source::first_names;

/// The memory limit of sessions that inspect data, in bytes.
pub(crate) const LOOK_MEMORY: u64 = 256 << 20;

/// Data, and the settings for comparing the data.
#[derive(clap::Args)]
pub(crate) struct FromData {
    /// Files, folders with their subfolders, patterns and URLs: data whose rows are documents (Parquet, CSV, JSON lines, or the folder
    /// of a Delta table), or text files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// The column of data that contains the texts, or several columns separated by commas [default: the only string column, or a column
    /// named text, body, content ...]
    #[arg(long, value_name = "COL")]
    text: Option<String>,
    /// The column of data that identifies a document, or `row_number` for row numbers [default: `id` if its values are unique, else
    /// row numbers]
    #[arg(long, value_name = "COL")]
    id: Option<String>,
    /// Compare only the rows that meet this SQL condition over the columns, as in "lang = 'en' AND stars > 2"
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,
    /// Compare a random sample: a number of documents, or a share of them such as 1%
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// The minimum similarity of a pair, greater than 0 and at most 1
    #[arg(short, long, default_value_t = Score::default().threshold, value_parser = similarity)]
    threshold: f64,
    /// Number of words (or characters) in a shingle [default: 5 words, or 9 characters]
    #[arg(short = 'k', long, value_name = "N", value_parser = shingle_size)]
    size: Option<usize>,
    /// Unit of shingles
    #[arg(short, long, value_enum, default_value_t = Unit::Word)]
    unit: Unit,
    /// Encoding of the files: utf-8, utf-8-lossy, latin-1, or a label of the Encoding Standard [default: detected]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    encoding: Option<Encoding>,
    /// Treatment of HTML files [default: text]
    #[arg(long, value_enum, value_name = "HOW")]
    html: Option<Html>,
    /// Compare all pairs of documents: exact, but slow for many documents
    #[arg(long)]
    all: bool,
}

fn shingle_size(text: &str) -> ParsedArgument<usize> {
    whole(1..=MAX_SHINGLE_SIZE)(text).map_err(|expected| format!("{expected} after -k"))
}

pub(crate) fn encoding(name: &str) -> std::result::Result<Encoding, String> {
    name.parse().map_err(|e: Error| e.to_string().replacen(&format!("{name:?}: "), "", 1))
}

impl FromData {
    /// Creates a job from these arguments. Also returns the noun for the documents, which is `file` or `document`, and a temporary folder.
    /// Spills of the job are in this folder. Its output is `output`, or is also in this folder if `output` is `None`. `change` sets further
    /// keys. A description of the data is shown on the screen.
    ///
    /// # Errors
    /// Returns the errors of [`inspect::look`], and [`Kind::Job`](crate::error::Kind::Job) if several columns could contain the texts, or
    /// none.
    pub(crate) fn job(
        &self,
        screen: &Screen,
        command: &str,
        output: Option<&str>,
        change: impl FnOnce(&mut JobFile),
    ) -> Result<(Job, &'static str, SpillFolder)> {
        let folder = files::temporary_folder_outside(&self.paths, files::temporary_folders())?;
        let temporary = folder.path().join("out").to_string_lossy().into_owned();
        let output = output.unwrap_or(&temporary);
        let columns = (self.text.as_deref(), self.id.as_deref());
        let (mut file, noun, is_single) = file(screen, command, &self.paths, columns, self.encoding, output)?;
        if is_single {
            return Err(Error::input(format!(
                "{} is one document, and there is no other to compare it with: name more files, or their folder",
                self.paths.join(", ")
            )));
        }
        file.source.html = self.html;
        file.shingle = Some(ShingleSection { unit: self.unit, size: self.size, ..ShingleSection::default() });
        file.source.condition = self.condition.clone();
        let limit = self.limit.as_deref().map(str::parse).transpose();
        file.source.limit = limit.map_err(|e: Error| Error::job(format!("`source.limit` {e}")))?;
        file.candidates.method = if self.all { Method::All } else { Method::Lsh };
        file.score.threshold = self.threshold;
        change(&mut file);
        let mut job = job::resolve(file)?;
        job.engine.spill = Some(folder.path().to_string_lossy().into_owned());
        Ok((job, noun, folder))
    }
}

/// Creates a job file for `paths`, in which `text` and `id` name columns. Also returns the noun for the documents, which is `file` or
/// `document`, and whether there is only one document. A description of the data is shown on the screen.
///
/// # Errors
/// Returns the errors of [`look`], and [`Kind::Job`](crate::error::Kind::Job) if several columns could contain the texts, or none.
pub(crate) fn file(
    screen: &Screen,
    command: &str,
    paths: &[String],
    (text, id): (Option<&str>, Option<&str>),
    encoding: Option<Encoding>,
    output: &str,
) -> Result<(JobFile, &'static str, bool)> {
    let InspectedPaths { dataset, urls, encoding, is_single_text, .. } =
        look(screen, command, paths, encoding)?;
    let Some(dataset) = dataset else {
        refuse_columns(&[("--text", text), ("--id", id)])?;
        let mut file = JobFile::new(job::Format::Text, &urls, output)?;
        file.source.encoding = encoding.map(|encoding| encoding.to_string());
        return Ok((file, "file", is_single_text));
    };
    let id = dataset.id_column(id);
    let text = dataset.text_column(text, id.as_deref())?;
    screen.say(&dataset.sentence(&text, id.as_deref()));
    Ok((dataset.job(&text, id.as_deref(), output)?, "document", false))
}

/// Inspects the files at `paths`, and shows the names of skipped files and the detected encodings of texts on the screen.
///
/// # Errors
/// Returns the errors of [`inspect::look`].
pub(crate) fn look(
    screen: &Screen,
    command: &str,
    paths: &[String],
    encoding: Option<Encoding>,
) -> Result<InspectedPaths> {
    let found =
        on_session(LOOK_MEMORY, async |session, _| inspect::look(session, command, paths, encoding).await)?;
    let names = &found.left_out;
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        screen.say(&format!("left out, because they are no data of this format: {}", first_names(&names)));
    }
    found.said.iter().for_each(|sentence| screen.say(sentence));
    Ok(found)
}

/// Refuses options that name columns, because text files have no columns.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) with the name of the option.
pub(crate) fn refuse_columns(options: &[(&str, Option<&str>)]) -> Result<()> {
    let Some((option, _)) = options.iter().find(|(_, given)| given.is_some()) else { return Ok(()) };
    Err(Error::job(format!(
        "{option} names a column, and text files have no columns: leave it out, or name only data (Parquet, CSV, JSON lines or a \
         Delta table)"
    )))
}
