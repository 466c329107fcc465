//! Who may write to an output: one attempt at a time, by a claim that needs no more of a store than listings that show
//! what was put before.
//!
//! ```text
//! _work/claims/ATTEMPT.json    {"owner": true, "beat": 12, "seconds": 60, "process": ...}
//! ```
//!
//! Whoever wants the output puts a claim under its own name and then lists the claims. As each puts before it lists, of two
//! at least one sees the other (the flag principle: Herlihy and Shavit, *The Art of Multiprocessor Programming*,
//! section 2.3). Who sees an owner goes. Among those that only ask, the one with the smallest name stays and looks again
//! until the others are gone, then says that it is the owner. Conditional puts are not needed, so a server that ignores
//! their condition cannot give an output to two.
//!
//! An owner puts its claim anew every few seconds. A claim is dead when its process is known to be gone (on the same
//! machine since the same start), or when its content has not changed for its `seconds` by the observer's own clock; the
//! clocks of two machines are never compared.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Layout;
use super::names::Attempt;
use super::process::Process;
use crate::error::{Context, Error, Result};

/// The folder of claims, inside the output.
pub(super) const CLAIMS: &str = "_work/claims";

/// The variable that says after how many seconds of silence a claim of another machine is dead.
pub const LEASE_SECONDS: &str = "RESEMBLANCE_LEASE_SECONDS";

/// What it is without the variable.
const DEFAULT_SECONDS: u64 = 60;

/// The seconds that the variable may say.
const SECONDS: std::ops::RangeInclusive<u64> = 2..=3_600;

/// Times that a claim is put anew while its seconds pass.
const BEATS: u32 = 6;

/// How often a far output that somebody has is looked at again; one on this machine four times as often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long somebody who asked first is given to become the owner or to go.
const SETTLE: Duration = Duration::from_millis(100);

/// The content of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Content {
    /// Whether it holds the output, or only asks for it.
    owner: bool,
    /// Rises with every put, so that a living claim changes.
    beat: u64,
    /// After so many seconds without a change it is dead.
    seconds: u64,
    /// What it wants to do: `run` or `clean`.
    what: String,
    /// The process that put it.
    process: Process,
}

/// Somebody else who has an output.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    what: String,
    process: Process,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`resemblance {}` ({})", self.what, self.process)
    }
}

/// The answer to somebody who asks for an output.
#[derive(Debug)]
pub enum Asked {
    /// The output is the asker's.
    Granted(Claim),
    /// Somebody else has it, or asked first.
    Held(Holder),
}

/// What an asker has seen of other claims: when each of them changed last, by its own clock.
#[derive(Debug, Default)]
pub struct Others(BTreeMap<Path, (Bytes, Instant)>);

impl Others {
    /// Whether a claim that reads `bytes` now is dead.
    fn is_dead(&mut self, path: &Path, bytes: &Bytes, content: Option<&Content>) -> bool {
        let now = Instant::now();
        let seen = self.0.entry(path.clone()).or_insert_with(|| (bytes.clone(), now));
        if seen.0 != *bytes {
            *seen = (bytes.clone(), now);
        }
        match content.and_then(|content| content.process.is_alive()) {
            Some(alive) => !alive,
            // A claim that cannot be read is one that was not put whole, and will be dead or put anew.
            None => {
                let seconds = content.map_or(DEFAULT_SECONDS, |content| content.seconds);
                now.duration_since(seen.1) >= Duration::from_secs(seconds)
            }
        }
    }
}

/// The right to write to an output, until it is released, dropped or lost.
#[derive(Debug)]
pub struct Claim {
    output: Layout,
    attempt: Attempt,
    /// Cancelled when somebody else took the output.
    lost: CancellationToken,
    /// Ends the task that puts the claim anew.
    stop: CancellationToken,
    released: bool,
}

/// Asks for `output` in the name of `attempt`, in order to do `what`. Does not wait for whoever has it: ask again later
/// with the same `others`, by which a dead one is known.
///
/// # Errors
/// When the store does not answer, or the variable [`LEASE_SECONDS`] is wrong.
pub async fn ask(output: &Layout, attempt: &Attempt, what: &str, others: &mut Others) -> Result<Asked> {
    let mut content = Content {
        owner: false,
        beat: 0,
        seconds: seconds()?,
        what: what.to_owned(),
        process: Process::own(),
    };
    put(output, attempt, &content).await?;
    match compete(output, attempt, others).await {
        Ok(None) => {}
        Ok(Some(holder)) => {
            remove(output, &path(output, attempt)).await?;
            return Ok(Asked::Held(holder));
        }
        Err(error) => {
            // The error is what matters; a claim that stays is dead with this process.
            let _ = remove(output, &path(output, attempt)).await;
            return Err(error);
        }
    }
    content.owner = true;
    content.beat = 1;
    put(output, attempt, &content).await?;
    // Whoever was silent for so long between these two puts that its claim was taken for dead finds the new owner here.
    if let Some(holder) = owner_beside(output, attempt).await? {
        remove(output, &path(output, attempt)).await?;
        return Ok(Asked::Held(holder));
    }
    let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(beat(output.clone(), attempt.clone(), content, lost.clone(), stop.clone()));
    Ok(Asked::Granted(Claim {
        output: output.clone(),
        attempt: attempt.clone(),
        lost,
        stop,
        released: false,
    }))
}

/// Waits until nobody claims `output` any more, or `stop` is cancelled.
///
/// # Errors
/// When the store does not answer.
pub async fn wait(output: &Layout, others: &mut Others, stop: &CancellationToken) -> Result<()> {
    let pause = if output.folder().is_some() { POLL_INTERVAL / 4 } else { POLL_INTERVAL };
    loop {
        let mut held = false;
        for other in list(output).await? {
            if let Some((bytes, content)) = read(output, &other).await? {
                held |= !others.is_dead(&other, &bytes, content.as_ref());
            }
        }
        if !held {
            return Ok(());
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Waits until nobody is before `attempt`; the holder where it must go.
async fn compete(output: &Layout, attempt: &Attempt, others: &mut Others) -> Result<Option<Holder>> {
    let own = path(output, attempt);
    loop {
        let mut asking = None;
        for other in list(output).await?.into_iter().filter(|other| *other != own) {
            let Some((bytes, content)) = read(output, &other).await? else { continue };
            if others.is_dead(&other, &bytes, content.as_ref()) {
                tracing::debug!(claim = %other, "a dead claim is removed");
                remove(output, &other).await?;
                continue;
            }
            let (owner, holder) = match content {
                Some(Content { owner, what, process, .. }) => (owner, Holder { what, process }),
                None => (true, Holder { what: "?".into(), process: Process::unknown() }),
            };
            if owner || other < own {
                return Ok(Some(holder));
            }
            asking = Some(holder);
        }
        if asking.is_none() {
            return Ok(None);
        }
        tokio::time::sleep(SETTLE).await;
    }
}

/// An owner beside `attempt`.
async fn owner_beside(output: &Layout, attempt: &Attempt) -> Result<Option<Holder>> {
    let own = path(output, attempt);
    for other in list(output).await?.into_iter().filter(|other| *other != own) {
        if let Some((_, Some(Content { owner: true, what, process, .. }))) = read(output, &other).await?
            && process.is_alive() != Some(false)
        {
            return Ok(Some(Holder { what, process }));
        }
    }
    Ok(None)
}

/// Puts a claim anew until it is told to stop, or finds that somebody removed it.
async fn beat(
    output: Layout,
    attempt: Attempt,
    mut content: Content,
    lost: CancellationToken,
    stop: CancellationToken,
) {
    let pause = Duration::from_secs(content.seconds) / BEATS;
    let path = path(&output, &attempt);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        match output.store().head(&path).await {
            Err(object_store::Error::NotFound { .. }) if !stop.is_cancelled() => return lost.cancel(),
            // A store that does not answer is asked again; as long as nobody takes the claim, it holds.
            Err(error) => {
                tracing::debug!(%error, "the claim could not be looked at");
                continue;
            }
            Ok(_) => {}
        }
        content.beat += 1;
        if stop.is_cancelled() {
            return;
        }
        if let Err(error) = put(&output, &attempt, &content).await {
            tracing::debug!(%error, "the claim could not be put anew");
        }
    }
}

impl Claim {
    /// The attempt that holds the output.
    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Cancelled when somebody else took the output, which happens to a process that was silent for too long.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the output is still this attempt's, as the store says now.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where it is not, or the store does not answer.
    pub async fn verify(&self) -> Result<()> {
        let there = read(&self.output, &path(&self.output, &self.attempt)).await?;
        if self.lost.is_cancelled() || there.is_none() {
            return Err(self.lost_error());
        }
        match owner_beside(&self.output, &self.attempt).await? {
            Some(_) => Err(self.lost_error()),
            None => Ok(()),
        }
    }

    /// What to say when the output was lost.
    pub fn lost_error(&self) -> Error {
        Error::input(format!(
            "another process took {} over, since this one gave no sign for a while: nothing was published here; run again \
             to go on, and raise {LEASE_SECONDS} if this machine or its network stands still at times",
            self.output.shown()
        ))
    }

    /// Gives the output up.
    ///
    /// # Errors
    /// When the store does not answer; the claim is then dead as soon as this process has ended.
    pub async fn release(mut self) -> Result<()> {
        self.released = true;
        self.stop.cancel();
        remove(&self.output, &path(&self.output, &self.attempt)).await?;
        self.output.remove_empty_work();
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.released {
            return;
        }
        // Without a runtime the process is ending, and its claim is dead with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (output, path) = (self.output.clone(), path(&self.output, &self.attempt));
        runtime.spawn(async move {
            if let Err(error) = remove(&output, &path).await {
                tracing::debug!(%error, "a claim could not be removed");
            }
            output.remove_empty_work();
        });
    }
}

/// The attempts that claim `output` now and are not known to be dead.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn claimants(output: &Layout) -> Result<Vec<Attempt>> {
    let mut found = Vec::new();
    for path in list(output).await? {
        let Some(attempt) = attempt_of(&path) else { continue };
        let alive = match read(output, &path).await? {
            Some((_, Some(content))) => content.process.is_alive() != Some(false),
            Some((_, None)) => true,
            None => false,
        };
        if alive {
            found.push(attempt);
        }
    }
    Ok(found)
}

/// The attempt whose claim is at `path`.
pub(super) fn attempt_of(path: &Path) -> Option<Attempt> {
    Attempt::parse(path.filename()?.strip_suffix(".json")?)
}

fn path(output: &Layout, attempt: &Attempt) -> Path {
    output.path(&format!("{CLAIMS}/{attempt}.json"))
}

/// The claims that are there, sorted. What else lies in their folder is none.
async fn list(output: &Layout) -> Result<Vec<Path>> {
    let listed = output.store().list(Some(&output.path(CLAIMS)));
    let listed: Vec<Path> = listed
        .map_ok(|meta| meta.location)
        .try_collect()
        .await
        .context(|| format!("cannot list {}/{CLAIMS}", output.shown()))?;
    let mut claims: Vec<Path> = listed.into_iter().filter(|path| attempt_of(path).is_some()).collect();
    claims.sort();
    Ok(claims)
}

/// A claim's bytes, and what they say; none where it is gone.
async fn read(output: &Layout, path: &Path) -> Result<Option<(Bytes, Option<Content>)>> {
    let store: &Arc<dyn ObjectStore> = output.store();
    let bytes = match store.get(path).await {
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

async fn put(output: &Layout, attempt: &Attempt, content: &Content) -> Result<()> {
    let json = serde_json::to_vec(content).map_err(|e| Error::bug("a claim cannot be written").because(e))?;
    output
        .store()
        .put(&path(output, attempt), json.into())
        .await
        .context(|| format!("cannot write to {}", output.shown()))?;
    Ok(())
}

async fn remove(output: &Layout, path: &Path) -> Result<()> {
    match output.store().delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(e) => Err(e).context(|| format!("cannot remove a claim on {}", output.shown())),
    }
}

/// Seconds of silence after which a claim of this process is dead to other machines.
fn seconds() -> Result<u64> {
    match std::env::var_os(LEASE_SECONDS).filter(|given| !given.is_empty()) {
        Some(given) => parse_seconds(&given.to_string_lossy()),
        None => Ok(DEFAULT_SECONDS),
    }
}

fn parse_seconds(given: &str) -> Result<u64> {
    given.trim().parse().ok().filter(|n| SECONDS.contains(n)).ok_or_else(|| {
        Error::job(format!(
            "the variable {LEASE_SECONDS} is {given:?}: expected whole seconds from {} to {}",
            SECONDS.start(),
            SECONDS.end()
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::prelude::SessionContext;
    use object_store::memory::InMemory;

    use super::*;

    fn outputs() -> (Vec<Layout>, tempfile::TempDir) {
        let session = SessionContext::new();
        let url = url::Url::parse("memory://").unwrap();
        session.register_object_store(&url, Arc::new(InMemory::new()));
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("out").to_str().unwrap().to_owned();
        (
            vec![Layout::open(&session, "memory:///out").unwrap(), Layout::open(&session, &local).unwrap()],
            folder,
        )
    }

    /// Many ask at once, again and again, with nothing but puts and listings between them.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn an_output_is_never_granted_to_two() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let (holders, grants) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let tasks = (0..8).map(|_| {
                let (output, holders, grants) = (output.clone(), Arc::clone(&holders), Arc::clone(&grants));
                tokio::spawn(async move {
                    for _ in 0..10 {
                        match ask(&output, &Attempt::random(), "test", &mut Others::default()).await.unwrap()
                        {
                            Asked::Granted(claim) => {
                                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "granted to two");
                                claim.verify().await.unwrap();
                                tokio::task::yield_now().await;
                                holders.fetch_sub(1, Ordering::SeqCst);
                                grants.fetch_add(1, Ordering::SeqCst);
                                claim.release().await.unwrap();
                            }
                            Asked::Held(_) => tokio::task::yield_now().await,
                        }
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            assert!(grants.load(Ordering::SeqCst) > 0);
            // Nothing of it stays.
            assert_eq!(list(&output).await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn a_claim_that_is_dropped_or_removed_is_known_as_such() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let attempt = Attempt::random();
            let Asked::Granted(claim) = ask(&output, &attempt, "test", &mut Others::default()).await.unwrap()
            else {
                panic!("nobody else asked")
            };
            assert_eq!(claimants(&output).await.unwrap(), std::slice::from_ref(&attempt));
            assert!(matches!(
                ask(&output, &Attempt::random(), "test", &mut Others::default()).await.unwrap(),
                Asked::Held(_)
            ));
            remove(&output, &path(&output, &attempt)).await.unwrap();
            let error = claim.verify().await.unwrap_err().to_string();
            assert!(error.contains("took"), "{error}");
        }
    }

    #[test]
    fn the_seconds_have_bounds() {
        assert_eq!(parse_seconds("90").unwrap(), 90);
        for wrong in ["1", "3601", "-5", "soon"] {
            let error = parse_seconds(wrong).unwrap_err();
            assert!(error.to_string().contains(LEASE_SECONDS), "{error}");
        }
    }
}
