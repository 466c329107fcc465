//! `resemblance sql`: queries the tables of a finished output in SQL.

use std::io::{BufRead, IsTerminal};

use datafusion::prelude::SessionContext;
use rustyline::error::ReadlineError;

use crate::apply::result::AppliedResult;
use crate::cli::arguments::{self, CsvArguments};
use crate::cli::process::JobRuntime;
use crate::cli::screen::print;
use crate::engine::session;
use crate::error::{Context, Error, Kind, Result};
use crate::job;
use crate::lookup::{Finished, rows};

/// Query the tables of a finished output in SQL
///
/// The tables are documents, rejects, pairs, clusters and the tables that the job adds, such as spans. For a result of apply or dedup, the
/// tables are kept, removed, rejected and removed_spans. Without --allow-writes, queries can only read the tables. Without a query, a
/// prompt opens, which continues after a query fails. If standard input is not a terminal, its queries run one after the other. The first
/// query that fails ends the command with its exit code.
#[derive(clap::Args)]
#[command(
    after_help = "  resemblance sql out/reviews/ \"SELECT * FROM pairs ORDER BY jaccard DESC LIMIT 10\"
  resemblance sql out/reviews/ --excel \"SELECT * FROM pairs\" > pairs.csv
  resemblance sql clean/ \"SELECT id, kept_id FROM removed\"
  resemblance sql out/reviews/"
)]
pub(crate) struct Sql {
    /// The finished output: the folder or URL that a job names as output.url, or that apply or dedup wrote to
    output: String,
    /// A query; without it, queries are read from standard input, each ending in a semicolon at the end of a line
    query: Option<String>,
    /// Let queries write files, read other files and change settings (COPY, CREATE, INSERT, SET)
    #[arg(long)]
    allow_writes: bool,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvArguments,
    /// Memory that a query may use before it spills to disk, such as 4GiB, or a share of the machine's memory
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

const HELP: &str = "\
\\d        the tables and their columns
\\q        leave (or Ctrl-D)
";

const COLUMNS: &str = "SELECT table_name, column_name, data_type FROM information_schema.columns \
                       WHERE table_schema = 'public' ORDER BY table_name, ordinal_position";

impl Sql {
    pub(crate) fn run(&self) -> Result<()> {
        let engine = job::EngineSettings::local(self.memory);
        let runtime = JobRuntime::start(&engine)?;
        let context = session::session(&engine)?;
        // Users write joins in any order, so the optimizer is allowed to reorder them.
        context.state_ref().write().config_mut().options_mut().optimizer.join_reordering = true;
        let source = runtime.run(self.open(&context))?;
        let answer = |query: &str| runtime.run(self.answer(&context, query, &source));
        match &self.query {
            Some(query) => answer(query),
            None if std::io::stdin().is_terminal() => {
                prompt(&self.output, &rows::table_names(&context).join(", "), answer)
            }
            None => batch(std::io::stdin().lock(), answer),
        }
    }

    /// Registers the tables of a finished output or of a result of `apply`. Returns the source of its documents.
    async fn open(&self, session: &SessionContext) -> Result<job::Source> {
        match AppliedResult::find(session, &self.output).await? {
            Some(applied) => {
                applied.register().await?;
                applied.source()
            }
            None => Ok(Finished::open(session, &self.output).await?.job().source.clone()),
        }
    }

    async fn answer(&self, session: &SessionContext, query: &str, source: &job::Source) -> Result<()> {
        let frame = rows::plan_query(session, query, self.allow_writes).await?;
        let names: Vec<String> = frame.schema().fields().iter().map(|f| f.name().clone()).collect();
        let batches = rows::collected(frame).await?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = || Ok(print::table(&names, &rows::cells(&batches)?));
        self.csv.print(self.json, &names, &batches, source, text)
    }
}

#[derive(Default)]
struct QueryLines(String);

impl QueryLines {
    /// Adds a line, and answers the query that it completes. Returns whether the line asks to leave.
    fn add(&mut self, line: &str, mut answer: impl FnMut(&str) -> Result<()>) -> Result<bool> {
        match line.trim() {
            "" => {}
            "\\q" | "exit" | "quit" if self.0.is_empty() => return Ok(true),
            "\\d" if self.0.is_empty() => answer(COLUMNS)?,
            "\\?" | "help" if self.0.is_empty() => print::result(HELP)?,
            text => {
                self.0.push_str(text);
                self.0.push('\n');
                if text.ends_with(';') {
                    self.end(answer)?;
                }
            }
        }
        Ok(false)
    }

    /// Answers the collected lines as a query without the semicolon, unless they are blank.
    fn end(&mut self, mut answer: impl FnMut(&str) -> Result<()>) -> Result<()> {
        match std::mem::take(&mut self.0).trim().trim_end_matches(';').trim_end() {
            "" => Ok(()),
            query => answer(query),
        }
    }
}

/// Runs the queries from a file or a pipe, until one fails.
fn batch(input: impl BufRead, answer: impl Fn(&str) -> Result<()>) -> Result<()> {
    let mut lines = QueryLines::default();
    for line in input.lines() {
        let line = line.context(|| "standard input cannot be read".to_owned())?;
        if lines.add(&line, &answer)? {
            return Ok(());
        }
    }
    lines.end(answer)
}

fn prompt(output: &str, tables: &str, answer: impl Fn(&str) -> Result<()>) -> Result<()> {
    let fail = |e: ReadlineError| Error::input("the prompt cannot be read").because(e);
    let mut editor = rustyline::DefaultEditor::new().map_err(fail)?;
    print::result(&format!("{output}\ntables: {tables}; end a query with a semicolon\n{HELP}"))?;
    let mut lines = QueryLines::default();
    loop {
        let line = match editor.readline(if lines.0.is_empty() { "sql> " } else { "  -> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                lines = QueryLines::default();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(e) => return Err(fail(e)),
        };
        let leaves = lines.add(&line, |query| {
            // The prompt also works without a history.
            let _ = editor.add_history_entry(format!("{query};"));
            match answer(query) {
                Err(e) if e.kind() != Kind::Interrupted => print::error(&print::explain(&e)),
                answered => answered?,
            }
            Ok(())
        })?;
        if leaves {
            return Ok(());
        }
    }
}
