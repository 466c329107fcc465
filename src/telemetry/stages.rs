//! Records the stages of a command, and forwards its progress.

use std::sync::Arc;

use super::recorded::Recorded;
use crate::address::masked;
use crate::engine::{Progress, Reached};

/// Progress that becomes spans.
pub(crate) struct Stages {
    pub(crate) recorded: Arc<Recorded>,
    pub(crate) shown: Arc<dyn Progress>,
}

impl Progress for Stages {
    fn run_begins(&self, stages: &[String]) {
        self.shown.run_begins(stages);
    }

    fn stage_begins(&self, name: &str, number: usize, stages: usize) {
        self.recorded.stage_begins(name);
        self.shown.stage_begins(name, number, stages);
    }

    fn stage_advances(&self, rows_in: u64, rows_out: u64) {
        self.shown.stage_advances(rows_in, rows_out);
    }

    fn stage_reaches(&self, name: &str, reached: Reached) {
        self.shown.stage_reaches(name, reached);
    }

    fn tasks(&self, done: usize, begun: usize, query_stages_done: usize, query_stages: usize) {
        self.shown.tasks(done, begun, query_stages_done, query_stages);
    }

    fn recovering(&self, why: &str) {
        self.recorded.recovering(masked(why));
        self.shown.recovering(why);
    }

    fn stage_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool) {
        self.recorded.stage_ends(name, rows, reused);
        self.shown.stage_ends(name, rows, seconds, reused);
    }
}
