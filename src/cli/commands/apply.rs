//! `resemblance apply`: writes a copy of the source of a finished output without its duplicates.

use serde::Serialize;

use crate::apply::{
    self, Annotation, ApplyForecast, ApplyManifest, ApplyOutcome, ApplySettings, DocumentCounts, GroupCounts,
    Opened, PassageAction, PassageCounts, Rejects, RemovalLosses, SizeCounts,
};
use crate::cli::support::applied::WrittenRecord;
use crate::cli::support::progress::Screen;
use crate::cli::support::work::JobRuntime;
use crate::cli::support::{applied, arguments, print};
use crate::engine::{self, Engine, Local, RunControl};
use crate::error::{Error, Result};
use crate::job::{Alarms, TableFormat};
use crate::lookup;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance apply out/reviews/ --dry-run
  resemblance apply out/reviews/ --to clean/
  resemblance apply out/reviews/ --to marked/ --annotate
  resemblance apply out/reviews/ --to clean/ --columns cluster_size
  resemblance apply out/pages/ --to clean/ --passages cut
  resemblance apply out/reviews/ --to clean/ --source /new/place/reviews/";

/// Write a copy of the source of a finished output without its duplicates
///
/// Of each cluster the representative stays, and the others are removed. The files of the source are written to the folder that
/// --to names, with their names, formats, columns and order. With --passages, passages that repeat inside the documents that stay
/// are cut out of them too. Its folder _resemblance/, which readers of datasets skip, has the table removed/ of the documents
/// that were removed, with their representatives. If the command is interrupted, run it again to continue. The source itself is
/// not changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Apply {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// The folder or URL to write to, which must be empty
    #[arg(long, value_name = "URL", required_unless_present = "dry_run")]
    to: Option<String>,
    /// Where the source is now, if it was moved; name as many as the source has URLs, in their order
    #[arg(long, value_name = "URL")]
    source: Vec<String>,
    /// What to do with documents that the job rejected
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, conflicts_with = "annotate")]
    rejects: Rejects,
    /// Remove nothing, and add the columns cluster_id, representative and kept_id to every document
    #[arg(long)]
    annotate: bool,
    /// Add columns to the documents that stay
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<Annotation>,
    /// What to do with passages that repeat inside documents, except for the occurrence that stays; the job needs the section
    /// [passages]
    #[arg(long, value_enum, value_name = "ACTION")]
    passages: Option<PassageAction>,
    /// With --passages drop, remove a document if it has fewer words than this after the cut; 50 by default
    #[arg(long, value_name = "N", requires = "passages")]
    min_words: Option<u64>,
    /// What the kept and the removed documents are
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    tables: TableFormat,
    /// Keep a document that its representative does not contain: that is not paired with it, or has a smaller share than this of
    /// its shingles there, such as 0.98; instead of clusters.contained of the job
    #[arg(long, value_name = "SHARE", value_parser = arguments::share)]
    contained: Option<f64>,
    /// The share of the documents that may be removed, instead of alarms.removed_share of the job
    #[arg(long, value_name = "SHARE", value_parser = arguments::share)]
    removed_share: Option<f64>,
    /// The number of documents that a cluster may have, instead of alarms.largest_cluster of the job
    #[arg(long, value_name = "N")]
    largest_cluster: Option<u64>,
    /// Print how many documents would be kept and removed, also of each group, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Let the executors of a cluster write the files, such as df://host:50050; they must reach the source, the output and --to
    #[arg(long, value_name = "URL", value_parser = arguments::scheduler)]
    scheduler: Option<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

/// The result, as it is printed.
#[derive(Serialize)]
struct ApplyRecord {
    #[serde(flatten)]
    counts: DocumentCounts,
    passages: PassageCounts,
    sizes: Option<SizeCounts>,
    groups: Option<Vec<GroupCounts>>,
    superseded_reference_documents: u64,
    losses: RemovalLosses,
    #[serde(flatten)]
    written: WrittenRecord,
    files_reused: Option<u64>,
    /// The words before the number of superseded reference documents.
    #[serde(skip)]
    about_superseded: &'static str,
    /// A shingle in words.
    #[serde(skip)]
    shingle: String,
}

impl Apply {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let settings_of_engine = arguments::engine(self.scheduler.as_deref(), self.memory)?;
        let work = JobRuntime::begin(&settings_of_engine)?;
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
        };
        let columns = settings.column_names();
        let control = RunControl { stop: work.stop.clone(), progress: screen.progress() };
        let ended = work.run(async {
            let engine: Box<dyn Engine> = match &self.scheduler {
                None => Box::new(Local::new(lookup::session(&settings_of_engine)?)),
                Some(_) => engine::open(&settings_of_engine, &control).await?,
            };
            let opened = Opened::open(engine.session(), &self.output, self.source.clone(), settings).await?;
            let removes = self.to.is_some() && !self.dry_run && !self.annotate;
            let of_job = opened.job().alarms;
            let alarms = Alarms {
                removed_share: self.removed_share.or(of_job.removed_share),
                largest_cluster: self.largest_cluster.or(of_job.largest_cluster),
                ..of_job
            };
            opened.check_alarms(alarms, removes).await?;
            let losses = opened.losses().await?;
            let superseded_reference_documents = opened.superseded();
            let about_superseded = opened.about_superseded();
            let shingle = applied::shingle(&opened.job().shingle);
            let (done, groups, outcome) = match &self.to {
                Some(to) if !self.dry_run => {
                    let outcome = applied::apply(engine.as_ref(), opened, to, &control).await?;
                    let ApplyManifest { counts, passage_counts: passages, sizes, .. } = outcome.manifest;
                    (ApplyForecast { counts, passages, sizes }, None, Some(outcome))
                }
                _ => {
                    for warning in opened.warnings() {
                        tracing::warn!("{warning}");
                    }
                    (apply::forecast(&opened).await?, opened.groups().await?, None)
                }
            };
            let ApplyForecast { counts, passages, sizes } = done;
            let report = ApplyRecord {
                counts,
                passages,
                sizes,
                groups,
                superseded_reference_documents,
                losses,
                written: WrittenRecord::new(outcome.as_ref()),
                files_reused: outcome.as_ref().map(|outcome| outcome.files_reused),
                about_superseded,
                shingle,
            };
            Ok((report, outcome))
        });
        screen.clear();
        let (report, outcome) = ended?;
        match self.json {
            true => print::result(&print::json_line(&report)?),
            false => print::result(&self.text(&report, &columns, outcome.as_ref())),
        }
    }

    fn text(&self, report: &ApplyRecord, columns: &[&str], outcome: Option<&ApplyOutcome>) -> String {
        let ApplyRecord { counts, passages, sizes, groups, losses, shingle, .. } = report;
        let duplicates = DocumentCounts { removed: counts.removed - passages.too_short, ..*counts };
        let rejected = format!("rejected by the job, {}", applied::rejects_in_words(self.rejects));
        let mut text = applied::counts(duplicates, "kept", &rejected);
        text.push_str(&self.passages_text(*passages));
        if let Some(sizes) = sizes {
            text.push_str(&sizes_text(columns, *sizes));
        }
        if !self.annotate {
            text.push_str(&applied::losses(losses, duplicates.removed, shingle));
        }
        if report.superseded_reference_documents > 0 {
            let superseded = print::count(report.superseded_reference_documents);
            let number = format!("{}{superseded}", report.about_superseded);
            text.push_str(&format!(
                "{number:>12} kept by reference outputs, although another document represents their cluster now\n"
            ));
        }
        text.push('\n');
        if let Some(groups) = groups {
            text.push_str(&table(groups));
            text.push('\n');
        }
        text.push_str(&match (outcome, &self.to) {
            (Some(outcome), Some(to)) => applied::written(outcome, to),
            _ => "nothing was written\n".to_owned(),
        });
        text
    }

    /// The numbers of passages that are marked or cut, each on a line.
    fn passages_text(&self, counts: PassageCounts) -> String {
        let PassageCounts { spans, documents, words, bytes, too_short } = counts;
        let [verb, removed] = match self.passages {
            None | Some(PassageAction::Leave) => return String::new(),
            Some(PassageAction::Mark) => ["marked in", ""],
            Some(PassageAction::Cut) => ["cut out of", ""],
            Some(PassageAction::Drop) => ["cut out of", "removed, because too few words are left of them"],
        };
        let spans_line = format!(
            "passages {verb} {}: {} and {}",
            print::counted(documents, "document"),
            print::counted(words, "word"),
            print::counted(bytes, "byte")
        );
        let lines = [(spans, spans_line), (too_short, removed.to_owned())];
        let lines = lines.into_iter().filter(|(_, line)| !line.is_empty());
        lines.map(|(number, line)| format!("{:>12} {line}\n", print::count(number))).collect()
    }
}

/// The line for the documents that get `columns`.
fn sizes_text(columns: &[&str], SizeCounts { documents, represented, largest }: SizeCounts) -> String {
    format!(
        "{:>12} get {}: each represents {} at most, and all of them {}\n",
        print::count(documents),
        columns.join(" and "),
        print::counted(largest, "document"),
        print::count(represented),
    )
}

/// The groups for people. Documents without a group are named as in alarms.
fn table(groups: &[GroupCounts]) -> String {
    let row = |counts: &GroupCounts| {
        let name = counts.group.clone().unwrap_or_else(|| "(without a group)".to_owned());
        let numbers = [counts.documents, counts.removed, counts.kept].map(print::count);
        [vec![name], numbers.to_vec()].concat()
    };
    let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
    print::table(&["group", "documents", "removed", "kept"], &rows)
}
