//! Opens a finished output for `apply`, and checks the requirements on its source.

use std::cmp::Ordering;

use datafusion::prelude::{DataFrame, SessionContext, col};
use futures::{StreamExt, TryStreamExt, stream};

use super::alarms::{self, GroupCounts, Removal, RemovalLosses};
use super::budget::{self, BudgetRows};
use super::decisions::{self, dropped, removed};
use super::manifest::{ApplySettings, PassageAction, RepeatCount};
use super::proof::Proof;
use super::{columns, delta, files, passages};
use crate::error::{Error, Result};
use crate::job::{self, Alarms, Encoding, Job, TableFormat};
use crate::output::Stored;
use crate::rewrite::{Annotation, DocumentCounts, Rejects, rows_of_file};
use crate::source::{self, Listed, Rewriting, SourceFile, format_of};

/// Rows are counted in this many files at the same time.
const CONCURRENT_FILES: usize = 8;

/// A finished output with unchanged sources, and the settings with which it is applied.
pub struct Opened {
    pub(super) stored: Stored,
    /// The jobs that read the documents, with their files. A merged output has several such jobs.
    pub(super) sources: Vec<(Job, Listed)>,
    pub(super) settings: ApplySettings,
    /// See [`files::paths`].
    pub(super) files: Vec<Vec<(SourceFile, String)>>,
    /// The decisions by [`ApplySettings::keep_up_to`].
    pub(super) budget: Option<BudgetRows>,
    /// The proof that is written beside the result.
    pub proof: Option<Proof>,
}

impl Opened {
    /// Opens the output at `url`, and checks that its source can be rewritten with `settings`. `places` contains one location per URL of a
    /// moved source, or nothing if the source was not moved.
    ///
    /// # Errors
    /// Returns the errors of [`Stored::open`]. Also returns [`Kind::Input`](crate::error::Kind::Input) if the source is gone or has
    /// changed, and [`Kind::Job`](crate::error::Kind::Job) if the source or the output does not allow the settings.
    pub async fn open(
        session: &SessionContext,
        url: &str,
        places: Vec<String>,
        settings: ApplySettings,
    ) -> Result<Self> {
        let stored = Stored::open(session, url).await?.with_source_in(places);
        refuse_replaced(&stored)?;
        let of_job = stored.job().clusters.contained;
        budget::refuse(&stored, &settings)?;
        let mut settings = ApplySettings {
            contained: settings.contained.filter(|_| settings.contained != of_job),
            ..settings
        };
        let or = ", or name the new place of the source with --source";
        let sources = stored.sources("apply reads the source of the output", or).await?;
        columns::refuse_group_sizes(&stored, &settings)?;
        for (job, listed) in &sources {
            refuse(&job.source, listed, &settings)?;
        }
        if let Some(contained) = settings.contained {
            alarms::refuse_missing_pairs(&stored, contained).await?;
        }
        let files = files::paths(&sources)?;
        passages::refuse((&stored, &sources), &settings).await?;
        let budget = budget::decide(&stored, &sources, &settings).await?;
        if budget.is_some() && sources.iter().all(|(job, _)| takes_copies(&job.source)) {
            settings.columns.insert(Annotation::Copies);
        }
        Ok(Self { stored, sources, settings, files, budget, proof: None })
    }

    /// Returns warnings about the result, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let superseded = self.superseded();
        let shown = self.stored.layout().shown();
        let about = self.about_superseded();
        let warning = format!(
            "other documents now represent {about}{superseded} of the documents that reference outputs keep: to remove these too, merge \
             the reference outputs and {shown}, and apply the merged output to a new folder"
        );
        let uncertain = passages::uncertain_reference(&self.stored).map(|reference| {
            format!(
                "{shown} was made against {}, whose job has [passages]: if apply dropped documents of it (--passages drop), name the \
                 result of apply in against.output instead and run the job again",
                reference.output
            )
        });
        (superseded > 0).then_some(warning).into_iter().chain(uncertain).collect()
    }

    /// The words before the number [`Self::superseded`] in messages. The run counted this number with the `clusters.contained` of its job,
    /// so it can be inexact for the settings.
    pub fn about_superseded(&self) -> &'static str {
        let of_job = self.stored.job().clusters.contained;
        match self.settings.contained.map(|own| Some(own).partial_cmp(&of_job)) {
            Some(Some(Ordering::Greater)) => "up to ",
            Some(Some(Ordering::Less)) => "at least ",
            _ => "",
        }
    }

    /// The number of documents that reference outputs keep, but that another document now represents. These documents are not in the
    /// source.
    pub fn superseded(&self) -> u64 {
        self.stored.manifest().counts.superseded_reference_documents.unwrap_or_default()
    }

    /// The size of the files of the sources in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flatten().map(|(file, _)| file.size()).sum()
    }

    /// Whether several sources have a file in common.
    pub(super) fn shares_files(&self) -> bool {
        let listed: usize = self.sources.iter().map(|(_, listed)| listed.files().count()).sum();
        listed > self.files.iter().map(Vec::len).sum()
    }

    /// The job that made the output.
    pub fn job(&self) -> &Job {
        self.stored.job()
    }

    /// Checks the output against `alarms`, like [`alarms::check`]. An exceeded bound can be an error only if `may_fail` is true.
    pub async fn check_alarms(&self, alarms: Alarms, may_fail: bool) -> Result<()> {
        let bounds = alarms::Bounds { alarms, may_fail, removal: self.removal() };
        alarms::check(&self.stored, self.stored.job(), bounds).await
    }

    /// Sets the proof that is written beside the result.
    pub fn set_proof(&mut self, proof: Proof) {
        self.settings.require = Some(proof.require);
        self.proof = Some(proof);
    }

    pub(crate) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Returns the share of compared documents that are removed.
    pub(crate) async fn removed_share(&self) -> Result<f64> {
        let [documents, removed] = self.removals().await?;
        Ok(removed as f64 / documents.max(1) as f64)
    }

    /// Returns the share of removed documents that lose more than 2 % of their shingles. Fails with `Kind::Job` if it is unknown.
    pub(crate) async fn lossy_share(&self) -> Result<f64> {
        let [_, removed] = self.removals().await?;
        match self.losses().await?.lossy_removals {
            Some(lossy) => Ok(lossy as f64 / removed.max(1) as f64),
            None if removed == 0 => Ok(0.0),
            None => Err(Error::job(format!(
                "{}: the losses of the removed documents are unknown with these options: leave `lossy` out of the requirements, or apply \
                 without --keep-up-to",
                self.stored.layout().shown()
            ))),
        }
    }

    /// Returns the numbers of compared documents and of removed documents.
    async fn removals(&self) -> Result<[u64; 2]> {
        let figures = alarms::figures(&self.stored, None, self.removal()).await?;
        Ok([figures.iter().map(|all| all.documents).sum(), figures.iter().map(|all| all.removed).sum()])
    }

    pub(super) fn removal(&self) -> Removal<'_> {
        Removal { contained: self.settings.contained, budget: self.budget.as_ref() }
    }

    /// Counts the texts by their repeat counts before and after. Returns `None` without a repeat budget.
    pub(super) async fn repeats(&self) -> Result<Option<Vec<RepeatCount>>> {
        match &self.budget {
            Some(budget) => budget.repeats(&self.stored, &self.sources).await.map(Some),
            None => Ok(None),
        }
    }

    /// Computes the losses caused by removals.
    pub async fn losses(&self) -> Result<RemovalLosses> {
        alarms::losses(&self.stored, self.removal()).await
    }

    /// Counts the documents in the sources before any removal.
    pub(super) async fn documents(&self) -> Result<DocumentCounts> {
        let counts = decisions::counts(&self.stored, self.shares_files()).await?;
        let mut all = counts.values().copied().fold(DocumentCounts::default(), DocumentCounts::plus);
        let left_out = if self.shares_files() {
            let mut rows = 0;
            for ((job, _), files) in self.sources.iter().zip(&self.files) {
                rows += self.rows_of(&job.source, files.iter().map(|(file, _)| file)).await?;
            }
            let files = self.files.iter().flatten().filter_map(|(file, _)| counts.get(file.path()));
            let forgotten = self.stored.manifest().counts.forgotten_documents.unwrap_or_default();
            rows.saturating_sub(files.map(|counts| counts.read).sum::<u64>() + forgotten)
        } else {
            self.stored.manifest().counts.rows_left_out() + self.rows_of_files_left_out().await?
        };
        all.read += left_out;
        all.kept += left_out;
        Ok(all)
    }

    /// Counts the rows in files that jobs skipped by path.
    async fn rows_of_files_left_out(&self) -> Result<u64> {
        let mut rows = 0;
        for (job, listed) in &self.sources {
            let left_out = source::files_left_out(self.stored.session(), &job.source, listed).await?;
            rows += self.rows_of(&job.source, left_out.iter()).await?;
        }
        Ok(rows)
    }

    async fn rows_of(&self, source: &job::Source, files: impl Iterator<Item = &SourceFile>) -> Result<u64> {
        let counted = stream::iter(files).map(|file| rows_of_file(self.stored.session(), source, file));
        let counted = counted.buffer_unordered(CONCURRENT_FILES);
        counted.try_fold(0, |all, rows| async move { Ok(all + rows) }).await
    }

    /// Returns the documents that `--passages drop` removes, or `None` without this option. The short documents are kept in memory.
    pub(super) async fn dropped(&self) -> Result<Option<DataFrame>> {
        if self.settings.passages != PassageAction::Drop {
            return Ok(None);
        }
        let inputs = (&self.stored, self.sources.as_slice());
        let short = passages::short(inputs, &self.settings).await?.cache().await?;
        dropped(&self.stored, self.settings.contained, short).map(Some)
    }

    /// Returns removed documents (id, kept_id, jaccard) in the order of the source, at most `most`.
    pub fn first_removed(&self, most: usize) -> Result<DataFrame> {
        let group = self.stored.job().source.group.as_deref();
        let by_place = vec![col("source").sort(true, false), col("position").sort(true, false)];
        let removed = removed(&self.stored, group, self.settings.contained, None)?;
        let first = removed.sort(by_place)?.limit(0, Some(most))?;
        Ok(first.select(vec![col("id"), col("kept_id"), col("jaccard")])?)
    }

    /// Returns the numbers of kept and removed documents in each group, or `None` if the job has no groups.
    pub async fn groups(&self) -> Result<Option<Vec<GroupCounts>>> {
        let job = self.stored.job();
        let Some(group) = job.source.group.as_deref() else { return Ok(None) };
        alarms::group_counts(&self.stored, group, (self.settings.annotate, self.removal())).await.map(Some)
    }
}

/// Refuses an output if its sources still contain the rows of replaced documents. These rows are in no table.
fn refuse_replaced(stored: &Stored) -> Result<()> {
    let replaced = stored.manifest().replaced_in_sources();
    if replaced == 0 {
        return Ok(());
    }
    Err(Error::job(format!(
        "{} is merged from runs that replaced documents ({replaced}, by against.same_id), whose rows are still in the earlier files: write \
         the newest row of each document to one dataset, run a job over that, and apply its output",
        stored.layout().shown()
    )))
}

/// Whether `apply` can add columns to the files of a source.
fn takes_copies(source: &job::Source) -> bool {
    let format = format_of(source.format);
    let is_utf8 = matches!(source.encoding, Encoding::Utf8 | Encoding::Utf8Lossy);
    format.takes_columns() && (is_utf8 || !matches!(format.rewriting, Rewriting::Rows(_)))
}

/// Refuses a source that cannot be rewritten with `settings`.
fn refuse(source: &job::Source, listed: &Listed, settings: &ApplySettings) -> Result<()> {
    let format = format_of(source.format);
    let rewriting = format.rewriting;
    if let Rewriting::Rows(format) = rewriting {
        format.checked_cutter(source)?;
    }
    if settings.tables == TableFormat::Delta {
        delta::refuse(source, listed)?;
    }
    if settings.annotate && settings.rejects != Rejects::Keep {
        return Err(Error::job(
            "--annotate keeps every document, the rejected ones too: leave out --rejects, or --annotate",
        ));
    }
    let option = match (settings.annotate, settings.columns.is_empty()) {
        (true, _) => "--annotate",
        (false, false) => "--columns",
        (false, true) => return Ok(()),
    };
    if !format.takes_columns() {
        return Err(Error::job(format!(
            "text files have no columns that {option} could add to: apply without {option}, and read the table removed"
        )));
    }
    let records = matches!(rewriting, Rewriting::Rows(_));
    if records && !matches!(source.encoding, Encoding::Utf8 | Encoding::Utf8Lossy) {
        return Err(Error::job(format!(
            "{option} writes UTF-8, and source.encoding is {}: convert the files and run the job again, or apply without {option}",
            source.encoding
        )));
    }
    Ok(())
}
