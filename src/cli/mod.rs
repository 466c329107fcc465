//! The command line: parses the arguments, runs the command, and reports the error that ends it. Results are written to standard output,
//! and all other text to standard error.

mod arguments;
mod commands;
mod process;
mod record;
mod report_error;
mod screen;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::address::secrets;
use crate::engine::spills;
use crate::environment::Environment;
use crate::error::exit_codes::EXIT_CODES;
use commands::Command;
use process::panics;
use record::{http, telemetry};
use screen::Screen;
use screen::log::{self, LogFormat};

/// Finds similar documents in a dataset and computes how similar they are.
#[derive(Parser)]
#[command(name = "resemblance", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log more: -v logs the work of each stage, -vv also the plans
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log only errors, and show no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Format of the log lines on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// Returns the definition of the command line. The help of every command ends with examples and the exit codes.
fn command() -> clap::Command {
    Arguments::command().mut_subcommands(|command| {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        command.after_help(format!("Examples:\n{examples}\n\n{}", EXIT_CODES))
    })
}

/// Runs the command in the arguments of this process.
pub fn main() -> ExitCode {
    // Remembers the secrets in arguments and environment variables, so that messages mask them.
    std::env::args_os().for_each(|argument| secrets::remember(&argument.to_string_lossy()));
    Environment::process().remember_secrets();
    panics::watch();
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let code = match parsed {
        Ok(arguments) => run(&arguments),
        Err(refused) => report_error::report_arguments(&refused),
    };
    spills::remove_all();
    code
}

fn run(arguments: &Arguments) -> ExitCode {
    let (command, format) = (&arguments.command, arguments.log_format);
    let is_plain = arguments.quiet || format == LogFormat::Json || command.is_role();
    let screen = Screen::new(is_plain, format, arguments.quiet);
    let shows_stages = !matches!(command, Command::Find(_) | Command::Dedup(_));
    screen.start_log(arguments.verbose, shows_stages);
    let _entered = match command.run_id() {
        Some(id) => log::span(id).entered(),
        None => tracing::Span::none().entered(),
    };
    if let Some(name) = command.traced() {
        telemetry::begin(name, command.run_id());
    }
    let result = panics::caught(|| command.run(&screen, self::command));
    screen.clear();
    telemetry::end(result.as_ref().err(), &screen.journal.lock());
    http::wait();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error::report(&error, format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a line into words like a shell, without a redirection.
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
}
