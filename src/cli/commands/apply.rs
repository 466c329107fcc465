//! `resemblance apply`: writes a copy of a source without the duplicates. Also formats counts that other commands print.

use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::apply::proof::{Proof, ProvenFigure};
use crate::apply::{
    self, Annotation, ApplyForecast, ApplyManifest, ApplyOutcome, ApplySettings, DocumentCounts, GroupCounts,
    Opened, PassageAction, PassageCounts, Rejects, RemovalLosses, RepeatBudget, RepeatCount, RepeatedTexts,
    SizeCounts,
};
use crate::cli::arguments::EngineArguments;
use crate::cli::process::JobRuntime;
use crate::cli::process::files::{self, WriteFolder};
use crate::cli::record::telemetry;
use crate::cli::screen::Screen;
use crate::cli::screen::print::{self, NumberColumn};
use crate::engine::{self, Engine, Local, RunControl};
use crate::error::{Error, Result};
use crate::evaluate::proof::{ProofSettings, prove};
use crate::evaluate::{EvaluationSettings, MAX_EVALUATED};
use crate::job::{Alarms, Requirements, Shingle, TableFormat, share, whole};
use crate::lookup;
use crate::output::manifest::Counts as RunCounts;

/// Write a copy of the source of a finished output without its duplicates
///
/// The representative of each cluster is kept, and the other documents in the cluster are removed. The files of the source are written to
/// the folder --to with the same names, formats, columns and order. With --passages, repeated passages are also cut out of the kept
/// documents. In this folder, _resemblance/removed/ contains the removed documents and their representatives; readers of datasets skip
/// _resemblance. If the command is interrupted, run it again to continue. The source is not changed.
#[derive(clap::Args)]
#[command(after_help = "  resemblance apply out/reviews/ --dry-run
  resemblance apply out/reviews/ --to clean/
  resemblance apply out/reviews/ --to marked/ --annotate
  resemblance apply out/reviews/ --to clean/ --columns cluster_size
  resemblance apply out/pages/ --to clean/ --passages cut
  resemblance apply out/pages/ --to clean/ --keep-up-to 3
  resemblance apply out/pages/ --to clean/ --require \"recall>=0.95,lossy<=0.02\"
  resemblance apply out/reviews/ --to clean/ --source /new/place/reviews/")]
pub(crate) struct Apply {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// The folder or URL to write to, which must be empty
    #[arg(long, value_name = "URL", required_unless_present = "dry_run")]
    to: Option<String>,
    /// The new location of a moved source; give as many locations as the source has URLs, in the same order
    #[arg(long, value_name = "URL")]
    source: Vec<String>,
    /// Treatment of documents that the job rejected
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, conflicts_with = "annotate")]
    rejects: Rejects,
    /// Remove nothing, and add the columns cluster_id, representative and kept_id to every document
    #[arg(long)]
    annotate: bool,
    /// Add columns to the kept documents
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<Annotation>,
    /// Treatment of repeated passages inside documents, except for the kept occurrence; the job needs the section [passages]
    #[arg(long, value_enum, value_name = "ACTION")]
    passages: Option<PassageAction>,
    /// With --passages drop, remove a document if it has fewer words than this after the cut; 50 by default
    #[arg(long, value_name = "N", requires = "passages")]
    min_words: Option<u64>,
    /// Format of the kept and the removed documents
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    tables: TableFormat,
    /// Only remove documents that are paired with their representative, and of whose shingles it contains at least this share, such as
    /// 0.98. Replaces clusters.contained in the job
    #[arg(long, value_name = "SHARE", value_parser = share)]
    contained: Option<f64>,
    /// Keep the first K documents of each cluster in the order of clusters.keep, or with COLUMN=K the first K of each value of a column. Of
    /// documents with equal texts, only the first counts. Adds the columns copies and weight to files with columns
    #[arg(long, value_name = "K", value_parser = <RepeatBudget as std::str::FromStr>::from_str)]
    keep_up_to: Option<RepeatBudget>,
    /// With --keep-up-to, also keep documents whose texts are equal byte for byte
    #[arg(long, requires = "keep_up_to")]
    identical: bool,
    /// The maximum share of documents that may be removed; replaces alarms.removed_share in the job
    #[arg(long, value_name = "SHARE", value_parser = share)]
    removed_share: Option<f64>,
    /// The maximum number of documents in a cluster; replaces alarms.largest_cluster in the job
    #[arg(long, value_name = "N")]
    largest_cluster: Option<u64>,
    /// The minimum number of compared documents; replaces alarms.min_documents in the job
    #[arg(long, value_name = "N")]
    min_documents: Option<u64>,
    /// The maximum share of documents that the run may have rejected; replaces alarms.max_rejected_share in the job
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_rejected_share: Option<f64>,
    /// Remove documents only if these figures are proven: the recall and precision of pairs, and the shares of lossy removals and of removed
    /// documents; replaces alarms.require in the job
    #[arg(long, value_name = "RULES", conflicts_with = "annotate", value_parser = <Requirements as std::str::FromStr>::from_str)]
    require: Option<Requirements>,
    /// Approximate number of shingle sets to draw for the recall, and for the precision without labels; 1000 by default
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_EVALUATED))]
    sample: Option<usize>,
    /// The seed of the draw; 1 by default
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure the precision by the labels in this file, which people gave to the pairs of evaluate --audit
    #[arg(long, value_name = "FILE")]
    labels: Option<String>,
    /// Print how many documents would be kept and removed, in total and in each group, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArguments,
}

#[derive(Serialize)]
pub(crate) struct ApplyRecord {
    #[serde(flatten)]
    pub(crate) counts: DocumentCounts,
    passages: PassageCounts,
    sizes: Option<SizeCounts>,
    repeats: Option<Vec<RepeatCount>>,
    groups: Option<Vec<GroupCounts>>,
    proof: Option<Proof>,
    superseded_reference_documents: u64,
    losses: RemovalLosses,
    /// The number of written files; `None` in a dry run.
    files: Option<u64>,
    already_finished: bool,
    dry_run: bool,
    files_reused: Option<u64>,
    /// The words before the number of superseded reference documents, which differ between `apply` and `dedup`.
    #[serde(skip)]
    about_superseded: &'static str,
    #[serde(skip)]
    shingle: String,
    #[serde(skip)]
    pub(crate) written: String,
}

impl ApplyRecord {
    /// Adds the lines about the documents that are kept for their shingles, and about the shingles lost with duplicates.
    pub(crate) fn loss_lines(&self, numbers: &mut NumberColumn) {
        let Self { losses, shingle, .. } = self;
        let removed = self.counts.removed - self.passages.too_short;
        let rest = "kept: the document that represents their cluster does not contain them";
        numbers.line(Some(losses.spared).filter(|&spared| spared > 0), "", rest);
        let lossy = losses.lossy_removals.filter(|_| removed > 0);
        let either = |one, other| print::either(lossy.unwrap_or_default(), one, other);
        let rest = format!(
            "of the {} removed {} text that is lost: more than 2 % of {} shingles ({shingle}) are not in the document that stays",
            print::count(removed),
            either("has", "have"),
            either("its", "their")
        );
        numbers.line(lossy, "", &rest);
        let one = losses.lost_shingles == Some(1);
        let (noun, it) = if one { ("shingle", "it") } else { ("shingles", "them") };
        let rest = format!("{noun} lost in all: no document that stays of the same cluster has {it}");
        numbers.line(losses.lost_shingles, "", &rest);
    }
}

impl Apply {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let engine_settings = self.engine.settings()?;
        let runtime = JobRuntime::start(&engine_settings)?;
        if self.min_words.is_some() && self.passages != Some(PassageAction::Drop) {
            return Err(Error::job(
                "--min-words works only with --passages drop, which removes short documents",
            ));
        }
        let settings = ApplySettings {
            rejects: self.rejects,
            annotate: self.annotate,
            columns: self.columns.iter().copied().collect(),
            tables: self.tables,
            contained: self.contained,
            passages: self.passages.unwrap_or_default(),
            min_words: self.min_words.unwrap_or(PassageAction::MIN_WORDS),
            require: None,
            keep_up_to: self
                .keep_up_to
                .clone()
                .map(|budget| RepeatBudget { identical: self.identical, ..budget }),
        };
        let columns = settings.column_names();
        let control = RunControl { stop: runtime.stop.clone(), progress: screen.progress() };
        let record = runtime.run_resumable(async {
            let engine: Box<dyn Engine> = match &self.engine.scheduler {
                None => Box::new(Local::new(lookup::session(&engine_settings)?)),
                Some(_) => engine::open(&engine_settings, &control).await?,
            };
            let mut opened =
                Opened::open(engine.session(), &self.output, self.source.clone(), settings).await?;
            let to = self.to.as_deref().filter(|_| !self.dry_run);
            let bounds = opened.job().alarms;
            let alarms = Alarms {
                removed_share: self.removed_share.or(bounds.removed_share),
                largest_cluster: self.largest_cluster.or(bounds.largest_cluster),
                min_documents: self.min_documents.or(bounds.min_documents),
                max_rejected_share: self.max_rejected_share.or(bounds.max_rejected_share),
                require: self.require.or(bounds.require),
                ..bounds
            };
            opened.check_alarms(alarms, to.is_some() && !self.annotate).await?;
            if let Some(proof) = self.prove(engine.session(), &opened, alarms.require).await? {
                match proof.refuse_unproven() {
                    Err(error) if to.is_some() => return Err(error),
                    Err(error) => tracing::warn!("{error}"),
                    Ok(()) => {}
                }
                opened.set_proof(proof);
            }
            finish(engine.as_ref(), opened, to, &control).await
        })?;
        screen.clear();
        print::json_line_or(self.json, &record, || self.text(&record, &columns))
    }

    /// Measures the required figures, if there are any and documents are removed.
    async fn prove(
        &self,
        session: &SessionContext,
        opened: &Opened,
        require: Option<Requirements>,
    ) -> Result<Option<Proof>> {
        let Some(require) = require.filter(|_| !self.annotate) else {
            if self.sample.is_some() || self.seed.is_some() || self.labels.is_some() {
                return Err(Error::job(
                    "--sample, --seed and --labels work only with --require or alarms.require",
                ));
            }
            return Ok(None);
        };
        let evaluation = EvaluationSettings {
            sample: self.sample.unwrap_or(EvaluationSettings::SAMPLE),
            seed: self.seed.unwrap_or(EvaluationSettings::SEED),
            truth: None,
            memory: self.engine.memory,
        };
        prove(session, opened, &ProofSettings { require, evaluation, labels: self.labels.clone() })
            .await
            .map(Some)
    }

    fn text(&self, record: &ApplyRecord, columns: &[&str]) -> String {
        let ApplyRecord { counts, passages, sizes, groups, proof, .. } = record;
        let duplicates = DocumentCounts { removed: counts.removed - passages.too_short, ..*counts };
        let rejected = format!("rejected by the job, {}", rejects_in_words(self.rejects));
        let mut numbers = NumberColumn::default();
        count_lines(&mut numbers, duplicates, "kept", &rejected);
        self.passage_lines(&mut numbers, *passages);
        if let Some(SizeCounts { documents, represented, largest }) = sizes {
            let (largest, represented) = (print::counted(*largest, "document"), print::count(*represented));
            let columns = columns.join(" and ");
            let rest =
                format!("get {columns}: each represents {largest} at most, and all of them {represented}");
            numbers.line(*documents, "", &rest);
        }
        if !self.annotate {
            record.loss_lines(&mut numbers);
        }
        let mut text = numbers.0;
        if record.superseded_reference_documents > 0 {
            let superseded = print::count(record.superseded_reference_documents);
            let number = format!("{}{superseded}", record.about_superseded);
            text.push_str(&format!(
                "{number:>12} kept by reference outputs, although another document represents their cluster now\n"
            ));
        }
        text.push('\n');
        if let Some(proof) = proof {
            text.push_str(&proof_table(proof));
            text.push('\n');
        }
        if let Some(repeats) = &record.repeats {
            text.push_str(&repeat_table(repeats));
            text.push('\n');
        }
        if let Some(groups) = groups {
            text.push_str(&group_table(groups));
            text.push('\n');
        }
        text + &record.written
    }

    fn passage_lines(&self, numbers: &mut NumberColumn, counts: PassageCounts) {
        let PassageCounts { spans, documents, words, bytes, too_short } = counts;
        let verb = match self.passages {
            None | Some(PassageAction::Leave) => return,
            Some(PassageAction::Mark) => "marked in",
            Some(PassageAction::Cut | PassageAction::Drop) => "cut out of",
        };
        let documents = print::counted(documents, "document");
        let (words, bytes) = (print::counted(words, "word"), print::counted(bytes, "byte"));
        numbers.line(spans, "", &format!("passages {verb} {documents}: {words} and {bytes}"));
        if self.passages == Some(PassageAction::Drop) {
            numbers.line(too_short, "", "removed, because too few words are left of them");
        }
    }
}

/// Formats the required figures.
fn proof_table(proof: &Proof) -> String {
    let row = |figure: &ProvenFigure| {
        let ProvenFigure { figure, required, value, low, high, proven } = figure;
        let interval = format!("{low:.4} to {high:.4}");
        let is_proven = if *proven { "proven" } else { "not proven" };
        vec![format!("{figure}{required}"), format!("{value:.4}"), interval, is_proven.to_owned()]
    };
    print::table(&["required", "value", "95 % interval", ""], proof.figures.iter().map(row))
}

/// Formats the numbers of texts by how many documents each has.
fn repeat_table(repeats: &[RepeatCount]) -> String {
    let row = |RepeatCount { from, to, before, after }: &RepeatCount| {
        let count = if from == to { from.to_string() } else { format!("{from} to {to}") };
        let side = |RepeatedTexts { texts, bytes }: &RepeatedTexts| [*texts, *bytes].map(print::count);
        [vec![count], side(before).to_vec(), side(after).to_vec()].concat()
    };
    let header = ["documents of a text", "texts before", "bytes before", "texts after", "bytes after"];
    print::table(&header, repeats.iter().map(row))
}

fn group_table(groups: &[GroupCounts]) -> String {
    let row = |counts: &GroupCounts| {
        let name = counts.group.clone().unwrap_or_else(|| "(without a group)".to_owned());
        let numbers = [counts.documents, counts.removed, counts.kept].map(print::count);
        [vec![name], numbers.to_vec()].concat()
    };
    print::table(&["group", "documents", "removed", "kept"], groups.iter().map(row))
}

/// Returns a relative clause that says what happens to documents that cannot be compared.
pub(crate) fn rejects_in_words(rejects: Rejects) -> &'static str {
    match rejects {
        Rejects::Keep => "which stay",
        Rejects::Drop => "which are left out",
        Rejects::Separate => "which are in _resemblance/rejected/",
    }
}

/// Writes the dataset without its duplicates to `to`. Without `to`, only counts the changes. The error for a full disk states the
/// required space.
pub(crate) async fn finish(
    engine: &dyn Engine,
    opened: Opened,
    to: Option<&str>,
    control: &RunControl,
) -> Result<ApplyRecord> {
    let (losses, proof) = (opened.losses().await?, opened.proof.clone());
    let (superseded_reference_documents, about_superseded) = (opened.superseded(), opened.about_superseded());
    let shingle = shingle_in_words(&opened.job().shingle);
    let (done, groups, outcome) = match to {
        Some(to) => {
            let needed = opened.bytes();
            let folders: Vec<WriteFolder> = WriteFolder::from_url("--to", to).into_iter().collect();
            let outcome = apply::apply(engine, opened, to, control).await;
            let outcome = outcome.map_err(|e| files::explain_full_disk(e, &folders, Some(needed)))?;
            telemetry::applied(to, &outcome);
            let ApplyManifest { counts, passage_counts: passages, sizes, ref repeats, .. } = outcome.manifest;
            let repeats = repeats.clone();
            (ApplyForecast { counts, passages, sizes, repeats }, None, Some((outcome, to)))
        }
        None => {
            opened.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            (apply::forecast(&opened).await?, opened.groups().await?, None)
        }
    };
    let ApplyForecast { counts, passages, sizes, repeats } = done;
    let outcome = outcome.as_ref();
    let written =
        outcome.map_or("nothing was written\n".to_owned(), |(outcome, to)| written_line(outcome, to));
    Ok(ApplyRecord {
        counts,
        passages,
        sizes,
        repeats,
        groups,
        proof,
        superseded_reference_documents,
        losses,
        files: outcome.map(|(outcome, _)| written_files(outcome)),
        already_finished: outcome.is_some_and(|(outcome, _)| outcome.already_finished),
        dry_run: outcome.is_none(),
        files_reused: outcome.map(|(outcome, _)| outcome.files_reused),
        about_superseded,
        shingle,
        written,
    })
}

/// Adds the lines with the counts of documents. `kept` and `rejected` are the words after the two counts.
pub(crate) fn count_lines(numbers: &mut NumberColumn, counts: DocumentCounts, kept: &str, rejected: &str) {
    numbers.line(counts.read, "", "documents read");
    numbers.line(counts.kept, "", kept);
    numbers.line(counts.removed, "", "removed as near-duplicates");
    numbers.line(counts.rejected, "", rejected);
}

fn written_line(outcome: &ApplyOutcome, to: &str) -> String {
    if outcome.already_finished {
        return format!("{to} is finished already; nothing was written\n");
    }
    let files = written_files(outcome);
    let reused = match outcome.files_reused {
        0 => String::new(),
        files => format!("; an earlier run had done {} of the source", print::counted(files, "file")),
    };
    format!("{} in {to}{reused}\n", print::counted(files, "file"))
}

fn written_files(outcome: &ApplyOutcome) -> u64 {
    outcome.manifest.files.iter().map(|file| file.written.len() as u64).sum()
}

/// Returns how many rows and files a run skipped, and words that say why. Zeros are left out.
pub(crate) fn left_out(counts: &RunCounts) -> Vec<(u64, String)> {
    let all = [
        (counts.files_left_out, "file", "by source.where"),
        (counts.rows_left_out_by_where, "row", "by source.where"),
        (counts.rows_left_out_by_limit, "row", "by source.limit"),
        (counts.reference_files_left_out, "file", "of the second source"),
        (counts.reference_rows_left_out, "row", "of the second source"),
    ];
    let words = |(n, noun, rest): (Option<u64>, &str, &str)| {
        let n = n.filter(|n| *n > 0)?;
        Some((n, format!("{} left out {rest}", print::plural(n, noun))))
    };
    all.into_iter().filter_map(words).collect()
}

/// Describes a shingle in words, as in `5 words in a row`.
pub(crate) fn shingle_in_words(shingle: &Shingle) -> String {
    match shingle.size {
        1 => format!("one {}", shingle.unit.noun()),
        size => format!("{} {} in a row", print::count(size as u64), shingle.unit.plural()),
    }
}

/// Returns the number of texts that are at most as long as a shingle, and the words that follow the number. `None` if there are none.
pub(crate) fn short_texts(counts: &RunCounts, shingle: &Shingle) -> Option<(u64, String)> {
    let n = counts.single_shingle_documents.filter(|n| *n > 0)?;
    let has = print::either(n, "has", "have");
    let (size, units) = (shingle.size, shingle.unit.plural());
    let rule = "texts of fewer match only equal ones";
    Some((n, format!("{} {has} {size} {units} or fewer: {rule}", print::plural(n, "text"))))
}
