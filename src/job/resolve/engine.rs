//! `[engine]`: what runs the job.

use super::super::engine::MAX_THREADS;
use super::super::{Cluster, Engine, file, parse_size};
use super::wrong::{Checked, wrong};

/// The longest timeout: a year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

pub(super) fn engine_of(engine: file::Engine) -> Checked<Engine> {
    let cluster = cluster_of(&engine)?;
    let memory = match parse_size(&engine.memory) {
        Ok(memory) => memory,
        Err(e) => return wrong("engine.memory", format!("cannot be read: {e}")),
    };
    if engine.spill.as_ref().is_some_and(|folder| folder.trim().is_empty()) {
        return wrong(
            "engine.spill",
            "is empty: expected a folder, or no key for the system's temporary folder",
        );
    }
    if engine.threads > MAX_THREADS {
        return wrong(
            "engine.threads",
            format!("is {}: expected at most {MAX_THREADS}, or 0 for one thread per core", engine.threads),
        );
    }
    Ok(Engine { memory, threads: engine.threads, spill: engine.spill, cluster })
}

fn cluster_of(engine: &file::Engine) -> Checked<Option<Cluster>> {
    let scheduler = match (engine.mode, &engine.scheduler) {
        (file::Mode::Local, None) => return Ok(None),
        (file::Mode::Local, Some(_)) => {
            return wrong("engine.scheduler", "is set in mode \"local\": set engine.mode = \"cluster\"");
        }
        (file::Mode::Cluster, None) => {
            return wrong(
                "engine.scheduler",
                "is missing: mode \"cluster\" needs it, such as df://host:50050",
            );
        }
        (file::Mode::Cluster, Some(scheduler)) => match scheduler_of(scheduler) {
            Some(scheduler) => scheduler,
            None if scheduler.contains('@') => {
                return wrong(
                    "engine.scheduler",
                    "holds `@` (not shown here, since the text before it may be a secret): expected df://host:port",
                );
            }
            None => return wrong("engine.scheduler", format!("is {scheduler:?}: expected df://host:port")),
        },
    };
    for (key, value) in [
        ("engine.stall_seconds", engine.stall_seconds),
        ("engine.attempts", u64::from(engine.attempts)),
        ("engine.wait_seconds", engine.wait_seconds),
    ] {
        if value == 0 {
            return wrong(key, "is 0: expected 1 or more");
        }
    }
    for (key, value) in [
        ("engine.stall_seconds", engine.stall_seconds),
        ("engine.deadline_seconds", engine.deadline_seconds),
        ("engine.wait_seconds", engine.wait_seconds),
    ] {
        if value > MAX_SECONDS {
            return wrong(key, format!("is {value}: expected at most {MAX_SECONDS}, which is a year"));
        }
    }
    Ok(Some(Cluster {
        scheduler,
        stall_seconds: engine.stall_seconds,
        deadline_seconds: engine.deadline_seconds,
        attempts: engine.attempts,
        wait_seconds: engine.wait_seconds,
    }))
}

impl Engine {
    /// The cluster of the scheduler at `url`, with a driver of `memory` bytes and the default timeouts.
    ///
    /// # Errors
    /// The expected form of a scheduler's URL.
    pub fn on_cluster(url: &str, memory: u64) -> std::result::Result<Self, String> {
        let Some(scheduler) = scheduler_of(url) else { return Err("expected df://host:port".to_owned()) };
        let file::Engine { stall_seconds, deadline_seconds, attempts, wait_seconds, .. } =
            file::Engine::default();
        let cluster = Cluster { scheduler, stall_seconds, deadline_seconds, attempts, wait_seconds };
        Ok(Self { cluster: Some(cluster), ..Self::local(memory) })
    }
}

/// `df://host:port`, or `host:port` -> `host:port`.
fn scheduler_of(url: &str) -> Option<String> {
    let place = url.strip_prefix("df://").unwrap_or(url);
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = place.rsplit_once(':')?;
    let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#']) && !host.contains("://");
    (plain && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| place.to_owned())
}
