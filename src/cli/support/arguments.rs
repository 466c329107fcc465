//! Arguments that several commands have, and parsers of arguments. Each error says what is allowed.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::num::NonZeroUsize;

use arrow::array::RecordBatch;

use crate::cli::support::print;
use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::error::{Error, Result};
use crate::job::file::JobFile;
use crate::job::{self, Names, Prefer, Preference};
use crate::lookup::rows::{self, CsvStyle};
use crate::output::Stored;
use crate::pipeline::OnExisting;

type ParsedArgument<T> = std::result::Result<T, String>;

/// The largest sample that is evaluated.
pub(in crate::cli) const MAX_EVALUATED: usize = 1_000_000;

/// The most pairs of a pack to judge: their texts are held in memory.
pub(in crate::cli) const MAX_AUDITED: usize = 100_000;

/// The most rows that a command prints: they are sorted in memory.
pub(in crate::cli) const MAX_TOP: usize = 1_000_000;
/// The most documents of a sample: they are held in memory.
pub(in crate::cli) const MAX_SAMPLE: usize = 1_000_000_000;
/// The most repetitions of a measurement.
pub(in crate::cli) const MAX_REPEAT: usize = 1_000_000;

/// A whole number from 1 to `most`.
pub(in crate::cli) fn one_to(
    most: usize,
) -> impl Fn(&str) -> ParsedArgument<NonZeroUsize> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= most => Ok(number),
        _ => Err(format!("expected a whole number of 1 or more, and at most {most}")),
    }
}

/// A whole number from 0 to `most`.
pub(in crate::cli) fn zero_to(
    most: usize,
) -> impl Fn(&str) -> ParsedArgument<usize> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!("expected a whole number from 0 to {most}")),
    }
}

/// A similarity threshold, in (0, 1].
pub(in crate::cli) fn similarity(text: &str) -> ParsedArgument<f64> {
    match text.trim().parse::<f64>() {
        Ok(similarity) if similarity > 0.0 && similarity <= 1.0 => Ok(similarity),
        _ => Err("expected a number over 0 and at most 1".to_owned()),
    }
}

/// A share, in [0, 1].
pub(in crate::cli) fn share(text: &str) -> ParsedArgument<f64> {
    match text.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

/// The id of a run in logs, records and metrics.
pub(in crate::cli) fn run_id(text: &str) -> ParsedArgument<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    match (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 128 characters out of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned()),
    }
}

/// The address of a role of a cluster.
pub(in crate::cli) fn host_and_port(text: &str) -> ParsedArgument<String> {
    let url = url::Url::parse(&format!("http://{text}/")).ok();
    // A URL drops the port that its scheme has anyway.
    let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).is_some_and(|port| port > 0);
    let whole = |url: &url::Url| url.path() == "/" && url.username().is_empty() && url.password().is_none();
    match url.is_some_and(|url| whole(&url) && url.query().is_none() && url.fragment().is_none()) && port {
        true => Ok(text.to_owned()),
        false => Err("expected HOST:PORT, such as localhost:50050 or [::1]:50050".to_owned()),
    }
}

/// The URL of a scheduler.
pub(in crate::cli) fn scheduler(text: &str) -> ParsedArgument<String> {
    job::Engine::on_cluster(text, 0).map(|_| text.to_owned())
}

/// The engine of a command: this machine, or the cluster of the scheduler that is named.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where it is not the URL of a scheduler.
pub(in crate::cli) fn engine(scheduler: Option<&str>, memory: u64) -> Result<job::Engine> {
    match scheduler {
        None => Ok(job::Engine::local(memory)),
        Some(url) => job::Engine::on_cluster(url, memory)
            .map_err(|expected| Error::job(format!("--scheduler is {url:?}: {expected}"))),
    }
}

/// The treatment of an existing result, by `--overwrite`.
pub(in crate::cli) fn on_existing(overwrite: bool) -> OnExisting {
    if overwrite { OnExisting::Overwrite } else { OnExisting::Fail }
}

/// An amount of memory, in bytes.
pub(in crate::cli) fn memory(text: &str) -> ParsedArgument<u64> {
    job::parse_size(text).map_err(|e| e.to_string())
}

/// Whether and how rows are printed as CSV.
#[derive(clap::Args)]
pub(in crate::cli) struct CsvArguments {
    /// Print CSV: UTF-8 with a header, and every value as it is
    #[arg(long, conflicts_with_all = ["json", "excel"])]
    csv: bool,
    /// Print CSV that Excel opens by double click: with a byte order mark, and with ' before texts that it would take for formulas
    #[arg(long, conflicts_with = "json")]
    excel: bool,
}

impl CsvArguments {
    /// Prints rows with columns of these `names`: as JSON lines if `json` is wanted, as CSV, or else as `text`.
    pub(in crate::cli) fn print(
        &self,
        json: bool,
        names: &[&str],
        rows: &[RecordBatch],
        text: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        match self.kind().filter(|_| !json) {
            Some(kind) => self.print_csv(&rows::csv(names, rows, kind)?),
            None if json => print::result(&rows::json_lines(rows)?),
            None => print::result(&text()?),
        }
    }

    /// Prints CSV as it is, unless a terminal shows it.
    pub(in crate::cli) fn print_csv(&self, text: &str) -> Result<()> {
        if std::io::stdout().is_terminal() { print::result(text) } else { print::exact(text) }
    }

    /// The kind of CSV; `None` if it is not wanted.
    pub(in crate::cli) fn kind(&self) -> Option<CsvStyle> {
        match (self.csv, self.excel) {
            (_, true) => Some(CsvStyle::Spreadsheet),
            (true, false) => Some(CsvStyle::Exact),
            (false, false) => None,
        }
    }
}

/// A job file and the keys that are set over it.
#[derive(clap::Args)]
pub(in crate::cli) struct JobArguments {
    /// The job file (TOML)
    #[arg(value_name = "JOB.toml")]
    job: std::path::PathBuf,
    /// Set a key of the job, such as `--set score.threshold=0.9`; a value that is not TOML is taken as a string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl JobArguments {
    /// The job, resolved.
    ///
    /// # Errors
    /// When it cannot be read or breaks a rule.
    pub(in crate::cli) fn load(&self) -> Result<job::Job> {
        job::Job::load(&self.job, &self.sets)
    }

    /// The job, resolved; where it reuses a finished output, the manifest of that is read for it.
    ///
    /// # Errors
    /// As [`Self::load`], and when the output that it reuses cannot be read.
    pub(in crate::cli) fn load_over_output(&self) -> Result<job::Job> {
        let draft = job::Draft::read(&self.job, &self.sets)?;
        let Some(url) = draft.reuse()? else { return draft.resolve(None) };
        draft.resolve(Some(&made_by(&url)?))
    }

    /// Whether the job is still valid with one more `KEY=VALUE`.
    pub(in crate::cli) fn takes(&self, set: &str) -> bool {
        let sets: Vec<String> = self.sets.iter().cloned().chain([set.to_owned()]).collect();
        job::Draft::read(&self.job, &sets).and_then(|draft| draft.resolve(None)).is_ok()
    }

    /// The name of the job file without its ending: the job's name until its file has been read.
    pub(in crate::cli) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}

/// The job that made the finished output at `url`.
///
/// # Errors
/// As [`Stored::open`].
pub(in crate::cli) fn made_by(url: &str) -> Result<job::Job> {
    on_session(MANIFEST_MEMORY, async |session, _| Ok(Stored::open(session, url).await?.job().clone()))
}

/// Which of similar documents stays.
#[derive(clap::Args)]
pub(in crate::cli) struct KeepArguments {
    /// Which of similar documents stays: longest (the most different shingles), first or last (by file name, then by row), or
    /// COLUMN for the smallest value, "COLUMN desc" for the greatest one, "COLUMN in (A, B)" for A before B. Of several rules,
    /// with commas between them, the first by which two documents differ decides; if none does, the first document stays
    #[arg(long, value_name = "RULES", default_value = "longest", value_parser = checked)]
    keep: String,
}

fn checked(text: &str) -> Result<String, String> {
    for rule in rules(text) {
        rule.parse::<Preference>().map_err(|fault| format!("the rule {rule:?} {fault}"))?;
    }
    Ok(text.to_owned())
}

/// The rules between the commas that are outside brackets.
fn rules(text: &str) -> Vec<&str> {
    let mut open = 0_i32;
    let between = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && open == 0
    };
    text.split(between).map(str::trim).collect()
}

impl KeepArguments {
    /// Returns the rules. The last one tells any two documents apart.
    pub(in crate::cli) fn rules(&self) -> Vec<&str> {
        let mut rules = rules(&self.keep);
        if !rules.iter().any(|rule| matches!(*rule, "first" | "last")) {
            rules.push("first");
        }
        rules
    }

    /// Lets a job over data keep documents by the rules, and read their columns.
    pub(in crate::cli) fn set(&self, file: &mut JobFile) {
        let rules = self.rules();
        let entries = rules.iter().flat_map(|rule| Preference::entries(rule));
        let keep: Vec<Preference> = entries.filter_map(|rule| rule.parse().ok()).collect();
        let columns: BTreeSet<String> = keep.iter().cloned().filter_map(Preference::column_of_data).collect();
        if !columns.is_empty() {
            file.source.columns = Some(Names::Many(columns.into_iter().collect()));
        }
        file.clusters.keep = keep;
    }

    /// The rules as in `the one with the greatest stars, if equal the first`.
    pub(in crate::cli) fn in_words(&self) -> String {
        self.rules().into_iter().map(in_words).collect::<Vec<_>>().join(", if equal ")
    }
}

fn in_words(rule: &str) -> String {
    match (rule, rule.parse()) {
        ("first" | "last" | "longest", _) => format!("the {rule}"),
        (_, Ok(Preference::Column { column, prefer: Prefer::Least })) => {
            format!("the one with the smallest {column}")
        }
        (_, Ok(Preference::Column { column, prefer: Prefer::Most })) => {
            format!("the one with the greatest {column}")
        }
        _ => format!("by {rule}"),
    }
}
