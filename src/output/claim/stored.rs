//! Claims as they are stored: what they say, and how they are listed, read, put and removed.

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::output::Layout;
use crate::output::names::Attempt;
use crate::output::process::Process;

/// The folder of claims, inside the output.
pub(in crate::output) const CLAIMS: &str = "_work/claims";

/// The content of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Content {
    /// Whether it holds the output, or only asks for it.
    pub(super) owner: bool,
    /// Rises with every put, so that a living claim changes.
    pub(super) beat: u64,
    /// After so many seconds without a change it is dead.
    pub(super) seconds: u64,
    /// What it wants to do: `run` or `clean`.
    pub(super) what: String,
    /// The process that put it.
    pub(super) process: Process,
}

/// A claim that is there.
pub(super) struct Found {
    pub(super) path: Path,
    pub(super) bytes: Bytes,
    /// What it says; `None` if that cannot be read.
    pub(super) content: Option<Content>,
}

/// The claims on `output` but that of `own`, sorted by their names. What else lies in their folder is not a claim.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn claims(output: &Layout, own: Option<&Attempt>) -> Result<Vec<Found>> {
    let listed = output.list(CLAIMS).await?.into_iter().map(|meta| meta.location);
    let mut claims = Vec::new();
    for path in listed.filter(|path| attempt_of(path).is_some_and(|attempt| Some(&attempt) != own)) {
        // One that is gone by now is none.
        if let Some((bytes, content)) = read(output, &path).await? {
            claims.push(Found { path, bytes, content });
        }
    }
    Ok(claims)
}

/// The attempt whose claim is at `path`.
pub(in crate::output) fn attempt_of(path: &Path) -> Option<Attempt> {
    Attempt::parse(path.filename()?.strip_suffix(".json")?)
}

/// Where the claim of `attempt` is.
pub(super) fn path(output: &Layout, attempt: &Attempt) -> Path {
    output.path(&format!("{CLAIMS}/{attempt}.json"))
}

/// A claim's bytes, and what they say; `None` if it is gone.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn read(output: &Layout, path: &Path) -> Result<Option<(Bytes, Option<Content>)>> {
    let bytes = match output.store().get(path).await {
        Ok(got) => got.bytes().await,
        Err(e) => Err(e),
    };
    match bytes {
        Ok(bytes) => {
            let content = serde_json::from_slice(&bytes).ok();
            Ok(Some((bytes, content)))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e).context(|| format!("cannot read a claim on {}", output.shown())),
    }
}

/// Puts the claim of `attempt`, replacing what it said before.
///
/// # Errors
/// When the store refuses.
pub(super) async fn put(output: &Layout, attempt: &Attempt, content: &Content) -> Result<()> {
    let json = serde_json::to_vec(content).map_err(|e| Error::bug("a claim cannot be written").because(e))?;
    output
        .store()
        .put(&path(output, attempt), json.into())
        .await
        .context(|| format!("cannot write to {}", output.shown()))?;
    Ok(())
}

/// Removes a claim. One that is gone already is not an error.
///
/// # Errors
/// When the store refuses.
pub(super) async fn remove(output: &Layout, path: &Path) -> Result<()> {
    match output.store().delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(e) => Err(e).context(|| format!("cannot remove a claim on {}", output.shown())),
    }
}
