//! The end of a run: checks that the tables keep their contracts, and writes the manifest with the tables and their counts.

use std::time::{Duration, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;

use super::context::StageContext;
use super::existing::{Outcome, PreviousResult, finished};
use super::input::RunInput;
use super::reference::ReferenceDocuments;
use super::reference::chain::Chain;
use super::stage::decisions::unknown_ids;
use super::stage::documents::count_left_out;
use super::stage::search::dense_groups;
use super::stage::totals::{Total, Totals};
use super::tables::WorkTable;
use crate::error::counts::plural;
use crate::error::{Context, Error, Result};
use crate::job::{Against, FORMAT_VERSION, Input, Job, Reference};
use crate::machine;
use crate::output::attempt::Attempt;
use crate::output::claim::record::boot;
use crate::output::manifest::Counts;
use crate::output::manifest::{self, Run as Manifest};
use crate::output::{Layout, attempt, check, delta, ownership};
use crate::schema::Table;

/// Checks the totals, and writes `manifest.json`. This write publishes the result.
pub(super) async fn publish(cx: StageContext<'_>, replaced: PreviousResult) -> Result<Outcome> {
    let StageContext { job, input, .. } = cx;
    let (output, claim) = (cx.runner.output, cx.runner.claim);
    let tables = Table::written_by(job);
    let totals = Totals::read(&cx).await?;
    for &table in &tables {
        totals.check(&cx, table)?;
    }
    let (counts, mut warnings) = counts(&cx, &totals).await?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    // These warnings are not logged here, because they are logged when the source is listed and opened.
    warnings
        .extend(input.listed().iter().flat_map(|listed| listed.skipped.clone()).chain(cx.warning.clone()));
    let mut origins = input.origins();
    let origin = (origins.len() == 1 && input.merged().is_none()).then(|| origins.remove(0));
    let written = |table: Table| manifest::Table { rows: cx.rows(table), files: cx.files(table) };
    let manifest = Manifest {
        format_version: u64::from(FORMAT_VERSION),
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        name: job.name.clone(),
        fingerprint: cx.runner.fingerprint.to_owned(),
        finished: format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs_f64(machine::now())).to_string(),
        job: pinned(job, input).as_value()?,
        inputs: cx.runner.read_files(&input.inputs()),
        source: cx.types.clone(),
        origin,
        origins,
        reference_outputs: input.reference_record(),
        merged: input.merged().map(Chain::fingerprints).unwrap_or_default(),
        decisions: input.ledger.as_ref().and_then(|ledger| ledger.file.clone()),
        counts,
        rejects: totals.rejects(),
        stages: cx.runner.times(),
        tables: tables.iter().map(|&table| (table.name().to_owned(), written(table))).collect(),
        warnings,
        boot: output.folder().and_then(|_| boot()),
        attempts: attempts(output, &replaced, &claim.attempt).await?,
    };
    let stages_reused = cx.runner.reused();
    // A run publishes only complete tables, and only while its claim on the output is valid.
    let damage = check::sizes(output, &manifest.files().collect::<Vec<_>>()).await?;
    if let Some(first) = damage.first() {
        let output = output.shown();
        return Err(Error::input(format!(
            "the files of this run in {output} were changed before they were published: {first}; run it again to repeat the \
             damaged stages"
        )));
    }
    claim.verify().await?;
    if !replaced.put(output, &manifest).await? {
        // If the job and inputs of the other process are the same, its result is also the result of this run.
        let other = finished(output, cx.runner.fingerprint, job, input).await?.ok_or_else(|| {
            Error::input(format!(
                "another process changed the result in {} while this run was about to publish its own: run again",
                output.shown()
            ))
        })?;
        publish_logs(output, job).await?;
        return Ok(other);
    }
    // The result is published. The logs are updated before files are removed, since the old logs still name these files.
    publish_logs(output, job).await?;
    tidy(output, &claim.attempt).await;
    Ok(Outcome { manifest, already_finished: false, stages_reused })
}

async fn counts(cx: &StageContext<'_>, totals: &Totals) -> Result<(Counts, Vec<String>)> {
    let (job, method, merged) = (cx.job, cx.job.candidates.method, cx.input.merged());
    let left_out = totals.number(Total::PairsLeftOut)?;
    let representatives = totals.number(Total::Representatives)?;
    let tables = Table::written_by(job);
    let written = |table| tables.contains(&table).then(|| cx.rows(table));
    // Each later table also contains the candidates in the earlier tables, so the largest count is the number of all candidates.
    let candidates = [WorkTable::CANDIDATES, WorkTable::ALL_CANDIDATES, WorkTable::DENSE_CANDIDATES];
    let candidates = candidates.into_iter().map(|table| cx.rows(table)).max();
    let outputs = cx.reference_outputs();
    let known =
        outputs.map_or_else(|| cx.rows(WorkTable::REFERENCE_KEYS), |outputs| outputs.chain.live_count());
    let has_several_sources = merged.is_none() && cx.input.origins().len() > 1;
    let mut counts = Counts {
        decisions: written(Table::Decisions),
        unknown_decision_ids: written(Table::Decisions).map(|_| cx.rows(WorkTable::UNKNOWN)),
        documents: cx.rows(Table::Documents),
        rejects: cx.rows(Table::Rejects),
        pairs: cx.rows(Table::Pairs),
        clusters: representatives,
        clustered_documents: cx.rows(Table::Clusters),
        group_pairs: written(Table::GroupPairs),
        reference_rejects: written(Table::ReferenceRejects),
        dictionary: written(Table::Dictionary),
        cluster_id_changes: written(Table::ClusterIdChanges),
        removed_documents: totals.number(Total::Removed)?,
        lossy_removals: totals.optional(Total::Lost, 0),
        lost_shingles: totals.optional(Total::Lost, 1),
        spared: written(Table::Spared),
        passages: written(Table::Passages),
        spans: written(Table::Spans),
        frequent_shingles: written(Table::FrequentShingles),
        scores: cx.rows(WorkTable::SCORES),
        shingle_sets: cx.rows(Table::Documents) - totals.number(Total::RepeatedSets)?,
        pairs_left_out: left_out,
        candidates: candidates.filter(|_| method.has_candidates() && merged.is_none()),
        hot_documents: Some(cx.rows(WorkTable::HOT)).filter(|&hot| method.uses_buckets() && hot > 0),
        single_shingle_documents: totals.optional(Total::SingleShingle, 0),
        chained_documents: totals
            .optional(Total::Components, 0)
            .map(|components| representatives - components),
        reference_documents: cx.reference.map(|_| known),
        compared_reference_documents: cx.reference.map(|_| cx.rows(WorkTable::REFERENCE)),
        replaced_documents: merged.map_or_else(
            || totals.optional(Total::Replaced, 0),
            |outputs| Some(outputs.replaced_documents()),
        ),
        replaced_in_sources: has_several_sources
            .then(|| cx.input.earlier().map(Manifest::replaced_in_sources).sum()),
        forgotten_documents: Some(forgotten_documents(cx)).filter(|count| *count > 0),
        superseded_reference_documents: totals.optional(Total::Superseded, 0),
        ..Counts::default()
    };
    let skipped = count_left_out(cx, &mut counts).await?;
    let mut warnings: Vec<String> = job.first_day_warning().into_iter().chain(counts.warning()).collect();
    warnings.extend(job.warnings().into_iter().chain(skipped));
    warnings.extend(unknown_ids(cx).await?);
    if let Some(outputs) = outputs {
        warnings.extend(outputs.not_replaced(cx).await?);
    }
    if left_out > 0 {
        warnings.push(format!(
            "large groups of identical documents are written as stars, which leaves out {left_out} {}; \
             output.expand and output.max_expand set the size from which this is done",
            plural(left_out, "pair")
        ));
    }
    if let Some(dense) = dense_groups(cx).await? {
        let (documents, left_out) = (dense.documents, dense.left_out.pairs);
        counts.dense_documents = Some(documents);
        counts.dense_pairs_left_out = Some(left_out);
        if left_out > 0 {
            let about = if dense.left_out.exact { "" } else { "about " };
            warnings.push(format!(
                "{documents} documents share a rare shingle with more than {} others and are paired with leaders, which leaves out \
                 {about}{left_out} {}; output.max_expand sets this number, and 0 asks for all pairs",
                job.output.max_expand,
                plural(left_out, "pair")
            ));
        }
    }
    Ok((counts, warnings))
}

/// The number of documents that this run and the runs of earlier outputs left out of their sources.
fn forgotten_documents(cx: &StageContext<'_>) -> u64 {
    let earlier = cx.input.earlier().filter_map(|earlier| earlier.counts.forgotten_documents);
    cx.job.source.forgotten.iter().map(|forgotten| forgotten.documents).chain(earlier).sum()
}

/// Updates the Delta logs of an output, so that they name the files in its manifest.
pub(super) async fn publish_logs(output: &Layout, job: &Job) -> Result<()> {
    delta::publish(output, job.output.tables).await.context(|| {
        format!(
            "the result in {} is published, but not all of its Delta logs follow it: run the same command again, without \
             --overwrite, to write them",
            output.shown()
        )
    })
}

/// Adds the versions of the Delta tables that the run read to `job`, so that later commands read the same versions.
fn pinned(job: &Job, input: &RunInput) -> Job {
    let mut job = job.clone();
    if let (Input::Read, Some(listed)) = (&job.input, input.listed()) {
        job.source.table_versions.clone_from(&listed.table_versions);
    }
    if let (
        Some(Against { reference: Reference::Source(source), .. }),
        Some(ReferenceDocuments::Source(second)),
    ) = (&mut job.against, &input.reference)
    {
        source.table_versions.clone_from(&second.listed.table_versions);
    }
    job
}

/// The ids of the attempts that wrote to the output. This attempt comes last.
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

/// The maximum number of attempts in a manifest. If an older attempt still writes files, the files are not recognised and are kept.
const MAX_ATTEMPTS: usize = 1_000;

/// Removes the files that a finished output does not need. Errors of the store are only logged, since the result is already published.
async fn tidy(output: &Layout, own: &Attempt) {
    let removed = async {
        let found = ownership::survey(output, own).await?;
        ownership::remove(output, &found).await?;
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
