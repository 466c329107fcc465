//! The arguments of commands that print rows as CSV.

use std::io::IsTerminal;

use crate::error::visible::acts;
use crate::lookup::rows::Csv;

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
    /// CSV for standard output: on a terminal, characters that act on it are replaced.
    pub(in crate::cli) fn for_output(text: String) -> String {
        match std::io::stdout().is_terminal() {
            true => text.replace(|c| c != '\n' && acts(c), "\u{fffd}"),
            false => text,
        }
    }

    /// The kind of CSV; `None` if it is not wanted.
    pub(in crate::cli) fn kind(&self) -> Option<Csv> {
        match (self.csv, self.excel) {
            (_, true) => Some(Csv::Spreadsheet),
            (true, false) => Some(Csv::Exact),
            (false, false) => None,
        }
    }
}
