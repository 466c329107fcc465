//! Claims in the store: their content, and how they are listed, read, put and removed.

use std::fs::File;
use std::io::{ErrorKind, Seek, Write};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use serde::{Deserialize, Serialize};

use crate::environment::LEASE;
use crate::error::{Context, Error, Result};
use crate::output::Layout;
use crate::output::names::Attempt;
use crate::output::process::Process;

/// The folder of claims, inside the output.
pub(super) const CLAIMS: &str = "_work/claims";

/// The first beat of a claim. Later ones have as many digits, so a claim keeps its size.
pub(super) const FIRST_BEAT: u64 = 1_000_000_000;

/// The bytes of a claim, so that each put of it replaces the one before. Spaces fill them up.
const SIZE: usize = 4096;

/// The content of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Content {
    /// Whether it holds the output, or only asks for it.
    pub(super) owner: bool,
    /// Increases with every put, so that a living claim changes.
    pub(super) beat: u64,
    /// Seconds without a change after which it is dead.
    pub(super) seconds: u64,
    /// The command that wants it, such as `run`.
    pub(super) what: String,
    /// The process that put it.
    pub(super) process: Process,
    /// The files that it was reading.
    #[serde(default)]
    pub(super) reading: Vec<String>,
}

/// A claim in the store.
pub(super) struct StoredClaim {
    pub(super) attempt: Attempt,
    pub(super) path: Path,
    pub(super) bytes: Bytes,
    /// Its content; `None` if a power cut left it empty.
    pub(super) content: Option<Content>,
}

/// Whether these are the bytes of a claim. After a power cut there may be none.
pub(in crate::output) fn is_claim(bytes: &[u8]) -> bool {
    bytes.is_empty() || serde_json::from_slice::<Content>(bytes).is_ok()
}

/// The claims on `output` except that of `own`, sorted by their names. Other files in their folder are ignored.
pub(super) async fn claims(output: &Layout, own: Option<&Attempt>) -> Result<Vec<StoredClaim>> {
    let listed = output.list(CLAIMS).await?.into_iter().map(|meta| meta.location);
    let mut claims = Vec::new();
    for path in listed {
        let Some(attempt) = output.inside(&path).and_then(|inside| attempt_of(&inside)) else { continue };
        if Some(&attempt) == own {
            continue;
        }
        // A claim that has been removed meanwhile does not count.
        if let Some((bytes, content)) = read(output, &path).await?.filter(|(bytes, _)| is_claim(bytes)) {
            claims.push(StoredClaim { attempt, path, bytes, content });
        }
    }
    Ok(claims)
}

/// The attempt whose claim is at this path inside an output.
pub(in crate::output) fn attempt_of(inside: &str) -> Option<Attempt> {
    Attempt::parse(inside.strip_prefix(CLAIMS)?.strip_prefix('/')?.strip_suffix(".json")?)
}

/// The path of the claim of `attempt`.
pub(super) fn path(output: &Layout, attempt: &Attempt) -> Path {
    output.path(&inside(attempt))
}

fn inside(attempt: &Attempt) -> String {
    format!("{CLAIMS}/{attempt}.json")
}

/// The bytes of a claim and its content; `None` if it is gone.
pub(super) async fn read(output: &Layout, path: &Path) -> Result<Option<(Bytes, Option<Content>)>> {
    let bytes = match output.store().get(path).await {
        Ok(got) => got.bytes().await,
        Err(e) => Err(e),
    };
    match bytes {
        Ok(bytes) => {
            let content = serde_json::from_slice(&bytes).ok().map(|content: Content| Content {
                // Another program may have written the file, and no process may wait for it without end.
                seconds: LEASE.nearest(content.seconds),
                ..content
            });
            Ok(Some((bytes, content)))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e).context(|| format!("cannot read a claim on {}", output.shown())),
    }
}

/// Puts the claim of `attempt`, replacing its content, and returns the store's version of it.
pub(super) async fn put(output: &Layout, attempt: &Attempt, content: &Content) -> Result<UpdateVersion> {
    let put = output.store().put(&path(output, attempt), json(content)?.into()).await;
    Ok(put.context(|| format!("cannot write to {}", output.shown()))?.into())
}

/// Puts the claim of `attempt` again, whose version in the store is `version`, and returns whether it still existed. A
/// claim that was removed meanwhile is not restored, even if this process was paused in between, except by a server
/// that does not support conditions.
pub(super) async fn renew(
    output: &Layout,
    attempt: &Attempt,
    content: &Content,
    version: &mut UpdateVersion,
) -> Result<bool> {
    let (path, bytes) = (path(output, attempt), json(content)?);
    let failed = || format!("cannot write to {}", output.shown());
    if let Some(folder) = output.folder() {
        // The file is overwritten and never created, with one write.
        let file = std::fs::OpenOptions::new().write(true).open(folder.join(inside(attempt)));
        return match file.and_then(|mut file| file.write_all(&bytes)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e).context(failed),
        };
    }
    if version.e_tag.is_some() {
        let put = PutMode::Update(version.clone()).into();
        match output.store().put_opts(&path, bytes.clone().into(), put).await {
            Ok(put) => {
                *version = put.into();
                return Ok(true);
            }
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            // No other process puts it, so it is gone, or its own earlier put was done although the answer was lost.
            Err(object_store::Error::Precondition { .. }) => {
                return match output.store().head(&path).await {
                    Ok(meta) => {
                        *version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
                        Ok(true)
                    }
                    Err(object_store::Error::NotFound { .. }) => Ok(false),
                    Err(e) => Err(e).context(failed),
                };
            }
            Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {}
            Err(e) => return Err(e).context(failed),
        }
    }
    match output.store().head(&path).await {
        Ok(_) => {}
        Err(object_store::Error::NotFound { .. }) => return Ok(false),
        Err(e) => return Err(e).context(failed),
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

/// The claim of `attempt` on an output of this machine, to be changed in place. It is not restored if it is gone.
pub(super) struct InPlace(File);

impl InPlace {
    /// `None` for an output in another store.
    pub(super) fn open(output: &Layout, attempt: &Attempt) -> Option<Self> {
        let path = output.folder()?.join(inside(attempt));
        std::fs::OpenOptions::new().write(true).open(path).ok().map(Self)
    }

    /// Replaces the content.
    pub(super) fn put(&self, content: &Content) -> Result<()> {
        let (json, mut file) = (json(content)?, &self.0);
        let written = file.rewind().and_then(|()| file.write_all(&json));
        written.context(|| "a claim cannot be written".to_owned())
    }
}

/// Removes a claim. It is no error if it is gone already.
pub(super) async fn remove(output: &Layout, path: &Path) -> Result<()> {
    match output.store().delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(e) => Err(e).context(|| format!("cannot remove a claim on {}", output.shown())),
    }
}
