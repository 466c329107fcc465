//! The exit codes of the process, and the report of the error that determines the exit code.

use std::process::ExitCode;

use crate::address::secrets::masked;
use crate::cli::screen::log::{self, LogFormat};
use crate::cli::screen::{Screen, print};
use crate::error::{Error, Kind};

/// The list of exit codes in the help of every command.
pub(super) const HELP: &str = "Exit codes: 0 done · 2 job file or arguments wrong · 3 input or storage wrong · 4 engine \
    (memory, cluster) · 5 a bug in resemblance · 6 done, but a bound of the job was exceeded · 130 stopped; run it again to continue";

/// Reports the error that ends a command.
pub(super) fn report(error: &Error, format: LogFormat) -> ExitCode {
    match format {
        LogFormat::Json => log::failed(error),
        LogFormat::Text => print::error(&print::explain(error)),
    }
    ExitCode::from(error.kind().exit_code())
}

/// Prints the help or the version, or reports the error in the arguments.
pub(super) fn report_arguments(refused: &clap::Error) -> ExitCode {
    let text = refused.render();
    if !refused.use_stderr() {
        let text = if print::colour() { text.ansi().to_string() } else { text.to_string() };
        return match print::exact(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error, LogFormat::Text),
        };
    }
    let text = text.to_string();
    if log::json_wanted(std::env::args_os()) {
        Screen::new(true).with(LogFormat::Json, false).start_log(0, true);
        let text = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        return report(&Error::job(text), LogFormat::Json);
    }
    print::message(&masked(&text));
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Kind::Job.exit_code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_exit_code() {
        use Kind as K;
        for kind in [K::Job, K::Input, K::Engine, K::Memory, K::Bug, K::Alarm, K::Interrupted] {
            assert!(HELP.contains(&format!(" {} ", kind.exit_code())), "{kind:?}");
        }
    }
}
