//! Arguments that several commands use, and parsers for arguments. The error of a parser says which values are allowed.

pub(crate) mod data;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;

use arrow::array::RecordBatch;

use crate::cli::process::{MANIFEST_MEMORY, files, on_session};
use crate::cli::screen::print;
use crate::error::{Error, Result};
use crate::job::file::JobFile;
pub(crate) use crate::job::parse_size as memory;
use crate::job::{self, Names, ParsedArgument, Preference, Source};
use crate::lookup::rows;
use crate::lookup::spreadsheets::{self, CsvStyle, new_spreadsheet};
use crate::output::Stored;
use crate::pipeline::{OnExisting, first_day};

/// The maximum number of pairs in an audit, whose texts are held in memory.
pub(crate) const MAX_AUDITED: usize = 100_000;

/// The maximum number of rows that a command prints, which are sorted in memory.
pub(crate) const MAX_TOP: usize = 1_000_000;

pub(crate) fn run_id(text: &str) -> ParsedArgument<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 128 characters out of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned())
}

pub(crate) fn scheduler(text: &str) -> ParsedArgument<String> {
    job::EngineSettings::on_cluster(text, 0).map(|_| text.to_owned())
}

/// The engine of a command that reads and writes outputs.
#[derive(clap::Args)]
pub(crate) struct EngineArguments {
    /// Let the executors of a cluster do the work, such as df://host:50050; they must be able to reach everything that is read or written
    #[arg(long, value_name = "URL", value_parser = scheduler)]
    pub(crate) scheduler: Option<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = memory)]
    pub(crate) memory: u64,
}

impl EngineArguments {
    /// Returns the settings of the engine: the cluster of the scheduler, or else this machine.
    pub(crate) fn settings(&self) -> Result<job::EngineSettings> {
        match &self.scheduler {
            None => Ok(job::EngineSettings::local(self.memory)),
            Some(url) => job::EngineSettings::on_cluster(url, self.memory)
                .map_err(|expected| Error::job(format!("--scheduler is {url:?}: {expected}"))),
        }
    }
}

pub(crate) fn on_existing(overwrite: bool) -> OnExisting {
    if overwrite { OnExisting::Overwrite } else { OnExisting::Fail }
}

/// Options for CSV output.
#[derive(clap::Args)]
pub(crate) struct CsvArguments {
    /// Print CSV in UTF-8, with a header and exact values
    #[arg(long, conflicts_with_all = ["json", "excel"])]
    csv: bool,
    /// Print CSV that Excel opens by double click, with ' before texts that look like formulas. It has the delimiter and the encoding of
    /// CSV files that were read. With =FILE, write a new file, which is a workbook if its name ends in .xlsx
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "json", value_parser = new_spreadsheet)]
    excel: Option<Option<PathBuf>>,
}

impl CsvArguments {
    /// Prints rows as the options ask: as JSON lines if `json` is set, as CSV, or as `text`. `names` are the columns. `source` determines
    /// the dialect of the CSV.
    pub(crate) fn print(
        &self,
        json: bool,
        names: &[&str],
        rows: &[RecordBatch],
        source: &Source,
        text: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        if !json && self.is_set() {
            return self.print_rows(names, rows, source);
        }
        print::result(&if json { rows::json_lines(rows)? } else { text()? })
    }

    pub(crate) fn is_set(&self) -> bool {
        self.csv || self.excel.is_some()
    }

    /// Prints rows as CSV, or writes them to the file of `--excel`. Control characters are escaped if the output is a terminal.
    pub(crate) fn print_rows(&self, names: &[&str], rows: &[RecordBatch], source: &Source) -> Result<()> {
        let style = if self.csv { CsvStyle::Exact } else { CsvStyle::like(source) };
        let csv = || spreadsheets::csv(names, rows, style);
        let Some(Some(path)) = &self.excel else {
            let is_terminal = std::io::stdout().is_terminal();
            return if is_terminal { print::result(&csv()?) } else { print::exact(&style.encoded(&csv()?)) };
        };
        let content = match path {
            #[cfg(feature = "xlsx")]
            path if spreadsheets::is_named(path, "xlsx") => spreadsheets::workbook(names, rows)?,
            _ => style.encoded(&csv()?),
        };
        files::write(path, &content, false)?;
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        print::result(&format!("{} in {}\n", print::counted(count as u64, "row"), path.display()))
    }
}

/// A job file and overrides of its keys.
#[derive(clap::Args)]
pub(crate) struct JobArguments {
    /// The job file (TOML)
    #[arg(value_name = "JOB.toml")]
    job: PathBuf,
    /// Set a key of the job, such as `--set score.threshold=0.9`; a value that is not TOML is used as a string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl JobArguments {
    pub(crate) fn load(&self) -> Result<job::Job> {
        job::Job::load(&self.job, &self.sets)
    }

    /// Loads and resolves the job. If it reuses a finished output, takes settings from the job of this output. On the first day of a
    /// daily job, returns the job without reference outputs.
    pub(crate) fn load_over_output(&self) -> Result<job::Job> {
        let draft = job::Draft::read(&self.job, &self.sets)?;
        let made = draft.reuse()?.map(|url| made_by(&url)).transpose()?;
        let job = draft.resolve(made.as_ref())?;
        if job.against.as_ref().is_none_or(|against| !against.first_day) {
            return Ok(job);
        }
        on_session(MANIFEST_MEMORY, async |session, _| first_day::settled(session, &job).await)
    }

    /// Whether the job is valid with the additional override `set`, which is a `KEY=VALUE`. Logs nothing.
    pub(crate) fn takes(&self, set: &str) -> bool {
        let sets: Vec<String> = self.sets.iter().cloned().chain([set.to_owned()]).collect();
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
            job::Draft::read(&self.job, &sets).and_then(|draft| draft.resolve(None)).is_ok()
        })
    }

    /// Returns the name of the job file without its ending, which names the job if the file cannot be read.
    pub(crate) fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}

pub(crate) fn made_by(url: &str) -> Result<job::Job> {
    on_session(MANIFEST_MEMORY, async |session, _| Ok(Stored::open(session, url).await?.job().clone()))
}

/// The option that determines which document is kept.
#[derive(clap::Args)]
pub(crate) struct KeepArguments {
    /// Rule that chooses the kept document among similar ones: longest (most different shingles), first or last (by file name, then by
    /// row), COLUMN for the smallest value, "COLUMN desc" for the greatest value, or "COLUMN in (A, B)" for A before B. Separate several
    /// rules by commas, and put a name with a comma in double quotes. The first rule by which two documents differ decides. If they differ
    /// by none, the first document is kept
    #[arg(long, value_name = "RULES", default_value = "longest", value_parser = keep_rules)]
    keep: String,
}

fn keep_rules(text: &str) -> ParsedArgument<String> {
    for rule in rules(text) {
        rule.parse::<Preference>().map_err(|fault| format!("the rule {rule:?} {fault}"))?;
    }
    Ok(text.to_owned())
}

/// Splits a list of rules at the commas that are outside brackets and double quotes.
fn rules(text: &str) -> Vec<&str> {
    let (mut open, mut is_quoted) = (0_i32, false);
    let between = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        is_quoted ^= c == '"';
        c == ',' && open == 0 && !is_quoted
    };
    text.split(between).map(str::trim).collect()
}

impl KeepArguments {
    /// Returns the rules. Adds the rule `first`, which decides between any two documents, unless `first` or `last` is among them.
    pub(crate) fn rules(&self) -> Vec<&str> {
        let mut rules = rules(&self.keep);
        if !rules.iter().any(|rule| matches!(*rule, "first" | "last")) {
            rules.push("first");
        }
        rules
    }

    /// Adds the rules to a job file, and the columns that they need.
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
