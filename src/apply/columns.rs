//! Computes the columns with the number of documents that a document represents. Refuses added columns that the source already has.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};
use futures::{StreamExt, TryStreamExt, stream};

use super::budget::BudgetRows;
use super::manifest::ApplySettings;
use crate::error::{Error, Result};
use crate::frames::groups;
use crate::job;
use crate::output::Stored;
use crate::rewrite::{Annotation, column_exists, names, pieces, with_names};
use crate::schema::Table;
use crate::source::{FilePiece, ParquetFile, Rewriting, RowFormat, SourceFile, format_of};

/// Returns the values of an added size column (source, position, ..) as rows for the table of decisions.
pub(super) fn size_rows(
    column: Annotation,
    stored: &Stored,
    removed: DataFrame,
    budget: Option<&BudgetRows>,
) -> Result<DataFrame> {
    match column {
        Annotation::GroupSizes => group_sizes(stored, removed),
        Annotation::Copies => {
            let budget = budget.ok_or_else(|| Error::bug("copies are counted without a budget"))?;
            budget.copies(kept(stored, removed)?)
        }
        Annotation::ClusterSize | Annotation::Clusters | Annotation::Spans => sizes(stored, removed),
    }
}

/// Returns the number of documents (source, position, cluster_size) that each kept document represents, including itself.
fn sizes(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let others =
        represented(removed.clone())?.aggregate(vec![col("kept_id")], vec![count(lit(1)).alias("others")])?;
    let rows = others.join(kept(stored, removed)?, JoinType::Right, &["kept_id"], &["id"], None)?;
    Ok(rows.select_exprs(&["source", "position", "coalesce(others, 0) + 1 AS cluster_size"])?)
}

/// Returns the number of documents per group (source, position, group, documents) that each kept document represents, including itself.
fn group_sizes(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let kept = kept(stored, removed.clone())?;
    let own = kept.clone().select(vec![col("id").alias("kept_id"), col("group")])?;
    let keys = vec![col("kept_id"), col("group").alias("name")];
    let counted =
        represented(removed)?.union(own)?.aggregate(keys, vec![count(lit(1)).alias("documents")])?;
    let rows = counted.join(kept, JoinType::Inner, &["kept_id"], &["id"], None)?;
    Ok(rows.select(vec![col("source"), col("position"), col("name").alias("group"), col("documents")])?)
}

/// (kept_id, group), one row per removed document with a representative in the source. `group` is the group of the removed document.
fn represented(removed: DataFrame) -> Result<DataFrame> {
    Ok(removed.filter(col("kept_source").is_not_null())?.select_columns(&["kept_id", "group"])?)
}

/// Returns the compared documents (id, source, position, group) that are kept.
fn kept(stored: &Stored, removed: DataFrame) -> Result<DataFrame> {
    let group = groups::group(stored.job().source.group.as_deref());
    let source = cast(col("source"), DataType::Utf8).alias("source");
    let documents =
        stored.table(Table::Documents)?.select(vec![col("id"), source, col("position"), group])?;
    let gone = removed.select_exprs(&["id AS gone_id"])?;
    Ok(gone.join(documents, JoinType::RightAnti, &["gone_id"], &["id"], None)?)
}

/// Refuses group sizes for a job without groups, with `Kind::Job` and advice.
pub(super) fn refuse_group_sizes(stored: &Stored, settings: &ApplySettings) -> Result<()> {
    let wants_groups = settings.columns.contains(&Annotation::GroupSizes);
    if !wants_groups || stored.job().source.group.is_some() {
        return Ok(());
    }
    Err(Error::job(format!(
        "--columns group_sizes: the job of {} has no source.group, which names the column of the groups: set it and run the job again, or \
         use --columns cluster_size",
        stored.layout().shown()
    )))
}

/// The number of footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

/// Refuses Parquet files, and CSV files with a header, if they already contain one of the columns. JSON lines are checked when they are
/// rewritten. Fails with `Kind::Input`, with the file and the column, if a file contains the column.
pub(super) async fn refuse_existing(
    session: &SessionContext,
    source: &job::Source,
    files: &[SourceFile],
    annotations: &[Annotation],
) -> Result<()> {
    // Empty files have no columns.
    let files: Vec<SourceFile> = files.iter().filter(|file| file.size() > 0).cloned().collect();
    let checks = stream::iter(files).map(|file| async move {
        match format_of(source.format).rewriting {
            Rewriting::ParquetValues => {
                let parquet = ParquetFile::open(session, &file).await?;
                let columns = parquet.metadata.file_metadata().schema().get_fields();
                let exists = |name: &&str| columns.iter().any(|column| column.name() == *name);
                let existing = names(annotations).into_iter().find(exists);
                existing.map_or(Ok(()), |name| Err(column_exists(name, file.path())))
            }
            Rewriting::Rows(format) if format.has_header(source) => {
                let header = header(session, source, format, &file).await?;
                with_names(format, source, annotations, (&header, file.path())).map(drop)
            }
            _ => Ok(()),
        }
    });
    checks.buffered(CONCURRENT_FOOTERS).try_collect().await
}

/// Returns the header of a file. It is empty if the file has no header.
async fn header(
    session: &SessionContext,
    source: &job::Source,
    format: &dyn RowFormat,
    file: &SourceFile,
) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    pieces(session, source, format, file, |piece| match piece {
        FilePiece::Header(fields, _) => {
            header.extend_from_slice(fields);
            false
        }
        FilePiece::Row(_) | FilePiece::Other(_) => true,
    })
    .await?;
    Ok(header)
}
