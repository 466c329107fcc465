//! Reports the error that ends a command.

use std::process::ExitCode;

use crate::address::secrets::masked;
use crate::cli::screen::log::{self, LogFormat};
use crate::cli::screen::{Screen, print};
use crate::error::{Error, Kind};

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
        return match print::exact(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error, LogFormat::Text),
        };
    }
    let text = text.to_string();
    if log::json_wanted(std::env::args_os()) {
        Screen::new(true, LogFormat::Json, false).start_log(0, true);
        let text = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        return report(&Error::job(text), LogFormat::Json);
    }
    print::message(&masked(&text));
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Kind::Job.exit_code()))
}
