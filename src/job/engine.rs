//! `[engine]`: the engine that runs the job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Checked, parse_size, require, shown, wrong};
use crate::machine;

/// The maximum number of threads. A stage has a partition per thread, and a shuffle has a queue between every two partitions, which takes
/// memory.
const MAX_THREADS: usize = 1_024;

/// The maximum timeout in seconds: one year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

/// `[engine]`: the engine that runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// The place where stages run: `local` or `cluster`.
    pub mode: Mode,
    /// The cluster's scheduler, as `df://host:50050`. Required for mode `cluster`.
    pub scheduler: Option<String>,
    /// Cluster: seconds without progress of any task of a stage, after which the stage is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Cluster: the maximum duration of one attempt of a stage in seconds; 0 means no limit.
    pub deadline_seconds: u64,
    /// Cluster: the number of attempts of a stage before the run gives up.
    pub attempts: u32,
    /// Cluster: seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
    /// The memory of the stages, such as `4GiB`, `4G` or `500MB`. It can also be a share of the memory available to the machine or its
    /// container, such as `50%`. Stages that need more memory spill to disk.
    pub memory: String,
    /// The number of threads, at most `MAX_THREADS`; 0 means one thread per core.
    pub threads: usize,
    /// Folder for spills. Default: the system's folder for temporary files.
    pub spill: Option<String>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Local,
            scheduler: None,
            stall_seconds: 120,
            deadline_seconds: 0,
            attempts: 5,
            wait_seconds: 120,
            memory: "50%".into(),
            threads: 0,
            spill: None,
        }
    }
}

/// The place where stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Stages run in this process.
    Local,
    /// Stages run on the executors of a scheduler.
    Cluster,
}

impl EngineSettings {
    /// Returns the settings for this process, with `memory` bytes and one thread per core.
    pub fn local(memory: u64) -> Self {
        Self { memory: shown(memory), ..Self::default() }
    }

    /// Returns the settings for the cluster with the scheduler at `url`, with default timeouts. The driver may use `memory` bytes.
    ///
    /// # Errors
    /// If `url` is not the URL of a scheduler. The error describes the expected form.
    pub fn on_cluster(url: &str, memory: u64) -> std::result::Result<Self, String> {
        address_of(url).ok_or("expected df://host:port")?;
        Ok(Self { mode: Mode::Cluster, scheduler: Some(url.to_owned()), ..Self::local(memory) })
    }

    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            given => given,
        }
    }

    /// Returns the memory of the stages in bytes.
    pub fn memory_bytes(&self) -> u64 {
        parse_size(&self.memory).unwrap_or(machine::UNKNOWN)
    }

    /// Returns the `host:port` of the scheduler, or `None` if the stages run in this process.
    pub fn scheduler_address(&self) -> Option<&str> {
        self.scheduler.as_deref().filter(|_| self.mode == Mode::Cluster).and_then(address_of)
    }

    /// Checks the section and resolves a share of the machine's memory to bytes.
    pub(super) fn checked(self) -> Checked<Self> {
        self.check_cluster()?;
        let memory =
            parse_size(&self.memory).or_else(|e| wrong("engine.memory", format!("cannot be read: {e}")))?;
        require(
            self.spill.as_ref().is_none_or(|folder| !folder.trim().is_empty()),
            "engine.spill",
            "is empty: expected a folder, or no key for the system's temporary folder",
        )?;
        require(
            self.threads <= MAX_THREADS,
            "engine.threads",
            format!("is {}: expected at most {MAX_THREADS}, or 0 for one thread per core", self.threads),
        )?;
        Ok(Self { memory: shown(memory), ..self })
    }

    fn check_cluster(&self) -> Checked<()> {
        const KEY: &str = "engine.scheduler";
        let scheduler = match (self.mode, &self.scheduler) {
            (Mode::Local, None) => return Ok(()),
            (Mode::Local, Some(_)) => {
                return wrong(KEY, "is set in mode \"local\": set engine.mode = \"cluster\"");
            }
            (Mode::Cluster, None) => {
                return wrong(KEY, "is missing: mode \"cluster\" needs it, such as df://host:50050");
            }
            (Mode::Cluster, Some(scheduler)) => scheduler,
        };
        if address_of(scheduler).is_none() {
            return wrong(
                KEY,
                if scheduler.contains('@') {
                    "holds `@` (not shown here, since the text before it may be a secret): expected df://host:port".into()
                } else {
                    format!("is {scheduler:?}: expected df://host:port")
                },
            );
        }
        for (key, value, least) in [
            ("engine.stall_seconds", self.stall_seconds, 1),
            ("engine.attempts", u64::from(self.attempts), 1),
            ("engine.wait_seconds", self.wait_seconds, 1),
            ("engine.deadline_seconds", self.deadline_seconds, 0),
        ] {
            require(value >= least, key, "is 0: expected 1 or more")?;
            require(
                value <= MAX_SECONDS || key == "engine.attempts",
                key,
                format!("is {value}: expected at most {MAX_SECONDS}, which is a year"),
            )?;
        }
        Ok(())
    }
}

fn address_of(url: &str) -> Option<&str> {
    let place = url.strip_prefix("df://").unwrap_or(url);
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = place.rsplit_once(':')?;
    let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#']) && !host.contains("://");
    (plain && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(place)
}
