//! Arguments of commands that read data without a job file. The arguments describe a job.

use crate::cli::process::rejects_file::SkippedFile;
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

/// The memory limit of sessions that inspect data, in bytes.
pub(crate) const LOOK_MEMORY: u64 = 256 << 20;

/// Data without a job file, and the way to read the data.
#[derive(clap::Args)]
pub(crate) struct DataArguments {
    /// Files, folders with their subfolders, patterns and URLs: data whose rows are documents (such as Parquet, CSV, JSON, Reuters
    /// SGML, or the folder of a Delta table), or text files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// The column of data that contains the texts. Repeat the option or separate names by commas for several columns [default: the only
    /// string column, or a column named text, body, content ...]
    #[arg(long, value_name = "COL")]
    pub(crate) text: Vec<String>,
    /// The column of data that identifies a document, or `row_number` for row numbers [default: `id` if its values are unique, else
    /// row numbers]
    #[arg(long, value_name = "COL")]
    pub(crate) id: Vec<String>,
    /// Encoding of the files: utf-8, utf-8-lossy, latin-1, or a label of the Encoding Standard [default: detected]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    pub(crate) encoding: Option<Encoding>,
    /// Treatment of HTML files [default: text]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) html_as: Option<Html>,
    /// Compare the lines of text files; the id of a line is its number, after the name of the file if there are several files
    #[arg(long)]
    pub(crate) lines: bool,
}

/// Data, and the settings for comparing the data.
#[derive(clap::Args)]
pub(crate) struct FromData {
    #[command(flatten)]
    pub(crate) files: DataArguments,
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

pub(crate) struct DataJob {
    pub(crate) job: Job,
    pub(crate) noun: &'static str,
    /// Files that are skipped.
    pub(crate) skipped: Vec<SkippedFile>,
    /// The temporary folder with the spills of the job, and with its output if no other place is given.
    pub(crate) folder: SpillFolder,
}

impl FromData {
    /// Creates a job from these arguments, and shows a description of the data on the screen. If `output` is `None`, the output is in a
    /// temporary folder. `change` sets further keys. Fails like [`file`].
    pub(crate) fn job(
        &self,
        screen: &Screen,
        command: &str,
        output: Option<&str>,
        change: impl FnOnce(&mut JobFile),
    ) -> Result<DataJob> {
        let folder = files::temporary_folder_outside(&self.files.paths, files::temporary_folders())?;
        let temporary = folder.path().join("out").to_string_lossy().into_owned();
        let output = output.unwrap_or(&temporary);
        let (mut file, noun, found) = file(screen, command, &self.files, output)?;
        if found.dataset.is_none() && found.files.is_single {
            return Err(Error::input(format!(
                "{} is one document, and there is no other to compare it with: name more files, or their folder",
                self.files.paths.join(", ")
            )));
        }
        file.shingle = Some(ShingleSection { unit: self.unit, size: self.size, ..ShingleSection::default() });
        file.source.condition = self.condition.clone();
        let limit = self.limit.as_deref().map(str::parse).transpose();
        file.source.limit = limit.map_err(|e: Error| Error::job(format!("`source.limit` {e}")))?;
        file.candidates.method = if self.all { Method::All } else { Method::Lsh };
        file.score.threshold = self.threshold;
        change(&mut file);
        let mut job = job::resolve(file)?;
        job.engine.spill = Some(folder.path().to_string_lossy().into_owned());
        let left_out = found.files.left_out.iter().map(|path| SkippedFile::left_out(path));
        let not_text = found.files.not_text.into_iter();
        let not_text = not_text.map(|(path, remedy)| SkippedFile::not_text(&path, remedy));
        Ok(DataJob { job, noun, skipped: left_out.chain(not_text).collect(), folder })
    }
}

/// Creates a job file for `data`, and shows a description of the data on the screen. Also returns the noun for a document and the
/// inspected files. Returns the errors of [`look`], and `Kind::Job` if several columns could contain the texts, or none.
pub(crate) fn file(
    screen: &Screen,
    command: &str,
    data: &DataArguments,
    output: &str,
) -> Result<(JobFile, &'static str, InspectedPaths)> {
    let found = look(screen, command, data)?;
    let Some(dataset) = &found.dataset else {
        data.refuse_columns()?;
        let mut file = JobFile::new(job::Format::Text, &found.files.urls, output)?;
        file.source.encoding = found.files.encoding.map(|encoding| encoding.to_string());
        file.source.html = data.html_as;
        return Ok((file, "file", found));
    };
    let [text, asked] = data.columns();
    let id = dataset.id_column(asked.as_deref());
    let text = dataset.text_column(text.as_deref(), id.as_deref())?;
    screen.say(&dataset.sentence(&text, id.as_deref(), asked.as_deref()));
    let noun = if data.lines { "line" } else { "document" };
    Ok((dataset.job(&text, id.as_deref(), output)?, noun, found))
}

/// Inspects the files of `data`, and shows the names of skipped files and the detected encodings of texts on the screen. Returns the errors
/// of [`inspect::look`], and `Kind::Job` if `--html-as` is given for data.
pub(crate) fn look(screen: &Screen, command: &str, data: &DataArguments) -> Result<InspectedPaths> {
    let DataArguments { paths, encoding, html_as, lines, .. } = data;
    let found = on_session(LOOK_MEMORY, async |session, _| {
        inspect::look(session, command, paths, *encoding, *lines).await
    })?;
    found.files.notes.iter().for_each(|sentence| screen.say(sentence));
    if let (Some(dataset), Some(_)) = (&found.dataset, html_as) {
        return Err(Error::job(format!(
            "--html-as is for HTML files, each of which is a document, and {} is data: leave it out",
            dataset.shown()
        )));
    }
    Ok(found)
}

impl DataArguments {
    /// Returns the columns of the text and of the id, if given. Several columns are joined by commas.
    pub(crate) fn columns(&self) -> [Option<String>; 2] {
        [&self.text, &self.id].map(|names| (!names.is_empty()).then(|| names.join(",")))
    }

    /// Refuses options that name columns, because text files have no columns. Fails with `Kind::Job` with the name of the option.
    pub(crate) fn refuse_columns(&self) -> Result<()> {
        let options = ["--text", "--id"].into_iter().zip(self.columns());
        let Some((option, _)) = options.into_iter().find(|(_, given)| given.is_some()) else { return Ok(()) };
        Err(Error::job(format!(
            "{option} names a column, and text files have no columns: leave it out, or name only data (such as Parquet, CSV, \
             JSON lines or a Delta table)"
        )))
    }
}
