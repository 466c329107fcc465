//! The end of a run: the tables are named in one manifest, if their contracts are kept, with what was counted of them.

use std::time::{Duration, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;

use super::context::StageContext;
use super::difference::RunReads;
use super::input::RunInput;
use super::outcome::{Outcome, finished};
use super::previous_result::PreviousResult;
use super::reference::ReferenceDocuments;
use super::reference::chain::Chain;
use super::reference::same_ids;
use super::tables::WorkTable;
use crate::error::{Context, Error, Result};
use crate::job::{Against, FORMAT_VERSION, InputFile, Job, Reference, Short};
use crate::machine;
use crate::output::counts::Counts;
use crate::output::manifest::{Origin, Run as Manifest, Table};
use crate::output::names::Attempt;
use crate::output::process::boot;
use crate::output::{Layout, attempt, check, delta, garbage};
use crate::pipeline::stage;
use crate::pipeline::totals::{Total, Totals};
use crate::schema;

/// The inputs of a result.
pub(super) struct Provenance<'a> {
    /// Every file that was read.
    pub(super) inputs: &'a [InputFile],
    /// The runs that cut the texts, if they were other ones.
    pub(super) origins: Vec<Origin>,
    /// The reference documents.
    pub(super) reference: Option<&'a ReferenceDocuments>,
    /// The outputs that were merged.
    pub(super) merged: Option<&'a Chain>,
}

/// Checks what was counted, and writes `manifest.json`: the one put that publishes.
pub(super) async fn publish(
    cx: StageContext<'_>,
    job: &Job,
    of: Provenance<'_>,
    replaced: PreviousResult,
) -> Result<Outcome> {
    let Provenance { inputs, origins, reference, merged } = of;
    let (output, claim) = (cx.runner.output, cx.runner.claim);
    let tables = schema::Table::of(job);
    let totals = Totals::read(&cx).await?;
    for &table in &tables {
        totals.check(&cx, table)?;
    }
    let left_out = totals.number(Total::PairsLeftOut)?;
    let representatives = totals.number(Total::Representatives)?;
    let lost = totals.numbers(Total::Lost);
    let written = |table| tables.contains(&table).then(|| cx.rows(table));
    let mut counts = Counts {
        documents: cx.rows(schema::Table::Documents),
        rejects: cx.rows(schema::Table::Rejects),
        pairs: cx.rows(schema::Table::Pairs),
        clusters: representatives,
        clustered_documents: cx.rows(schema::Table::Clusters),
        group_pairs: written(schema::Table::GroupPairs),
        reference_rejects: written(schema::Table::ReferenceRejects),
        dictionary: written(schema::Table::Dictionary),
        cluster_id_changes: written(schema::Table::ClusterIdChanges),
        removed_documents: totals.number(Total::Removed)?,
        lossy_removals: lost.and_then(|lost| lost.first()).copied(),
        lost_shingles: lost.and_then(|lost| lost.get(1)).copied(),
        spared: written(schema::Table::Spared),
        passages: written(schema::Table::Passages),
        spans: written(schema::Table::Spans),
        frequent_shingles: written(schema::Table::FrequentShingles),
        scores: cx.rows(WorkTable::SCORES),
        shingle_sets: cx.rows(schema::Table::Documents) - totals.number(Total::RepeatedSets)?,
        pairs_left_out: left_out,
        ..Counts::default()
    };
    if job.candidates.method.has_candidates() && merged.is_none() {
        // The tables for hot and for dense documents contain all candidates.
        let tables = [WorkTable::CANDIDATES, WorkTable::ALL_CANDIDATES, WorkTable::DENSE_CANDIDATES];
        counts.candidates = tables.into_iter().map(|table| cx.rows(table)).max();
    }
    if job.candidates.method.uses_buckets() && cx.rows(WorkTable::HOT) > 0 {
        counts.hot_documents = Some(cx.rows(WorkTable::HOT));
    }
    let of_conditions = stage::left_out::count(&cx, &mut counts).await?;
    if job.shingle.short == Short::Whole {
        counts.single_shingle_documents = Some(totals.number(Total::SingleShingle)?);
    }
    if !job.clusters.method.keeps_chains() {
        counts.chained_documents = Some(representatives - totals.number(Total::Components)?);
    }
    if let Some(reference) = reference {
        let count = reference.outputs().map(|outputs| outputs.live_count());
        let count = count.unwrap_or_else(|| cx.rows(WorkTable::REFERENCE_KEYS));
        counts.reference_documents = Some(count);
        counts.compared_reference_documents = Some(cx.rows(WorkTable::REFERENCE));
    }
    let of_sources = || cx.input.earlier().iter().map(|earlier| earlier.replaced_in_sources()).sum();
    match merged {
        Some(outputs) => counts.replaced_documents = Some(outputs.replaced_documents()),
        None if origins.len() > 1 => counts.replaced_in_sources = Some(of_sources()),
        None => {}
    }
    let mut warnings = job.warnings();
    warnings.extend(of_conditions);
    if let Some(outputs) = reference.and_then(ReferenceDocuments::outputs) {
        counts.replaced_documents = Some(totals.number(Total::Replaced)?);
        counts.superseded_reference_documents = Some(totals.number(Total::Superseded)?);
        warnings.extend(same_ids::not_replaced(&cx, outputs.names(&cx)?).await?);
    }
    if left_out > 0 {
        warnings.push(format!(
            "large groups of identical documents are written as stars, which leaves out {left_out} pairs; \
             output.expand and output.max_expand set the size from which this is done"
        ));
    }
    if let Some(dense) = stage::dense_candidates::summary(&cx).await? {
        let (documents, left_out) = (dense.documents, dense.left_out.pairs);
        counts.dense_documents = Some(documents);
        counts.dense_pairs_left_out = Some(left_out);
        if left_out > 0 {
            let about = if dense.left_out.exact { "" } else { "about " };
            warnings.push(format!(
                "{documents} documents share one of their rarest shingles with more than {} others and are paired with \
                 leaders instead of each other, which leaves out {about}{left_out} pairs; output.max_expand sets this \
                 number, and 0 asks for all pairs",
                job.output.max_expand
            ));
        }
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }

    let (origin, origins) = match origins.as_slice() {
        [_] if merged.is_none() => (origins.into_iter().next(), Vec::new()),
        _ => (None, origins),
    };
    let manifest = Manifest {
        format_version: u64::from(FORMAT_VERSION),
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        name: job.name.clone(),
        fingerprint: cx.runner.fingerprint.to_owned(),
        finished: format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs_f64(machine::now())).to_string(),
        job: serde_json::to_value(pinned(job, cx.input, reference))
            .map_err(|e| Error::bug("the job cannot be written").because(e))?,
        inputs: cx.runner.read_files(inputs),
        source: cx.types.clone(),
        origin,
        origins,
        reference_outputs: reference.map(ReferenceDocuments::record).unwrap_or_default(),
        merged: merged.iter().flat_map(|earlier| earlier.fingerprints()).collect(),
        counts,
        rejects: totals.by_key(Total::Reasons),
        stages: cx.runner.times().collect(),
        tables: tables
            .iter()
            .map(|&table| (table.name().to_owned(), Table { rows: cx.rows(table), files: cx.files(table) }))
            .collect(),
        warnings,
        boot: output.folder().and_then(|_| boot()),
        attempts: attempts(output, &replaced, claim.attempt()).await?,
    };
    let record = serde_json::to_value(&manifest)
        .map_err(|e| Error::bug("the manifest cannot be written").because(e))?;
    schema::check_manifest(&record)?;
    let stages_reused = cx.runner.reused();
    // Nothing is published that is incomplete, and nothing by a run that has lost its output.
    let damage = check::sizes(output, &manifest.files().collect::<Vec<_>>()).await?;
    if let Some(first) = damage.first() {
        let output = output.shown();
        return Err(Error::input(format!(
            "what this run wrote to {output} was changed before it was published: {first}; run it again to repeat the \
             damaged stages"
        )));
    }
    claim.verify().await?;
    if !replaced.put(output, &manifest).await? {
        let other = overtaken(output, cx.runner.fingerprint, job, RunReads::of(cx.input, reference)).await?;
        publish_logs(output, job).await?;
        return Ok(other);
    }
    // The result is published. The logs are updated before files are removed that they still name.
    publish_logs(output, job).await?;
    tidy(output, claim.attempt()).await;
    Ok(Outcome { manifest, already_finished: false, stages_reused })
}

/// Updates the Delta logs of an output to its manifest.
///
/// # Errors
/// When they cannot be updated; the result is published nevertheless.
pub(super) async fn publish_logs(output: &Layout, job: &Job) -> Result<()> {
    delta::publish(output, job.output.tables).await.context(|| {
        format!(
            "the result in {} is published, but not all of its Delta logs follow it: run the same command again, without \
             --overwrite, to write them",
            output.shown()
        )
    })
}

/// `job` with the versions of the Delta tables that the run read: later commands read the same ones.
fn pinned(job: &Job, input: &RunInput, reference: Option<&ReferenceDocuments>) -> Job {
    let mut job = job.clone();
    if let RunInput::Read(listed) = input {
        job.source.table_versions = listed.table_versions();
    }
    if let (
        Some(Against { reference: Reference::Source(source), .. }),
        Some(ReferenceDocuments::Source(second)),
    ) = (&mut job.against, reference)
    {
        source.table_versions = second.files().1.table_versions();
    }
    job
}

/// Another process published while this one was about to. If its result is of the same job and inputs, it is also the
/// result of this run.
async fn overtaken(output: &Layout, fingerprint: &str, job: &Job, reads: RunReads) -> Result<Outcome> {
    match finished(output, fingerprint, job, reads).await? {
        Some(other) => Ok(other),
        None => Err(Error::input(format!(
            "another process changed the result in {} while this run was about to publish its own: run again",
            output.shown()
        ))),
    }
}

/// The ids of all known attempts that wrote to the output, this one last.
async fn attempts(output: &Layout, replaced: &PreviousResult, own: &Attempt) -> Result<Vec<String>> {
    let mut ids = replaced.attempts();
    for id in attempt::ids(output).await? {
        if id != own.as_str() && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.push(own.to_string());
    Ok(ids.split_off(ids.len().saturating_sub(MAX_ATTEMPTS)))
}

/// The most attempts that a manifest names. Files that an older attempt writes later are not recognised as ours, and
/// stay.
const MAX_ATTEMPTS: usize = 1_000;

/// Removes the files that a finished output does not need. The result is published, so errors of the store are only
/// logged.
async fn tidy(output: &Layout, own: &Attempt) {
    let removed = async {
        let found = garbage::survey(output, own).await?;
        garbage::remove(output, &found).await?;
        Ok::<_, Error>(found)
    };
    match removed.await {
        Ok(found) => {
            for sentence in found.sentences(output) {
                tracing::warn!("{sentence}");
            }
        }
        Err(error) => {
            let output = output.shown();
            tracing::warn!(
                "the result is complete, but leftovers could not be removed ({error}): run `resemblance clean \
                 {output}`"
            );
        }
    }
}
