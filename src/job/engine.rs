//! `[engine]`: what runs the job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{parse_size, shown};
use super::wrong::{Checked, require, wrong};
use crate::machine;

/// The most threads. Each stage makes that many partitions, and a shuffle a queue for every two of them.
const MAX_THREADS: usize = 1_024;

/// The longest timeout: a year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

/// `[engine]`: what runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Engine {
    /// Where the stages run: `local` or `cluster`.
    pub mode: Mode,
    /// The cluster's scheduler, as `df://host:50050`. Required for mode `cluster`.
    pub scheduler: Option<String>,
    /// Cluster: seconds in which no task of a stage ends or advances before the stage is cancelled and submitted again.
    pub stall_seconds: u64,
    /// Cluster: seconds that one attempt of a stage may take; 0 is any number.
    pub deadline_seconds: u64,
    /// Cluster: attempts of a stage before the run gives up.
    pub attempts: u32,
    /// Cluster: seconds to wait for a scheduler and its first executor, at the start and after a loss.
    pub wait_seconds: u64,
    /// The memory of the stages, as `4GiB`, `4G`, `500MB`, or a share of what the machine or its container has, as `50%`; beyond it
    /// they spill to disk.
    pub memory: String,
    /// Threads, at most `MAX_THREADS`; 0 is one for each core.
    pub threads: usize,
    /// Folder for spills. Default: the system's folder for temporary files.
    pub spill: Option<String>,
}

impl Default for Engine {
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

/// Where the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In this process.
    Local,
    /// On the executors of a scheduler.
    Cluster,
}

impl Engine {
    /// This process, with `memory` bytes and a thread for each core.
    pub fn local(memory: u64) -> Self {
        Self { memory: shown(memory), ..Self::default() }
    }

    /// The cluster of the scheduler at `url`, with a driver of `memory` bytes and the default timeouts.
    ///
    /// # Errors
    /// The expected form of a scheduler's URL.
    pub fn on_cluster(url: &str, memory: u64) -> std::result::Result<Self, String> {
        address_of(url).ok_or("expected df://host:port")?;
        Ok(Self { mode: Mode::Cluster, scheduler: Some(url.to_owned()), ..Self::local(memory) })
    }

    /// Its threads, with 0 resolved to the number of cores.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            given => given,
        }
    }

    /// The bytes of memory of the stages.
    pub fn memory_bytes(&self) -> u64 {
        parse_size(&self.memory).unwrap_or(machine::UNKNOWN)
    }

    /// The scheduler's `host:port`; `None` if the stages run in this process.
    pub fn scheduler_address(&self) -> Option<&str> {
        self.scheduler.as_deref().filter(|_| self.mode == Mode::Cluster).and_then(address_of)
    }

    /// Checks the section. A share of the machine's memory becomes a number of bytes.
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

/// `df://host:port`, or `host:port` -> `host:port`.
fn address_of(url: &str) -> Option<&str> {
    let place = url.strip_prefix("df://").unwrap_or(url);
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = place.rsplit_once(':')?;
    let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#']) && !host.contains("://");
    (plain && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(place)
}
