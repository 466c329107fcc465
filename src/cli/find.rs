//! `resemblance find`: similar files, without a job file.

use std::num::NonZeroUsize;

use super::arguments;
use super::print;
use super::progress::Screen;
use super::run::run_job;
use super::side_by_side;
use crate::error::{Error, Result};
use crate::job::{self, Job, file};
use crate::pipeline::Existing;
use crate::query::rows;

#[derive(clap::Args)]
pub(super) struct Find {
    /// Files and folders; folders are walked
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The least similarity to print, over 0 and at most 1
    #[arg(short, long, default_value = "0.8", value_parser = arguments::similarity)]
    threshold: f64,
    /// Characters (or words) in a shingle
    #[arg(short = 'k', long, default_value = "9", value_parser = shingle_size)]
    size: NonZeroUsize,
    /// What shingles are made of
    #[arg(short, long, value_enum, default_value_t = Unit::Char)]
    unit: Unit,
    /// Compare every two files: exact, and quadratic
    #[arg(long)]
    all: bool,
    /// Print one JSON object a pair
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print the texts of the N most similar pairs side by side, common passages marked; 1 pair without N
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = pairs_to_show)]
    show: Option<NonZeroUsize>,
}

fn shingle_size(text: &str) -> std::result::Result<NonZeroUsize, String> {
    arguments::one_or_more(text).map_err(|expected| format!("{expected} after -k"))
}

fn pairs_to_show(text: &str) -> std::result::Result<NonZeroUsize, String> {
    arguments::one_or_more(text)
        .map_err(|expected| format!("{expected}, or nothing; paths come before --show"))
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    Char,
    Word,
}

impl Find {
    pub(super) fn run(&self, screen: &Screen) -> Result<()> {
        // The tables are only passed through: they go when the command ends.
        let folder = tempfile::tempdir()?;
        let job = self.job(&folder.path().join("out").to_string_lossy())?;
        let (outcome, pairs) = run_job(&job, screen.progress(), Existing::Keep, None)?;
        screen.clear();
        if self.json {
            return print::result(&rows::json_lines(&pairs)?);
        }
        let cells = rows::cells(&pairs)?;
        let manifest = &outcome.manifest;
        let counted =
            |name: &str, noun: &str| print::counted(manifest.counts.get(name).copied().unwrap_or(0), noun);
        let rejected: Vec<String> =
            manifest.rejects.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let rejected = if rejected.is_empty() {
            String::new()
        } else {
            format!("; not compared: {}", rejected.join(", "))
        };
        let summary = format!(
            "{} of similarity {} or more among {}{rejected}\n",
            counted("pairs", "pair"),
            self.threshold,
            counted("documents", "file"),
        );
        let table = match cells.is_empty() {
            true => String::new(),
            false => {
                print::table(&["file", "similar to", "jaccard", "share of file", "share of other"], &cells)
            }
        };
        let shown = match self.show {
            Some(most) => side_by_side::shown(&job, &pairs, most.get())?,
            None => String::new(),
        };
        print::result(&format!("{table}{summary}{shown}"))
    }

    /// The job that these arguments stand for.
    fn job(&self, output: &str) -> Result<Job> {
        let unit = match self.unit {
            Unit::Char => "char",
            Unit::Word => "word",
        };
        let mut table = toml::Table::new();
        let quoted = |text: &str| toml::Value::String(text.to_owned());
        let mut section = |name: &str, entries: Vec<(&str, toml::Value)>| {
            let entries = entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<toml::Table>();
            table.insert(name.to_owned(), toml::Value::Table(entries));
        };
        let urls = self.paths.iter().map(|p| quoted(p)).collect();
        section("source", vec![("format", quoted("text")), ("url", toml::Value::Array(urls))]);
        let size = i64::try_from(self.size.get()).map_err(|e| Error::job("-k is too large").because(e))?;
        let steps = ["lowercase", "collapse-whitespace"].map(quoted).to_vec();
        section(
            "shingle",
            vec![
                ("normalize", toml::Value::Array(steps)),
                ("unit", quoted(unit)),
                ("size", toml::Value::Integer(size)),
            ],
        );
        section("candidates", vec![("method", quoted(if self.all { "all" } else { "lsh" }))]);
        section("score", vec![("threshold", toml::Value::Float(self.threshold))]);
        section("output", vec![("url", quoted(output))]);
        job::resolve(file::read(&table.to_string(), "the arguments", &[])?)
    }
}
