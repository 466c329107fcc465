//! `resemblance generate`: generates a corpus whose similar pairs are known.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::cli::support::from_data::file;
use crate::cli::support::progress::Screen;
use crate::cli::support::temporary::{self, WriteFolder};
use crate::cli::support::work::on_session;
use crate::cli::support::{arguments, print};
use crate::engine::{InputProgress, InputUnit};
use crate::error::{Context, Error, Result};
use crate::job::{self, Job, ShingleSection};
use crate::lab::corpus::write::{self, CorpusFiles};
use crate::lab::corpus::{Corpus, CorpusSettings, settings};
use crate::lab::planted;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance generate documents.parquet --documents 100000
  resemblance generate documents/ --documents 1000000 --files 8 --truth truth.parquet
  resemblance generate planted.parquet --from reviews.parquet --near 0.2 --truth truth.parquet";

/// Generate a corpus with planted copies, near-duplicates, passages and boilerplate
///
/// Documents are Parquet rows with the columns id and text. A text consists of made-up words, which are as frequent as
/// the words of a language are. Planted documents and their originals are spread over the whole corpus, and every
/// planted document has an original of its own. So --truth lists all similar pairs, with two exceptions: of the
/// identical documents it lists only the first one with each other one, and it does not list pairs that are similar
/// because of boilerplate. The same settings give the same documents, however many files there are.
///
/// With --from, the documents are those of a source, each followed by what was made of it: a copy, itself with some words
/// replaced by real ones, half of it, or itself under a header that is the beginning of another one. What is similar in the
/// source already is not in --truth.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Generate {
    /// A file that ends in .parquet, or a folder for part-00000.parquet and so on
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Plant documents into those of this file, folder, pattern or URL instead of made-up ones: any data that find reads
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["words", "vocabulary", "identical", "files"])]
    from: Option<String>,
    /// With --from, the column of data that holds the texts
    #[arg(long, value_name = "COL", requires = "from")]
    text: Option<String>,
    /// With --from, the column of data that identifies a document
    #[arg(long, value_name = "COL", requires = "from")]
    id: Option<String>,
    /// Documents; with --from, at most so many of the source, and all of them by default
    #[arg(long, value_name = "N", required_unless_present = "from", value_parser = arguments::one_to(settings::MAX_DOCUMENTS as usize))]
    documents: Option<NonZeroUsize>,
    /// Average number of words in a document; lengths are spread evenly from half of it to one and a half times it
    #[arg(long, value_name = "N", default_value = "100", value_parser = arguments::one_to(settings::MAX_WORDS))]
    words: NonZeroUsize,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Number of words in a shingle, to which the Jaccard similarities of planted pairs refer
    #[arg(short = 'k', long, value_name = "K", default_value = "5", value_parser = arguments::one_to(settings::MAX_SHINGLE))]
    shingle: NonZeroUsize,
    /// Number of different words
    #[arg(long, value_name = "N", default_value = "20000", value_parser = arguments::one_to(settings::MAX_VOCABULARY))]
    vocabulary: NonZeroUsize,
    /// Share of documents that are exact copies of another one
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    copies: f64,
    /// Share of documents that are another one with some words replaced
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    near: f64,
    /// Jaccard similarities that those get one after the other, each over 0 and at most 1
    #[arg(
        long,
        value_name = "J,..",
        value_delimiter = ',',
        default_value = "0.95,0.9,0.8,0.7,0.5",
        value_parser = arguments::similarity
    )]
    jaccards: Vec<f64>,
    /// Share of documents that consist of half of another one
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    contained: f64,
    /// Share of the other documents that begin with the same passage; with --from, share of documents under a common header
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    boilerplate: f64,
    /// Number of words in that passage; half of --words by default, and 50 with --from
    #[arg(long, value_name = "N", value_parser = arguments::zero_to(settings::MAX_WORDS))]
    boilerplate_words: Option<usize>,
    /// Number of documents that are all identical
    #[arg(long, value_name = "N", default_value_t = 0)]
    identical: u64,
    /// Number of files to write into the folder, each by a thread of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = arguments::one_to(usize::MAX))]
    files: NonZeroUsize,
    /// Write the planted pairs into this Parquet file: id_a, id_b, kind, jaccard, size (words in a shingle)
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Replace what this command wrote there before, and nothing else
    #[arg(long)]
    overwrite: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    json: bool,
}

/// Words of the common header, with `--from`.
const HEADER_WORDS: usize = 50;

/// The place of an output that is never made: only the source of the job is read.
const NO_OUTPUT: &str = "not-written";

/// Bytes of a generated word in a Parquet file: 2.9 were measured for 50,000,000 documents of 100 words.
const BYTES_PER_WORD: u64 = 3;

impl Generate {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        self.write(screen).map_err(|error| {
            let places = [("OUT", Some(&self.out)), ("--truth", self.truth.as_ref())];
            let place =
                |(setting, path): (_, Option<&PathBuf>)| Some(WriteFolder { setting, folder: path?.clone() });
            let places: Vec<WriteFolder> = places.into_iter().filter_map(place).collect();
            let words = self
                .documents
                .map(|documents| (documents.get() as u64).saturating_mul(self.words.get() as u64));
            // With --from, the texts are those of the source.
            let words = words.filter(|_| self.from.is_none());
            temporary::explain(error, &places, words.map(|words| words.saturating_mul(BYTES_PER_WORD)))
        })
    }

    fn write(&self, screen: &Screen) -> Result<()> {
        if let Some(from) = &self.from {
            return self.plant(screen, from);
        }
        let corpus = Corpus::new(self.settings())?;
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
        let all = corpus.settings().documents;
        let advanced = |more| {
            let done = rows.fetch_add(more, Ordering::Relaxed) + more;
            progress.stage_advances(0, done);
            progress.stage_reaches(
                "documents",
                InputProgress { done: done.min(all), all, unit: InputUnit::Rows },
            );
        };
        let (files, existing) = (self.files.get(), arguments::on_existing(self.overwrite));
        let written =
            timed("documents", 1, &|| write::documents(&corpus, &self.out, files, existing, &advanced))?;
        let truth = match &self.truth {
            Some(path) => Some(timed("truth", 2, &|| write::truth(&corpus, path, existing))?),
            None => None,
        };
        screen.clear();
        if self.json {
            let (documents, truth) = (GeneratedFiles::of(&written), truth.as_ref().map(GeneratedFiles::of));
            return print::result(&print::json(&Generated { documents, truth, left_out: None })?);
        }
        print::result(&as_text(&written, truth.as_ref()))
    }

    fn settings(&self) -> CorpusSettings {
        let words = self.words.get();
        CorpusSettings {
            documents: self.documents.map_or(0, NonZeroUsize::get) as u64,
            words,
            seed: self.seed,
            shingle: self.shingle.get(),
            vocabulary: self.vocabulary.get(),
            copies: self.copies,
            near: self.near,
            jaccards: self.jaccards.clone(),
            contained: self.contained,
            boilerplate: self.boilerplate,
            boilerplate_words: self.boilerplate_words.unwrap_or(words / 2),
            identical: self.identical,
        }
    }

    /// Writes the documents of `from` with planted ones.
    fn plant(&self, screen: &Screen, from: &str) -> Result<()> {
        if self.out.extension().is_none_or(|ending| ending != "parquet") {
            return Err(Error::job(format!(
                "{} is to be a folder, and --from writes one file: name one that ends in .parquet",
                self.out.display()
            )));
        }
        self.check_truth()?;
        let place = crate::address::absolute;
        if place(&self.out)?.starts_with(place(&PathBuf::from(from))?) {
            return Err(Error::job(format!(
                "{} lies in {from}, where it would be read as documents; choose another place",
                self.out.display()
            )));
        }
        let columns = (self.text.as_deref(), self.id.as_deref());
        let job = job_of(screen, from, columns, self.shingle.get())?;
        let settings = planted::PlantingSettings {
            seed: self.seed,
            shingle: job.shingle.clone(),
            copies: self.copies,
            near: self.near,
            jaccards: self.jaccards.clone(),
            contained: self.contained,
            header: self.boilerplate,
            header_words: self.boilerplate_words.unwrap_or(HEADER_WORDS),
        };
        let most = self.documents.map(NonZeroUsize::get);
        let places = (self.out.as_path(), self.truth.as_deref(), arguments::on_existing(self.overwrite));
        let written = on_session(job.engine.memory_bytes(), async |session, _| {
            planted::write(session, &job.source, most, &settings, places).await
        })?;
        let (out, truth) = (self.out.as_path(), self.truth.as_deref());
        if self.json {
            let files = |rows, bytes, path: &Path| GeneratedFiles { rows, bytes, files: vec![shown(path)] };
            let truth = truth.zip(written.truth_bytes);
            return print::result(&print::json(&Generated {
                documents: files(written.originals + written.planted, written.bytes, out),
                truth: truth.map(|(path, bytes)| files(written.planted, bytes, path)),
                left_out: Some(written.left_out),
            })?);
        }
        print::result(&planted_as_text(&written, out, truth))
    }

    /// Checks, before anything is written, that the file for the planted pairs can be written and lies outside the folder of
    /// documents, where it would be read as documents.
    fn check_truth(&self) -> Result<()> {
        let Some(truth) = &self.truth else { return Ok(()) };
        let place = crate::address::absolute;
        if place(truth)?.starts_with(place(&self.out)?) {
            return Err(Error::job(format!(
                "--truth {} lies in {}, where it would be read as documents; choose another place",
                truth.display(),
                self.out.display()
            )));
        }
        write::check_free(truth, arguments::on_existing(self.overwrite))
            .context(|| "--truth cannot be written".to_owned())
    }
}

/// What was written, for programs.
#[derive(Serialize)]
struct Generated {
    documents: GeneratedFiles,
    truth: Option<GeneratedFiles>,
    /// Rows of the source, with `--from`.
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
    fn of(written: &CorpusFiles) -> Self {
        let files = written.files.iter().map(|path| shown(path)).collect();
        Self { rows: written.rows, bytes: written.bytes, files }
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn as_text(written: &CorpusFiles, truth: Option<&CorpusFiles>) -> String {
    let mut text = String::new();
    let mut say = |written: &CorpusFiles, noun: &str| {
        let files = match written.files.as_slice() {
            [file] => file.display().to_string(),
            files => print::counted(files.len() as u64, "file"),
        };
        let (rows, bytes) = (print::count(written.rows), print::count(written.bytes));
        let _ = writeln!(text, "{rows:>12} {} ({bytes} bytes) in {files}", print::plural(written.rows, noun));
    };
    say(written, "document");
    truth.into_iter().for_each(|truth| say(truth, "planted pair"));
    text
}

fn planted_as_text(written: &planted::PlantedFiles, out: &Path, truth: Option<&Path>) -> String {
    let originals = print::counted(written.originals, "document");
    let mut text =
        format!("{originals} and {} planted ones in {}\n", print::count(written.planted), out.display());
    if let Some(truth) = truth {
        let pairs = print::counted(written.planted, "planted pair");
        text.push_str(&format!("{pairs} in {}\n", truth.display()));
    }
    if written.left_out > 0 {
        let rows = print::counted(written.left_out, "row");
        text.push_str(&format!(
            "{rows} of the source left out: they have no id or no text, or cannot be read\n"
        ));
    }
    text
}

/// A job that reads `from`, with the columns of its texts and ids, and cuts texts into shingles of `size` words.
///
/// # Errors
/// The errors of [`file`].
fn job_of(screen: &Screen, from: &str, columns: (Option<&str>, Option<&str>), size: usize) -> Result<Job> {
    let (mut file, _) = file(screen, "generate --from", &[from.to_owned()], columns, None, NO_OUTPUT)?;
    file.shingle =
        Some(ShingleSection { unit: job::Unit::Word, size: Some(size), ..ShingleSection::default() });
    job::resolve(file)
}
