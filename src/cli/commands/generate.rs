//! `resemblance generate`: generates a corpus with known similar pairs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::address::absolute;
use crate::cli::arguments;
use crate::cli::arguments::data::{DataArguments, file};
use crate::cli::process::files::{self, WriteFolder};
use crate::cli::process::on_session;
use crate::cli::screen::Screen;
use crate::cli::screen::print::{self, NumberColumn};
use crate::engine::{InputProgress, InputUnit};
use crate::error::{Context, Error, Result};
use crate::job::{self, Job, ShingleSection, whole};
use crate::lab::corpus::files::{self as corpus_files, CorpusFiles, MAX_FILES};
use crate::lab::corpus::{Corpus, CorpusSettings, MAX_DOCUMENTS};
use crate::lab::planted;

/// Generate a corpus with planted copies, near-duplicates, passages and boilerplate
///
/// Documents are Parquet rows with the columns id and text. A text consists of made-up words with the frequencies of a natural language.
/// Planted documents and their originals are spread over the whole corpus, and every planted document has its own original. Therefore,
/// --truth lists all similar pairs, with two exceptions. Among identical documents, it lists only the pairs with the first document. It
/// also omits pairs that are similar because of boilerplate. The same settings give the same documents for any number of files.
///
/// With --from, each document of a source is followed by a planted document that was derived from it. This is a copy, the document with
/// some words replaced by real words, half of the document, or the document under a header. The header is the beginning of another
/// document. --truth does not list documents that are already similar in the source.
#[derive(clap::Args)]
#[command(after_help = "  resemblance generate documents.parquet --documents 100000
  resemblance generate documents/ --documents 1000000 --files 8 --truth truth.parquet
  resemblance generate planted.parquet --from reviews.parquet --near 0.2 --truth truth.parquet")]
pub(crate) struct Generate {
    /// A file that ends in .parquet, or a folder for part-00000.parquet and so on
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Plant documents into this file, folder, pattern or URL instead of a made-up corpus; any data that find reads
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["words", "vocabulary", "identical", "files"])]
    from: Option<String>,
    /// With --from, the column of data that contains the texts
    #[arg(long, value_name = "COL", requires = "from")]
    text: Option<String>,
    /// With --from, the column of data that identifies a document
    #[arg(long, value_name = "COL", requires = "from")]
    id: Option<String>,
    /// With --from, take each line of a text file as a document
    #[arg(long, requires = "from")]
    lines: bool,
    /// Number of documents; with --from, the maximum number taken from the source, all by default
    #[arg(long, value_name = "N", required_unless_present = "from", value_parser = whole(1..=MAX_DOCUMENTS))]
    documents: Option<u64>,
    #[command(flatten)]
    settings: CorpusSettings,
    /// Number of files to write into the folder; each is written by its own thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole(1..=MAX_FILES))]
    files: usize,
    /// Write the planted pairs into this Parquet file: id_a, id_b, kind, jaccard, size (words in a shingle)
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Replace only files that this command wrote
    #[arg(long)]
    overwrite: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The URL of the job's output. Nothing is written there, because only the source of the job is read.
const NO_OUTPUT: &str = "not-written";

/// The size of a generated word in a Parquet file, in bytes. 2.9 were measured for 50,000,000 documents of 100 words.
const BYTES_PER_WORD: u64 = 3;

impl Generate {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        self.write(screen).map_err(|error| {
            let folders = [("OUT", Some(&self.out)), ("--truth", self.truth.as_ref())];
            let folder =
                |(setting, path): (_, Option<&PathBuf>)| Some(WriteFolder { setting, folder: path?.clone() });
            let folders: Vec<WriteFolder> = folders.into_iter().filter_map(folder).collect();
            let words = self.documents.map(|documents| documents.saturating_mul(self.settings.words as u64));
            // With --from, the number of words per document is unknown.
            let words = words.filter(|_| self.from.is_none());
            files::explain_full_disk(error, &folders, words.map(|words| words.saturating_mul(BYTES_PER_WORD)))
        })
    }

    fn write(&self, screen: &Screen) -> Result<()> {
        if let Some(from) = &self.from {
            return self.plant(screen, from);
        }
        let documents = self.documents.unwrap_or_default();
        let corpus = Corpus::new(documents, self.settings.clone())?;
        self.check_truth()?;
        let progress = screen.progress();
        let files = 1 + usize::from(self.truth.is_some());
        let timed = |name: &str, number: usize, write: &dyn Fn() -> Result<CorpusFiles>| {
            let start = Instant::now();
            progress.stage_begins(name, number, files);
            let written = write()?;
            progress.stage_ends(name, written.rows, start.elapsed().as_secs_f64(), false);
            Ok::<_, Error>(written)
        };
        let rows = AtomicU64::new(0);
        let advanced = |more| {
            let done = rows.fetch_add(more, Ordering::Relaxed) + more;
            progress.stage_advances(0, done);
            progress.stage_reaches(
                "documents",
                InputProgress { done: done.min(documents), all: documents, unit: InputUnit::Rows },
            );
        };
        let (files, existing) = (self.files, arguments::on_existing(self.overwrite));
        let written = timed("documents", 1, &|| {
            corpus_files::write_documents(&corpus, &self.out, files, existing, &advanced)
        })?;
        let truth = match &self.truth {
            Some(path) => Some(timed("truth", 2, &|| corpus_files::write_truth(&corpus, path, existing))?),
            None => None,
        };
        screen.clear();
        let (documents, truth) = (GeneratedFiles::new(&written), truth.as_ref().map(GeneratedFiles::new));
        self.print(&Generated { documents, truth, left_out: None })
    }

    fn print(&self, generated: &Generated) -> Result<()> {
        print::json_or(self.json, generated, || generated.text())
    }

    /// Writes the documents of the source `from`, and planted documents.
    fn plant(&self, screen: &Screen, from: &str) -> Result<()> {
        if self.out.extension().is_none_or(|ending| ending != "parquet") {
            return Err(Error::job(format!(
                "{} does not end in .parquet, and --from writes one Parquet file: name a file that ends in .parquet",
                self.out.display()
            )));
        }
        self.check_truth()?;
        if absolute(&self.out)?.starts_with(absolute(from)?) {
            return Err(Error::job(format!(
                "{} lies in {from}, where it would be read as documents; choose another place",
                self.out.display()
            )));
        }
        let data = DataArguments {
            paths: vec![from.to_owned()],
            text: self.text.clone().into_iter().collect(),
            id: self.id.clone().into_iter().collect(),
            encoding: None,
            html_as: None,
            lines: self.lines,
        };
        let job = source_job(screen, &data, self.settings.shingle)?;
        let most = self.documents.map(|documents| documents as usize);
        let places = (self.out.as_path(), self.truth.as_deref(), arguments::on_existing(self.overwrite));
        let written = on_session(job.engine.memory_bytes(), async |session, _| {
            planted::write(session, &job, most, &self.settings, places).await
        })?;
        let files = |rows, bytes, path: &Path| GeneratedFiles { rows, bytes, files: vec![shown(path)] };
        let truth = self.truth.as_deref().zip(written.truth_bytes);
        self.print(&Generated {
            documents: files(written.originals + written.planted, written.bytes, &self.out),
            truth: truth.map(|(path, bytes)| files(written.planted, bytes, path)),
            left_out: Some(written.left_out),
        })
    }

    /// Checks that the file of --truth can be written outside the folder of documents. Inside, it would be read as documents.
    fn check_truth(&self) -> Result<()> {
        let Some(truth) = &self.truth else { return Ok(()) };
        if absolute(truth)?.starts_with(absolute(&self.out)?) {
            return Err(Error::job(format!(
                "--truth {} lies in {}, where it would be read as documents; choose another place",
                truth.display(),
                self.out.display()
            )));
        }
        corpus_files::check_free(truth, arguments::on_existing(self.overwrite))
            .context(|| "--truth cannot be written".to_owned())
    }
}

#[derive(Serialize)]
struct Generated {
    documents: GeneratedFiles,
    truth: Option<GeneratedFiles>,
    /// The number of skipped rows in the source; `None` without `--from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

#[derive(Serialize)]
struct GeneratedFiles {
    rows: u64,
    bytes: u64,
    files: Vec<String>,
}

impl GeneratedFiles {
    fn new(written: &CorpusFiles) -> Self {
        let files = written.files.iter().map(|path| shown(path)).collect();
        Self { rows: written.rows, bytes: written.bytes, files }
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Generated {
    fn text(&self) -> String {
        let mut numbers = NumberColumn::default();
        for (files, noun) in [(Some(&self.documents), "document"), (self.truth.as_ref(), "planted pair")] {
            let Some(GeneratedFiles { rows, bytes, files }) = files else { continue };
            let files = match files.as_slice() {
                [file] => file.clone(),
                files => print::counted(files.len() as u64, "file"),
            };
            numbers.line(*rows, noun, &format!(" ({}) in {files}", print::counted(*bytes, "byte")));
        }
        let reason = " of the source left out: they have no id or no text, or cannot be read";
        numbers.line(self.left_out.filter(|&rows| rows > 0), "row", reason);
        numbers.0
    }
}

fn source_job(screen: &Screen, data: &DataArguments, size: usize) -> Result<Job> {
    let (mut file, ..) = file(screen, "generate --from", data, NO_OUTPUT)?;
    file.shingle =
        Some(ShingleSection { unit: job::Unit::Word, size: Some(size), ..ShingleSection::default() });
    job::resolve(file)
}
