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
mod forget;
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

use crate::cli::screen::Screen;
use crate::error::Result;

/// Declares the commands in the order of the help. The parentheses contain the parameters of a command's function `run`.
macro_rules! commands {
    (|$screen:ident, $line:ident| $($(#[$cfg:meta])* $name:ident: $module:ident::$arguments:ident($($needed:ident)?),)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($(#[$cfg])* $name($module::$arguments),)*
        }

        impl Command {
            pub(crate) fn run(
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
    Run: run::RunCommand(screen),
    Check: check::Check(),
    Plan: plan::PlanCommand(screen),
    Find: find::Find(screen),
    Dedup: dedup::Dedup(screen),
    Init: init::Init(screen),
    Neighbors: neighbors::NeighborsCommand(),
    Show: show::Show(),
    Merge: merge::Merge(screen),
    Forget: forget::Forget(screen),
    Apply: apply::Apply(screen),
    Evaluate: evaluate::Evaluate(),
    Cluster: cluster::ClusterCommand(),
    Report: report::ReportCommand(),
    Compare: compare::CompareCommand(screen),
    Sweep: sweep::SweepCommand(screen),
    Generate: generate::Generate(screen),
    Health: health::Health(),
    #[cfg(feature = "cluster")]
    Scheduler: scheduler::SchedulerCommand(),
    #[cfg(feature = "cluster")]
    Executor: executor::ExecutorCommand(),
    Clean: clean::Clean(),
    Verify: verify::Verify(screen),
    Contract: contract::ContractCommand(),
    Sql: sql::Sql(),
    Completions: completions::Completions(line),
    Man: man::Man(line),
    Schema: schema::Schema(),
}

impl Command {
    /// Returns the run id of the command `run`.
    pub(crate) fn run_id(&self) -> Option<&str> {
        match self {
            Command::Run(command) => Some(command.id()),
            _ => None,
        }
    }

    /// Returns the name of the command if its spans and metrics are recorded.
    pub(crate) fn traced(&self) -> Option<&'static str> {
        match self {
            Command::Run(_) => Some("run"),
            Command::Find(_) => Some("find"),
            Command::Dedup(_) => Some("dedup"),
            Command::Merge(_) => Some("merge"),
            Command::Forget(_) => Some("forget"),
            Command::Apply(_) => Some("apply"),
            _ => None,
        }
    }

    /// Whether the command runs a scheduler or an executor, which write a log and show no progress.
    pub(crate) fn is_role(&self) -> bool {
        #[cfg(feature = "cluster")]
        return matches!(self, Command::Scheduler(_) | Command::Executor(_));
        #[cfg(not(feature = "cluster"))]
        return false;
    }
}
