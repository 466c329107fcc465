//! Writes a copy of the source of a finished output without its duplicates.
//!
//! ```text
//! TO/PATH                     the kept documents of a file of the source, under its path there
//!    _delta_log/              the log of a Delta table, if requested
//!    _resemblance/            everything else: readers of datasets skip names that start with `_`
//!        manifest.json        written last, in one put: counts, and every written file
//!        proof.json           the figures that were proven, if the user requires figures
//!        removed/part-*       Parquet with one row per removed document
//!        removed_spans/part-*  Parquet with one row per passage that was cut out of a document
//!        rejected/PATH.rejected  rejected documents, if they are separate
//!        _work/apply.json     marks the folder as this application's; removed at the end, like the rest of `_work`
//!        _work/parts/N.json   the record of a finished part of the source
//! ```
//!
//! File names in `_resemblance/` have other endings than the files of the source, because patterns such as `**/*.parquet` match in all
//! folders.
//!
//! The tables of the output decide which rows of each file are kept (`removals`), and `tables` writes all decisions as one table. Then any
//! engine rewrites the files (`crate::rewrite`) in parts (`files`). Finished parts are recorded, so that a killed application can resume.
//! If a function does not document its errors, it fails only if a table of the output is missing or cannot be read.

pub mod alarms;
mod budget;
mod columns;
pub(crate) mod decisions;
mod delta;
mod files;
mod input;
mod manifest;
mod passages;
pub mod proof;
pub mod result;
mod tables;
mod target;

use arrow::datatypes::SchemaRef;
use datafusion::prelude::SessionContext;

pub use self::alarms::{GroupCounts, RemovalLosses};
use self::decisions::removed_schema;
use self::files::SourceToWrite;
pub use self::input::Opened;
pub use self::manifest::{
    ApplyManifest, ApplySettings, PassageAction, PassageCounts, RepeatBudget, RepeatCount, RepeatedTexts,
    SizeCounts,
};
use self::passages::removed_spans_schema;
use self::tables::Decided;
pub use self::tables::{ApplyForecast, forecast};
use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job::{self, TableFormat};
use crate::output::claim::{self, Claim};
use crate::output::manifest::File;
use crate::output::results::APPLY_FORMAT;
use crate::output::{APPLIED, Layout};
use crate::pipeline::runner::Runner;
pub use crate::rewrite::{Annotation, DocumentCounts, Rejects, SourceRecord, WrittenFile};
use crate::rewrite::{FileToWrite, Rewrite};
use crate::source::{SourceFile, TextPlace, text_place};

/// The outcome of an application.
#[derive(Debug)]
pub struct ApplyOutcome {
    /// The manifest of the result.
    pub manifest: ApplyManifest,
    /// Whether an earlier application had already finished the result.
    pub already_finished: bool,
    /// The number of source files that earlier attempts had rewritten.
    pub files_reused: u64,
}

/// Refuses `to` as the target for the documents of `source` if the folder contains files that are no result of `apply`. No output is
/// needed, so this check is possible before the run.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the folder contains other files, or if `source` overlaps with `to`.
pub async fn refuse_target(session: &SessionContext, to: &str, source: &job::Source) -> Result<()> {
    target::refuse_others(&Layout::open(session, to)?, source).await
}

/// Writes the kept documents in the source of a finished output to `to`, or resumes an earlier attempt. Waits while another process writes
/// to the folder. Reuses the parts that earlier attempts finished.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if `to` contains other files or overlaps with an input.
/// [`Kind::Input`](crate::error::Kind::Input) if a file or the storage fails, or if another process has taken the folder.
pub async fn apply(
    engine: &dyn Engine,
    opened: Opened,
    to: &str,
    control: &RunControl,
) -> Result<ApplyOutcome> {
    let session = engine.session();
    let settings = &opened.settings;
    let fingerprint = settings.fingerprint(&opened.stored);
    let target = Layout::open(session, to)?.written_by(&fingerprint);
    for (job, listed) in &opened.sources {
        target::refuse_overlap(&target, &opened.stored, &job.source, listed)?;
    }
    let files = opened.files.iter().map(|files| files.iter().map(|(file, _)| file.clone()).collect());
    let files: Vec<Vec<SourceFile>> = files.collect();
    if let Some(manifest) = target::finished(&target, &fingerprint).await? {
        target::tidy_late(&target).await;
        return Ok(ApplyOutcome { manifest, already_finished: true, files_reused: 0 });
    }
    let annotations = settings.annotations();
    if !annotations.is_empty() {
        for ((job, _), files) in opened.sources.iter().zip(&files) {
            columns::refuse_existing(session, &job.source, files, &annotations).await?;
        }
    }
    let id = opened.stored.manifest().source.id;
    let kept_schema = match settings.tables {
        TableFormat::Delta => Some(delta::kept_schema(session, &files.concat(), (&annotations, id)).await?),
        TableFormat::Parquet => None,
    };
    let records = target.within(APPLIED);
    let claim = claim::take(&records, "apply", &control.stop).await?;
    let lost = claim.lost.clone();
    let ended = tokio::select! {
        ended = write(engine, opened, &target, &claim, kept_schema, control) => ended,
        () = lost.cancelled() => Err(Error::interrupted()),
    };
    let ended = match ended {
        Err(error) => Err(claim.explain(error).await),
        ended => ended,
    };
    if let Err(error) = claim.release().await {
        tracing::warn!("the claim on {} could not be removed: {error}", target.shown());
    }
    ended
}

/// Writes the files of each source to `target`. `claim` is the claim on this folder. `kept_schema` contains the columns of the Delta table
/// of kept documents, if the table is written.
async fn write(
    engine: &dyn Engine,
    opened: Opened,
    target: &Layout,
    claim: &Claim,
    kept_schema: Option<SchemaRef>,
    control: &RunControl,
) -> Result<ApplyOutcome> {
    let (stored, settings) = (&opened.stored, &opened.settings);
    let fingerprint = settings.fingerprint(stored);
    // Another process may have finished or begun in the meantime.
    if let Some(manifest) = target::finished(target, &fingerprint).await? {
        return Ok(ApplyOutcome { manifest, already_finished: true, files_reused: 0 });
    }
    let records = target.within(APPLIED);
    let output = stored.layout().shown().to_owned();
    target::begin(target, claim, &fingerprint, &output).await?;
    let counts = decisions::counts(stored, opened.shares_files()).await?;
    let stages = (&records, claim);
    let runner = Runner::new(engine, stages, control, &fingerprint, fingerprint.clone());
    let stages = tables::tables(settings) + 1;
    runner.expect(stages);
    let Decided { removed, removed_spans, decisions, passages, sizes } =
        tables::decide(&opened, &records, &runner).await?;
    let expected = |source: &str| counts.get(source).copied().unwrap_or_default();
    let to_write = |(file, path): &(SourceFile, String)| FileToWrite {
        expected: expected(file.path()),
        file: file.clone(),
        path: path.clone(),
    };
    let id = stored.manifest().source.id;
    let rewrite = Rewrite {
        parts: [].into(),
        target: target.absolute(),
        rejects: settings.rejects,
        fingerprint: fingerprint.clone(),
        decisions,
        annotations: settings.annotations(),
        cuts: removed_spans.iter().any(|file| file.rows > 0),
        id,
    };
    let mut sources = Vec::with_capacity(opened.sources.len());
    for ((job, listed), files) in opened.sources.iter().zip(&opened.files) {
        let text = if settings.passages.cuts() {
            text_place(engine.session(), &job.source, listed).await?
        } else {
            TextPlace::File
        };
        let files = files.iter().map(to_write).collect();
        sources.push(SourceToWrite { source: job.source.clone(), text, files });
    }
    let done = files::write(rewrite, sources, engine, target, (control, stages)).await?;
    let counts =
        done.files.iter().map(|file| file.counts).fold(DocumentCounts::default(), DocumentCounts::plus);
    let rows: u64 = removed.iter().map(|file| file.rows).sum();
    if counts.removed != rows || counts.kept + counts.removed + counts.rejected != counts.read {
        return Err(Error::bug(format!("{counts:?} do not add up with {rows} rows of the table removed")));
    }
    let proof = match &opened.proof {
        Some(proof) => Some(in_result(proof::put(&records, proof).await?)),
        None => None,
    };
    let warnings = opened.warnings();
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let manifest = ApplyManifest {
        apply_format: APPLY_FORMAT,
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: fingerprint.clone(),
        output,
        output_url: stored.layout().absolute(),
        output_fingerprint: stored.manifest().fingerprint.clone(),
        origins: stored.origins(),
        id,
        settings: settings.clone(),
        counts,
        files: done.files,
        removed: removed.into_iter().map(in_result).collect(),
        removed_spans: removed_spans.into_iter().map(in_result).collect(),
        proof,
        passage_counts: passages,
        sizes,
        repeats: opened.repeats().await?,
        warnings,
    };
    if let Some(kept) = &kept_schema {
        delta::put_logs(target, &manifest, kept, [&removed_schema(id), &removed_spans_schema(id)]).await?;
    }
    target::publish(target, claim, &manifest).await?;
    target::tidy(target).await;
    Ok(ApplyOutcome { manifest, already_finished: false, files_reused: done.reused })
}

/// Changes the path of a file from a path in the folder of records to a path in the folder of the result.
fn in_result(file: File) -> File {
    File { path: format!("{APPLIED}/{}", file.path), ..file }
}
