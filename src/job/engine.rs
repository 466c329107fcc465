//! `[engine]`: what runs the job.

use serde::{Deserialize, Serialize};

/// The most threads. Each stage makes that many partitions, and a shuffle a queue for every two of them.
pub(super) const MAX_THREADS: usize = 1_024;

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// The bytes of memory of the stages; beyond it they spill.
    pub memory: u64,
    /// Threads, at most `MAX_THREADS`; 0 for one per core.
    pub threads: usize,
    /// Folder for spills; `None` for the system's folder for temporary files.
    pub spill: Option<String>,
    /// The cluster that runs the stages; `None` for this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

impl Engine {
    /// This process, with `memory` bytes and a thread for each core.
    pub fn local(memory: u64) -> Self {
        Self { memory, threads: 0, spill: None, cluster: None }
    }

    /// Its threads, with 0 resolved to the number of cores.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            given => given,
        }
    }
}

/// A cluster, with its timeouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The scheduler's `host:port`.
    pub scheduler: String,
    /// Seconds without progress after which a stage is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Seconds that one attempt of a stage may take; 0 for any number.
    pub deadline_seconds: u64,
    /// Attempts of a stage, at least 1.
    pub attempts: u32,
    /// Seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
}
