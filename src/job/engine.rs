//! `[engine]`: what runs the job.

use serde::{Deserialize, Serialize};

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Bytes that the stages may hold at once; past it they spill.
    pub memory: u64,
    /// Threads, at most `MAX_THREADS`; 0 is one for each core.
    pub threads: usize,
    /// Where spills go; none is the system's folder for temporary files.
    pub spill: Option<String>,
    /// The cluster that runs the stages; none is this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

impl Engine {
    /// This process, with `memory` bytes and a thread for each core.
    pub fn local(memory: u64) -> Self {
        Self { memory, threads: 0, spill: None, cluster: None }
    }
}

/// A cluster, and how long to be patient with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The scheduler's `host:port`.
    pub scheduler: String,
    /// Seconds that a step may stand still before it is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Seconds that one attempt of a step may take; 0 is any number.
    pub deadline_seconds: u64,
    /// Attempts of a step, at least 1.
    pub attempts: u32,
    /// Seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
}
