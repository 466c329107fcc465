//! reference: the reference documents, of other outputs or of a second source, that may match new ones.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::interface::{
    AnyTable, Error, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, Table, WorkTable,
    frames, not_null, null,
};
use super::search;
use crate::job;
use crate::output::write::TableRows;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::reference::source::SecondSource;
use crate::pipeline::tables::{id_column, list_column, numbers, signature_column, signature_type};

impl WorkTable {
    /// The reference documents that may match new ones.
    pub(crate) const REFERENCE: Self = Self::new("reference", columns);
    /// All documents of a second source that can be compared: their keys, places, sizes and groups.
    pub(crate) const REFERENCE_KEYS: Self = Self::new("reference_keys", keys);
}

fn columns(source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![
        Field::new("origin", DataType::UInt64, false),
        id_column(source, false),
        Field::new("source", DataType::Utf8, false),
    ];
    columns.extend(numbers(["position", "doc", "shingle_count", "set_hash_0", "set_hash_1"]));
    columns.extend([
        signature_column(),
        // Null if the output keeps none.
        list_column("shingles", DataType::UInt64, true),
        // Null if there are no groups.
        Field::new("group", DataType::Utf8, true),
    ]);
    columns
}

fn keys(source: &SourceTypes) -> Vec<Field> {
    let mut columns = vec![id_column(source, false), Field::new("source", DataType::Utf8, false)];
    columns.extend(numbers(["position", "doc", "shingle_count"]));
    columns.push(Field::new("group", DataType::Utf8, true));
    columns
}

fn describe(job: &Job) -> String {
    let compares = job.candidates.method.compares();
    if let Some(source) = job.second_source() {
        let keep = if compares { ", and keep the documents that new ones may be similar to" } else { "" };
        return format!("read {} from {}{keep}", source.text.join(" + "), source.urls.join(", "));
    }
    if !compares {
        return "compare no reference documents".into();
    }
    let outputs = match job.reference() {
        Some(job::Reference::Outputs { urls, .. }) => urls.join(", "),
        Some(job::Reference::Source(_)) | None => String::new(),
    };
    format!("find the documents of {outputs} that new ones may be similar to")
}

/// Finds the reference documents that may match new ones.
pub(super) static REFERENCE: Stage = Stage::new(
    AnyTable::Work(WorkTable::REFERENCE),
    describe,
    |job| job.against.is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let frame = match cx.reference {
                Some(ReferenceDocuments::Outputs(outputs)) => {
                    (search::by_method(cx.job).may_match)(cx, outputs.documents(cx)?)
                        .await?
                        .filter(col("may_match"))?
                }
                Some(ReferenceDocuments::Source(source)) => of_source(cx, source).await?,
                None => return Err(Error::bug("the job has no reference documents")),
            };
            Ok(Planned::new(0, vec![frame]))
        })
    }),
)
.with_tables(|job| match job.second_source() {
    Some(_) => vec![
        not_null(WorkTable::REFERENCE, "may_match"),
        not_null(Table::ReferenceRejects, "reason"),
        null(WorkTable::REFERENCE_KEYS, "reason"),
    ],
    None => vec![(WorkTable::REFERENCE.into(), TableRows::All)],
});

/// The one pass over the texts of the second source.
async fn of_source(cx: &StageContext<'_>, source: &SecondSource) -> Result<DataFrame> {
    let mut documents = source.documents();
    if cx.is_taken(WorkTable::REFERENCE_DUPLICATES) {
        documents = frames::duplicates::reject(documents, cx.table(WorkTable::REFERENCE_DUPLICATES)?)?;
    }
    let shingles = frames::shingles::that_count(
        frames::reference::with_second_source_keys(documents)?,
        &cx.job.shingle,
        cx.frequent()?,
    )?;
    let signatures = if cx.job.candidates.method.compares() {
        frames::signatures::signatures(shingles, cx.job, None)?
    } else {
        shingles.with_column("signature", lit(ScalarValue::try_from(&signature_type(cx.job))?))?
    };
    let documents = (search::by_method(cx.job).may_match)(cx, signatures).await?;
    frames::reference::of_second_source(documents, source.group())
}
