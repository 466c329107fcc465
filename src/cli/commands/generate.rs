//! `resemblance generate`: generates a corpus whose similar pairs are known.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cli::support::full_disk::{self, Place};
use crate::cli::support::progress::Screen;
use crate::cli::support::work::on_session;
use crate::cli::support::{arguments, planted, print};
use crate::engine::{Reached, Unit};
use crate::error::{Context, Error, Result};
use crate::lab;
use crate::lab::corpus::write::{self, Written};
use crate::lab::corpus::{Corpus, Settings, settings};

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

/// Bytes of a generated word in a Parquet file: 2.9 were measured for 50,000,000 documents of 100 words.
const BYTES_PER_WORD: u64 = 3;

impl Generate {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        self.write(screen).map_err(|error| {
            let places = [("OUT", Some(&self.out)), ("--truth", self.truth.as_ref())];
            let place =
                |(setting, path): (_, Option<&PathBuf>)| Some(Place { setting, folder: path?.clone() });
            let places: Vec<Place> = places.into_iter().filter_map(place).collect();
            let words = self
                .documents
                .map(|documents| (documents.get() as u64).saturating_mul(self.words.get() as u64));
            // With --from, the texts are those of the source.
            let words = words.filter(|_| self.from.is_none());
            full_disk::explain(error, &places, words.map(|words| words.saturating_mul(BYTES_PER_WORD)))
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
        let timed = |name: &str, number: usize, write: &dyn Fn() -> Result<Written>| {
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
            progress.stage_reaches("documents", Reached { done: done.min(all), all, unit: Unit::Rows });
        };
        let (files, existing) = (self.files.get(), arguments::on_existing(self.overwrite));
        let written =
            timed("documents", 1, &|| write::documents(&corpus, &self.out, files, existing, &advanced))?;
        let truth = match &self.truth {
            Some(path) => Some(timed("truth", 2, &|| write::truth(&corpus, path, existing))?),
            None => None,
        };
        screen.clear();
        match self.json {
            true => print::result(&as_json(&written, truth.as_ref())),
            false => print::result(&as_text(&written, truth.as_ref())),
        }
    }

    fn settings(&self) -> Settings {
        let words = self.words.get();
        Settings {
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
        let place = crate::address::local_path::absolute;
        if place(&self.out)?.starts_with(place(&PathBuf::from(from))?) {
            return Err(Error::job(format!(
                "{} lies in {from}, where it would be read as documents; choose another place",
                self.out.display()
            )));
        }
        let columns = (self.text.as_deref(), self.id.as_deref());
        let job = planted::job(screen, from, columns, self.shingle.get())?;
        let settings = lab::planted::Settings {
            seed: self.seed,
            shingle: job.shingle.clone(),
            copies: self.copies,
            near: self.near,
            jaccards: self.jaccards.clone(),
            contained: self.contained,
            header: self.boilerplate,
            header_words: self.boilerplate_words.unwrap_or(planted::HEADER_WORDS),
        };
        let most = self.documents.map(NonZeroUsize::get);
        let places = (self.out.as_path(), self.truth.as_deref(), arguments::on_existing(self.overwrite));
        let written = on_session(job.engine.memory, async |session, _| {
            lab::planted::write(session, &job.source, most, &settings, places).await
        })?;
        print::result(&match self.json {
            true => planted::as_json(&written, places),
            false => planted::as_text(&written, places),
        })
    }

    /// Checks, before anything is written, that the file for the planted pairs can be written and lies outside the folder of
    /// documents, where it would be read as documents.
    fn check_truth(&self) -> Result<()> {
        let Some(truth) = &self.truth else { return Ok(()) };
        let place = crate::address::local_path::absolute;
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

fn as_json(written: &Written, truth: Option<&Written>) -> String {
    let record = |written: &Written| {
        let files: Vec<_> = written.files.iter().map(|path| path.to_string_lossy()).collect();
        serde_json::json!({"rows": written.rows, "bytes": written.bytes, "files": files})
    };
    let record = serde_json::json!({"documents": record(written), "truth": truth.map(record)});
    format!("{record:#}\n")
}

fn as_text(written: &Written, truth: Option<&Written>) -> String {
    let mut text = String::new();
    let mut say = |written: &Written, noun: &str| {
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
