//! `resemblance man`: writes the manual pages.

use std::path::{Path, PathBuf};

use crate::cli::process::files::{FileMark, OwnFile};
use crate::cli::screen::print;
use crate::error::{Context, Result};

const PAGE: FileMark = FileMark {
    beginning: ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH resemblance",
    noun: "a manual page of this program",
};

/// Write the manual pages, one per command
///
/// Creates the folder if it is missing. Replaces only pages of an earlier version. Other files and links are not replaced.
#[derive(clap::Args)]
#[command(after_help = "  resemblance man /usr/local/share/man/man1/")]
pub(crate) struct Man {
    /// The folder for the pages
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(&self, line: impl FnOnce() -> clap::Command) -> Result<()> {
        let failed = || format!("cannot create the folder {}", self.folder.display());
        std::fs::create_dir_all(&self.folder).context(failed)?;
        let mut line = line().disable_help_subcommand(true);
        line.build();
        let pages = pages(&line, &self.folder)?;
        pages.iter().try_for_each(|(file, text)| file.write(text))?;
        print::result(&format!("manual pages in {}\n", self.folder.display()))
    }
}

/// Renders the manual pages of a command and its subcommands.
fn pages(command: &clap::Command, folder: &Path) -> Result<Vec<(OwnFile, String)>> {
    let mut all = Vec::new();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below, folder)?);
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text).context(|| "the manual pages cannot be made".to_owned())?;
    let file = OwnFile::at("man", folder.join(page.get_filename()), PAGE)?;
    all.push((file, String::from_utf8_lossy(&text).into_owned()));
    Ok(all)
}
