//! The identity of a process, by which another process can later check whether it still runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;

/// A process of some machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The machine's name, only for messages.
    host: String,
    /// The process's number on that machine.
    pid: u32,
    /// The boot of the machine and the process's namespace; `None` if the system does not provide them.
    place: Option<String>,
    /// The start of the process, in ticks since the machine's start: process numbers are reused.
    began: Option<u64>,
}

impl Process {
    /// This process.
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        let host = read("/proc/sys/kernel/hostname")
            .or_else(|| Environment::process().get("HOSTNAME").map(str::to_owned));
        Self { host: host.unwrap_or_else(|| "unknown host".into()), pid, place: place(), began: began(pid) }
    }

    /// An unknown process.
    pub(super) fn unknown() -> Self {
        Self { host: "unknown host".into(), pid: 0, place: None, began: None }
    }

    /// Whether the process still runs; `None` if this process cannot know, as on another machine.
    pub(super) fn is_alive(&self) -> Option<bool> {
        let began_then = self.began?;
        if place()? != *self.place.as_ref()? {
            return None;
        }
        Some(began(self.pid) == Some(began_then))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The id of this machine's boot; `None` if the system does not provide one.
pub(crate) fn boot() -> Option<String> {
    read("/proc/sys/kernel/random/boot_id")
}

/// The boot and namespace that processes share if their numbers are comparable.
fn place() -> Option<String> {
    let boot = boot()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", namespace.display()))
}

/// The 22nd field of `/proc/PID/stat` (proc(5)). The second is the program's name in parentheses, which may hold any
/// character. A process that has ended and was not waited for (state `Z`) counts as gone.
fn began(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_as_alive_until_it_ends() {
        let own = Process::own();
        assert_eq!(own.is_alive(), Some(true), "{own:?}");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Process { pid: child.id(), began: began(child.id()), ..own.clone() };
        assert_eq!(other.is_alive(), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(other.is_alive(), Some(false));
        // The same number, used again.
        assert_eq!(Process { began: Some(1), ..own.clone() }.is_alive(), Some(false));
        // A process of another machine.
        assert_eq!(Process { place: Some("elsewhere".into()), ..own }.is_alive(), None);
        assert_eq!(Process::unknown().is_alive(), None);
    }
}
