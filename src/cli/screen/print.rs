//! Writes and formats output. Only this module writes to standard output. Only this module and the log write to standard error.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::address::secrets::masked;
use crate::environment::Environment;
pub(crate) use crate::error::counts::{count, counted, either, plural};
use crate::error::library_errors::is_no_permission;
use crate::error::visible::{escaped, visible};
use crate::error::{Error, Kind, Result, distinct_messages};
use crate::page::side_by_side::COLOURS;
pub(crate) use crate::page::text::bytes;

/// Writes a result to standard output. Escapes control characters, except in the colours of this program.
pub(crate) fn result(text: &str) -> Result<()> {
    let shown = escaped(text);
    if !colour() {
        return exact(shown.as_bytes());
    }
    let coloured =
        COLOURS.iter().fold(shown.into_owned(), |shown, colour| shown.replace(&*escaped(colour), colour));
    exact(coloured.as_bytes())
}

/// Writes bytes to standard output unchanged. A pipe that the reader closed, as `head` does, is not an error.
pub(crate) fn exact(content: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(content).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::input("the result cannot be written to standard output").because(e))
        }
        _ => Ok(()),
    }
}

/// Prints a result as indented JSON, or as the text that `people` returns.
pub(crate) fn json_or(is_json: bool, result: &impl Serialize, people: impl FnOnce() -> String) -> Result<()> {
    self::result(&if is_json { json(result)? } else { people() })
}

/// Prints a result as a line of JSON, or as the text that `people` returns.
pub(crate) fn json_line_or(
    is_json: bool,
    result: &impl Serialize,
    people: impl FnOnce() -> String,
) -> Result<()> {
    self::result(&if is_json { json_line(result)? } else { people() })
}

pub(crate) fn json(result: &impl Serialize) -> Result<String> {
    with_newline(serde_json::to_string_pretty(result))
}

pub(crate) fn json_line(result: &impl Serialize) -> Result<String> {
    with_newline(serde_json::to_string(result))
}

fn with_newline(json: serde_json::Result<String>) -> Result<String> {
    json.map(|text| format!("{text}\n")).map_err(|e| Error::bug("the result cannot be written").because(e))
}

/// Writes an error to standard error, in colour on a terminal. Ignores failures to write, because the exit code also reports the error.
pub(crate) fn error(text: &str) {
    let colour = std::io::stderr().is_terminal() && Environment::process().allows_colour();
    let label = if colour { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    message(&format!("{label} {text}\n"));
}

pub(crate) fn message(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Returns the error and its causes, one per line, with secrets masked and control characters escaped.
pub(crate) fn explain(error: &Error) -> String {
    let lines: Vec<_> = sentences(error).iter().map(|sentence| visible(sentence).into_owned()).collect();
    lines.join("\n  because: ")
}

/// Returns the error and its causes in one line, with secrets masked.
pub(crate) fn one_line(error: &Error) -> String {
    sentences(error).join("; because: ")
}

/// Returns the messages of the error and its causes, with secrets masked. Adds advice about missing permissions and bugs.
pub(crate) fn sentences(error: &Error) -> Vec<String> {
    let mut messages = distinct_messages(error);
    if messages.iter().any(|message| is_no_permission(message)) {
        messages.push(
            "there is no permission: give it to the user of this process, or name another location".into(),
        );
    }
    if error.kind() == Kind::Bug {
        messages
            .push("this is a bug of resemblance: please report it with the command and the job file".into());
    }
    messages.iter().map(|message| masked(message)).collect()
}

pub(crate) fn colour() -> bool {
    std::io::stdout().is_terminal() && Environment::process().allows_colour()
}

/// Returns the width of the terminal on standard output in columns, or 100 by default.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(100, |(width, _)| usize::from(width.0))
}

/// Formats a Markdown table with right-aligned numbers. Escapes control characters.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item: AsRef<[String]>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().map(|name| visible(name)));
    for row in rows {
        table.add_row(row.as_ref().iter().map(|cell| {
            let is_number = cell == "-" || cell.replace(',', "").parse::<f64>().is_ok();
            let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(visible(cell)).set_alignment(alignment)
        }));
    }
    format!("{table}\n")
}

/// Lines that begin with right-aligned numbers.
#[derive(Default)]
pub(crate) struct NumberColumn(pub(crate) String);

impl NumberColumn {
    /// Adds a line with the number `n`, the noun in singular or plural, and `rest`. Does nothing if `n` is `None`.
    pub(crate) fn line(&mut self, n: impl Into<Option<u64>>, noun: &str, rest: &str) {
        let Some(n) = n.into() else { return };
        let noun = if noun.is_empty() { String::new() } else { plural(n, noun) };
        self.0.push_str(&format!("{:>12} {noun}{rest}\n", count(n)));
    }
}

/// Returns the number of rejected documents for each reason, such as `2 empty_text, 1 invalid_utf8`, between `before` and `after`. Empty
/// if there are no rejects.
pub(crate) fn reasons(rejects: &BTreeMap<String, u64>, [before, after]: [&str; 2]) -> String {
    let reasons: Vec<_> = rejects.iter().map(|(reason, &n)| format!("{} {reason}", count(n))).collect();
    if reasons.is_empty() { String::new() } else { format!("{before}{}{after}", reasons.join(", ")) }
}

/// Formats a duration in seconds, minutes or hours.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
