//! `resemblance generate`: generates a corpus whose similar pairs are known.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cli::support::progress::Screen;
use crate::cli::support::{arguments, print};
use crate::engine::{Reached, Unit};
use crate::error::{Context, Error, Result};
use crate::lab::corpus::write::{self, Written};
use crate::lab::corpus::{Corpus, Settings, settings};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance generate documents.parquet --documents 100000
  resemblance generate documents/ --documents 1000000 --files 8 --truth truth.parquet";

/// Generate a corpus with planted copies, near-duplicates, passages and boilerplate
///
/// Documents are Parquet rows with the columns id and text. A text consists of made-up words, which are as frequent as
/// the words of a language are. Planted documents and their originals are spread over the whole corpus, and every
/// planted document has an original of its own. So --truth lists all similar pairs, with two exceptions: of the
/// identical documents it lists only the first one with each other one, and it does not list pairs that are similar
/// because of boilerplate. The same settings give the same documents, however many files there are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Generate {
    /// A file that ends in .parquet, or a folder for part-00000.parquet and so on
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Documents
    #[arg(long, value_name = "N", value_parser = arguments::one_to(settings::MAX_DOCUMENTS as usize))]
    documents: NonZeroUsize,
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
    /// Share of the other documents that begin with the same passage
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    boilerplate: f64,
    /// Number of words in that passage; half of --words by default
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

impl Generate {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
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
            progress.stage_reaches(Reached { done: done.min(all), all, unit: Unit::Rows });
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
            documents: self.documents.get() as u64,
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
