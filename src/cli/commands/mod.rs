//! The commands, one per file.

mod apply;
mod check;
mod clean;
mod cluster;
mod compare;
mod completions;
mod contract;
mod dedup;
mod evaluate;
#[cfg(feature = "cluster")]
mod executor;
mod find;
mod generate;
mod health;
mod init;
mod man;
mod merge;
mod neighbors;
mod plan;
mod report;
mod run;
#[cfg(feature = "cluster")]
mod scheduler;
mod schema;
mod show;
mod sql;
mod sweep;
mod verify;

use clap::Subcommand;

use crate::cli::support::progress::Screen;
use crate::error::Result;

/// Declares the commands in the order of the help, with what each needs besides its arguments.
macro_rules! commands {
    (|$screen:ident, $line:ident| $($(#[$cfg:meta])* $module:ident::$name:ident($($needed:ident)?),)*) => {
        #[derive(Subcommand)]
        pub(in crate::cli) enum Command {
            $($(#[$cfg])* $name($module::$name),)*
        }

        impl Command {
            /// Runs the command; `line` describes the command line.
            pub(in crate::cli) fn run(
                &self,
                $screen: &Screen,
                $line: impl FnOnce() -> clap::Command,
            ) -> Result<()> {
                match self {
                    $($(#[$cfg])* Command::$name(command) => command.run($($needed)?),)*
                }
            }
        }
    };
}

commands! {
    |screen, line|
    run::Run(screen),
    check::Check(),
    plan::Plan(screen),
    find::Find(screen),
    dedup::Dedup(screen),
    init::Init(screen),
    neighbors::Neighbors(),
    show::Show(),
    merge::Merge(screen),
    apply::Apply(screen),
    evaluate::Evaluate(),
    cluster::Cluster(),
    report::Report(),
    compare::Compare(screen),
    sweep::Sweep(screen),
    generate::Generate(screen),
    health::Health(),
    #[cfg(feature = "cluster")]
    scheduler::Scheduler(),
    #[cfg(feature = "cluster")]
    executor::Executor(),
    clean::Clean(),
    verify::Verify(screen),
    contract::Contract(),
    sql::Sql(),
    completions::Completions(line),
    man::Man(line),
    schema::Schema(),
}

impl Command {
    /// The id of a run in the log; `None` for other commands.
    pub(in crate::cli) fn run_id(&self) -> Option<&str> {
        match self {
            Command::Run(command) => Some(command.id()),
            _ => None,
        }
    }

    /// The name of a command that runs the stages of a job, for its spans; `None` for other commands.
    pub(in crate::cli) fn traced(&self) -> Option<&'static str> {
        match self {
            Command::Run(_) => Some("run"),
            Command::Find(_) => Some("find"),
            Command::Dedup(_) => Some("dedup"),
            Command::Merge(_) => Some("merge"),
            Command::Apply(_) => Some("apply"),
            _ => None,
        }
    }

    /// Whether its log has no line for each stage.
    pub(in crate::cli) fn is_brief(&self) -> bool {
        matches!(self, Command::Find(_) | Command::Dedup(_))
    }

    /// Whether this is a role of a cluster, which logs and shows no progress.
    pub(in crate::cli) fn is_role(&self) -> bool {
        #[cfg(feature = "cluster")]
        return matches!(self, Command::Scheduler(_) | Command::Executor(_));
        #[cfg(not(feature = "cluster"))]
        return false;
    }
}
