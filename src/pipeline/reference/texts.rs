//! The texts of reference documents, for samples.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};

use super::ReferenceDocuments;
use super::chain::union;
use super::outputs::ReferenceOutputs;
use crate::error::Result;
use crate::frames::{self, utf8};
use crate::job::{Job, Source};
use crate::origins::numbered;
use crate::schema::{SourceTypes, carried};
use crate::source::{self, ReadRequest};

/// The reference documents of `job` in the columns of [`with_group`]; `None` if it has none. `types` are those of its source.
///
/// # Errors
/// The errors of a run of the job, and if the source of a reference output is gone or has changed.
pub(crate) async fn reference_texts(
    session: &SessionContext,
    job: &Job,
    types: &SourceTypes,
) -> Result<Option<DataFrame>> {
    let Some(reference) = ReferenceDocuments::find(session, job).await? else { return Ok(None) };
    reference.check_types(job, types)?;
    Ok(Some(match reference {
        ReferenceDocuments::Outputs(outputs) => of_outputs(session, &outputs, job).await?,
        ReferenceDocuments::Source(second) => {
            let (source, listed) = second.files();
            let read = source::read(session, source, listed, ReadRequest::all()).await?.frame;
            frames::reference::with_second_source_keys(with_group(read, source, source.group.as_deref())?)?
        }
    }))
}

/// Rows of a source -> (source, position, id: Utf8, text, doc, reason, group): its documents, with their groups if the source
/// carries the column `group`.
pub(crate) fn with_group(read: DataFrame, source: &Source, group: Option<&str>) -> Result<DataFrame> {
    let at = source.columns.iter().position(|column| Some(column.as_str()) == group);
    let mut columns: Vec<Expr> =
        ["source", "id"].map(|name| cast(col(name), DataType::Utf8).alias(name)).to_vec();
    columns.extend(["position", "text", "doc", "reason"].map(col));
    columns.push(frames::by_group::group(at.map(carried).as_deref()));
    let named = frames::documents::documents(read)?.select(columns)?;
    Ok(named.select(["source", "position", "id", "text", "doc", "reason", "group"].map(col).to_vec())?)
}

/// The documents of reference outputs that no later output replaced: all of their sources are read.
async fn of_outputs(session: &SessionContext, outputs: &ReferenceOutputs, job: &Job) -> Result<DataFrame> {
    let mut read = Vec::new();
    for (at, stored) in outputs.chain.outputs().iter().enumerate() {
        let sources = stored.sources("the texts of the documents of against.output are read", "").await?;
        for (origin, source, listed) in numbered(&sources) {
            let frame = source::read(session, source, listed, ReadRequest::all()).await?.frame;
            let texts = with_group(frame, source, job.source.group.as_deref())?;
            read.push(Ok(texts.with_column("origin", lit(outputs.chain.first_origin(at) + origin))?));
        }
    }
    let live = outputs.chain.live(|at, _| {
        Ok(vec![
            outputs.chain.origin(at).alias("live_origin"),
            utf8("source").alias("live_source"),
            col("position").alias("live_position"),
            col("doc"),
        ])
    })?;
    let live = live.with_column_renamed("doc", "live_doc")?;
    let left = &["live_origin", "live_source", "live_position", "live_doc"];
    let right = &["origin", "source", "position", "doc"];
    let texts = live.join(union(read.into_iter())?, JoinType::RightSemi, left, right, None)?;
    Ok(texts.drop_columns(&["origin"])?)
}
