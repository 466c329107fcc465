//! Runs a job, stage by stage: documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters.
//!
//! A stage is published by its manifest, which is written after its files, and a run that resumes does not repeat it. A
//! run is published by `manifest.json`.
//!
//! - `overlap`, `previous_result`, `difference`: checks of the output before a run; `outcome`: how a run ends.
//! - `input`: texts, a finished output, or outputs to merge; `reference`: the reference documents; `read_files`: their checksums.
//! - `stage`: one file per stage, most of whose frames are made in [`crate::frames`]; `tables`: all tables; `run_tables`: those of a run.
//! - `walk`: runs through the stages; `context`: what they share; `runner`: runs one of them; `parts`: publishes it in parts.
//! - `keep_values`: the columns that `clusters.keep` means, and whether their values have an order.
//! - `numbers`: small queries of the driver; `same_keys`: documents with one key.
//! - `sketches`, `all_sketches`: where sketches come from; `texts`: texts by their positions.
//! - `candidate_pairs`, `sketch_join`, `verify`: candidates and their scores.
//! - `by_group`: columns of pairs and clusters; `searched`: the documents in which passages are searched.
//! - `publish`: names the tables and their counts in one manifest.
//!
//! If a function does not say more, it fails only where a table cannot be read or a frame lacks its columns.

mod all_sketches;
mod by_group;
mod candidate_pairs;
pub(crate) mod context;
mod difference;
mod input;
pub(crate) mod keep_values;
pub(crate) mod numbers;
mod outcome;
pub(crate) mod overlap;
mod parts;
mod previous_result;
mod publish;
mod read_files;
mod reference;
pub(crate) mod run_tables;
pub(crate) mod runner;
mod same_keys;
mod searched;
mod sketch_join;
mod sketches;
pub mod stage;
pub(crate) mod tables;
mod texts;
mod totals;
mod verify;
mod walk;

use std::sync::Arc;

use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job::{self, Job};
use crate::output::claim::{Claim, ClaimWait};
use crate::output::manifest::Run as Manifest;
use crate::output::names::Attempt;
use crate::output::{Layout, attempt, delta};
use context::StageContext;
use difference::RunReads;
use input::{FirstStageInput, RunInput};
use outcome::finished;
pub use outcome::{OnExisting, Outcome};
use previous_result::PreviousResult;
use publish::{Provenance, publish, publish_logs};
use reference::ReferenceDocuments;
pub(crate) use reference::texts::{reference_texts, with_group};
use run_tables::RunTables;
use runner::Runner;
use walk::walk;

/// Runs `job` on `engine`, or resumes an earlier run of the same job over the same inputs. If another run holds the
/// output, waits for its end.
///
/// The input is checked before anything is written: its files, their columns, and that neither source nor output is
/// inside the other. A finished output is replaced only when the new one is complete.
///
/// # Errors
/// By kind: the job does not fit its input, input or storage fail, the engine fails, or `control` stopped the run. The
/// output is then unchanged, and the next run uses the stages that were finished.
pub async fn run(
    job: &Job,
    engine: &dyn Engine,
    control: &RunControl,
    existing: OnExisting,
) -> Result<Outcome> {
    let session = engine.session();
    let output = Layout::open(session, &job.output.url)?;
    let job = &keep_values::settled(session, job).await?;
    let absolute = job.with_absolute_paths()?;
    let attempt = Attempt::random();
    let mut waiting = ClaimWait::default();
    if !matches!(job.input, job::Input::Merge(_)) {
        overlap::refuse_urls(&output, &job.source, "output.url")?;
    }
    loop {
        let earlier = finished_earlier(&output, existing).await;
        let job = match earlier.as_ref().and_then(|earlier| earlier.job().ok()) {
            Some(made) => absolute.with_places_of(&made),
            None => absolute.clone(),
        };
        let job = &job;
        let (input, reference) =
            (RunInput::find(session, job).await?, ReferenceDocuments::find(session, job).await?);
        input.refuse_overlap(&output)?;
        if let Some(reference) = &reference {
            reference.refuse_overlap(&output)?;
        }
        input.check_frequent(reference.as_ref()).await?;
        let mut fingerprint = input.fingerprint(job, reference.as_ref());
        if let Some(earlier) = &earlier
            && earlier.fingerprint != fingerprint
        {
            let same = input.fingerprint_of(session, job, reference.as_ref(), earlier).await?;
            fingerprint = same.unwrap_or(fingerprint);
        }
        if existing == OnExisting::Fail
            && let Some(finished) = finished(&output, &fingerprint, job, RunReads::of(&input, reference.as_ref())).await?
            // The rest of its publication is done under a claim.
            && delta::is_current(&output, job.output.tables).await?
        {
            return Ok(finished);
        }
        let read = input.read(session, job).await?;
        if let Some(reference) = &reference {
            reference.check_types(job, &read.types)?;
        }
        let Some(claim) = waiting.ask(&output, &attempt, "run", &control.stop).await? else { continue };
        let run = ClaimedRun {
            job,
            input: &input,
            reference: reference.as_ref(),
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

/// The result that an output holds, if the run does not replace it. What is wrong with one that cannot be read is reported when
/// it is compared with the job.
async fn finished_earlier(output: &Layout, existing: OnExisting) -> Option<Manifest> {
    match existing {
        OnExisting::Fail => output.manifest().await.ok().flatten(),
        OnExisting::Overwrite => None,
    }
}

/// A run that holds the claim on its output.
struct ClaimedRun<'a> {
    job: &'a Job,
    input: &'a RunInput,
    reference: Option<&'a ReferenceDocuments>,
    engine: &'a dyn Engine,
    existing: OnExisting,
    output: &'a Layout,
    claim: &'a Claim,
    fingerprint: &'a str,
}

impl ClaimedRun<'_> {
    /// Runs until it is done, is stopped, or loses the output.
    async fn watched(&self, control: &RunControl, read: FirstStageInput) -> Result<Outcome> {
        let stop = control.stop.child_token();
        let inner = RunControl { stop: stop.clone(), progress: Arc::clone(&control.progress) };
        let lost = self.claim.lost();
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

    async fn stages(&self, control: &RunControl, read: FirstStageInput) -> Result<Outcome> {
        let Self { job, input, reference, engine, existing, output, claim, fingerprint } = *self;
        // Another run may have finished since the first check.
        if existing == OnExisting::Fail
            && let Some(finished) = finished(output, fingerprint, job, RunReads::of(input, reference)).await?
        {
            publish_logs(output, job).await?;
            return Ok(finished);
        }
        delta::check(output, job, &read.types).await?;
        let replaced = PreviousResult::read(output).await?;
        let record = attempt::AttemptRecord {
            attempt: claim.attempt().to_string(),
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
        let runner = Runner::new(engine, (output, claim), control, fingerprint, key);
        let tables = RunTables { runner, job, types: read.types };
        let cx = StageContext::new(tables, input, reference, read.documents);
        walk(&cx).await?;
        let mut inputs = read.inputs;
        inputs.extend(reference.map(ReferenceDocuments::inputs).unwrap_or_default());
        let of = Provenance { inputs: &inputs, origins: input.origins(), reference, merged: input.merged() };
        publish(cx, job, of, replaced).await
    }
}
