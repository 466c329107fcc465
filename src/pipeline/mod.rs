//! The sentence, as code: documents -> shingles -> signatures -> bands -> candidates -> pairs -> clusters.
//!
//! Stages are lazy; this is where they are cut into *steps* that run, are published and can be taken up again.
//! A step is published by its manifest, written after its files; a run is finished by `manifest.json`.

mod steps;
pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{DataFrame, cast, col, lit};
use futures::TryStreamExt;

use crate::clusters::Components;
use crate::engine::{Engine, Watch, session};
use crate::error::{Error, Result};
use crate::job::{DuplicateIds, FORMAT_VERSION, InputFile, Job, Method, ShingleHash, fingerprint};
use crate::sink::manifest::{Input, Run, StageTime, Table};
use crate::sink::{Layout, write::Rows};
use crate::stage::scores::Block;
use crate::{schema, source, stage};
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
    let read = source::open(session, &job.source).await?;
    let fingerprint = fingerprint(job, &read.inputs);
    if existing == Existing::Overwrite {
        output.clear().await?;
    }
    if let Some(manifest) = output.read::<Run>("manifest.json").await? {
        return match manifest.fingerprint == fingerprint {
            true => Ok(Outcome { manifest, already_finished: true, steps_reused: 0 }),
            false => Err(Error::job(format!(
                "{} holds the result of another job, or of other inputs: choose another output.url, or replace it with --overwrite",
                output.shown()
            ))),
        };
    }

    let mut steps = Steps::new(engine, &output, watch, &fingerprint, count_steps(job));
    let documents = match job.source.duplicate_ids {
        DuplicateIds::Error => stage::documents::documents(read.frame)?,
        DuplicateIds::Reject => without_duplicates(&mut steps, read.frame).await?,
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
    publish(steps, job, &read.inputs, &fingerprint).await
}

fn count_steps(job: &Job) -> usize {
    let duplicates = usize::from(job.source.duplicate_ids == DuplicateIds::Reject);
    let candidates = match job.candidates.method {
        Method::All => 0,
        Method::Lsh => 1,
        Method::Prefix => PREFIX_STEPS,
    };
    let dictionary = if job.shingle.hash == ShingleHash::Dictionary { 2 } else { 0 };
    6 + duplicates + candidates + dictionary
}

/// Finds documents whose key came before, in a first reading of which only ids are kept.
async fn without_duplicates(steps: &mut Steps<'_>, read: DataFrame) -> Result<DataFrame> {
    let documents = stage::documents::documents(read)?;
    let frame = stage::duplicates::duplicates(documents.clone())?;
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

/// The numbers in the first column.
async fn keys_of(frame: DataFrame) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    for batch in frame.collect().await? {
        keys.extend_from_slice(as_uint64_array(batch.column(0))?.values());
    }
    Ok(keys)
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

/// Finds candidates, and says which table holds them; none where all pairs are to be scored.
async fn candidates(steps: &mut Steps<'_>, job: &Job) -> Result<Option<&'static str>> {
    match job.candidates.method {
        Method::All => return Ok(None),
        Method::Prefix => prefix(steps, job, None, "candidates").await?,
        Method::Lsh => {
            let (keys, groups) = (steps.table("keys")?, steps.table("groups")?);
            let frame = stage::candidates::candidates(keys, groups, job.lsh.hot_bucket)?;
            let targets = vec![
                tables::target("candidates", Rows::NotNull("b".into())),
                tables::target("hot", Rows::Null("b".into())),
            ];
            steps.run("candidates", targets, vec![frame]).await?;
            if steps.rows("hot") > 0 {
                steps.expect(PREFIX_STEPS);
                prefix(steps, job, Some(steps.table("hot")?), "all_candidates").await?;
                return Ok(Some("all_candidates"));
            }
        }
    }
    Ok(Some("candidates"))
}

/// The steps of a prefix join.
const PREFIX_STEPS: usize = 2;

/// Joins documents by their prefixes into `table`: all of them, or the `hot` ones, whose candidates then stand among those
/// that there are already.
async fn prefix(steps: &mut Steps<'_>, job: &Job, hot: Option<DataFrame>, table: &'static str) -> Result<()> {
    let beside = if hot.is_some() { Some(steps.table("candidates")?) } else { None };
    let documents = stage::prefix::documents(steps.table("documents")?, steps.table("groups")?, hot)?;
    let permutations = job.minhash.permutations;
    let elements = stage::prefix::elements(documents.clone(), &job.score, permutations)?;
    let join = stage::prefix::Join::new(&job.score, permutations, one_number(elements).await?);
    let frame = stage::prefix::frequencies(documents.clone(), &join)?;
    steps.run("frequencies", vec![tables::target("frequencies", Rows::All)], vec![frame]).await?;
    let mut frame = stage::prefix::candidates(documents, steps.table("frequencies")?, &join)?;
    if let Some(beside) = beside {
        frame = frame.union(beside)?.distinct()?;
    }
    steps.run(table, vec![tables::target(table, Rows::All)], vec![frame]).await
}

/// `candidates` is the table that holds them; where there is none, every two documents are scored.
async fn scores(steps: &mut Steps<'_>, job: &Job, candidates: Option<&str>) -> Result<()> {
    let mut frames = Vec::new();
    if !steps.is_done("scores").await? {
        let blocks = blocks(steps, job, candidates).await?;
        let documents = asked_for(steps, candidates, blocks.len()).await?;
        for block in blocks {
            let documents = documents.clone();
            frames.push(match candidates {
                Some(candidates) => {
                    let candidates = steps.table(candidates)?;
                    stage::scores::scores(documents, candidates, block, &job.score, &job.lsh)?
                }
                None => {
                    let slices = tables::slices(steps.session())?;
                    stage::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?
                }
            });
        }
    }
    steps.run("scores", vec![tables::target("scores", Rows::All)], frames).await
}

/// The documents that scoring asks for. Where it reads them once for each of several blocks, they are put apart first.
async fn asked_for(steps: &mut Steps<'_>, candidates: Option<&str>, blocks: usize) -> Result<DataFrame> {
    let documents = steps.table("documents")?;
    let Some(candidates) = candidates else {
        return stage::groups::without_copies(documents, steps.table("groups")?);
    };
    if blocks == 1 {
        return Ok(documents);
    }
    let frame = stage::scores::sketches(documents, steps.table(candidates)?)?;
    steps.expect(1);
    steps.run("sketches_asked_for", vec![tables::target("asked_for", Rows::All)], vec![frame]).await?;
    steps.table("asked_for")
}

/// Cuts the key space so that the sketches of two segments take at most two fifths of the memory pool.
async fn blocks(steps: &Steps<'_>, job: &Job, candidates: Option<&str>) -> Result<Vec<Block>> {
    let room = session::pool_bytes(&job.engine) as f64 * 0.4;
    // What is stored bounds what can be asked for; only if that is too much is it worth a count.
    if steps.bytes("documents") as f64 <= room {
        return Ok(Block::all(1));
    }
    let documents = steps.table("documents")?.select(vec![col("doc"), col("shingle_count")])?;
    let asked = match candidates {
        None => documents,
        Some(candidates) => stage::scores::needed(steps.table(candidates)?)?.join(
            documents,
            datafusion::common::JoinType::RightSemi,
            &["needed"],
            &["doc"],
            None,
        )?,
    };
    let per_document = 8 + 48 + 4 * job.minhash.permutations as u64;
    let bytes = asked
        .aggregate(vec![], vec![sum(col("shingle_count") * lit(8_u64) + lit(per_document)).alias("n")])?;
    let bytes = one_number(bytes).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    Ok(Block::all(segments))
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
    let mut frames = Vec::new();
    if !steps.is_done("clusters").await? {
        let components = components(steps).await?;
        frames.push(stage::clusters::clusters(steps.table("members")?, components)?);
    }
    steps.run("clusters", vec![tables::target("clusters", Rows::All)], frames).await
}

/// The components of the scored representatives, as a frame (doc, root).
async fn components(steps: &Steps<'_>) -> Result<DataFrame> {
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
    let (docs, roots): (Vec<u64>, Vec<u64>) = components.roots().into_iter().unzip();
    let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> =
        vec![Arc::new(UInt64Array::from(docs)), Arc::new(UInt64Array::from(roots))];
    Ok(steps.session().read_batch(RecordBatch::try_new(tables::components(), columns)?)?)
}

/// Counts, checks the tables against their contracts, and writes `manifest.json`: the one put that publishes.
async fn publish(steps: Steps<'_>, job: &Job, inputs: &[InputFile], fingerprint: &str) -> Result<Outcome> {
    let mut counts = BTreeMap::new();
    let tables = schema::Table::of(job);
    let mut checks = Vec::with_capacity(tables.len());
    for &table in tables {
        checks.push(apart(check(table, steps.table(table.name())?, steps.rows(table.name()))));
    }
    let left_out = stage::pairs::left_out(steps.table("members")?, steps.table("scores")?, &job.output)?;
    let (left_out, _, copies, clusters, rejects) = futures::try_join!(
        apart(one_number(left_out)),
        futures::future::try_join_all(checks),
        apart(rows_of(steps.table("groups")?.filter(col("doc").not_eq(col("rep")))?)),
        apart(rows_of(steps.table("clusters")?.filter(col("representative"))?)),
        apart(reasons(steps.table("rejects")?)),
    )?;
    for table in tables {
        counts.insert(table.name().to_owned(), steps.rows(table.name()));
    }
    if job.candidates.method != Method::All {
        // Those of hot documents come in a table that holds all.
        counts.insert("candidates".into(), steps.rows("candidates").max(steps.rows("all_candidates")));
    }
    if steps.rows("hot") > 0 {
        counts.insert("hot_documents".into(), steps.rows("hot"));
    }
    counts.insert("scores".into(), steps.rows("scores"));
    counts.insert("shingle_sets".into(), steps.rows("documents") - copies);
    counts.insert("clusters".into(), clusters);
    counts.insert("clustered_documents".into(), steps.rows("clusters"));
    counts.insert("pairs_left_out".into(), left_out);
    let mut warnings = Vec::new();
    if left_out > 0 {
        warnings.push(format!(
            "large groups of identical documents are written as stars, which leaves {left_out} pairs out; output.expand and output.max_expand say from which size on"
        ));
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }

    let manifest = Run {
        format_version: u64::from(FORMAT_VERSION),
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        name: job.name.clone(),
        fingerprint: fingerprint.to_owned(),
        job: serde_json::to_value(job).map_err(|e| Error::bug("the job cannot be written").because(e))?,
        inputs: inputs.iter().map(|i| Input { path: i.path.clone(), bytes: i.bytes }).collect(),
        counts,
        rejects,
        stages: steps
            .times()
            .map(|(name, rows, seconds)| StageTime { name: name.to_owned(), seconds, rows })
            .collect(),
        tables: tables
            .iter()
            .map(|table| table.name())
            .map(|table| (table.to_owned(), Table { rows: steps.rows(table), files: steps.files(table) }))
            .collect(),
        warnings,
    };
    let record = serde_json::to_value(&manifest)
        .map_err(|e| Error::bug("the manifest cannot be written").because(e))?;
    schema::check_manifest(&record)?;
    let steps_reused = steps.reused();
    let output = steps.into_output();
    if !output.create("manifest.json", &manifest).await? {
        // Another run of the same job was faster. Both read the same steps, so the rows are the same.
        return match output.read::<Run>("manifest.json").await? {
            Some(other) if other.fingerprint == manifest.fingerprint => {
                Ok(Outcome { manifest: other, already_finished: true, steps_reused })
            }
            _ => Err(Error::input(format!(
                "{} was finished by a run of another job meanwhile",
                output.shown()
            ))),
        };
    }
    let keep: BTreeSet<&str> =
        manifest.tables.values().flat_map(|t| &t.files).map(|f| f.path.as_str()).collect();
    output.sweep(&keep).await?;
    Ok(Outcome { manifest, already_finished: false, steps_reused })
}

/// Runs in a task of its own at once, so that small queries are planned side by side. Dropped, it ends.
fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let task = SpawnedTask::spawn(work);
    async move { task.join().await.map_err(|e| Error::bug("a query did not end").because(e))? }
}

/// Holds what was written against its contract: the columns, every rule on every row, and the number of rows.
async fn check(table: schema::Table, written: DataFrame, said: u64) -> Result<()> {
    let contract = schema::contract(table);
    let rows = rows_of(written.clone()).await?;
    if rows != said {
        return Err(Error::bug(format!("{table} was written with {said} rows and reads back with {rows}")));
    }
    let depth = schema::Depth::WithoutLists;
    contract.verdict(&contract.audit(written, depth)?.collect().await?, depth)
}

/// Rejected documents by reason.
async fn reasons(rejects: DataFrame) -> Result<BTreeMap<String, u64>> {
    let counted = rejects
        .aggregate(vec![col("reason")], vec![count(lit(1)).alias("times")])?
        .select(vec![utf8("reason"), cast(col("times"), datafusion::arrow::datatypes::DataType::UInt64)])?;
    let mut reasons = BTreeMap::new();
    for batch in counted.collect().await? {
        let (names, times) = (as_string_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        reasons.extend(names.iter().flatten().map(str::to_owned).zip(times.values().iter().copied()));
    }
    Ok(reasons)
}

/// How many rows a frame has.
async fn rows_of(frame: DataFrame) -> Result<u64> {
    Ok(frame.count().await? as u64)
}

/// The number in a frame of one row and column; 0 where it is null.
async fn one_number(frame: DataFrame) -> Result<u64> {
    let mut number = 0;
    for batch in frame.collect().await? {
        number += as_uint64_array(batch.column(0))?.iter().flatten().sum::<u64>();
    }
    Ok(number)
}
