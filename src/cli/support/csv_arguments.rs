//! The arguments of commands that print rows as CSV.

use std::io::IsTerminal;

use crate::cli::support::print;
use crate::error::Result;
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
    /// Prints a result: CSV as it is, unless a terminal shows it.
    pub(in crate::cli) fn print(&self, text: &str) -> Result<()> {
        match self.kind() {
            Some(_) if !std::io::stdout().is_terminal() => print::exact(text),
            _ => print::result(text),
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
