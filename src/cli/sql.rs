//! `resemblance sql`: the tables of a finished output, in SQL.

use datafusion::dataframe::DataFrame;
use rustyline::error::ReadlineError;

use super::{arguments, print, runtime};
use crate::engine::session;
use crate::error::{Error, Result};
use crate::job;
use crate::query::{Finished, rows};

#[derive(clap::Args)]
pub(super) struct Sql {
    /// The finished output: what a job names as output.url
    output: String,
    /// A query over documents, rejects, pairs and clusters; without it a prompt opens
    query: Option<String>,
    /// Print one JSON object a row
    #[arg(long)]
    json: bool,
    /// Bytes that a query may hold at once, past which it spills
    #[arg(long, default_value = "4GiB", value_parser = arguments::memory)]
    memory: u64,
}

const HELP: &str = "\
tables: documents, rejects, pairs, clusters; end a query with a semicolon
\\d        the tables and their columns
\\q        leave (or Ctrl-D)
";

const COLUMNS: &str = "SELECT table_name, column_name, data_type FROM information_schema.columns \
                       WHERE table_schema = 'public' ORDER BY table_name, ordinal_position";

impl Sql {
    pub(super) fn run(&self) -> Result<()> {
        let engine = job::Engine::local(self.memory);
        let (runtime, stop) = runtime(&engine)?;
        let context = session::session(&engine)?;
        // Whoever asks writes joins in any order.
        context.state_ref().write().config_mut().options_mut().optimizer.join_reordering = true;
        let finished = runtime.block_on(Finished::open(&context, &self.output))?;
        let answer = |query: &str| {
            runtime.block_on(async {
                tokio::select! {
                    answer = self.answer(finished.sql(query).await?) => answer,
                    () = stop.cancelled() => Err(Error::interrupted()),
                }
            })
        };
        match &self.query {
            Some(query) => print::result(&answer(query)?),
            None => prompt(&self.output, answer),
        }
    }

    async fn answer(&self, frame: DataFrame) -> Result<String> {
        let names: Vec<String> = frame.schema().fields().iter().map(|f| f.name().clone()).collect();
        let batches = frame.collect().await?;
        if self.json {
            return rows::json_lines(&batches);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(print::table(&names, &rows::cells(&batches)?))
    }
}

/// Reads queries, each up to its semicolon, until the end of the input.
fn prompt(output: &str, answer: impl Fn(&str) -> Result<String>) -> Result<()> {
    let fail = |e: ReadlineError| Error::input("the prompt cannot be read").because(e);
    let mut editor = rustyline::DefaultEditor::new().map_err(fail)?;
    print::result(&format!("{output}\n{HELP}"))?;
    let mut query = String::new();
    loop {
        let line = match editor.readline(if query.is_empty() { "sql> " } else { "  -> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                query.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(e) => return Err(fail(e)),
        };
        match line.trim() {
            "" => continue,
            "\\q" | "exit" | "quit" if query.is_empty() => return Ok(()),
            "\\d" if query.is_empty() => show(answer(COLUMNS))?,
            "\\?" | "help" if query.is_empty() => print::result(HELP)?,
            text => {
                query.push_str(text);
                query.push('\n');
                if text.ends_with(';') {
                    // A history that cannot be kept is no reason to stop.
                    let _ = editor.add_history_entry(query.trim());
                    show(answer(query.trim().trim_end_matches(';')))?;
                    query.clear();
                }
            }
        }
    }
}

/// A query that fails is told and does not end the prompt.
fn show(answer: Result<String>) -> Result<()> {
    match answer {
        Ok(text) => print::result(&text),
        Err(e) => {
            print::error(&super::explain(&e));
            Ok(())
        }
    }
}
