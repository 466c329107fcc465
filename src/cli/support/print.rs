//! Output: the only module that writes to standard output, and with the log the only one that writes to standard error.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::environment::Environment;
use crate::error::visible::{escaped, visible};
use crate::error::{Error, Result};
use crate::page::side_by_side::COLOURS;
pub(in crate::cli) use crate::page::text::{bytes, count, counted, either, plural};

/// Writes a result to standard output. Whatever a terminal would act on is escaped, except the colours of this program.
pub(in crate::cli) fn result(text: &str) -> Result<()> {
    let shown = escaped(text);
    match colour() {
        true => exact(&COLOURS.iter().fold(shown.into_owned(), |shown, of| shown.replace(&*escaped(of), of))),
        false => exact(&shown),
    }
}

/// Writes a result to standard output byte for byte. A closed pipe, as that of `head`, is not an error.
pub(in crate::cli) fn exact(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Error::input("the result cannot be written to standard output").because(e)),
    }
}

/// A result as indented JSON.
pub(in crate::cli) fn json(result: &impl Serialize) -> Result<String> {
    ended(serde_json::to_string_pretty(result))
}

/// A result as a line of JSON.
pub(in crate::cli) fn json_line(result: &impl Serialize) -> Result<String> {
    ended(serde_json::to_string(result))
}

fn ended(json: serde_json::Result<String>) -> Result<String> {
    json.map(|text| format!("{text}\n")).map_err(|e| Error::bug("the result cannot be written").because(e))
}

/// Writes an error to standard error, in colour on a terminal. Failures are ignored: the exit code remains.
pub(in crate::cli) fn error(text: &str) {
    let colour = std::io::stderr().is_terminal() && Environment::of_process().allows_colour();
    let label = if colour { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    message(&format!("{label} {text}\n"));
}

/// Writes a text to standard error, if it can be written.
pub(in crate::cli) fn message(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Whether standard output shows colour.
pub(in crate::cli) fn colour() -> bool {
    std::io::stdout().is_terminal() && Environment::of_process().allows_colour()
}

/// The columns of the terminal on standard output; 100 if it is not a terminal.
pub(in crate::cli) fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(100, |(width, _)| usize::from(width.0))
}

/// A Markdown table with numbers aligned to the right. Control characters are escaped.
pub(in crate::cli) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().map(|name| visible(name)));
    for row in rows {
        table.add_row(row.iter().map(|cell| {
            let number = cell == "-" || cell.replace(',', "").parse::<f64>().is_ok();
            Cell::new(visible(cell)).set_alignment(if number {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            })
        }));
    }
    format!("{table}\n")
}

/// Numbers in a column, each with words behind it.
#[derive(Default)]
pub(in crate::cli) struct NumberColumn(pub(in crate::cli) String);

impl NumberColumn {
    /// Adds a line with the plural of `noun`, if it is not empty, and `rest`; none without a number.
    pub(in crate::cli) fn line(&mut self, n: impl Into<Option<u64>>, noun: &str, rest: &str) {
        let Some(n) = n.into() else { return };
        let noun = if noun.is_empty() { String::new() } else { plural(n, noun) };
        self.0.push_str(&format!("{:>12} {noun}{rest}\n", count(n)));
    }
}

/// Rejected documents by reason, as in `2 empty_text, 1 invalid_utf8`.
pub(in crate::cli) fn reasons(rejects: &BTreeMap<String, u64>) -> String {
    rejects.iter().map(|(reason, &n)| format!("{} {reason}", count(n))).collect::<Vec<_>>().join(", ")
}

/// Seconds as people say them.
pub(in crate::cli) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
