//! The sentence, as code: documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters.
//!
//! Stages are lazy; this is where they are cut into *steps* that run, are published and can be taken up again.
//! A step is published by its manifest, written after its files; a run is finished by `manifest.json`.

mod components;
mod dense;
mod foretell;
pub(crate) mod numbers;
mod outcome;
mod overlap;
mod publish;
mod replaced;
mod scoring;
mod sketches;
mod step;
mod steps;
pub(crate) mod tables;
mod verify;

use std::sync::Arc;

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col};

use crate::engine::{Engine, Watch};
use crate::error::{Error, Kind, Result};
use crate::job::{DuplicateIds, Job, ShingleHash, fingerprint};
use crate::schema::Table;
use crate::sink::claim::{self, Claim};
use crate::sink::names::Attempt;
use crate::sink::{Layout, attempt};
use crate::{source, stage};
use numbers::{apart, keys_of};
use outcome::finished;
pub use outcome::{Existing, Outcome};
use publish::publish;
use replaced::Replaced;
use scoring::{candidates, scores};
use sketches::Sketches;
pub use step::Step;
use steps::Steps;
use tables::WorkTable;

/// Runs `job` on `engine`, or takes it up where an earlier run of the same job over the same inputs stopped. Where another
/// run has the output, waits for its end.
///
/// The input is looked at before anything is written: its files, their columns, and that neither source nor output lies in
/// the other. A finished output is replaced only when the new one is whole.
///
/// # Errors
/// By kind: the job does not fit its input, input or storage fail, the engine cannot go on, or `watch` stopped it.
/// The output then is what it was, and what the finished steps wrote is used by the next run.
pub async fn run(job: &Job, engine: &dyn Engine, watch: &Watch, existing: Existing) -> Result<Outcome> {
    let session = engine.session();
    let output = Layout::open(session, &job.output.url)?;
    let attempt = Attempt::random();
    let mut others = claim::Others::default();
    let mut waited_for = None;
    overlap::refuse_urls(&output, &job.source)?;
    loop {
        let listed = source::list(session, &job.source).await?;
        overlap::refuse_files(&output, &listed)?;
        let fingerprint = fingerprint(job, &listed.inputs());
        if existing == Existing::Keep
            && let Some(finished) = finished(&output, &fingerprint).await?
        {
            return Ok(finished);
        }
        let read = source::open_listed(session, &job.source, &listed).await?;
        let holder = match claim::ask(&output, &attempt, "run", &mut others).await? {
            claim::Asked::Granted(claim) => {
                let run = Run {
                    job,
                    listed: &listed,
                    engine,
                    existing,
                    output: &output,
                    claim: &claim,
                    fingerprint: &fingerprint,
                };
                let ended = run.watched(watch, read).await;
                if let Err(error) = claim.release().await {
                    tracing::warn!("this run's claim on {} could not be taken back: {error}", output.shown());
                }
                return ended;
            }
            claim::Asked::Held(holder) => holder,
        };
        if waited_for.as_ref() != Some(&holder) {
            tracing::warn!("{holder} writes to {}: this run waits for its end", output.shown());
            waited_for = Some(holder);
        }
        claim::wait(&output, &mut others, &watch.stop).await?;
        if watch.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
    }
}

/// A run that has the output for itself.
struct Run<'a> {
    job: &'a Job,
    listed: &'a source::Listed,
    engine: &'a dyn Engine,
    existing: Existing,
    output: &'a Layout,
    claim: &'a Claim,
    fingerprint: &'a str,
}

impl Run<'_> {
    /// Runs until it is done, is stopped, or loses the output.
    async fn watched(&self, watch: &Watch, read: source::Documents) -> Result<Outcome> {
        let stop = watch.stop.child_token();
        let inner = Watch { stop: stop.clone(), progress: Arc::clone(&watch.progress) };
        let lost = self.claim.lost();
        let ended = tokio::select! {
            ended = self.steps(&inner, read) => ended,
            () = async { lost.cancelled().await; stop.cancel(); std::future::pending().await } => {
                Err(self.claim.lost_error())
            }
        };
        match ended {
            Err(error) if error.kind() == Kind::Interrupted && lost.is_cancelled() => {
                Err(self.claim.lost_error())
            }
            ended => ended,
        }
    }

    async fn steps(&self, watch: &Watch, read: source::Documents) -> Result<Outcome> {
        let Self { job, listed, engine, existing, output, claim, fingerprint } = *self;
        // Somebody may have finished since it was looked at.
        if existing == Existing::Keep
            && let Some(finished) = finished(output, fingerprint).await?
        {
            return Ok(finished);
        }
        let replaced = Replaced::read(output).await?;
        let record = attempt::Record {
            attempt: claim.attempt().to_string(),
            fingerprint: fingerprint.to_owned(),
            resemblance: env!("CARGO_PKG_VERSION").to_owned(),
            replaces: replaced.files(),
        };
        record.put(output).await?;
        if !attempt::keeps_conditions(output, &record).await? {
            tracing::info!(
                "the store of {} does not keep the condition If-None-Match; claims alone keep other runs away",
                output.shown()
            );
        }
        let key = replaced.key(fingerprint, existing);
        let mut steps =
            Steps::new(engine, output, claim, watch, fingerprint, key, job).over(read.types.clone());
        let documents = match job.source.duplicate_ids {
            DuplicateIds::Error => stage::documents::documents(read.frame)?,
            DuplicateIds::Reject => without_duplicates(&mut steps, job, read.frame).await?,
        };
        sketches(&mut steps, job, documents).await?;
        let repeated = stage::duplicates::repeated(steps.table(WorkTable::Keys)?, NAMED_DUPLICATES)?;
        let (repeated, ()) = futures::try_join!(apart(keys_of(repeated)), groups(&mut steps))?;
        refuse_duplicates(&steps, &repeated).await?;
        let sketches = Sketches { job, listed };
        let candidates = candidates(&mut steps, &sketches).await?;
        scores(&mut steps, &sketches, candidates).await?;
        members(&mut steps).await?;
        pairs_and_clusters(&steps, job).await?;
        publish(steps, job, &read.inputs, replaced).await
    }
}

/// Finds documents whose key came before, in a first reading of which only ids are kept, and the texts of those that come twice are measured.
async fn without_duplicates(steps: &mut Steps<'_>, job: &Job, read: DataFrame) -> Result<DataFrame> {
    let documents = stage::documents::documents(read)?;
    let frame = stage::duplicates::duplicates(documents.clone(), &job.shingle)?;
    steps.run(Step::Duplicates, 0, vec![frame]).await?;
    stage::duplicates::reject(documents, steps.table(WorkTable::Duplicates)?)
}

/// The one pass over the texts: documents -> shingles -> signatures -> bands, into three tables at once.
async fn sketches(steps: &mut Steps<'_>, job: &Job, documents: DataFrame) -> Result<()> {
    let (shingles, dictionary) = match job.shingle.hash {
        ShingleHash::Dictionary => {
            let shingles = by_dictionary(steps, job, documents).await?;
            (shingles, Some(steps.rows(Table::Dictionary)))
        }
        _ => (stage::shingles::shingles(documents, &job.shingle)?, None),
    };
    let signatures = stage::signatures::signatures(shingles, job, dictionary)?;
    let bands = stage::bands::bands(signatures, &job.lsh)?;
    let bytes = steps.bytes(WorkTable::Cuts) + steps.bytes(WorkTable::Numbers);
    steps.run(Step::Sketches, bytes, vec![bands]).await
}

/// The shingles as a dictionary of the whole collection numbers them, which needs all texts to be cut before the first
/// has its numbers.
async fn by_dictionary(steps: &mut Steps<'_>, job: &Job, documents: DataFrame) -> Result<DataFrame> {
    let cuts = stage::dictionary::cuts(documents, &job.shingle)?;
    steps.run(Step::Cuts, 0, vec![cuts]).await?;
    // Numbers are ranks in one order, so all rows come together in one partition at the end.
    let numbers = stage::dictionary::numbers(steps.table(WorkTable::Cuts)?)?;
    steps.run(Step::Dictionary, 0, vec![numbers]).await?;
    let numbered =
        stage::dictionary::numbered(steps.table(WorkTable::Cuts)?, steps.table(WorkTable::Numbers)?)?;
    stage::shingles::measured(numbered, &job.shingle)
}

/// Two documents with one key cannot be told apart from here on.
async fn refuse_duplicates(steps: &Steps<'_>, repeated: &[u64]) -> Result<()> {
    if repeated.is_empty() {
        return Ok(());
    }
    let named = stage::duplicates::named(steps.table(Table::Documents)?, repeated)?;
    let mut said = Vec::new();
    for batch in named.collect().await? {
        let (least, most) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (least, most) in least.iter().flatten().zip(most.iter().flatten()) {
            said.push(match least == most {
                true => format!("`{least}` is the id of several documents"),
                false => format!("`{least}` and `{most}` have the same 64-bit key"),
            });
        }
    }
    Err(Error::input(format!(
        "ids must be unique, but {}{}: name a column of unique ids as source.id (or row_number), or set source.duplicate_ids = \"reject\"",
        said.join("; "),
        if said.len() == NAMED_DUPLICATES { "; and perhaps more" } else { "" },
    )))
}

/// Duplicate ids that an error names.
const NAMED_DUPLICATES: usize = 5;

async fn groups(steps: &mut Steps<'_>) -> Result<()> {
    let keys =
        steps.table(WorkTable::Keys)?.select(vec![col("doc"), col("set_hash_0"), col("set_hash_1")])?;
    let bytes = steps.rows(WorkTable::Keys) * BYTES_OF_KEY;
    steps.run(Step::Groups, bytes, vec![stage::groups::groups(keys)?]).await
}

async fn members(steps: &mut Steps<'_>) -> Result<()> {
    let frame = stage::members::members(
        steps.table(Table::Documents)?,
        steps.table(WorkTable::Groups)?,
        steps.table(WorkTable::Scores)?,
    )?;
    let bytes = steps.rows(Table::Documents) * BYTES_OF_MEMBER
        + steps.bytes(WorkTable::Groups)
        + 2 * steps.rows(WorkTable::Scores) * BYTES_OF_KEY;
    steps.run(Step::Members, bytes, vec![frame]).await
}

/// Neither of the two needs what the other writes. Where both run at the same time, both come to their end, also when one
/// of them fails: what the other has done by then need not be done again.
async fn pairs_and_clusters(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let clusters = async {
        components::components(steps).await?;
        clusters(steps).await
    };
    if !steps.run_together() {
        pairs(steps, job).await?;
        return clusters.await;
    }
    let (pairs, clusters) = futures::join!(pairs(steps, job), clusters);
    pairs.and(clusters)
}

async fn pairs(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (members, scores) = (steps.table(WorkTable::Members)?, steps.table(WorkTable::Scores)?);
    let frame = stage::pairs::pairs(members, scores, &job.output, job.lsh.bands)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Scores);
    steps.run(Step::Pairs, bytes, vec![frame]).await
}

async fn clusters(steps: &Steps<'_>) -> Result<()> {
    let members = steps.table(WorkTable::Members)?;
    let frame = stage::clusters::clusters(members, steps.table(WorkTable::Components)?)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Components);
    steps.run(Step::Clusters, bytes, vec![frame]).await
}

/// Bytes of a row that has a document's key and two more numbers of that size.
const BYTES_OF_KEY: u64 = 24;

/// Bytes of a row that has a document's id too, which is short.
const BYTES_OF_MEMBER: u64 = 64;
