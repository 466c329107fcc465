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

#[derive(Subcommand)]
pub(in crate::cli) enum Command {
    /// Run a job: documents in, tables of pairs, clusters and rejects out
    Run(run::Run),
    Check(check::Check),
    Plan(plan::Plan),
    Find(find::Find),
    Dedup(dedup::Dedup),
    Init(init::Init),
    /// Find the documents of a finished output that are most similar to one document
    Neighbors(neighbors::Neighbors),
    Show(show::Show),
    Merge(merge::Merge),
    Apply(apply::Apply),
    Evaluate(evaluate::Evaluate),
    Cluster(cluster::Cluster),
    Report(report::Report),
    Compare(compare::Compare),
    Sweep(sweep::Sweep),
    Generate(generate::Generate),
    /// Ask a scheduler or an executor whether it is healthy
    Health(health::Health),
    #[cfg(feature = "cluster")]
    Scheduler(scheduler::Scheduler),
    #[cfg(feature = "cluster")]
    Executor(executor::Executor),
    Clean(clean::Clean),
    Verify(verify::Verify),
    Contract(contract::Contract),
    Sql(sql::Sql),
    Completions(completions::Completions),
    Man(man::Man),
    Schema(schema::Schema),
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
    #[cfg(feature = "cluster")]
    pub(in crate::cli) fn is_role(&self) -> bool {
        matches!(self, Command::Scheduler(_) | Command::Executor(_))
    }

    /// Without the feature there are no roles.
    #[cfg(not(feature = "cluster"))]
    pub(in crate::cli) fn is_role(&self) -> bool {
        false
    }

    /// Runs the command; `line` describes the command line.
    pub(in crate::cli) fn run(&self, screen: &Screen, line: impl FnOnce() -> clap::Command) -> Result<()> {
        match self {
            Command::Run(command) => command.run(screen),
            Command::Check(command) => command.run(),
            Command::Plan(command) => command.run(screen),
            Command::Find(command) => command.run(screen),
            Command::Dedup(command) => command.run(screen),
            Command::Init(command) => command.run(screen),
            Command::Neighbors(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Merge(command) => command.run(screen),
            Command::Apply(command) => command.run(screen),
            Command::Evaluate(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Clean(command) => command.run(),
            Command::Cluster(command) => command.run(),
            Command::Verify(command) => command.run(screen),
            Command::Contract(command) => command.run(),
            Command::Sql(command) => command.run(),
            Command::Completions(command) => command.run(line()),
            Command::Man(command) => command.run(line()),
            Command::Schema(command) => command.run(),
            Command::Compare(command) => command.run(screen),
            Command::Sweep(command) => command.run(screen),
            Command::Generate(command) => command.run(screen),
            Command::Health(command) => command.run(),
            #[cfg(feature = "cluster")]
            Command::Scheduler(command) => command.run(),
            #[cfg(feature = "cluster")]
            Command::Executor(command) => command.run(),
        }
    }
}
