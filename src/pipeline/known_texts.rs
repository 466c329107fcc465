//! The texts of known documents, for those who compare samples.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, SessionContext, cast, col};

use super::earlier::union;
use super::known::Known;
use super::known_outputs::KnownOutputs;
use crate::error::Result;
use crate::job::{Job, Source};
use crate::schema::{SourceTypes, carried};
use crate::source;
use crate::stage;

/// The documents that `job` compares those of its source with, in the columns of [`with_group`]; `None` if it names none. `types`
/// are those of its source.
///
/// # Errors
/// As the run of the job, where it could not use them; where a source of known outputs is gone or has changed.
pub(crate) async fn known_texts(
    session: &SessionContext,
    job: &Job,
    types: &SourceTypes,
) -> Result<Option<DataFrame>> {
    let Some(known) = Known::find(session, job).await? else { return Ok(None) };
    known.check_types(job, types)?;
    Ok(Some(match known {
        Known::Outputs(outputs) => of_outputs(session, &outputs, job).await?,
        Known::Source(known) => {
            let (source, listed) = known.files();
            let read = source::open_listed(session, source, listed).await?.frame;
            stage::known::turned(with_group(read, source, source.group.as_deref())?)?
        }
    }))
}

/// What a source gives -> (source, position, id: Utf8, text, doc, reason, group): its documents, each with its group by the column
/// `group`, if that is carried.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn with_group(read: DataFrame, source: &Source, group: Option<&str>) -> Result<DataFrame> {
    let at = source.columns.iter().position(|column| Some(column.as_str()) == group);
    let mut columns: Vec<Expr> =
        ["source", "id"].map(|name| cast(col(name), DataType::Utf8).alias(name)).to_vec();
    columns.extend(["position", "text", "doc", "reason"].map(col));
    columns.push(stage::by_group::group(at.map(carried).as_deref()));
    let named = stage::documents::documents(read)?.select(columns)?;
    Ok(named.select(["source", "position", "id", "text", "doc", "reason", "group"].map(col).to_vec())?)
}

/// Those of known outputs that no later one replaced: every source of these is read.
async fn of_outputs(session: &SessionContext, outputs: &KnownOutputs, job: &Job) -> Result<DataFrame> {
    let mut read = Vec::new();
    for stored in outputs.earlier.outputs() {
        for (made, listed) in stored.sources(session, "the texts of known documents are read", "").await? {
            let frame = source::open_listed(session, &made.source, &listed).await?.frame;
            read.push(with_group(frame, &made.source, job.source.group.as_deref()));
        }
    }
    let there = vec![
        cast(col("source"), DataType::Utf8).alias("known_source"),
        col("position").alias("known_position"),
        col("doc"),
    ];
    let there = outputs.earlier.all_live(session, there)?;
    let there =
        there.select(vec![col("known_source"), col("known_position"), col("doc").alias("known_doc")])?;
    let (left, right) = (&["known_source", "known_position", "known_doc"], &["source", "position", "doc"]);
    Ok(there.join(union(read.into_iter())?, JoinType::RightSemi, left, right, None)?)
}
