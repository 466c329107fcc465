//! Interruption and progress of a run.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};

/// Controls a run from outside.
#[derive(Clone)]
pub struct RunControl {
    /// Stops the run when it is cancelled.
    pub stop: CancellationToken,
    /// Receives the progress of the run.
    pub progress: Arc<dyn Progress>,
}

impl RunControl {
    /// Returns a control that never stops a run and shows no progress.
    pub fn detached() -> Self {
        Self { stop: CancellationToken::new(), progress: Arc::new(Silent) }
    }

    /// Runs a step of a measurement, and reports it as a stage. Returns its result and its duration in seconds. `rows` counts the rows of
    /// a result. Fails with `Kind::Interrupted` if the measurement was stopped.
    pub(crate) async fn step<T>(
        &self,
        name: &str,
        (number, steps): (usize, usize),
        rows: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(T, f64)> {
        if self.stop.is_cancelled() {
            return Err(Error::stopped());
        }
        self.progress.stage_begins(name, number, steps);
        let began = Instant::now();
        let made = work.await?;
        let seconds = began.elapsed().as_secs_f64();
        self.progress.stage_ends(name, rows(&made), seconds, false);
        Ok((made, seconds))
    }
}

/// The part of a stage's input that was already read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputProgress {
    /// The amount that is already read, at most `all`.
    pub done: u64,
    /// The total amount, greater than 0.
    pub all: u64,
    /// The unit of both amounts.
    pub unit: InputUnit,
}

/// The unit in which an input is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputUnit {
    /// Rows, as counted in footers and manifests.
    Rows,
    /// Bytes of files.
    Bytes,
    /// Partitions of the query stages on a cluster. A task on a cluster reports nothing before it ends.
    Partitions,
}

impl InputUnit {
    /// Returns the plural noun for log lines.
    pub fn name(self) -> &'static str {
        match self {
            InputUnit::Rows => "rows",
            InputUnit::Bytes => "bytes",
            InputUnit::Partitions => "partitions",
        }
    }
}

/// Receives the progress of a run. The methods are called often, so they must not block.
pub trait Progress: Send + Sync {
    /// A run of a job begins. `_stages` contains the names of the stages that are known, in order.
    fn run_begins(&self, _stages: &[String]) {}

    /// A stage begins as the `number`-th of `stages` stages, counted from 1.
    fn stage_begins(&self, _name: &str, _number: usize, _stages: usize) {}

    /// The running stage has read `rows_in` rows and written `rows_out` so far.
    fn stage_advances(&self, _rows_in: u64, _rows_out: u64) {}

    /// The stage `name` has read a part of its input. Not called if the size of the input is unknown.
    fn stage_reaches(&self, _name: &str, _reached: InputProgress) {}

    /// Reports the numbers of the running stage on a cluster: tasks that ended, tasks that have started, query stages that ended, and all
    /// query stages.
    fn tasks(&self, _done: usize, _begun: usize, _query_stages_done: usize, _query_stages: usize) {}

    /// The cluster lost work of the running stage, or the stage ran out of memory. The work runs again.
    fn recovering(&self, _why: &str) {}

    /// A stage ended. If `reused` is true, an earlier run had finished the stage.
    fn stage_ends(&self, _name: &str, _rows: u64, _seconds: f64, _reused: bool) {}
}

/// Ignores progress.
pub struct Silent;

impl Progress for Silent {}

/// An event of a command's stages.
#[derive(Debug)]
pub enum StageEvent {
    /// A stage with this name begins.
    Begins(String),
    /// Work runs again for this reason: see [`Progress::recovering`].
    Recovers(String),
    /// A stage ended: see [`Progress::stage_ends`].
    Ends {
        /// The name of the stage.
        name: String,
        /// The rows of its tables.
        rows: u64,
        /// Its duration.
        seconds: f64,
        /// Whether an earlier run had finished it.
        reused: bool,
    },
}

/// The events of a command's stages with their times, oldest first.
pub type Journal = Arc<Mutex<Vec<(Instant, StageEvent)>>>;
