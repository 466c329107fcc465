//! Arguments that several commands use, and parsers for arguments. The error of a parser says which values are allowed.

pub(crate) mod data;

use std::collections::BTreeSet;
use std::io::IsTerminal;

use arrow::array::RecordBatch;

use crate::cli::process::{MANIFEST_MEMORY, on_session};
use crate::cli::screen::print;
use crate::error::{Error, Result};
use crate::job::file::JobFile;
pub(crate) use crate::job::parse_size as memory;
use crate::job::{self, Names, ParsedArgument, Preference};
use crate::lookup::rows::{self, CsvStyle};
use crate::output::Stored;
use crate::pipeline::OnExisting;

/// The maximum number of pairs in an audit. Their texts are held in memory.
pub(crate) const MAX_AUDITED: usize = 100_000;

/// The maximum number of rows that a command prints. The rows are sorted in memory.
pub(crate) const MAX_TOP: usize = 1_000_000;

/// Parses the id of a run.
pub(crate) fn run_id(text: &str) -> ParsedArgument<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 128 characters out of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned())
}

/// Parses the URL of a scheduler.
pub(crate) fn scheduler(text: &str) -> ParsedArgument<String> {
    job::EngineSettings::on_cluster(text, 0).map(|_| text.to_owned())
}

/// Returns the engine settings of a command. Without `scheduler`, the command uses this machine; otherwise it uses the cluster of this
/// scheduler.
///
/// # Errors
/// Returns [`Kind::Job`](crate::error::Kind::Job) if the URL is invalid.
pub(crate) fn engine(scheduler: Option<&str>, memory: u64) -> Result<job::EngineSettings> {
    match scheduler {
        None => Ok(job::EngineSettings::local(memory)),
        Some(url) => job::EngineSettings::on_cluster(url, memory)
            .map_err(|expected| Error::job(format!("--scheduler is {url:?}: {expected}"))),
    }
}

/// Returns what happens to an existing result, depending on `--overwrite`.
pub(crate) fn on_existing(overwrite: bool) -> OnExisting {
    if overwrite { OnExisting::Overwrite } else { OnExisting::Fail }
}

/// Options for CSV output.
#[derive(clap::Args)]
pub(crate) struct CsvArguments {
    /// Print CSV in UTF-8, with a header and exact values
    #[arg(long, conflicts_with_all = ["json", "excel"])]
    csv: bool,
    /// Print CSV that Excel opens by double click: with a byte order mark, and with ' before texts that look like formulas
    #[arg(long, conflicts_with = "json")]
    excel: bool,
}

impl CsvArguments {
    /// Prints rows as JSON lines if `json` is set, as CSV if the options ask for CSV, and otherwise as `text`. `names` are the columns.
    pub(crate) fn print(
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

    /// Prints CSV. Control characters are escaped if the output is a terminal.
    pub(crate) fn print_csv(&self, text: &str) -> Result<()> {
        if std::io::stdout().is_terminal() { print::result(text) } else { print::exact(text) }
    }

    /// Returns the style of CSV; `None` if the options do not ask for CSV.
    pub(crate) fn kind(&self) -> Option<CsvStyle> {
        match (self.csv, self.excel) {
            (_, true) => Some(CsvStyle::Spreadsheet),
            (true, false) => Some(CsvStyle::Exact),
            (false, false) => None,
        }
    }
}

/// A job file and overrides of its keys.
#[derive(clap::Args)]
pub(crate) struct JobArguments {
    /// The job file (TOML)
    #[arg(value_name = "JOB.toml")]
    job: std::path::PathBuf,
    /// Set a key of the job, such as `--set score.threshold=0.9`; a value that is not TOML is used as a string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl JobArguments {
    /// Loads and resolves the job.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the job is invalid.
    pub(crate) fn load(&self) -> Result<job::Job> {
        job::Job::load(&self.job, &self.sets)
    }

    /// Loads and resolves the job. If the job reuses a finished output, reads the job that made this output.
    ///
    /// # Errors
    /// Returns the errors of [`Self::load`], and fails if the output cannot be read.
    pub(crate) fn load_over_output(&self) -> Result<job::Job> {
        let draft = job::Draft::read(&self.job, &self.sets)?;
        let Some(url) = draft.reuse()? else { return draft.resolve(None) };
        draft.resolve(Some(&made_by(&url)?))
    }

    /// Whether the job is valid with the additional override `set`, which is a `KEY=VALUE`.
    pub(crate) fn takes(&self, set: &str) -> bool {
        let sets: Vec<String> = self.sets.iter().cloned().chain([set.to_owned()]).collect();
        job::Draft::read(&self.job, &sets).and_then(|draft| draft.resolve(None)).is_ok()
    }

    /// Returns the name of the job file without its ending. It serves as the name of the job if the file cannot be read.
    pub(crate) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Returns the job that made the finished output at `url`.
///
/// # Errors
/// Returns the errors of [`Stored::open`].
pub(crate) fn made_by(url: &str) -> Result<job::Job> {
    on_session(MANIFEST_MEMORY, async |session, _| Ok(Stored::open(session, url).await?.job().clone()))
}

/// The option that determines which document is kept.
#[derive(clap::Args)]
pub(crate) struct KeepArguments {
    /// Rule that chooses the kept document among similar ones: longest (most different shingles), first or last (by file name, then by
    /// row), COLUMN for the smallest value, "COLUMN desc" for the greatest value, or "COLUMN in (A, B)" for A before B. Separate several
    /// rules by commas: the first rule by which two documents differ decides; if they differ by none, the first document is kept
    #[arg(long, value_name = "RULES", default_value = "longest", value_parser = keep_rules)]
    keep: String,
}

fn keep_rules(text: &str) -> ParsedArgument<String> {
    for rule in rules(text) {
        rule.parse::<Preference>().map_err(|fault| format!("the rule {rule:?} {fault}"))?;
    }
    Ok(text.to_owned())
}

/// Splits a list of rules at the commas that are outside brackets.
fn rules(text: &str) -> Vec<&str> {
    let mut open = 0_i32;
    let between = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && open == 0
    };
    text.split(between).map(str::trim).collect()
}

impl KeepArguments {
    /// Returns the rules. The rule `first` is added unless a rule already decides between any two documents.
    pub(crate) fn rules(&self) -> Vec<&str> {
        let mut rules = rules(&self.keep);
        if !rules.iter().any(|rule| matches!(*rule, "first" | "last")) {
            rules.push("first");
        }
        rules
    }

    /// Adds the rules to a job file. Also adds the columns of the data that the rules need.
    pub(crate) fn set(&self, file: &mut JobFile) {
        let rules = self.rules();
        let entries = rules.iter().flat_map(|rule| Preference::entries(rule));
        let keep: Vec<Preference> = entries.filter_map(|rule| rule.parse().ok()).collect();
        let columns: BTreeSet<String> = keep.iter().cloned().filter_map(Preference::column_of_data).collect();
        if !columns.is_empty() {
            file.source.columns = Some(Names::Many(columns.into_iter().collect()));
        }
        file.clusters.keep = keep;
    }
}
