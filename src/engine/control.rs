//! How a run is stopped from outside, and who is told how far it is.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// What controls a run from outside: a way to stop it, and somebody who is told how far it is.
#[derive(Clone)]
pub struct RunControl {
    /// Stops the run when it is cancelled.
    pub stop: CancellationToken,
    /// Is told how far the run is.
    pub progress: Arc<dyn Progress>,
}

impl RunControl {
    /// Nobody stops the run, and nobody is told how far it is.
    pub fn detached() -> Self {
        Self { stop: CancellationToken::new(), progress: Arc::new(Silent) }
    }
}

/// Is told how far a run is. Called often: an implementation must not block.
pub trait Progress: Send + Sync {
    /// A step begins: its place among `steps`, from 1.
    fn step_begins(&self, name: &str, number: usize, steps: usize);

    /// The running step has read `rows_in` rows and written `rows_out` so far.
    fn step_advances(&self, rows_in: u64, rows_out: u64);

    /// Of the running step's tasks that a cluster has begun, this many are done, in `query_stages_done` of its
    /// `query_stages`.
    fn tasks(&self, _done: usize, _begun: usize, _query_stages_done: usize, _query_stages: usize) {}

    /// The running step is done again, in part or whole: the cluster lost a part of it, or it ran out of memory.
    fn recovering(&self, _why: &str) {}

    /// A step ended, or was found finished by an earlier run (`reused`).
    fn step_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool);
}

/// Progress that nobody looks at.
pub struct Silent;

impl Progress for Silent {
    fn step_begins(&self, _name: &str, _number: usize, _steps: usize) {}
    fn step_advances(&self, _rows_in: u64, _rows_out: u64) {}
    fn step_ends(&self, _name: &str, _rows: u64, _seconds: f64, _reused: bool) {}
}
