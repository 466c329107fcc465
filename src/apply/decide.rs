//! Writes the tables that decide about documents and spans into the result.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, col};

use super::decisions::{clustered, rejected, rejected_schema, removed_schema};
use super::dropped::{all_removed, dropped, dropped_schema};
use super::losses;
use super::opened::Opened;
use super::passage_action::{PassageCounts, Passages};
use super::passages::{self, removed_spans, removed_spans_schema, short, short_schema};
use super::settings::Settings;
use super::sizes::{self, SizeCounts};
use super::tables::{self, BY_DOCUMENT, BY_SPAN, Wanted};
use crate::error::{Error, Result};
use crate::output::manifest::File;
use crate::output::names::{REMOVED, REMOVED_SPANS};
use crate::output::{Layout, Stored, read};
use crate::pipeline::runner::Runner;
use crate::rewrite::{Annotation, AnnotationTable, clustered_schema};
use crate::schema::Table;

/// The tables that decide about documents and spans; their paths are in the folder of records.
pub(super) struct Decided {
    /// The removed documents.
    pub removed: Vec<File>,
    /// The documents that the job rejected.
    pub rejected: Vec<File>,
    /// The annotations of the kept documents.
    pub annotations: Vec<AnnotationTable>,
    /// The spans that are cut out of kept documents.
    pub removed_spans: Vec<File>,
    /// The numbers of spans that are cut or marked.
    pub passages: PassageCounts,
    /// The numbers of the documents that get columns; `None` if none are added.
    pub sizes: Option<SizeCounts>,
}

/// The number of tables that are written.
pub(super) fn tables(stored: &Stored, settings: Settings) -> usize {
    let of_passages = match settings.passages {
        Passages::Leave => 0,
        Passages::Mark | Passages::Cut => 1,
        Passages::Drop { .. } => 3,
    };
    1 + usize::from(has_rejects(stored)) + of_passages + settings.columns.iter().count()
}

/// Whether the job rejected documents.
fn has_rejects(stored: &Stored) -> bool {
    stored.manifest().tables.get(Table::Rejects.name()).is_some_and(|table| table.rows > 0)
}

/// Writes the tables to `records`, the folder of records.
///
/// # Errors
/// When a table cannot be read or written, or the run was stopped.
pub(super) async fn decide(opened: &Opened, records: &Layout, runner: &Runner<'_>) -> Result<Decided> {
    let Opened { stored, sources, settings, .. } = opened;
    let settings = *settings;
    let id = stored.manifest().source.id;
    // A job over a finished output has groups of its own.
    let group = stored.job().source.group.as_deref();
    let write = async |name, folder: String, schema, rows| {
        let wanted = Wanted { name, folder, schema, sorted_by: BY_DOCUMENT, rows };
        tables::table(wanted, runner).await
    };
    let work = |name: &str| format!("_work/{name}");
    let written = |files: &[File], schema| read::frame(stored.session(), records, files, schema);
    let dropped: Option<DataFrame> = match settings.passages {
        Passages::Drop { min_words } => {
            let rows = short((stored, sources), settings, min_words).await?;
            let files = write("short", work("short"), short_schema(id), rows).await?;
            let rows = dropped(stored, settings.contained, written(&files, short_schema(id))?)?;
            let files = write("too_short", work("too_short"), dropped_schema(id), rows).await?;
            Some(written(&files, dropped_schema(id))?)
        }
        Passages::Leave | Passages::Mark | Passages::Cut => None,
    };
    let mut decided = Decided {
        removed: Vec::new(),
        rejected: Vec::new(),
        annotations: Vec::new(),
        removed_spans: Vec::new(),
        passages: PassageCounts::default(),
        sizes: None,
    };
    let mut removed = all_removed(stored, settings, dropped.clone())?;
    if settings.annotate {
        let rows =
            losses::annotated(clustered(stored, group, settings.contained.is_none())?, stored, settings)?;
        let files = write("clustered", work("clustered"), clustered_schema(id), rows).await?;
        decided.annotations.push(AnnotationTable { annotation: Annotation::Clusters, files });
    } else {
        decided.removed = write(REMOVED, REMOVED.to_owned(), removed_schema(id), removed).await?;
        removed = written(&decided.removed, removed_schema(id))?;
        check_kept(&removed).await?;
    }
    for column in settings.columns.iter() {
        let rows = sizes::rows(column, stored, removed.clone())?;
        let files = write(column.name(), work(column.name()), sizes::schema(column), rows).await?;
        decided.annotations.push(AnnotationTable { annotation: column.annotation(), files });
    }
    if !settings.columns.is_empty() {
        decided.sizes = Some(sizes::counts(stored, removed.clone()).await?);
    }
    if settings.passages != Passages::Leave {
        let (name, folder) = match settings.passages.cuts() {
            true => (REMOVED_SPANS, REMOVED_SPANS.to_owned()),
            false => ("marked", work("marked")),
        };
        let gone = (!settings.annotate).then_some(removed);
        let (rows, schema) = (removed_spans(stored, settings, gone)?, removed_spans_schema(id));
        let wanted = Wanted { name, folder, schema: schema.clone(), sorted_by: BY_SPAN, rows };
        let files = tables::table(wanted, runner).await?;
        decided.passages = passages::counts(written(&files, schema)?, dropped).await?;
        match settings.passages.cuts() {
            true => decided.removed_spans = files,
            false => decided.annotations.push(AnnotationTable { annotation: Annotation::Spans, files }),
        }
    }
    if has_rejects(stored) {
        let rows = rejected(stored, opened.shares_files())?;
        decided.rejected = write("rejected", work("rejected"), rejected_schema(), rows).await?;
    }
    Ok(decided)
}

/// Checks that documents are not `removed` because of others that are removed too.
async fn check_kept(removed: &DataFrame) -> Result<()> {
    let gone = removed.clone().select(vec![col("id").alias("gone_id")])?;
    let duplicates = removed.clone().filter(col("kept_source").is_not_null())?;
    let lost = gone.join(duplicates, JoinType::RightSemi, &["gone_id"], &["kept_id"], None)?.count().await?;
    match lost {
        0 => Ok(()),
        _ => Err(Error::bug(format!("{lost} documents are removed because of others that are removed too"))),
    }
}
