//! Who may write to an output: one attempt at a time, by a claim that needs no more of a store than listings that show
//! what was put before.
//!
//! ```text
//! _work/claims/ATTEMPT.json    {"owner": true, "beat": 12, "seconds": 60, "process": ...}
//! ```
//!
//! A process that wants the output puts a claim under its own name and then lists the claims. As each process puts before it lists,
//! at least one of two sees the other (the flag principle: Herlihy and Shavit, *The Art of Multiprocessor Programming*, section
//! 2.3). A process that sees an owner leaves. Among those that only ask, the one with the smallest name stays and looks again until
//! the others are gone, then says that it is the owner. Conditional puts are not needed, so a server that ignores their condition
//! cannot give an output to two.
//!
//! An owner renews its claim every few seconds. A claim is dead when its process is known to be gone (on the same
//! machine since the same start), or when its content has not changed for its `seconds` by the observer's own clock; the
//! clocks of two machines are never compared. Renewing never brings a claim back that was removed, however long the owner
//! stood still between two looks. Where a server knows no condition by which to refuse that, an owner that was silent for too
//! long looks for another one after its put, and gives way.

mod stored;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::UpdateVersion;
use object_store::path::Path;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Layout;
use super::names::Attempt;
use super::process::Process;
use crate::environment::{Environment, LEASE};
use crate::error::{Error, Kind, Result};
use stored::{Content, FIRST_BEAT, Found, claims, path, put, read, remove, renew};
pub(super) use stored::{attempt_of, is_claim};

/// Times that a claim is renewed while its seconds pass.
const BEATS: u32 = 6;

/// The interval at which the claims of a remote output are listed again; on this machine it is a quarter of this.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The time in which a process that asked first becomes the owner or leaves.
const SETTLE: Duration = Duration::from_millis(100);

/// The time for which an attempt that ended with an error looks for the process that took its output.
const LOOK: Duration = Duration::from_secs(10);

/// Another process that has an output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Holder {
    what: String,
    process: Process,
}

impl Holder {
    /// The process that put a claim with this content; an unknown one if the content cannot be read.
    fn of(content: Option<Content>) -> Self {
        match content {
            Some(Content { what, process, .. }) => Self { what, process },
            None => Self { what: "?".into(), process: Process::unknown() },
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`resemblance {}` ({})", self.what, self.process)
    }
}

/// The answer to a request for an output.
#[derive(Debug)]
enum Asked {
    /// The output is the asker's.
    Granted(Claim),
    /// Another process has it, or asked first.
    Held(Holder),
}

/// Waiting for an output that others have, by which their death is noticed wherever they ran.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    others: Others,
    /// The holder that was reported last.
    told: Option<Holder>,
}

impl Waiting {
    /// Asks for `output` in the name of `attempt`, in order to do `what`, a command. `None` if another process had it: it has ended
    /// by now, and the caller asks again, after a look at what may have changed.
    ///
    /// # Errors
    /// When the store does not answer, the variable [`LEASE`] is wrong, or `stop` is cancelled.
    pub(crate) async fn ask(
        &mut self,
        output: &Layout,
        attempt: &Attempt,
        what: &str,
        stop: &CancellationToken,
    ) -> Result<Option<Claim>> {
        let holder = match ask(output, attempt, what, &mut self.others).await? {
            Asked::Granted(claim) => return Ok(Some(claim)),
            Asked::Held(holder) => holder,
        };
        if self.told.as_ref() != Some(&holder) {
            tracing::warn!("{holder} is writing to {}: this {what} waits until it has ended", output.shown());
            self.told = Some(holder);
        }
        wait(output, &mut self.others, stop).await?;
        match stop.is_cancelled() {
            true => Err(Error::interrupted()),
            false => Ok(None),
        }
    }
}

/// Takes `output` in order to do `what`, a command, as soon as no other process has it.
///
/// # Errors
/// As [`Waiting::ask`].
pub(crate) async fn take(output: &Layout, what: &str, stop: &CancellationToken) -> Result<Claim> {
    let (attempt, mut waiting) = (Attempt::random(), Waiting::default());
    loop {
        if let Some(claim) = waiting.ask(output, &attempt, what, stop).await? {
            return Ok(claim);
        }
    }
}

/// What an asker has seen of other claims: when each of them changed last, by its own clock.
#[derive(Debug, Default)]
struct Others(BTreeMap<Path, (Bytes, Instant)>);

impl Others {
    /// Whether a claim is dead.
    fn is_dead(&mut self, claim: &Found) -> bool {
        let now = Instant::now();
        let seen = self.0.entry(claim.path.clone()).or_insert_with(|| (claim.bytes.clone(), now));
        if seen.0 != claim.bytes {
            *seen = (claim.bytes.clone(), now);
        }
        match claim.content.as_ref().and_then(|content| content.process.is_alive()) {
            Some(alive) => !alive,
            // One that a power cut left empty says no seconds.
            None => {
                let seconds = claim.content.as_ref().map_or(LEASE.default, |content| content.seconds);
                now.duration_since(seen.1) >= Duration::from_secs(seconds)
            }
        }
    }
}

/// The right to write to an output, until it is released, dropped or lost.
#[derive(Debug)]
pub(crate) struct Claim {
    output: Layout,
    attempt: Attempt,
    /// Cancelled when another process took the output.
    lost: CancellationToken,
    /// Ends the task that renews the claim.
    stop: CancellationToken,
    /// That task; `None` if the claim was given up.
    beating: Option<JoinHandle<()>>,
}

/// Asks for `output` in the name of `attempt`, in order to do `what`. Does not wait for the process that has it: ask again later
/// with the same `others`, by which a dead one is known.
///
/// # Errors
/// When the store does not answer, or the variable [`LEASE`] is wrong.
async fn ask(output: &Layout, attempt: &Attempt, what: &str, others: &mut Others) -> Result<Asked> {
    let mut content = Content {
        owner: false,
        beat: FIRST_BEAT,
        seconds: Environment::of_process().seconds(&LEASE)?,
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
    content.beat += 1;
    let version = put(output, attempt, &content).await?;
    // A process that was silent between these two puts, for so long that its claim was taken for dead, finds the new owner here.
    if let Some(holder) = owner_beside(output, attempt).await? {
        remove(output, &path(output, attempt)).await?;
        return Ok(Asked::Held(holder));
    }
    let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
    let own = Own { output: output.clone(), attempt: attempt.clone(), content, version };
    let beating = tokio::spawn(own.beat(lost.clone(), stop.clone()));
    Ok(Asked::Granted(Claim {
        output: output.clone(),
        attempt: attempt.clone(),
        lost,
        stop,
        beating: Some(beating),
    }))
}

/// Waits until no process claims `output` any more, or `stop` is cancelled.
async fn wait(output: &Layout, others: &mut Others, stop: &CancellationToken) -> Result<()> {
    let pause = if output.folder().is_some() { POLL_INTERVAL / 4 } else { POLL_INTERVAL };
    loop {
        let mut held = false;
        for other in claims(output, None).await? {
            held |= !others.is_dead(&other);
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

/// Waits until no process is before `attempt`; the holder if `attempt` must leave.
async fn compete(output: &Layout, attempt: &Attempt, others: &mut Others) -> Result<Option<Holder>> {
    let own = path(output, attempt);
    loop {
        let mut asking = false;
        for other in claims(output, Some(attempt)).await? {
            if others.is_dead(&other) {
                tracing::debug!(claim = %other.path, "a dead claim is removed");
                remove(output, &other.path).await?;
            } else if other.content.as_ref().is_none_or(|content| content.owner) || other.path < own {
                return Ok(Some(Holder::of(other.content)));
            } else {
                asking = true;
            }
        }
        if !asking {
            return Ok(None);
        }
        tokio::time::sleep(SETTLE).await;
    }
}

/// An owner other than `attempt`.
async fn owner_beside(output: &Layout, attempt: &Attempt) -> Result<Option<Holder>> {
    let contents = claims(output, Some(attempt)).await?.into_iter().filter_map(|claim| claim.content);
    let mut owners = contents.filter(|content| content.owner && content.process.is_alive() != Some(false));
    Ok(owners.next().map(|content| Holder::of(Some(content))))
}

/// A claim of this process, as it was put last.
struct Own {
    output: Layout,
    attempt: Attempt,
    content: Content,
    version: UpdateVersion,
}

impl Own {
    /// Renews the claim until it is stopped, or finds that another process took the output.
    async fn beat(mut self, lost: CancellationToken, stop: CancellationToken) {
        let lease = Duration::from_secs(self.content.seconds);
        let mut put_at = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(lease / BEATS) => {}
            }
            let began = Instant::now();
            match self.renew(began.duration_since(put_at) >= lease).await {
                Ok(true) => put_at = began,
                Ok(false) if stop.is_cancelled() => return,
                Ok(false) => return lost.cancel(),
                // A store that does not answer is asked again; as long as no other process takes the claim, it holds.
                Err(error) => tracing::debug!(%error, "the claim could not be renewed"),
            }
        }
    }

    /// Puts the claim again: whether the output is still this attempt's. One that was `silent` for so long that others took it for
    /// dead looks for them.
    async fn renew(&mut self, silent: bool) -> Result<bool> {
        self.content.beat += 1;
        if !renew(&self.output, &self.attempt, &self.content, &mut self.version).await? {
            return Ok(false);
        }
        if silent && owner_beside(&self.output, &self.attempt).await?.is_some() {
            remove(&self.output, &path(&self.output, &self.attempt)).await?;
            return Ok(false);
        }
        Ok(true)
    }
}

impl Claim {
    /// The attempt that holds the output.
    pub(crate) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Cancelled when another process took the output, which happens to a process that was silent for too long.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Makes sure that the output is still this attempt's, as the store says now.
    ///
    /// # Errors
    /// [`Kind::Input`] where it is not, or the store does not answer.
    pub(crate) async fn verify(&self) -> Result<()> {
        match self.is_lost().await? {
            true => Err(self.lost_error()),
            false => Ok(()),
        }
    }

    async fn is_lost(&self) -> Result<bool> {
        let there = read(&self.output, &path(&self.output, &self.attempt)).await?;
        Ok(self.lost.is_cancelled()
            || there.is_none()
            || owner_beside(&self.output, &self.attempt).await?.is_some())
    }

    /// The error with which work under this claim ended; where the output was lost, that comes first: the new owner may have
    /// removed files that this attempt was about to read.
    pub(crate) async fn explain(&self, error: Error) -> Error {
        let stopped = error.kind() == Kind::Interrupted;
        if stopped && !self.lost.is_cancelled() {
            return error;
        }
        // A store that does not answer was reported already.
        match tokio::time::timeout(LOOK, self.is_lost()).await {
            Ok(Ok(true)) if stopped => self.lost_error(),
            Ok(Ok(true)) => self.lost_error().because(error),
            _ => error,
        }
    }

    /// What to say when the output was lost.
    pub(crate) fn lost_error(&self) -> Error {
        Error::input(format!(
            "another process took over {}, because this one gave no sign of life for a while: this run published \
             nothing; run it again to continue, and raise {} if this machine or its network sometimes \
             stalls",
            self.output.shown(),
            LEASE.name
        ))
    }

    /// Gives the output up.
    ///
    /// # Errors
    /// When the store does not answer; the claim is then dead as soon as this process has ended.
    pub(crate) async fn release(mut self) -> Result<()> {
        match self.give_up() {
            Some(given_up) => given_up.await,
            None => Ok(()),
        }
    }

    /// Ends the beating, and then takes the claim back: a put that was under way would bring it back after its removal.
    fn give_up(&mut self) -> Option<impl Future<Output = Result<()>> + Send + use<>> {
        let beating = self.beating.take()?;
        self.stop.cancel();
        let (output, path) = (self.output.clone(), path(&self.output, &self.attempt));
        Some(async move {
            // However it ended, it puts nothing any more.
            let _ = beating.await;
            remove(&output, &path).await?;
            output.remove_empty_work();
            Ok(())
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(given_up) = self.give_up() else { return };
        // Without a runtime the process is ending, and its claim is dead with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = given_up.await {
                tracing::debug!(%error, "a claim could not be removed");
            }
        });
    }
}

/// The attempts that claim `output` now and are not known to be dead.
pub(super) async fn claimants(output: &Layout) -> Result<Vec<Attempt>> {
    let alive = |claim: &Found| {
        claim.content.as_ref().is_none_or(|content| content.process.is_alive() != Some(false))
    };
    let claims = claims(output, None).await?.into_iter();
    Ok(claims.filter(alive).map(|claim| claim.attempt).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::prelude::SessionContext;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::stored::CLAIMS;
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
            assert!(claims(&output, None).await.unwrap().is_empty());
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

    /// The claim was taken over between two beats: it stays away, so that the new owner finds itself alone.
    #[tokio::test]
    async fn a_claim_that_was_taken_over_is_never_put_again() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let attempt = Attempt::random();
            let content = Content {
                owner: true,
                beat: FIRST_BEAT,
                seconds: 60,
                what: "test".into(),
                process: Process::own(),
            };
            let version = put(&output, &attempt, &content).await.unwrap();
            let mut own = Own { output: output.clone(), attempt: attempt.clone(), content, version };
            let bytes = |own: &Own| {
                let path = path(&own.output, &own.attempt);
                let output = own.output.clone();
                async move { read(&output, &path).await.unwrap().map(|(bytes, _)| bytes) }
            };
            let first = bytes(&own).await.unwrap();
            assert!(own.renew(false).await.unwrap() && own.renew(true).await.unwrap());
            let second = bytes(&own).await.unwrap();
            assert!(first != second && first.len() == second.len(), "{first:?} {second:?}");
            // A put whose answer was lost gave it another version.
            own.version.e_tag = own.version.e_tag.map(|_| "another".into());
            assert!(own.renew(false).await.unwrap() && own.renew(false).await.unwrap());

            remove(&output, &path(&output, &attempt)).await.unwrap();
            assert!(!own.renew(false).await.unwrap());
            assert!(claims(&output, None).await.unwrap().is_empty());

            // As a server brings it back that knows no conditions: the silent process gives way to the new owner.
            own.version = put(&output, &attempt, &own.content).await.unwrap();
            let other = Attempt::random();
            put(&output, &other, &own.content).await.unwrap();
            assert!(own.renew(false).await.unwrap(), "nobody is asked before a lease has passed");
            assert!(!own.renew(true).await.unwrap());
            assert_eq!(claimants(&output).await.unwrap(), [other]);
        }
    }

    /// A file among the claims that is not a claim delays no process, and stays. What a power cut left of a claim goes in time.
    #[tokio::test]
    async fn what_is_no_claim_is_left_alone() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let (dead, foreign) = (Attempt::random(), Attempt::random());
            for (attempt, bytes) in [(&dead, ""), (&foreign, "{\"notes\": 1}")] {
                output.store().put(&path(&output, attempt), bytes.into()).await.unwrap();
            }
            let long_ago = Instant::now().checked_sub(Duration::from_secs(LEASE.default)).unwrap();
            let mut others = Others([(path(&output, &dead), (Bytes::new(), long_ago))].into());
            let Asked::Granted(claim) = ask(&output, &Attempt::random(), "test", &mut others).await.unwrap()
            else {
                panic!("nobody else asked")
            };
            claim.release().await.unwrap();
            let left = output.list(CLAIMS).await.unwrap();
            assert_eq!(
                left.into_iter().map(|meta| meta.location).collect::<Vec<_>>(),
                [path(&output, &foreign)]
            );
        }
    }

    #[test]
    fn the_seconds_have_bounds() {
        assert_eq!(LEASE.parse("90").unwrap(), 90);
        for wrong in ["1", "3601", "-5", "soon"] {
            let error = LEASE.parse(wrong).unwrap_err();
            assert!(error.to_string().contains(LEASE.name), "{error}");
        }
    }
}
