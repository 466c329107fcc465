//! Runs whose candidates are joined with their sketches as the test chooses: by what the planner knows about the machine.

use resemblance::error::Result;
use resemblance::output::manifest::StageTime;

use super::around::run_around;
use super::*;

/// The machine that the planner sees; the plans run in this process all the same.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Bytes that a task may reserve: with few, no sketches are held whole.
    pub task_bytes: usize,
    /// Whether all tasks run in one process: else nothing that is written is read twice.
    pub one_process: bool,
    /// Partitions of a stage that shuffles anything.
    pub partitions: usize,
}

impl Hook for Machine {
    fn partitions(&self, engine: &dyn Engine, bytes: u64) -> usize {
        if bytes > 0 { self.partitions } else { engine.partitions(0) }
    }

    fn is_one_process(&self, _: &dyn Engine) -> bool {
        self.one_process
    }

    fn task_bytes(&self, _: &dyn Engine) -> usize {
        self.task_bytes
    }
}

pub fn run_on(job: &Job, machine: Machine) -> Result<Outcome> {
    run_around(job, OnExisting::Fail, machine).0
}

/// A stage of a finished run, as its manifest says.
pub fn stage_of(output: &Path, name: &str) -> StageTime {
    let mut stages = manifest(output).stages.into_iter();
    stages.find(|stage| stage.name == name).unwrap_or_else(|| panic!("no {name}"))
}
