//! Acting on an answer: the source of a finished output, written without the documents that another one stands for.
//!
//! ```text
//! TO/manifest.json          written last, in one put: counts, and every file that was written
//!    kept/PATH              what stays of each file of the source, under the path that it has there
//!    removed/part-*.parquet a row for each document that goes
//!    rejected/PATH          documents that the job rejected, where they are wanted apart
//!    kept/_delta_log/, removed/_delta_log/  where they are to be Delta tables
//!    _work/apply.json       says that the folder is this program's; gone at the end, as the others
//!    _work/parts/N.json     files of the source that are done
//! ```
//!
//! The tables of the output say which rows of which file stay (`decisions`, written by `tables`). Then each file is read
//! once and written again (`one_file`): Parquet by row groups (`parquet`), CSV and JSON lines byte for byte (`records`), text
//! files whole (`copy`), Reuters stories as Parquet (`stories`). Files have their names when they are whole, and groups of
//! them are recorded (`parts`), so that an application which was killed is taken up there.

pub mod alarms;
mod annotations;
mod copy;
mod decisions;
mod delta;
mod fate;
mod groups;
mod manifest;
mod names;
mod one_file;
mod parquet;
mod parquet_options;
mod parts;
mod records;
mod settings;
mod stories;
mod tables;
mod taken;
mod target;
mod text_columns;
mod work;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::{SessionContext, cast, col};

use crate::engine::{Engine, Local, RunControl};
use crate::error::{Error, Result};
use crate::job::{Encoding, Format, Job, Tables};
use crate::output::claim::{self, Asked, Claim};
use crate::output::manifest::File;
use crate::output::names::Attempt;
use crate::output::{Layout, Stored, read};
use crate::schema::{IdType, Table};
use crate::source::{Listed, Pieces, Selection, SourceFile};
use annotations::Annotations;
use decisions::{clustered, clustered_schema, removed, removed_schema};
pub use groups::GroupCounts;
pub use manifest::{Counts, Manifest, SourceRecord, Written};
pub use settings::{Rejects, Settings};
use tables::Wanted;
use target::Found;
use work::Work;

/// How an application ended.
#[derive(Debug)]
pub struct Outcome {
    /// What it says of itself.
    pub manifest: Manifest,
    /// Whether it was done before.
    pub already_finished: bool,
    /// Files of the source that an earlier attempt had done.
    pub files_reused: u64,
}

/// A finished output whose source is what it was.
pub struct Opened {
    stored: Stored,
    job: Job,
    listed: Listed,
}

impl Opened {
    /// Opens the output at `url`, and makes sure that `settings` can be had of its source.
    ///
    /// # Errors
    /// As [`Stored::open`]; [`Kind::Input`](crate::error::Kind::Input) where the source is gone or has changed;
    /// [`Kind::Job`](crate::error::Kind::Job) where its format or encoding cannot be written so.
    pub async fn open(session: &SessionContext, url: &str, settings: Settings) -> Result<Self> {
        let stored = Stored::open(session, url).await?;
        let (job, listed) = stored.source(session, "apply reads the source of the output", "").await?;
        let opened = Self { stored, job, listed };
        opened.refuse(settings)?;
        Ok(opened)
    }

    fn refuse(&self, settings: Settings) -> Result<()> {
        let source = &self.job.source;
        if matches!(source.format, Format::Csv | Format::Jsonl) {
            Pieces::new(source)?;
        }
        if settings.tables == Tables::Delta {
            delta::refuse(source, &self.listed)?;
        }
        if !settings.annotate {
            return Ok(());
        }
        if settings.rejects != Rejects::Keep {
            return Err(Error::job(
                "--annotate keeps every document, the rejected ones too: leave out --rejects, or --annotate",
            ));
        }
        if source.format == Format::Text {
            return Err(Error::job(
                "text files have no columns that --annotate could add to: apply without --annotate, and read the table \
                 removed",
            ));
        }
        let records = matches!(source.format, Format::Csv | Format::Jsonl);
        if records && !matches!(source.encoding, Encoding::Utf8 | Encoding::Utf8Lossy) {
            return Err(Error::job(format!(
                "--annotate writes UTF-8, and source.encoding is {}: convert the files and run the job again, or apply \
                 without --annotate",
                source.encoding
            )));
        }
        Ok(())
    }

    /// Holds the output against the alarms of its job; where `may_fail`, a bound that is passed can be an error.
    ///
    /// # Errors
    /// As [`alarms::check`].
    pub async fn check_alarms(&self, session: &SessionContext, may_fail: bool) -> Result<()> {
        alarms::check(session, &self.stored, &self.stored.job()?, may_fail).await
    }

    /// What would stay and go. Reads the tables of the output, and writes nothing.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub async fn counts(&self, session: &SessionContext, settings: Settings) -> Result<Counts> {
        let counts = decisions::counts(session, &self.stored).await?.into_values();
        let mut all = counts.fold(Counts::default(), Counts::plus);
        if !settings.annotate {
            all.removed = decisions::count_removed(session, &self.stored).await?;
            all.kept -= all.removed;
        }
        Ok(all)
    }

    /// What would stay and go of each group of the documents that were compared; `None` if the job has no groups.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub async fn groups(
        &self,
        session: &SessionContext,
        settings: Settings,
    ) -> Result<Option<Vec<GroupCounts>>> {
        let job = self.stored.job()?;
        let Some(group) = job.source.group.as_deref() else { return Ok(None) };
        groups::counts(session, &self.stored, group, settings.annotate).await.map(Some)
    }
}

/// Writes what stays of the source of a finished output to `to`, or takes up where an earlier attempt stopped.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where `to` holds something else or overlaps with what is read;
/// [`Kind::Input`](crate::error::Kind::Input) where a file or the storage fails, or another process writes there. What was
/// finished is used by the next attempt.
pub async fn apply(
    engine: &Local,
    opened: Opened,
    to: &str,
    settings: Settings,
    control: &RunControl,
) -> Result<Outcome> {
    let session = engine.session();
    let target = Layout::open(session, to)?;
    target::refuse_overlap(&target, &opened.stored, &opened.job.source, &opened.listed)?;
    let files: Vec<SourceFile> = opened.listed.files().collect();
    let paths = names::paths(&files, opened.job.source.format)?;
    let fingerprint = settings.fingerprint(&opened.stored);
    if let Found::Finished(manifest) = target::find(&target, &fingerprint).await? {
        target::tidy_late(&target, &fingerprint).await;
        return Ok(Outcome { manifest: *manifest, already_finished: true, files_reused: 0 });
    }
    if settings.annotate {
        taken::refuse(session, &opened.job.source, &files).await?;
    }
    let annotations = settings.annotate.then(|| opened.stored.manifest().source.id);
    let kept_schema = match settings.tables {
        Tables::Delta => Some(delta::kept_schema(session, &files, annotations).await?),
        Tables::Parquet => None,
    };
    let claim = match claim::ask(&target, &Attempt::random(), "apply", &mut claim::Others::default()).await? {
        Asked::Granted(claim) => claim,
        Asked::Held(holder) => {
            return Err(Error::input(format!(
                "{holder} is writing to {}: run apply again when it has ended",
                target.shown()
            )));
        }
    };
    let lost = claim.lost().clone();
    let attempt = Attempted {
        engine,
        opened,
        target: &target,
        claim: &claim,
        settings,
        fingerprint,
        kept_schema,
        control,
    };
    let ended = tokio::select! {
        ended = attempt.run(files.into_iter().zip(paths).collect()) => ended,
        () = lost.cancelled() => Err(claim.lost_error()),
    };
    if let Err(error) = claim.release().await {
        tracing::warn!("the claim on {} could not be removed: {error}", target.shown());
    }
    ended
}

/// An attempt that has the folder for itself.
struct Attempted<'a> {
    engine: &'a Local,
    opened: Opened,
    target: &'a Layout,
    claim: &'a Claim,
    settings: Settings,
    fingerprint: String,
    /// The columns of the Delta table of documents that stay; none where it is not to be one.
    kept_schema: Option<SchemaRef>,
    control: &'a RunControl,
}

impl Attempted<'_> {
    async fn run(self, files: Vec<(SourceFile, String)>) -> Result<Outcome> {
        // Somebody may have finished or begun since the folder was looked at.
        if let Found::Finished(manifest) = target::find(self.target, &self.fingerprint).await? {
            return Ok(Outcome { manifest: *manifest, already_finished: true, files_reused: 0 });
        }
        let output = self.opened.stored.layout().shown().to_owned();
        target::begin(self.target, &self.fingerprint, &output).await?;
        let session = self.engine.session();
        let counts = decisions::counts(session, &self.opened.stored).await?;
        let named: Vec<&str> = files.iter().map(|(file, _)| file.path()).collect();
        let unnamable = |source: &String| named.binary_search(&source.as_str()).is_err();
        let lost = counts.iter().filter(|(source, _)| unnamable(source)).map(|(_, counts)| *counts);
        let lost = lost.fold(Counts::default(), Counts::plus);
        let (removed, clustered) = self.decide().await?;
        let id = self.opened.stored.manifest().source.id;
        let rejected = self.opened.stored.table(session, Table::Rejects)?;
        let rejected = rejected.select(vec![col("source"), unsigned("position")])?;
        let work = Work {
            session: session.clone(),
            source: self.opened.job.source,
            listed: self.opened.listed,
            target: self.target.clone(),
            settings: self.settings,
            removed: match removed.iter().any(|file| file.rows > 0) {
                true => Selection::of_rows(positions(session, self.target, &removed, id)?).await?,
                false => Selection::default(),
            },
            rejected: Selection::of_rows(rejected).await?,
            counts,
            annotations: clustered.map(|files| Annotations { files, id }),
            row_group_bytes: row_group_bytes(self.engine),
        };
        let tasks = session.copied_config().target_partitions();
        let done = parts::write(Arc::new(work), files, &self.fingerprint, tasks).await?;
        let counts = done.files.iter().map(|file| file.counts).fold(lost, Counts::plus);
        let rows: u64 = removed.iter().map(|file| file.rows).sum();
        if counts.removed != rows || counts.kept + counts.removed + counts.rejected != counts.read {
            return Err(Error::bug(format!(
                "{counts:?} do not add up with {rows} rows of the table removed"
            )));
        }
        let mut warnings = Vec::new();
        if lost.read > 0 {
            warnings.push(format!(
                "{} files whose names are not UTF-8 or hold control characters were not copied: rename them",
                lost.read
            ));
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let manifest = Manifest {
            apply_format: settings::FORMAT_VERSION,
            resemblance: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: self.fingerprint.clone(),
            output,
            rejects: self.settings.rejects,
            annotate: self.settings.annotate,
            tables: self.settings.tables,
            counts,
            files: done.files,
            removed,
            warnings,
        };
        if let Some(kept) = &self.kept_schema {
            delta::put_logs(self.target, &manifest, kept, &removed_schema(id)).await?;
        }
        target::publish(self.target, self.claim, &manifest).await?;
        target::tidy(self.target, &self.fingerprint).await;
        Ok(Outcome { manifest, already_finished: false, files_reused: done.reused })
    }

    /// The files of the table of documents that go, and where all stay, of those in clusters.
    async fn decide(&self) -> Result<(Vec<File>, Option<Vec<File>>)> {
        let (session, stored) = (self.engine.session(), &self.opened.stored);
        let id = stored.manifest().source.id;
        // A job over a finished output has groups of its own.
        let job = stored.job()?;
        let group = job.source.group.as_deref();
        let wanted = match self.settings.annotate {
            true => Wanted {
                name: "clustered",
                folder: "_work/clustered".into(),
                schema: clustered_schema(id),
                rows: clustered(session, stored, group)?,
            },
            false => Wanted {
                name: "removed",
                folder: "removed".into(),
                schema: removed_schema(id),
                rows: removed(session, stored, group)?,
            },
        };
        let (target, claim) = (self.target, self.claim);
        let files =
            tables::table(wanted, self.engine, target, claim, &self.fingerprint, self.control).await?;
        Ok(match self.settings.annotate {
            true => (Vec::new(), Some(files)),
            false => (files, None),
        })
    }
}

/// Where the documents are that go.
fn positions(
    session: &SessionContext,
    target: &Layout,
    files: &[File],
    id: IdType,
) -> Result<datafusion::prelude::DataFrame> {
    let table = read::frame(session, target, files, removed_schema(id))?;
    Ok(table.select(vec![col("source"), unsigned("position")])?)
}

fn unsigned(column: &str) -> datafusion::prelude::Expr {
    cast(col(column), arrow::datatypes::DataType::UInt64).alias(column)
}

/// Encoded bytes at which a row group ends at the latest: a quarter of what each of the tasks may hold.
fn row_group_bytes(engine: &Local) -> usize {
    let tasks = engine.session().copied_config().target_partitions().max(1);
    match engine.session().runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / (4 * tasks)).max(1 << 20),
        _ => usize::MAX,
    }
}
