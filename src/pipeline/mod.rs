//! Runs a job, stage by stage: documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters.
//!
//! A stage is published by its manifest, which is written after its files. A resumed run does not repeat a published stage. The result of
//! the run is published by `manifest.json`.
//!
//! Unless documented otherwise, a function fails only if a table cannot be read or a frame lacks a column.

mod context;
mod existing;
mod groups;
mod input;
pub(crate) mod keep_values;
pub(crate) mod ledger;
pub(crate) mod numbers;
pub(crate) mod overlap;
mod parts;
mod publish;
mod reference;
pub(crate) mod runner;
mod sketches;
pub mod stage;
pub(crate) mod tables;
mod verify;

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job::{self, Job};
use crate::output::attempt::Attempt;
use crate::output::claim::{Claim, ClaimWait};
use crate::output::{Layout, attempt, delta};
use crate::source::Documents;
use context::StageContext;
pub use existing::{OnExisting, Outcome};
use existing::{PreviousResult, finished};
use input::RunInput;
use publish::{publish, publish_logs};
pub(crate) use reference::{first_day, reference_texts, with_group};
use runner::Runner;
use stage::walk;
pub(crate) use verify::slices;

/// Runs `job` on `engine`, or resumes an earlier run of the same job over the same inputs. If another run has claimed the output, waits for
/// its end.
///
/// Checks the files of the input and their columns before anything is written. Refuses an output that overlaps with the source. A
/// finished output is replaced only when the new result is complete.
///
/// # Errors
/// If the job does not fit its input, if the input, the storage or the engine fails, or if `control` stopped the run. The result in the
/// output is then unchanged, and the next run uses the finished stages.
pub async fn run(
    job: &Job,
    engine: &dyn Engine,
    control: &RunControl,
    existing: OnExisting,
) -> Result<Outcome> {
    let session = engine.session();
    let output = Layout::open(session, &job.output.url)?;
    let job = &first_day::settled(session, job).await?;
    let job = &keep_values::settled(session, job).await?;
    if !matches!(job.input, job::Input::Merge(_)) {
        overlap::refuse_urls(&output, &job.source, "output.url")?;
    }
    let absolute = job.with_absolute_paths()?;
    let attempt = Attempt::random();
    let mut waiting = ClaimWait::default();
    loop {
        // An unreadable result is reported later, by `finished`.
        let earlier = match existing {
            OnExisting::Fail => output.manifest().await.ok().flatten(),
            OnExisting::Overwrite => None,
        };
        let made = earlier.as_ref().and_then(|earlier| earlier.job().ok());
        let job = &made.map_or_else(|| absolute.clone(), |made| absolute.with_places_of(&made));
        let input = RunInput::find(session, job).await?;
        let job = &input.settled(job)?;
        input.refuse_overlap(&output)?;
        input.check_frequent().await?;
        let mut fingerprint = input.fingerprint(job)?;
        if let Some(earlier) = &earlier
            && earlier.fingerprint != fingerprint
        {
            let same = input.fingerprint_of(session, job, earlier).await?;
            fingerprint = same.unwrap_or(fingerprint);
        }
        if existing == OnExisting::Fail
            && let Some(finished) = finished(&output, &fingerprint, job, &input).await?
            // If a Delta log is outdated, the run continues below with a claim, and publishes the log.
            && delta::is_current(&output, job.output.tables).await?
        {
            return Ok(finished);
        }
        let read = input.read(session, job).await?;
        let Some(claim) = waiting.ask(&output, &attempt, "run", &control.stop).await? else { continue };
        let run = ClaimedRun {
            job,
            input: &input,
            engine,
            existing,
            output: &output,
            claim: &claim,
            fingerprint: &fingerprint,
        };
        let ended = run.watched(control, read).await;
        if let Err(error) = claim.release().await {
            tracing::warn!("this run's claim on {} could not be removed: {error}", output.shown());
        }
        return ended;
    }
}

struct ClaimedRun<'a> {
    job: &'a Job,
    input: &'a RunInput,
    engine: &'a dyn Engine,
    existing: OnExisting,
    output: &'a Layout,
    claim: &'a Claim,
    fingerprint: &'a str,
}

impl ClaimedRun<'_> {
    /// Runs the stages until they finish, the run is stopped, or the claim is lost.
    async fn watched(&self, control: &RunControl, read: Documents) -> Result<Outcome> {
        let stop = control.stop.child_token();
        let inner = RunControl { stop: stop.clone(), progress: Arc::clone(&control.progress) };
        let lost = &self.claim.lost;
        let ended = tokio::select! {
            ended = self.stages(&inner, read) => ended,
            () = async { lost.cancelled().await; stop.cancel(); std::future::pending().await } => {
                Err(Error::interrupted())
            }
        };
        match ended {
            Err(error) => Err(self.claim.explain(error).await),
            ended => ended,
        }
    }

    async fn stages(&self, control: &RunControl, read: Documents) -> Result<Outcome> {
        let Self { job, input, engine, existing, output, claim, fingerprint } = *self;
        // Another run may have finished since the first check.
        if existing == OnExisting::Fail
            && let Some(finished) = finished(output, fingerprint, job, input).await?
        {
            publish_logs(output, job).await?;
            return Ok(finished);
        }
        let replaced = PreviousResult::read(output).await?;
        delta::check(output, job, &read.types).await?;
        let record = attempt::AttemptRecord {
            attempt: claim.attempt.to_string(),
            fingerprint: fingerprint.to_owned(),
            resemblance: env!("CARGO_PKG_VERSION").to_owned(),
            replaces: replaced.files(),
        };
        record.put(output).await?;
        if !attempt::keeps_conditions(output, &record).await? {
            tracing::info!(
                "the store of {} does not support the condition If-None-Match, so only claims keep other runs away",
                output.shown()
            );
        }
        let key = replaced.key(fingerprint, existing);
        let cx = StageContext {
            runner: Runner::new(engine, (output, claim), control, fingerprint, key),
            job,
            types: read.types,
            warning: read.warning,
            input,
            reference: input.reference.as_ref(),
            documents: read.frame,
            join: OnceCell::new(),
            bytes_of_sketch: OnceCell::new(),
        };
        walk(&cx).await?;
        publish(cx, replaced).await
    }
}
