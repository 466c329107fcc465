//! `resemblance completions`: completions of a shell.

use clap_complete::Shell;

use crate::cli::support::print;
use crate::error::Result;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance completions bash > ~/.local/share/bash-completion/completions/resemblance
  resemblance completions zsh > ~/.zfunc/_resemblance";

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(in crate::cli) fn run(&self, line: impl FnOnce() -> clap::Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut line(), "resemblance", &mut script);
        print::exact(&String::from_utf8_lossy(&script))
    }
}
