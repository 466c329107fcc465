//! `resemblance man`: the manual pages.

use std::path::PathBuf;

use crate::cli::support::print;
use crate::error::{Error, Result};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance man /usr/local/share/man/man1/";

/// Write the manual pages, one for each command
///
/// The folder is made if it is missing. Pages of the same names are replaced.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Man {
    /// The folder
    folder: PathBuf,
}

impl Man {
    pub(in crate::cli) fn run(&self, line: clap::Command) -> Result<()> {
        let failed = |error| {
            let folder = self.folder.display();
            Error::input(format!("the manual pages cannot be written to {folder}")).because(error)
        };
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        clap_mangen::generate_to(line, &self.folder).map_err(failed)?;
        print::result(&format!("manual pages in {}\n", self.folder.display()))
    }
}
