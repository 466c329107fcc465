//! Writes a copy of the source of a finished output without its duplicates.
//!
//! ```text
//! TO/PATH                     the kept documents of each file of the source, under the path that it has there
//!    _delta_log/              if they are a Delta table
//!    _resemblance/            everything else: readers of datasets skip names that start with `_`
//!        manifest.json        written last, in one put: counts, and every file that was written
//!        removed/part-*       Parquet with a row for each removed document
//!        removed_spans/part-*  Parquet with a row for each passage that was cut out of a document
//!        rejected/PATH.rejected  documents that the job rejected, if they are separate
//!        _work/apply.json     shows that an application has begun; removed at the end, as the others are
//!        _work/parts/N.json   files of the source that are done
//! ```
//!
//! The names in `_resemblance/` have other endings than those of the source, because patterns such as `**/*.parquet` match in all
//! folders.
//!
//! The tables of the output decide which rows of each file are kept (`decisions`), and `decide` writes one table of all decisions.
//! Then each file is read and written again (`crate::rewrite`) by any engine, in parts (`parts`) that are recorded when they are done,
//! so that an application which was killed is taken up there.
//!
//! If a function here does not say more, it fails only where a table of the output is missing or cannot be read.

pub mod alarms;
mod decide;
pub(crate) mod decisions;
mod delta;
mod losses;
mod manifest;
mod names;
mod opened;
mod parts;
mod passages;
pub mod result;
mod settings;
mod sizes;
mod taken;
mod target;

use arrow::datatypes::SchemaRef;
use datafusion::prelude::SessionContext;

use crate::engine::{Engine, RunControl};
use crate::error::{Error, Result};
use crate::job::{self, TableFormat};
use crate::output::claim::{self, Claim};
use crate::output::manifest::File;
use crate::output::{APPLIED, Layout};
use crate::pipeline::runner::Runner;
pub use crate::rewrite::{Annotation, DocumentCounts, Rejects, SourceRecord, WrittenFile};
use crate::rewrite::{FileToWrite, Rewrite};
use crate::source::{SourceFile, TextPlace, text_place};
pub use alarms::GroupCounts;
use decide::Decided;
pub use decide::{ApplyForecast, forecast};
use decisions::removed_schema;
pub use losses::RemovalLosses;
pub use manifest::ApplyManifest;
pub use opened::Opened;
use parts::SourceToWrite;
pub use passages::PassageCounts;
use passages::removed_spans_schema;
pub use settings::{ApplySettings, PassageAction};
pub use sizes::SizeCounts;
use target::TargetState;

/// How an application ended.
#[derive(Debug)]
pub struct ApplyOutcome {
    /// What it says of itself.
    pub manifest: ApplyManifest,
    /// Whether it was done before.
    pub already_finished: bool,
    /// Files of the source that an earlier attempt had done.
    pub files_reused: u64,
}

/// Refuses `to` as the folder of the kept documents of `source` if it holds files and no result of an application. Needs no output,
/// so that it can be called before the run.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with one of the files, or with the path that overlaps with `to`.
pub async fn refuse_target(session: &SessionContext, to: &str, source: &job::Source) -> Result<()> {
    target::refuse_others(&Layout::open(session, to)?, source).await
}

/// Writes the kept documents of the source of a finished output to `to`, or continues where an earlier attempt stopped.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where `to` holds something else or overlaps with what is read;
/// [`Kind::Input`](crate::error::Kind::Input) where a file or the storage fails, or another process took the folder. Where one
/// writes there, waits for its end. What was finished is used by the next attempt.
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
    if let TargetState::Finished(manifest) = target::find(&target, &fingerprint).await? {
        target::tidy_late(&target).await;
        return Ok(ApplyOutcome { manifest: *manifest, already_finished: true, files_reused: 0 });
    }
    let annotations = settings.annotations();
    if !annotations.is_empty() {
        for ((job, _), files) in opened.sources.iter().zip(&files) {
            taken::refuse(session, &job.source, files, &annotations).await?;
        }
    }
    let id = opened.stored.manifest().source.id;
    let kept_schema = match settings.tables {
        TableFormat::Delta => Some(delta::kept_schema(session, &files.concat(), (&annotations, id)).await?),
        TableFormat::Parquet => None,
    };
    let records = target.within(APPLIED);
    let claim = claim::take(&records, "apply", &control.stop).await?;
    let lost = claim.lost().clone();
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

/// Writes the files of each source to their paths in `target`, which `claim` holds. `kept_schema` has the columns of the Delta table of
/// kept documents; `None` if no Delta table is written.
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
    // Another process may have finished or begun since the folder was read.
    if let TargetState::Finished(manifest) = target::find(target, &fingerprint).await? {
        return Ok(ApplyOutcome { manifest: *manifest, already_finished: true, files_reused: 0 });
    }
    let records = target.within(APPLIED);
    let output = stored.layout().shown().to_owned();
    target::begin(target, claim, &fingerprint, &output).await?;
    let counts = decisions::counts(stored, opened.shares_files()).await?;
    let stages = (&records, claim);
    let runner = Runner::new(engine, stages, control, &fingerprint, fingerprint.clone());
    let stages = decide::tables(settings) + 1;
    runner.expect(stages);
    let Decided { removed, removed_spans, decisions, passages, sizes } =
        decide::decide(&opened, &records, &runner).await?;
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
        let text = match settings.passages.cuts() {
            true => text_place(engine.session(), &job.source, listed).await?,
            false => TextPlace::File,
        };
        let files = files.iter().map(to_write).collect();
        sources.push(SourceToWrite { source: job.source.clone(), text, files });
    }
    let done = parts::write(rewrite, sources, engine, target, (control, stages)).await?;
    let counts =
        done.files.iter().map(|file| file.counts).fold(DocumentCounts::default(), DocumentCounts::plus);
    let rows: u64 = removed.iter().map(|file| file.rows).sum();
    if counts.removed != rows || counts.kept + counts.removed + counts.rejected != counts.read {
        return Err(Error::bug(format!("{counts:?} do not add up with {rows} rows of the table removed")));
    }
    let warnings = opened.warnings();
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let manifest = ApplyManifest {
        apply_format: settings::FORMAT_VERSION,
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
        passage_counts: passages,
        sizes,
        warnings,
    };
    if let Some(kept) = &kept_schema {
        delta::put_logs(target, &manifest, kept, [&removed_schema(id), &removed_spans_schema(id)]).await?;
    }
    target::publish(target, claim, &manifest).await?;
    target::tidy(target).await;
    Ok(ApplyOutcome { manifest, already_finished: false, files_reused: done.reused })
}

/// A file of the folder of records, with its path in the folder of the result.
fn in_result(file: File) -> File {
    File { path: format!("{APPLIED}/{}", file.path), ..file }
}
