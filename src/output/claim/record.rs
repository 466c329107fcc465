//! The record of a claim, with its content and its process. Lists, reads, writes and removes claims.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Seek, Write};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, LEASE};
use crate::error::{Context, Error, Result};
use crate::output::Layout;
use crate::output::attempt::Attempt;
use crate::output::layout::unless_missing;

/// The folder of claims, inside the output.
pub(super) const CLAIMS: &str = "_work/claims";

/// The first beat of a claim. Later beats have the same number of digits, so that the claim keeps its size.
pub(super) const FIRST_BEAT: u64 = 1_000_000_000;

/// The size of a claim in bytes. Claims are padded with spaces, so that each put replaces the whole previous claim.
const SIZE: usize = 4096;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Content {
    /// Whether the process owns the output. If false, it only asks for the output.
    pub(super) owner: bool,
    /// A number that increases with every put, so that the content of a living claim changes.
    pub(super) beat: u64,
    /// The number of seconds without a change after which the claim is dead.
    pub(super) seconds: u64,
    /// The command that wants the output, such as `run`.
    pub(super) what: String,
    pub(super) process: Process,
    #[serde(default)]
    pub(super) reading: Vec<String>,
}

pub(super) struct StoredClaim {
    pub(super) attempt: Attempt,
    pub(super) path: Path,
    pub(super) bytes: Bytes,
    /// The content, or `None` if a power cut left the claim empty.
    pub(super) content: Option<Content>,
}

/// Whether these bytes are the content of a claim. A claim can be empty after a power cut.
pub(in crate::output) fn is_claim(bytes: &[u8]) -> bool {
    bytes.is_empty() || serde_json::from_slice::<Content>(bytes).is_ok()
}

/// Lists the claims on `output` except the claim of `own`, sorted by name. Ignores other files in the folder of claims.
pub(super) async fn claims(output: &Layout, own: Option<&Attempt>) -> Result<Vec<StoredClaim>> {
    let listed = output.list(CLAIMS).await?.into_iter().map(|meta| meta.location);
    let mut claims = Vec::new();
    for path in listed {
        let Some(attempt) = output.inside(&path).and_then(|inside| attempt_of(&inside)) else { continue };
        if Some(&attempt) == own {
            continue;
        }
        // A claim that was removed in the meantime is ignored.
        if let Some((bytes, content)) = read(output, &path).await?.filter(|(bytes, _)| is_claim(bytes)) {
            claims.push(StoredClaim { attempt, path, bytes, content });
        }
    }
    Ok(claims)
}

/// Returns the attempt with a claim at this path inside an output.
pub(in crate::output) fn attempt_of(inside: &str) -> Option<Attempt> {
    Attempt::parse(inside.strip_prefix(CLAIMS)?.strip_prefix('/')?.strip_suffix(".json")?)
}

pub(super) fn path(output: &Layout, attempt: &Attempt) -> Path {
    output.path(&inside(attempt))
}

fn inside(attempt: &Attempt) -> String {
    format!("{CLAIMS}/{attempt}.json")
}

/// Returns the bytes of a claim and its content, or `None` if the claim is gone.
pub(super) async fn read(output: &Layout, path: &Path) -> Result<Option<(Bytes, Option<Content>)>> {
    let bytes = match output.store.get(path).await {
        Ok(got) => got.bytes().await,
        Err(e) => Err(e),
    };
    let bytes = unless_missing(bytes).context(|| format!("cannot read a claim on {}", output.shown()))?;
    Ok(bytes.map(|bytes| {
        let content = serde_json::from_slice(&bytes).ok().map(|content: Content| Content {
            // The value is limited, because another program may have written the file, and no process may wait forever.
            seconds: LEASE.nearest(content.seconds),
            ..content
        });
        (bytes, content)
    }))
}

/// Writes the claim of `attempt`, or replaces its content. Returns the store's version of the claim.
pub(super) async fn put(output: &Layout, attempt: &Attempt, content: &Content) -> Result<UpdateVersion> {
    let put = output.store.put(&path(output, attempt), json(content)?.into()).await;
    Ok(put.context(|| format!("cannot write to {}", output.shown()))?.into())
}

/// Replaces the content of the claim of `attempt` and updates `version`, the claim's version in the store. Returns whether the claim still
/// existed. A removed claim is not restored, even after a pause of this process. On a server without conditional puts, it can be restored.
pub(super) async fn renew(
    output: &Layout,
    attempt: &Attempt,
    content: &Content,
    version: &mut UpdateVersion,
) -> Result<bool> {
    let (path, bytes) = (path(output, attempt), json(content)?);
    let failed = || format!("cannot write to {}", output.shown());
    if let Some(folder) = output.folder() {
        // A single write overwrites the file. The file is never created.
        let file = std::fs::OpenOptions::new().write(true).open(folder.join(inside(attempt)));
        return match file.and_then(|mut file| file.write_all(&bytes)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e).context(failed),
        };
    }
    if version.e_tag.is_some() {
        let put = PutMode::Update(version.clone()).into();
        match output.store.put_opts(&path, bytes.clone().into(), put).await {
            Ok(put) => {
                *version = put.into();
                return Ok(true);
            }
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            // Only this process writes this claim. Therefore the claim is gone, or an earlier put succeeded and its answer was lost.
            Err(object_store::Error::Precondition { .. }) => {
                let found = unless_missing(output.store.head(&path).await).context(failed)?;
                let Some(meta) = found else { return Ok(false) };
                *version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
                return Ok(true);
            }
            Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {}
            Err(e) => return Err(e).context(failed),
        }
    }
    if unless_missing(output.store.head(&path).await).context(failed)?.is_none() {
        return Ok(false);
    }
    *version = put(output, attempt, content).await?;
    Ok(true)
}

fn json(content: &Content) -> Result<Vec<u8>> {
    let mut content = content.clone();
    loop {
        let json = serde_json::to_vec(&content);
        let mut json = json.map_err(|e| Error::bug("a claim cannot be written").because(e))?;
        if json.len() <= SIZE || content.reading.pop().is_none() {
            json.resize(SIZE.max(json.len()), b' ');
            return Ok(json);
        }
    }
}

/// The open file of a claim on a local output, which is overwritten in place. A removed claim is not restored.
pub(super) struct InPlace(File);

impl InPlace {
    /// Returns `None` for an output in a remote store.
    pub(super) fn open(output: &Layout, attempt: &Attempt) -> Option<Self> {
        let path = output.folder()?.join(inside(attempt));
        std::fs::OpenOptions::new().write(true).open(path).ok().map(Self)
    }

    pub(super) fn put(&self, content: &Content) -> Result<()> {
        let (json, mut file) = (json(content)?, &self.0);
        let written = file.rewind().and_then(|()| file.write_all(&json));
        written.context(|| "a claim cannot be written".to_owned())
    }
}

/// Removes a claim. It is not an error if the claim is already gone.
pub(super) async fn remove(output: &Layout, path: &Path) -> Result<()> {
    let removed = unless_missing(output.store.delete(path).await);
    removed.map(drop).context(|| format!("cannot remove a claim on {}", output.shown()))
}

/// A process on any machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The machine's name. It is only used in messages.
    host: String,
    pid: u32,
    /// The id of the machine's boot and the PID namespace of the process, or `None` if the system does not provide them.
    place: Option<String>,
    /// The start of the process in ticks since the machine started. It is needed because process ids are reused.
    began: Option<u64>,
}

impl Process {
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        let host = read_line("/proc/sys/kernel/hostname")
            .or_else(|| Environment::process().get("HOSTNAME").map(str::to_owned));
        Self { host: host.unwrap_or_else(|| "unknown host".into()), pid, place: place(), began: began(pid) }
    }

    pub(super) fn unknown() -> Self {
        Self { host: "unknown host".into(), pid: 0, place: None, began: None }
    }

    /// Whether the process still runs. `None` if this is unknown, for example for a process on another machine.
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

fn read_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the id of this machine's boot, or `None` if the system does not provide one.
pub(crate) fn boot() -> Option<String> {
    read_line("/proc/sys/kernel/random/boot_id")
}

/// Returns the boot id and the PID namespace of this process. Process ids are comparable only if both are equal.
fn place() -> Option<String> {
    let boot = boot()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", namespace.display()))
}

/// Returns the start time from field 22 of `/proc/PID/stat` (proc(5)). Field 2 is the program's name in parentheses, which may contain any
/// character. A process that ended but was not yet waited for (state `Z`) counts as gone.
fn began(pid: u32) -> Option<u64> {
    let stat = read_line(&format!("/proc/{pid}/stat"))?;
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
        // A reused process id.
        assert_eq!(Process { began: Some(1), ..own.clone() }.is_alive(), Some(false));
        // A process on another machine.
        assert_eq!(Process { place: Some("elsewhere".into()), ..own }.is_alive(), None);
        assert_eq!(Process::unknown().is_alive(), None);
    }
}
