//! The end of a run: the tables are checked against their contracts, counted, and named in one manifest.

use std::collections::BTreeMap;

use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::context::StageContext;
use super::difference::Reads;
use super::numbers::{one_number, rows_of, spawn, utf8};
use super::outcome::{Outcome, finished};
use super::previous_result::PreviousResult;
use super::reference::ReferenceDocuments;
use super::reference::chain::Chain;
use super::reference::same_ids;
use super::tables::WorkTable;
use crate::error::{Context, Error, Result};
use crate::job::{Compare, FORMAT_VERSION, InputFile, Job, Method, Short};
use crate::output::counts::Counts;
use crate::output::manifest::{Origin, Run as Manifest, Table};
use crate::output::names::Attempt;
use crate::output::process::boot;
use crate::output::{Layout, attempt, check, delta, garbage};
use crate::pipeline::frames::copies::Rules;
use crate::pipeline::{frames, stage};
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

/// Counts, checks the tables against their contracts, and writes `manifest.json`: the one put that publishes.
pub(super) async fn publish(
    cx: StageContext<'_>,
    job: &Job,
    of: Provenance<'_>,
    replaced: PreviousResult,
) -> Result<Outcome> {
    let Provenance { inputs, origins, reference, merged } = of;
    let (output, claim) = (cx.runner.output, cx.runner.claim);
    let tables = schema::Table::of(job);
    let mut checks = Vec::with_capacity(tables.len());
    for &table in &tables {
        let contract = schema::contract(table).over(&cx.types, job.columns());
        checks.push(spawn(check(contract, cx.stored(table)?, cx.rows(table))));
    }
    let (members, scores) = (cx.table(WorkTable::MEMBERS)?, cx.table(WorkTable::SCORES)?);
    let left_out = frames::pairs::left_out(members, scores, Rules::of(job))?;
    let left_out = match job.candidates.compare {
        // There are no stars.
        Compare::Across => left_out.filter(lit(false))?,
        Compare::All | Compare::Within => left_out,
    };
    let (left_out, _, repeated, clusters, rejects) = futures::try_join!(
        spawn(one_number(left_out)),
        futures::future::try_join_all(checks),
        spawn(one_number(repeated_sets(&cx, job)?)),
        spawn(rows_of(cx.table(schema::Table::Clusters)?.filter(col("representative"))?)),
        spawn(reasons(cx.table(schema::Table::Rejects)?)),
    )?;
    let written = |table| tables.contains(&table).then(|| cx.rows(table));
    let removed = clusters_with_spared(&cx)?.filter((!col("representative")).and(!col("reference")))?;
    let removed_documents = rows_of(removed).await?;
    let lost = stage::losses::lost(&cx).await?;
    let mut counts = Counts {
        documents: cx.rows(schema::Table::Documents),
        rejects: cx.rows(schema::Table::Rejects),
        pairs: cx.rows(schema::Table::Pairs),
        clusters,
        clustered_documents: cx.rows(schema::Table::Clusters),
        group_pairs: written(schema::Table::GroupPairs),
        reference_rejects: written(schema::Table::ReferenceRejects),
        dictionary: written(schema::Table::Dictionary),
        cluster_id_changes: written(schema::Table::ClusterIdChanges),
        removed_documents,
        lossy_removals: lost.as_ref().map(|lost| lost.lossy_removals),
        lost_shingles: lost.as_ref().map(|lost| lost.shingles),
        spared: written(schema::Table::Spared),
        passages: written(schema::Table::Passages),
        spans: written(schema::Table::Spans),
        frequent_shingles: written(schema::Table::FrequentShingles),
        scores: cx.rows(WorkTable::SCORES),
        shingle_sets: cx.rows(schema::Table::Documents) - repeated,
        pairs_left_out: left_out,
        ..Counts::default()
    };
    if !matches!(job.candidates.method, Method::All | Method::None) && merged.is_none() {
        // The tables for hot and for dense documents contain all candidates.
        let tables = [WorkTable::CANDIDATES, WorkTable::ALL_CANDIDATES, WorkTable::DENSE_CANDIDATES];
        counts.candidates = tables.into_iter().map(|table| cx.rows(table)).max();
    }
    if job.candidates.method == Method::Lsh && cx.rows(WorkTable::HOT) > 0 {
        counts.hot_documents = Some(cx.rows(WorkTable::HOT));
    }
    stage::left_out::count(&cx, &mut counts).await?;
    if job.shingle.short == Short::Whole {
        let single = cx.table(schema::Table::Documents)?.filter(col("shingle_count").eq(lit(1)))?;
        counts.single_shingle_documents = Some(rows_of(single).await?);
    }
    if !job.clusters.method.keeps_chains() {
        counts.chained_documents = Some(chained(&cx).await?);
    }
    if let Some(reference) = reference {
        let count = reference.outputs().map(|outputs| outputs.chain.count(schema::Table::Documents));
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
    if let Some(outputs) = reference.and_then(ReferenceDocuments::outputs) {
        let replaced = same_ids::replaced(&cx, outputs.names()?).await?;
        counts.replaced_documents = Some(replaced);
        let superseded = outputs.superseded(clusters_with_spared(&cx)?).await?;
        counts.superseded_reference_documents = Some(superseded);
        warnings.extend(same_ids::not_replaced(&cx, outputs.names()?).await?);
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
        job: serde_json::to_value(job).map_err(|e| Error::bug("the job cannot be written").because(e))?,
        inputs: cx.runner.read_files(inputs),
        source: cx.types.clone(),
        origin,
        origins,
        reference_outputs: reference.map(ReferenceDocuments::record).unwrap_or_default(),
        merged: merged.iter().flat_map(|earlier| earlier.fingerprints()).collect(),
        counts,
        rejects,
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
        let other = overtaken(output, cx.runner.fingerprint, job, Reads::of(cx.input, reference)).await?;
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

/// Another process published while this one was about to. If its result is of the same job and inputs, it is also the
/// result of this run.
async fn overtaken(output: &Layout, fingerprint: &str, job: &Job, reads: Reads) -> Result<Outcome> {
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

/// Checks a table against its contract: the columns, every rule on every row, and the number of rows.
async fn check(contract: schema::Contract, written: DataFrame, expected: u64) -> Result<()> {
    let rows = rows_of(written.clone()).await?;
    if rows != expected {
        return Err(Error::bug(format!(
            "{} was written with {expected} rows and reads back with {rows}",
            contract.table
        )));
    }
    let depth = schema::Depth::WithoutLists;
    contract.verdict(&contract.audit(written, depth)?.collect().await?, depth)
}

/// Rejected documents by reason.
async fn reasons(rejects: DataFrame) -> Result<BTreeMap<String, u64>> {
    let counted = rejects
        .aggregate(vec![col("reason")], vec![count(lit(1)).alias("times")])?
        .select(vec![utf8("reason"), cast(col("times"), arrow::datatypes::DataType::UInt64)])?;
    let mut reasons = BTreeMap::new();
    for batch in counted.collect().await? {
        let (names, times) = (as_string_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        reasons.extend(names.iter().flatten().map(str::to_owned).zip(times.values().iter().copied()));
    }
    Ok(reasons)
}

/// The number of the run's own documents whose shingles an earlier one has: one row (repeated: UInt64), null if there
/// is none.
fn repeated_sets(cx: &StageContext<'_>, job: &Job) -> Result<DataFrame> {
    let sizes = match job.candidates.compare {
        Compare::All if job.candidates.method != Method::None => {
            let groups = cx.table(WorkTable::COPIES)?;
            groups.filter(col("doc").eq(col("rep")).and(!col("reference")))?.select(vec![col("size")])?
        }
        // Copies of each other are of one group.
        Compare::All | Compare::Within | Compare::Across => {
            frames::copies::sizes_of_sets(cx.table(WorkTable::KEYS)?)?
        }
    };
    let repeated = sizes.select(vec![(col("size") - lit(1_u64)).alias("repeated")])?;
    Ok(repeated.aggregate(vec![], vec![sum(col("repeated")).alias("repeated")])?)
}

/// The table clusters, in which the documents that the table spared has count as representatives too: they stay.
fn clusters_with_spared(cx: &StageContext<'_>) -> Result<DataFrame> {
    let clusters = cx.table(schema::Table::Clusters)?;
    match cx.job.clusters.contained {
        None => Ok(clusters),
        Some(_) => frames::merged::with_spared(clusters, cx.table(schema::Table::Spared)?),
    }
}

/// The number of documents that represent only themselves because the job's method divides chains of pairs.
async fn chained(cx: &StageContext<'_>) -> Result<u64> {
    let clusters = cx.table(schema::Table::Clusters)?.filter(col("representative"))?;
    let components = cx.table(WorkTable::REPRESENTED)?.filter(col("rank").eq(lit(1_u64)))?;
    Ok(rows_of(clusters).await? - rows_of(components).await?)
}
