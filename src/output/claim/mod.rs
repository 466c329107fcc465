//! Claims, which allow only one attempt at a time to write to an output. The store must only guarantee that listings contain every earlier
//! put.
//!
//! ```text
//! _work/claims/ATTEMPT.json    {"owner": true, "beat": 12, "seconds": 60, "process": ..., "reading": ["a.parquet"]}
//! ```
//!
//! A process that wants the output puts a claim under its own name and then lists the claims. Each process puts its claim before it lists,
//! so at least one of two processes sees the claim of the other. This is the flag principle (Herlihy and Shavit, *The Art of Multiprocessor
//! Programming*, section 2.3). If a process sees an owner, it removes its claim and waits. If several processes ask, the process with the
//! smallest name lists again until the other claims are gone, and then marks itself as the owner. Conditional puts are not needed, so a
//! server that ignores their condition cannot give an output to two processes.
//!
//! An owner renews its claim every few seconds. A claim is dead if its process has ended. Only a process on the same machine can know this,
//! and only until the machine restarts. A claim is also dead if its content has not changed for its `seconds`, measured by the observer's
//! own clock. The clocks of two machines are never compared. A renewal does not restore a removed claim, even after a long pause of the
//! owner. Only a server without conditional puts restores it. So after a renewal that came too late, the owner looks for another owner, and
//! withdraws if it finds one.
//!
//! A claim lists the files that its process is reading. For a local output, the list is always current. For other outputs, it is as old as
//! the last renewal. If the process is killed, the next owner reports the files, because one of them may be the cause.

pub(crate) mod record;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::UpdateVersion;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::record::{
    Content, FIRST_BEAT, InPlace, Process, StoredClaim, claims, path, put, read, remove, renew,
};
pub(super) use self::record::{attempt_of, is_claim};
use super::Layout;
use super::attempt::Attempt;
use crate::environment::{Environment, LEASE};
use crate::error::{Error, Kind, Result};
use crate::machine::being_read::{self, OnChange};

/// A claim is renewed this many times within its `seconds`.
const BEATS: u32 = 6;

/// The interval at which the claims on a remote output are listed again. For an output on a local disk, the interval is a quarter of this.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before the claims are listed again while several processes ask.
const SETTLE: Duration = Duration::from_millis(100);

/// The maximum time for which a failed attempt checks whether another process has taken its output.
const LOOK: Duration = Duration::from_secs(10);

/// Another process that owns an output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Holder {
    what: String,
    process: Process,
}

impl Holder {
    /// Returns the process that wrote a claim with this content, or an unknown process if the claim could not be parsed.
    fn from_claim(content: Option<Content>) -> Self {
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

/// Waits for an output that other processes own. Remembers their claims to detect dead claims from any machine.
#[derive(Debug, Default)]
pub(crate) struct ClaimWait {
    others: Others,
    /// The owner that was last reported to the user.
    reported: Option<Holder>,
}

impl ClaimWait {
    /// Asks for `output` on behalf of `attempt` and the command `what`. Returns `None` if another process owned the output and has ended.
    /// The caller then checks for changes and asks again.
    pub(crate) async fn ask(
        &mut self,
        output: &Layout,
        attempt: &Attempt,
        what: &str,
        stop: &CancellationToken,
    ) -> Result<Option<Claim>> {
        let holder = match ask(output, attempt, what, &mut self.others).await? {
            Ok(claim) => return Ok(Some(claim)),
            Err(holder) => holder,
        };
        if self.reported.as_ref() != Some(&holder) {
            tracing::warn!("{holder} is writing to {}: this {what} waits until it has ended", output.shown());
            self.reported = Some(holder);
        }
        wait(output, &mut self.others, stop).await?;
        if stop.is_cancelled() { Err(Error::interrupted()) } else { Ok(None) }
    }
}

/// Waits until no other process owns `output`, and then claims the output for the command `what`.
pub(crate) async fn take(output: &Layout, what: &str, stop: &CancellationToken) -> Result<Claim> {
    let (attempt, mut waiting) = (Attempt::random(), ClaimWait::default());
    loop {
        if let Some(claim) = waiting.ask(output, &attempt, what, stop).await? {
            return Ok(claim);
        }
    }
}

/// The claims of other processes, each with the time of its last change according to the clock of this process.
#[derive(Debug, Default)]
struct Others(BTreeMap<Path, (Bytes, Instant)>);

impl Others {
    fn is_dead(&mut self, claim: &StoredClaim) -> bool {
        let now = Instant::now();
        let seen = self.0.entry(claim.path.clone()).or_insert_with(|| (claim.bytes.clone(), now));
        if seen.0 != claim.bytes {
            *seen = (claim.bytes.clone(), now);
        }
        match claim.content.as_ref().and_then(|content| content.process.is_alive()) {
            Some(alive) => !alive,
            // A claim that a power cut left empty contains no `seconds`.
            None => {
                let seconds = claim.content.as_ref().map_or(LEASE.default, |content| content.seconds);
                now.duration_since(seen.1) >= Duration::from_secs(seconds)
            }
        }
    }
}

/// The right to write to an output. It ends when the claim is released, dropped or lost.
#[derive(Debug)]
pub(crate) struct Claim {
    output: Layout,
    pub(crate) attempt: Attempt,
    /// Cancelled when another process takes the output.
    pub(crate) lost: CancellationToken,
    /// Ends the task that renews the claim.
    stop: CancellationToken,
    /// The task that renews the claim, or `None` after the release.
    beating: Option<JoinHandle<()>>,
}

/// Asks for `output` on behalf of `attempt` and the command `what`, without waiting for another process. The inner error is the process
/// that owns the output or asked first. Later calls take the same `others`, which record when each claim last changed and so show whether
/// it is dead.
async fn ask(
    output: &Layout,
    attempt: &Attempt,
    what: &str,
    others: &mut Others,
) -> Result<Result<Claim, Holder>> {
    let mut content = Content {
        owner: false,
        beat: FIRST_BEAT,
        seconds: Environment::process().seconds(&LEASE)?,
        what: what.to_owned(),
        process: Process::own(),
        reading: Vec::new(),
    };
    put(output, attempt, &content).await?;
    match compete(output, attempt, others).await {
        Ok(None) => {}
        Ok(Some(holder)) => {
            remove(output, &path(output, attempt)).await?;
            return Ok(Err(holder));
        }
        Err(error) => {
            // The first error is reported. If the claim is not removed, it is dead when this process ends.
            let _ = remove(output, &path(output, attempt)).await;
            return Err(error);
        }
    }
    content.owner = true;
    content.beat += 1;
    let version = put(output, attempt, &content).await?;
    // If this process was silent for too long between its two puts, other processes treated its claim as dead. It finds the new owner here.
    if let Some(holder) = other_owner(output, attempt).await? {
        remove(output, &path(output, attempt)).await?;
        return Ok(Err(holder));
    }
    let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
    let shown =
        Arc::new(ClaimView { content: Mutex::new(content), in_place: InPlace::open(output, attempt) });
    let listener: Arc<OnChange> = Arc::new({
        let shown = Arc::clone(&shown);
        move |names: &[&str]| {
            shown.put(|content| content.reading = names.iter().map(|&name| name.into()).collect())
        }
    });
    being_read::listen(&listener);
    let own = Own { output: output.clone(), attempt: attempt.clone(), shown, version };
    let beats = own.beat(lost.clone(), stop.clone());
    let beating = tokio::spawn(async move {
        beats.await;
        drop(listener);
    });
    Ok(Ok(Claim { output: output.clone(), attempt: attempt.clone(), lost, stop, beating: Some(beating) }))
}

/// Removes the claims of processes that ended on this machine. Only time shows whether a claim from another machine is dead.
pub(crate) async fn remove_dead(output: &Layout) -> Result<()> {
    let mut others = Others::default();
    for claim in claims(output, None).await? {
        if others.is_dead(&claim) {
            remove(output, &claim.path).await?;
        }
    }
    Ok(())
}

/// Waits until no process claims `output` or `stop` is cancelled.
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

/// Waits until `attempt` is the only process that asks. Returns the other process if `attempt` must wait for it.
async fn compete(output: &Layout, attempt: &Attempt, others: &mut Others) -> Result<Option<Holder>> {
    let own = path(output, attempt);
    loop {
        let mut asking = false;
        for other in claims(output, Some(attempt)).await? {
            if others.is_dead(&other) {
                if let Some(Content { what, process, reading, .. }) = &other.content
                    && !reading.is_empty()
                {
                    let files = reading.join(", ");
                    tracing::warn!(
                        "`resemblance {what}` ({process}) ended without an error message while it read {files}: if this one \
                         does too, look at these files, and at its memory"
                    );
                }
                tracing::debug!(claim = %other.path, "a dead claim is removed");
                remove(output, &other.path).await?;
            } else if other.content.as_ref().is_none_or(|content| content.owner) || other.path < own {
                return Ok(Some(Holder::from_claim(other.content)));
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

async fn other_owner(output: &Layout, attempt: &Attempt) -> Result<Option<Holder>> {
    let contents = claims(output, Some(attempt)).await?.into_iter().filter_map(|claim| claim.content);
    let mut owners = contents.filter(|content| content.owner && content.process.is_alive() != Some(false));
    Ok(owners.next().map(|content| Holder::from_claim(Some(content))))
}

/// The content of this process's claim, as other processes see it.
struct ClaimView {
    content: Mutex<Content>,
    in_place: Option<InPlace>,
}

impl ClaimView {
    /// Changes the content. If the output is on this machine, also changes the file.
    fn put(&self, change: impl FnOnce(&mut Content)) {
        let mut content = self.content.lock();
        change(&mut content);
        if let Some(Err(error)) = self.in_place.as_ref().map(|file| file.put(&content)) {
            tracing::debug!(%error, "a claim does not name the files that are being read");
        }
    }
}

struct Own {
    output: Layout,
    attempt: Attempt,
    shown: Arc<ClaimView>,
    version: UpdateVersion,
}

impl Own {
    /// Renews the claim until `stop` is cancelled or another process has taken the output.
    async fn beat(mut self, lost: CancellationToken, stop: CancellationToken) {
        let lease = Duration::from_secs(self.shown.content.lock().seconds);
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
                // If the store does not answer, the renewal is tried again. The claim is valid until another process takes the output.
                Err(error) => tracing::debug!(%error, "the claim could not be renewed"),
            }
        }
    }

    /// Renews the claim and returns whether this attempt still owns the output. If this process was `silent` for too long, other processes
    /// may have treated the claim as dead. This process then looks for another owner.
    async fn renew(&mut self, silent: bool) -> Result<bool> {
        let content = {
            let mut content = self.shown.content.lock();
            content.beat += 1;
            content.clone()
        };
        if !renew(&self.output, &self.attempt, &content, &mut self.version).await? {
            return Ok(false);
        }
        // Updates a local claim, because the process may be reading other files by now.
        self.shown.put(|_| ());
        if silent && other_owner(&self.output, &self.attempt).await?.is_some() {
            remove(&self.output, &path(&self.output, &self.attempt)).await?;
            return Ok(false);
        }
        Ok(true)
    }
}

impl Claim {
    /// Fails with `Kind::Input` if this attempt no longer owns the output, or if the store does not answer.
    pub(crate) async fn verify(&self) -> Result<()> {
        if self.is_lost().await? { Err(self.lost_error()) } else { Ok(()) }
    }

    async fn is_lost(&self) -> Result<bool> {
        let there = read(&self.output, &path(&self.output, &self.attempt)).await?;
        Ok(self.lost.is_cancelled()
            || there.is_none()
            || other_owner(&self.output, &self.attempt).await?.is_some())
    }

    /// Replaces `error` by the error for a lost output if another process has taken the output. The new owner may have removed files that
    /// this attempt needed.
    pub(crate) async fn explain(&self, error: Error) -> Error {
        let stopped = error.kind() == Kind::Interrupted;
        if stopped && !self.lost.is_cancelled() {
            return error;
        }
        // If the store does not answer here, `error` is returned unchanged.
        match tokio::time::timeout(LOOK, self.is_lost()).await {
            Ok(Ok(true)) if stopped => self.lost_error(),
            Ok(Ok(true)) => self.lost_error().because(error),
            _ => error,
        }
    }

    pub(crate) fn lost_error(&self) -> Error {
        Error::input(format!(
            "another process took over {}, because this one gave no sign of life for a while: this run published \
             nothing; run it again to continue, and raise {} if this machine or its network sometimes \
             stalls",
            self.output.shown(),
            LEASE.name
        ))
    }

    pub(crate) async fn release(mut self) -> Result<()> {
        match self.give_up() {
            Some(given_up) => given_up.await,
            None => Ok(()),
        }
    }

    /// Stops the renewals and then removes the claim. In the other order, a running renewal would restore the removed claim.
    fn give_up(&mut self) -> Option<impl Future<Output = Result<()>> + Send + use<>> {
        let beating = self.beating.take()?;
        self.stop.cancel();
        let (output, path) = (self.output.clone(), path(&self.output, &self.attempt));
        Some(async move {
            // The task has ended and makes no more puts. Its result is not needed.
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
        // Without a runtime, the process is ending, and its claim becomes dead.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = given_up.await {
                tracing::debug!(%error, "a claim could not be removed");
            }
        });
    }
}

/// Returns the attempts with claims on `output`. Claims of processes that ended on this machine are ignored.
pub(super) async fn claimants(output: &Layout) -> Result<Vec<Attempt>> {
    let alive = |claim: &StoredClaim| {
        claim.content.as_ref().is_none_or(|content| content.process.is_alive() != Some(false))
    };
    let claims = claims(output, None).await?.into_iter();
    Ok(claims.filter(alive).map(|claim| claim.attempt).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use object_store::ObjectStoreExt;

    use super::record::CLAIMS;
    use super::*;
    use crate::output::upload::tests::outputs;

    fn content(seconds: u64) -> Content {
        let (what, process) = ("test".into(), Process::own());
        Content { owner: true, beat: FIRST_BEAT, seconds, what, process, reading: Vec::new() }
    }

    async fn granted(output: &Layout, attempt: &Attempt, others: &mut Others) -> Claim {
        ask(output, attempt, "test", others).await.unwrap().unwrap()
    }

    /// Many processes ask at the same time and repeatedly. They communicate only by puts and listings.
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
                            Ok(claim) => {
                                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "granted to two");
                                claim.verify().await.unwrap();
                                tokio::task::yield_now().await;
                                holders.fetch_sub(1, Ordering::SeqCst);
                                grants.fetch_add(1, Ordering::SeqCst);
                                claim.release().await.unwrap();
                            }
                            Err(_) => tokio::task::yield_now().await,
                        }
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            assert!(grants.load(Ordering::SeqCst) > 0);
            assert!(claims(&output, None).await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn a_claim_that_is_dropped_or_removed_is_known_as_such() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let attempt = Attempt::random();
            let claim = granted(&output, &attempt, &mut Others::default()).await;
            assert_eq!(claimants(&output).await.unwrap(), std::slice::from_ref(&attempt));
            let second = ask(&output, &Attempt::random(), "test", &mut Others::default()).await.unwrap();
            assert!(second.is_err());
            remove(&output, &path(&output, &attempt)).await.unwrap();
            let error = claim.verify().await.unwrap_err().to_string();
            assert!(error.contains("took"), "{error}");
        }
    }

    /// Another process removed the claim between two renewals. The claim is not restored, so the output has only one owner.
    #[tokio::test]
    async fn a_claim_that_was_taken_over_is_never_put_again() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let (attempt, content) = (Attempt::random(), content(60));
            let version = put(&output, &attempt, &content).await.unwrap();
            let shown = Arc::new(ClaimView { content: Mutex::new(content.clone()), in_place: None });
            let mut own = Own { output: output.clone(), attempt: attempt.clone(), shown, version };
            let bytes = async || read(&output, &path(&output, &attempt)).await.unwrap().unwrap().0;
            let first = bytes().await;
            assert!(own.renew(false).await.unwrap() && own.renew(true).await.unwrap());
            let second = bytes().await;
            assert!(first != second && first.len() == second.len(), "{first:?} {second:?}");
            // An earlier put succeeded although its response was lost. The stored version then differs from the expected one.
            own.version.e_tag = own.version.e_tag.map(|_| "another".into());
            assert!(own.renew(false).await.unwrap() && own.renew(false).await.unwrap());

            remove(&output, &path(&output, &attempt)).await.unwrap();
            assert!(!own.renew(false).await.unwrap());
            assert!(claims(&output, None).await.unwrap().is_empty());

            // A server without support for conditions restores the claim. The silent process therefore withdraws.
            own.version = put(&output, &attempt, &content).await.unwrap();
            let other = Attempt::random();
            put(&output, &other, &content).await.unwrap();
            assert!(own.renew(false).await.unwrap(), "no process is asked before a lease has passed");
            assert!(!own.renew(true).await.unwrap());
            assert_eq!(claimants(&output).await.unwrap(), [other]);
        }
    }

    #[tokio::test]
    async fn the_seconds_of_a_claim_are_bounded_when_it_is_read() {
        let (outputs, _folder) = outputs();
        for (output, (written, read_again)) in
            outputs.iter().zip([(1_000_000_000_000_000_000, 3_600), (0, 2)])
        {
            let attempt = Attempt::random();
            put(output, &attempt, &content(written)).await.unwrap();
            let (_, found) = read(output, &path(output, &attempt)).await.unwrap().unwrap();
            assert_eq!(found.unwrap().seconds, read_again);
        }
    }

    /// A foreign file in the folder of claims delays no process and is kept. An incomplete claim is removed after some time.
    #[tokio::test]
    async fn what_is_no_claim_is_left_alone() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            let (dead, foreign) = (Attempt::random(), Attempt::random());
            for (attempt, bytes) in [(&dead, ""), (&foreign, "{\"notes\": 1}")] {
                output.store.put(&path(&output, attempt), bytes.into()).await.unwrap();
            }
            let long_ago = Instant::now().checked_sub(Duration::from_secs(LEASE.default)).unwrap();
            let mut others = Others([(path(&output, &dead), (Bytes::new(), long_ago))].into());
            granted(&output, &Attempt::random(), &mut others).await.release().await.unwrap();
            let left = output.list(CLAIMS).await.unwrap();
            let found = left.into_iter().map(|meta| meta.location).collect::<Vec<_>>();
            assert_eq!(found, [path(&output, &foreign)]);
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
