//! The command line: parse, dispatch, and the one place that prints errors.
//!
//! Results go to standard output, everything else to standard error.

mod commands;
mod support;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::address::secrets::{self, masked};
use crate::engine::spills;
use crate::environment::Environment;
use crate::error::{Error, Kind};
use commands::Command;
use support::errors::explain;
use support::progress::Screen;
use support::{http, log, panics, print, telemetry};

/// Finds every pair of similar documents, and says how similar they are.
#[derive(Parser)]
#[command(name = "resemblance", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log more: -v says what each stage does, -vv shows the plans
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log only errors, and show no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Format of the log lines on standard error
    #[arg(long, global = true, value_enum, default_value_t = log::LogFormat::Text)]
    log_format: log::LogFormat,
}

const EXIT_CODES: &str = "Exit codes: 0 done · 2 job file or arguments wrong · 3 input or storage wrong · 4 engine \
    (memory, cluster) · 5 a bug in resemblance · 6 done, but a bound of the job was exceeded · 130 stopped; run it again to continue";

/// The command line, with the exit codes in the help of every command.
fn command() -> clap::Command {
    Arguments::command().mut_subcommands(|command| {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        command.after_help(format!("{examples}\n\n{EXIT_CODES}"))
    })
}

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    // Secrets in arguments and variables are masked in every message.
    std::env::args_os().for_each(|argument| secrets::remember(&argument.to_string_lossy()));
    Environment::of_process().remember_secrets();
    panics::watch();
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let code = match parsed {
        Ok(arguments) => run(&arguments),
        Err(refused) => refuse(&refused),
    };
    spills::remove_all();
    code
}

fn run(arguments: &Arguments) -> ExitCode {
    let format = arguments.log_format;
    let is_plain = arguments.quiet || format == log::LogFormat::Json || arguments.command.is_role();
    let screen = Screen::new(is_plain).with(format, arguments.quiet);
    screen.start_log(arguments.verbose, !arguments.command.is_brief());
    let _entered = match arguments.command.run_id() {
        Some(id) => log::span(id).entered(),
        None => tracing::Span::none().entered(),
    };
    if let Some(name) = arguments.command.traced() {
        telemetry::begin(name, arguments.command.run_id());
    }
    let result = panics::caught(|| arguments.command.run(&screen, command));
    screen.clear();
    telemetry::end(result.as_ref().err());
    http::wait();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, format),
    }
}

/// Reports the error that ends the command.
fn fail(error: &Error, format: log::LogFormat) -> ExitCode {
    match format {
        log::LogFormat::Json => log::failed(error),
        log::LogFormat::Text => print::error(&explain(error)),
    }
    ExitCode::from(error.kind().exit_code())
}

/// Prints the help or the version, which are not errors, or the error in the arguments.
fn refuse(refused: &clap::Error) -> ExitCode {
    let said = refused.render();
    if !refused.use_stderr() {
        let said = if print::colour() { said.ansi().to_string() } else { said.to_string() };
        return match print::exact(&said) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, log::LogFormat::Text),
        };
    }
    if log::json_wanted(std::env::args_os()) {
        Screen::new(true).with(log::LogFormat::Json, false).start_log(0, true);
        let said = said.to_string();
        let said = said.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        return fail(&Error::job(said), log::LogFormat::Json);
    }
    print::message(&masked(&said.to_string()));
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Kind::Job.exit_code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line as a shell divides it, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let (command, _) = line.split_once(" > ").unwrap_or((line, ""));
        let parts = command.split('"').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        for command in command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            let (_, rest) = help.split_once("Examples:").unwrap_or_else(|| panic!("{}", command.get_name()));
            let (examples, codes) = rest.split_once("Exit codes:").unwrap();
            assert!(codes.contains(" 6 "), "{codes}");
            let examples: Vec<_> = examples.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert!(!examples.is_empty(), "{}", command.get_name());
            for example in examples {
                if let Err(refused) = Arguments::try_parse_from(words(example)) {
                    panic!("{example}: {refused}");
                }
            }
        }
    }

    #[test]
    fn the_help_has_every_exit_code() {
        use Kind as K;
        for kind in [K::Job, K::Input, K::Engine, K::Memory, K::Bug, K::Alarm, K::Interrupted] {
            assert!(EXIT_CODES.contains(&format!(" {} ", kind.exit_code())), "{kind:?}");
        }
    }
}
