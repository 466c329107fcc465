//! `resemblance completions`: prints completions for a shell.

use clap_complete::Shell;

use crate::cli::screen::print;
use crate::error::Result;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(
    after_help = "  resemblance completions bash > ~/.local/share/bash-completion/completions/resemblance
  resemblance completions zsh > ~/.zfunc/_resemblance"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, line: impl FnOnce() -> clap::Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut line(), "resemblance", &mut script);
        print::exact(&script)
    }
}
