//! The command line: parse, dispatch, and the one place that prints errors.
//!
//! Results go to standard output, everything else to standard error.

mod allocator;
mod arguments;
mod check;
mod clean;
mod compare;
mod executor;
mod find;
mod generate;
mod health;
mod http;
mod log;
mod measure;
mod metrics;
mod neighbors;
mod panics;
mod print;
mod progress;
mod record;
mod roles;
mod run;
mod scheduler;
mod show;
mod side_by_side;
mod sql;
mod sweep;
mod verify;
mod work;

use std::error::Error as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::engine::spills;
use crate::error::{Error, Kind, Result};
use crate::job;
use crate::secrets::{self, masked};
use crate::visible::visible;
use progress::Screen;
use work::signalled;

/// Finds every pair of similar documents, and says how similar they are.
#[derive(Parser)]
#[command(name = "resemblance", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log more: -v says what each step does, -vv shows the plans
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log errors alone, and show no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// How log lines are written to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

const EXIT_CODES: &str = "Exit codes: 0 done · 2 job file or arguments wrong · 3 input or storage · \
4 engine (memory, cluster) · 5 a bug of ours · 130 stopped; run it again to go on";

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Run a job: documents in, tables of pairs, clusters and rejects out
    Run(run::Run),
    /// Resolve a job and print what would run; reads no data
    Check(check::Check),
    /// Find similar files, without a job file
    Find(find::Find),
    /// The documents nearest to one document, from a finished output
    Neighbors(neighbors::Neighbors),
    Show(show::Show),
    Compare(compare::Compare),
    Sweep(sweep::Sweep),
    Generate(generate::Generate),
    /// Ask a role of a cluster whether it is well
    Health(health::Health),
    Scheduler(scheduler::Scheduler),
    Executor(executor::Executor),
    Clean(clean::Clean),
    Verify(verify::Verify),
    Sql(sql::Sql),
}

/// A job file and the keys that are set over it.
#[derive(clap::Args)]
struct JobArguments {
    /// The job file (TOML)
    #[arg(value_name = "JOB.toml")]
    job: std::path::PathBuf,
    /// Set a key of the job, as in `--set score.threshold=0.9`; the value is TOML, or else a plain string
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl JobArguments {
    fn load(&self) -> Result<job::Job> {
        job::Job::load(&self.job, &self.sets)
    }

    /// What the job is called as long as its file has not been read.
    fn stem(&self) -> String {
        self.job.file_stem().unwrap_or(self.job.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Runs the command that the process was called with, and says how it ended.
pub fn main() -> ExitCode {
    // Whoever passes a password by mistake finds it in no message.
    std::env::args_os().for_each(|argument| secrets::remember(&argument.to_string_lossy()));
    panics::watch();
    let code = match Arguments::try_parse() {
        Ok(arguments) => run(&arguments),
        Err(refused) => refuse(&refused),
    };
    spills::remove_all();
    code
}

fn run(arguments: &Arguments) -> ExitCode {
    let json = arguments.log_format == LogFormat::Json;
    let role = matches!(arguments.command, Command::Scheduler(_) | Command::Executor(_));
    let screen = Screen::new(arguments.quiet || json || role);
    screen.start_log(arguments.verbose, arguments.quiet, json);
    let _entered = match &arguments.command {
        Command::Run(command) => log::span(command.id()).entered(),
        _ => tracing::Span::none().entered(),
    };
    let result = panics::caught(|| match &arguments.command {
        Command::Run(command) => command.run(&screen),
        Command::Check(command) => command.run(),
        Command::Find(command) => command.run(&screen),
        Command::Neighbors(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Clean(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Sql(command) => command.run(),
        Command::Compare(command) => command.run(&screen),
        Command::Sweep(command) => command.run(&screen),
        Command::Generate(command) => command.run(&screen),
        Command::Health(command) => command.run(),
        Command::Scheduler(command) => command.run(),
        Command::Executor(command) => command.run(),
    });
    screen.clear();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, json),
    }
}

/// Tells the error that ends the command.
fn fail(error: &Error, json: bool) -> ExitCode {
    match json {
        true => log::failed(error),
        false => print::error(&explain(error)),
    }
    ExitCode::from(error.kind().exit_code())
}

/// What clap has to say: help and the version, which are no errors, or what is wrong with the arguments.
fn refuse(refused: &clap::Error) -> ExitCode {
    let said = refused.render();
    if !refused.use_stderr() {
        let said = if print::colour() { said.ansi().to_string() } else { said.to_string() };
        return match print::result(&said) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, false),
        };
    }
    if log::json_wanted(std::env::args_os()) {
        Screen::new(true).start_log(0, false, true);
        let said = said.to_string();
        let said = said.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        return fail(&Error::job(said), true);
    }
    print::message(&masked(&said.to_string()));
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Kind::Job.exit_code()))
}

/// The error and its chain of causes for a terminal, each on a line of its own, without what may be secret in URLs.
fn explain(error: &Error) -> String {
    let said: Vec<_> = sentences(error).iter().map(|sentence| visible(sentence).into_owned()).collect();
    said.join("\n  because: ")
}

/// The error and its chain of causes, and what to do about a bug, without what may be secret in URLs.
fn sentences(error: &Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    said.extend(causes(error));
    if error.kind() == Kind::Bug {
        said.push("this is a bug of resemblance: please report it with the command and the job file".into());
    }
    said.iter().map(|sentence| masked(sentence)).collect()
}

/// The causes of an error, from the nearest on, without those that an earlier message repeats.
fn causes(error: &Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        // Libraries often repeat their cause in their own message.
        if !said.iter().any(|earlier| earlier.contains(&message)) {
            said.push(message);
        }
        cause = error.source();
    }
    said.split_off(1)
}
