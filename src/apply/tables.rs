//! Writes the tables of decisions about documents and passages, or counts their rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, max, sum};
use datafusion::logical_expr::Partitioning;
use datafusion::prelude::{DataFrame, col, lit, when};

use super::alarms::annotated;
use super::columns::size_rows;
use super::decisions::{all_removed, clustered, dropped, rejected, removed_ids, removed_schema};
use super::input::Opened;
use super::manifest::{ApplySettings, PassageAction, PassageCounts, RepeatCount, SizeCounts};
use super::passages::{removed_spans, removed_spans_schema, short};
use crate::error::{Error, Result};
use crate::frames::{self, in_columns};
use crate::lookup::rows;
use crate::output::attempt::{REMOVED, REMOVED_SPANS};
use crate::output::manifest::File;
use crate::output::write::{TableRows, TableTarget};
use crate::output::{Layout, read};
use crate::pipeline::runner::{Planned, Runner, StageWork};
use crate::rewrite::{DECISION_ORDER, DocumentCounts, FORGET, REJECT, REMOVE, decision_schema};
use crate::schema::Table;

/// The tables of decisions about documents and passages. Paths are inside the folder of records.
#[derive(Default)]
pub(super) struct Decided {
    pub removed: Vec<File>,
    /// The passages that are cut out of kept documents.
    pub removed_spans: Vec<File>,
    /// The decisions about all documents, as `rewrite` reads them.
    pub decisions: Vec<File>,
    pub passages: PassageCounts,
    pub sizes: Option<SizeCounts>,
}

/// The number of tables that an application writes.
pub(super) fn tables(settings: &ApplySettings) -> usize {
    let of_passages = match settings.passages {
        PassageAction::Leave | PassageAction::Mark => 0,
        PassageAction::Cut => 1,
        PassageAction::Drop => 3,
    };
    1 + usize::from(!settings.annotate) + of_passages
}

const BY_DOCUMENT: &[&str] = &["source", "position"];
const BY_SPAN: &[&str] = &["source", "position", "byte_start"];

pub(super) async fn decide(opened: &Opened, records: &Layout, runner: &Runner<'_>) -> Result<Decided> {
    let Opened { stored, sources, settings, .. } = opened;
    let id = stored.manifest().source.id;
    let write = async |name, (schema, order): (SchemaRef, _), rows| -> Result<(Vec<File>, DataFrame)> {
        let files = write(runner, name, (Arc::clone(&schema), order), rows).await?;
        let written = read::frame(stored.session(), records, &files, schema)?;
        Ok((files, written))
    };
    let write_documents = async |name, rows: DataFrame| {
        let schema = Arc::new(rows.schema().as_arrow().clone());
        Ok::<_, Error>(write(name, (schema, BY_DOCUMENT), rows).await?.1)
    };
    let dropped: Option<DataFrame> = match settings.passages {
        PassageAction::Drop => {
            let short = write_documents("short", short((stored, sources), settings).await?).await?;
            Some(write_documents("too_short", dropped(stored, settings.contained, short)?).await?)
        }
        PassageAction::Leave | PassageAction::Mark | PassageAction::Cut => None,
    };
    let mut decided = Decided::default();
    let all = all_removed(stored, settings, dropped.clone())?;
    let mut removed = opened.removal().without_staying(all, "id")?;
    if !settings.annotate {
        (decided.removed, removed) = write(REMOVED, (removed_schema(id), BY_DOCUMENT), removed).await?;
        check_kept(&removed).await?;
    }
    let mut spans = removed_spans(stored, settings, removed.clone())?;
    if let Some(rows) = spans.take_if(|_| settings.passages.cuts()) {
        let (files, rows) = write(REMOVED_SPANS, (removed_spans_schema(id), BY_SPAN), rows).await?;
        (decided.removed_spans, spans) = (files, Some(rows));
    }
    let forgotten = stored.forgotten_rows(sources).await?;
    let rows = decisions(opened, removed, spans, forgotten)?;
    let (files, rows) = write("decisions", (decision_schema(id), DECISION_ORDER), rows).await?;
    decided.decisions = files;
    (decided.passages, decided.sizes) = totals(rows, settings, dropped).await?;
    Ok(decided)
}

/// The counts that an application would have.
#[derive(Debug, Clone)]
pub struct ApplyForecast {
    /// The numbers of documents.
    pub counts: DocumentCounts,
    /// Passages that would be cut or marked.
    pub passages: PassageCounts,
    /// The counts for added size columns. `None` if there are no such columns.
    pub sizes: Option<SizeCounts>,
    /// The repeat counts before and after. `None` without a repeat budget.
    pub repeats: Option<Vec<RepeatCount>>,
}

/// Counts the changes that an application would make. No file is written. Reads the tables of the output, and the texts of documents that
/// may become too short. Also counts the rows in files that `source.where` skips by path. In Parquet files, only footers are read for this.
/// Fails if a table or the source cannot be read.
pub async fn forecast(opened: &Opened) -> Result<ApplyForecast> {
    let (stored, settings) = (&opened.stored, &opened.settings);
    let dropped = opened.dropped().await?;
    let removed = all_removed(stored, settings, dropped.clone())?;
    let removed = opened.removal().without_staying(removed, "id")?;
    let mut counts = opened.documents().await?;
    if !settings.annotate {
        let gone = match &dropped {
            None if opened.budget.is_none() => removed_ids(stored, settings.contained)?,
            _ => removed.clone(),
        };
        counts.removed = gone.count().await? as u64;
        counts.kept -= counts.removed;
    }
    let spans = removed_spans(stored, settings, removed.clone())?;
    let decisions = decisions(opened, removed, spans, None)?;
    let (passages, sizes) = totals(decisions, settings, dropped).await?;
    Ok(ApplyForecast { counts, passages, sizes, repeats: opened.repeats().await? })
}

/// Returns the decisions about all documents, in the columns of [`decision_schema`]. If the settings do not annotate documents, the
/// documents in `removed` are removed. The passages in `spans` are cut or marked. The rows `forgotten` (source, position) are left out.
fn decisions(
    opened: &Opened,
    removed: DataFrame,
    spans: Option<DataFrame>,
    forgotten: Option<DataFrame>,
) -> Result<DataFrame> {
    let Opened { stored, settings, .. } = opened;
    // A job that reuses an output can have other groups than that output.
    let group = stored.job().source.group.as_deref();
    let mut decisions = Vec::new();
    if settings.annotate {
        let clustered = clustered(stored, group, settings.contained.is_none())?;
        let columns = ["source", "position", "cluster_id", "representative", "kept_id"];
        decisions.push(annotated(clustered, stored, opened.removal())?.select_columns(&columns)?);
    } else {
        let places = removed.clone().select_columns(BY_DOCUMENT)?;
        decisions.push(places.with_column("action", lit(REMOVE))?);
    }
    for column in &settings.columns {
        decisions.push(size_rows(*column, stored, removed.clone(), opened.budget.as_ref())?);
    }
    if let Some(spans) = spans {
        let columns = ["source", "position", "byte_start", "byte_end", "words"];
        decisions.push(spans.select_columns(&columns)?);
    }
    if stored.manifest().tables.get(Table::Rejects.name()).is_some_and(|table| table.rows > 0) {
        decisions.push(rejected(stored, opened.shares_files())?.with_column("action", lit(REJECT))?);
    }
    if let Some(forgotten) = forgotten {
        decisions.push(forgotten.with_column("action", lit(FORGET))?);
    }
    let schema = decision_schema(stored.manifest().source.id);
    let decisions = decisions.into_iter().map(|rows| in_columns(rows, &schema));
    frames::union(decisions)?.ok_or_else(|| Error::bug("nothing is decided"))
}

/// Counts the passages and the added sizes in `decisions`, and the documents `dropped` as too short.
async fn totals(
    decisions: DataFrame,
    settings: &ApplySettings,
    dropped: Option<DataFrame>,
) -> Result<(PassageCounts, Option<SizeCounts>)> {
    if settings.passages == PassageAction::Leave && settings.columns.is_empty() {
        return Ok((PassageCounts::default(), None));
    }
    let by_document = decisions.aggregate(
        vec![col("source"), col("position")],
        vec![
            count(col("byte_start")).alias("spans"),
            sum(col("words")).alias("words"),
            sum(col("byte_end") - col("byte_start")).alias("bytes"),
            max(col("cluster_size")).alias("size"),
            sum(col("documents")).alias("of_groups"),
        ],
    )?;
    let has_spans = when(col("spans").gt(lit(0_i64)), lit(1_i64)).end()?;
    let size = || coalesce(vec![col("size"), col("of_groups")]);
    let numbers = vec![
        sum(col("spans")).alias("spans"),
        count(has_spans).alias("documents"),
        sum(col("words")).alias("words"),
        sum(col("bytes")).alias("bytes"),
        count(size()).alias("sized"),
        sum(size()).alias("represented"),
        max(size()).alias("largest"),
    ];
    // The sum over no rows is null.
    let totals: Vec<BTreeMap<String, Option<u64>>> =
        rows::read(by_document.aggregate(vec![], numbers)?).await?;
    let total = |name: &str| totals.first().and_then(|totals| *totals.get(name)?).unwrap_or_default();
    let too_short = match dropped {
        Some(dropped) => dropped.count().await? as u64,
        None => 0,
    };
    let sizes = SizeCounts {
        documents: total("sized"),
        represented: total("represented"),
        largest: total("largest"),
    };
    let passages = PassageCounts {
        spans: total("spans"),
        documents: total("documents"),
        words: total("words"),
        bytes: total("bytes"),
        too_short,
    };
    Ok((passages, settings.size_columns().next().map(|_| sizes)))
}

/// Writes a table and returns its files. All rows about one source file are in the same file.
async fn write(
    runner: &Runner<'_>,
    name: &'static str,
    (schema, sorted_by): (SchemaRef, &'static [&'static str]),
    rows: DataFrame,
) -> Result<Vec<File>> {
    let folder = match name {
        REMOVED | REMOVED_SPANS => name.to_owned(),
        name => format!("_work/{name}"),
    };
    let target = TableTarget { table: name.to_owned(), folder, rows: TableRows::All, schema, carried: 0 };
    let by_file = |partitions| {
        let by_file = Partitioning::Hash(vec![col("source")], partitions);
        Ok(vec![rows.clone().repartition(by_file)?])
    };
    runner.run(StageWork { name, targets: vec![target], sorted_by, rows: Planned::made(0, by_file) }).await?;
    Ok(runner.files(name))
}

/// Checks that `removed` contains no document that is kept instead of another document in `removed`.
async fn check_kept(removed: &DataFrame) -> Result<()> {
    let gone = removed.clone().select_exprs(&["id AS gone_id"])?;
    let duplicates = removed.clone().filter(col("kept_source").is_not_null())?;
    let lost = gone.join(duplicates, JoinType::RightSemi, &["gone_id"], &["kept_id"], None)?.count().await?;
    match lost {
        0 => Ok(()),
        _ => Err(Error::bug(format!("{lost} documents are removed because of others that are removed too"))),
    }
}
