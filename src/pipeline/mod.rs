//! The sentence, as code: documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters.
//!
//! Stages are lazy; this is where they are cut into *steps* that run, are published and can be taken up again.
//! A step is published by its manifest, written after its files; a run is finished by `manifest.json`.

pub(crate) mod numbers;
mod publish;
mod scoring;
mod steps;
pub(crate) mod tables;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, cast, col};
use futures::TryStreamExt;

use crate::clusters::Components;
use crate::engine::{Engine, Watch};
use crate::error::{Error, Kind, Result};
use crate::job::{DuplicateIds, Job, Method, ShingleHash, fingerprint};
use crate::sink::manifest::Run;
use crate::sink::{Layout, write::Rows};
use crate::{source, stage};
use numbers::{apart, keys_of};
use publish::publish;
use scoring::{PREFIX_STEPS, candidates, scores};
use steps::Steps;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the output holds now.
    pub manifest: Run,
    /// Whether the output was finished before this run, which then did nothing.
    pub already_finished: bool,
    /// Steps that an earlier run had finished.
    pub steps_reused: usize,
}

/// What to do about an output that holds something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Another job's result there is an error.
    Keep,
    /// Whatever this program wrote there goes first.
    Overwrite,
}

/// Runs `job` on `engine`, or takes it up where an earlier run of the same job over the same inputs stopped.
///
/// # Errors
/// By kind: the job does not fit its input, input or storage fail, the engine cannot go on, or `watch` stopped it.
/// The output then has no manifest, and what the finished steps wrote is used by the next run.
pub async fn run(job: &Job, engine: &dyn Engine, watch: &Watch, existing: Existing) -> Result<Outcome> {
    let session = engine.session();
    let output = Layout::open(session, &job.output.url)?;
    let listed = source::list(session, &job.source).await?;
    let fingerprint = fingerprint(job, &listed.inputs());
    if existing == Existing::Overwrite {
        output.clear().await?;
    }
    if let Some(finished) = finished(&output, &fingerprint).await? {
        return Ok(finished);
    }
    let error = match run_steps(job, engine, watch, &output, &listed, &fingerprint).await {
        Err(error) if matches!(error.kind(), Kind::Input | Kind::Engine | Kind::Bug) => error,
        ended => return ended,
    };
    // Another run of the same job that ends first removes the tables between the steps, perhaps while they are read
    // here. Its result is this one's.
    match finished(&output, &fingerprint).await {
        Ok(Some(other)) => {
            tracing::debug!(%error, "another run finished this output meanwhile");
            tidy(&output, &other.manifest).await;
            Ok(other)
        }
        _ => Err(error),
    }
}

/// The result that an output holds already; none where it holds no finished one.
async fn finished(output: &Layout, fingerprint: &str) -> Result<Option<Outcome>> {
    match output.read::<Run>("manifest.json").await? {
        None => Ok(None),
        Some(manifest) if manifest.fingerprint == fingerprint => {
            Ok(Some(Outcome { manifest, already_finished: true, steps_reused: 0 }))
        }
        Some(_) => Err(Error::job(format!(
            "{} holds the result of another job, or of other inputs: choose another output.url, or replace it with --overwrite",
            output.shown()
        ))),
    }
}

/// Removes what a finished output does not need. The result is there by now, so a store that fails is only told of.
async fn tidy(output: &Layout, manifest: &Run) {
    if let Err(error) = output.sweep(&manifest.paths()).await {
        let output = output.shown();
        tracing::warn!(
            "the result is complete, but leftovers could not be removed ({error}): `resemblance clean {output}` does"
        );
    }
}

async fn run_steps(
    job: &Job,
    engine: &dyn Engine,
    watch: &Watch,
    output: &Layout,
    listed: &source::Listed,
    fingerprint: &str,
) -> Result<Outcome> {
    let read = source::open_listed(engine.session(), &job.source, listed).await?;
    let mut steps = Steps::new(engine, output, watch, fingerprint, count_steps(job));
    let documents = match job.source.duplicate_ids {
        DuplicateIds::Error => stage::documents::documents(read.frame)?,
        DuplicateIds::Reject => without_duplicates(&mut steps, job, read.frame).await?,
    };
    sketches(&mut steps, job, documents).await?;
    let repeated = stage::duplicates::repeated(steps.table("keys")?, NAMED_DUPLICATES)?;
    let (repeated, ()) = futures::try_join!(apart(keys_of(repeated)), groups(&mut steps))?;
    refuse_duplicates(&steps, &repeated).await?;
    let candidates = candidates(&mut steps, job).await?;
    scores(&mut steps, job, candidates).await?;
    members(&mut steps).await?;
    pairs(&mut steps, job).await?;
    clusters(&mut steps).await?;
    publish(steps, job, &read.inputs, fingerprint).await
}

fn count_steps(job: &Job) -> usize {
    let duplicates = usize::from(job.source.duplicate_ids == DuplicateIds::Reject);
    let candidates = match job.candidates.method {
        Method::All => 0,
        Method::Lsh => 1,
        Method::Prefix => PREFIX_STEPS,
    };
    let dictionary = if job.shingle.hash == ShingleHash::Dictionary { 2 } else { 0 };
    7 + duplicates + candidates + dictionary
}

/// Finds documents whose key came before, in a first reading of which only ids are kept, and the texts of those that come twice are measured.
async fn without_duplicates(steps: &mut Steps<'_>, job: &Job, read: DataFrame) -> Result<DataFrame> {
    let documents = stage::documents::documents(read)?;
    let frame = stage::duplicates::duplicates(documents.clone(), &job.shingle)?;
    steps.run("duplicates", vec![tables::target("duplicates", Rows::All)], vec![frame]).await?;
    stage::duplicates::reject(documents, steps.table("duplicates")?)
}

/// The one pass over the texts: documents -> shingles -> signatures -> bands, into three tables at once.
async fn sketches(steps: &mut Steps<'_>, job: &Job, documents: DataFrame) -> Result<()> {
    let (shingles, dictionary) = match job.shingle.hash {
        ShingleHash::Dictionary => {
            let shingles = by_dictionary(steps, job, documents).await?;
            (shingles, Some(steps.rows("dictionary")))
        }
        _ => (stage::shingles::shingles(documents, &job.shingle)?, None),
    };
    let signatures = stage::signatures::signatures(shingles, &job.minhash, dictionary)?;
    let bands = stage::bands::bands(signatures, &job.lsh)?;
    let compared = || Rows::Null("reason".into());
    let targets = vec![
        tables::target("documents", compared()),
        tables::target("rejects", Rows::NotNull("reason".into())),
        tables::target("keys", compared()),
    ];
    steps.run("sketches", targets, vec![bands]).await
}

/// The shingles as a dictionary of the whole collection numbers them, which needs all texts to be cut before the first
/// has its numbers.
async fn by_dictionary(steps: &mut Steps<'_>, job: &Job, documents: DataFrame) -> Result<DataFrame> {
    let cuts = stage::dictionary::cuts(documents, &job.shingle)?;
    steps.run("cuts", vec![tables::target("cuts", Rows::All)], vec![cuts]).await?;
    let numbers = stage::dictionary::numbers(steps.table("cuts")?)?;
    let targets = vec![
        tables::target("numbers", Rows::All),
        tables::target("dictionary", Rows::NotNull("shingle".into())),
    ];
    steps.run("dictionary", targets, vec![numbers]).await?;
    let numbered = stage::dictionary::numbered(steps.table("cuts")?, steps.table("numbers")?)?;
    stage::shingles::measured(numbered)
}

/// Two documents with one key cannot be told apart from here on.
async fn refuse_duplicates(steps: &Steps<'_>, repeated: &[u64]) -> Result<()> {
    if repeated.is_empty() {
        return Ok(());
    }
    let named = stage::duplicates::named(steps.table("documents")?, repeated)?;
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

fn utf8(column: &str) -> datafusion::prelude::Expr {
    cast(col(column), datafusion::arrow::datatypes::DataType::Utf8).alias(column)
}

async fn groups(steps: &mut Steps<'_>) -> Result<()> {
    let keys = steps.table("keys")?.select(vec![col("doc"), col("set_hash_0"), col("set_hash_1")])?;
    let frame = stage::groups::groups(keys)?;
    steps.run("groups", vec![tables::target("groups", Rows::All)], vec![frame]).await
}

async fn members(steps: &mut Steps<'_>) -> Result<()> {
    let frame =
        stage::members::members(steps.table("documents")?, steps.table("groups")?, steps.table("scores")?)?;
    steps.run("members", vec![tables::target("members", Rows::All)], vec![frame]).await
}

async fn pairs(steps: &mut Steps<'_>, job: &Job) -> Result<()> {
    let frame =
        stage::pairs::pairs(steps.table("members")?, steps.table("scores")?, &job.output, job.lsh.bands)?;
    steps.run("pairs", vec![tables::target("pairs", Rows::All)], vec![frame]).await
}

async fn clusters(steps: &mut Steps<'_>) -> Result<()> {
    let target = tables::target("components", Rows::All);
    let mut frames = Vec::new();
    if !steps.is_done("components").await? {
        let found = components(steps).await?;
        frames.push(steps.session().read_batch(batch_of(found, &target.schema)?)?);
    }
    steps.run_here("components", vec![target], frames).await?;
    let frame = stage::clusters::clusters(steps.table("members")?, steps.table("components")?)?;
    steps.run("clusters", vec![tables::target("clusters", Rows::All)], vec![frame]).await
}

/// The components of the scored representatives.
async fn components(steps: &Steps<'_>) -> Result<Components> {
    let mut edges = steps.table("scores")?.select(vec![col("a"), col("b")])?.execute_stream().await?;
    let mut components = Components::default();
    while let Some(batch) = edges.try_next().await? {
        if steps.stopped() {
            return Err(Error::interrupted());
        }
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        for (&a, &b) in a.values().iter().zip(b.values()) {
            components.join(a, b);
        }
    }
    Ok(components)
}

fn batch_of(components: Components, schema: &SchemaRef) -> Result<RecordBatch> {
    let (docs, roots): (Vec<u64>, Vec<u64>) = components.roots().into_iter().unzip();
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(docs)), Arc::new(UInt64Array::from(roots))];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
