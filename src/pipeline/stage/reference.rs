//! The stages reference_duplicates and reference, which find the reference documents that may match new documents.

use arrow::datatypes::UInt64Type;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;

use super::decisions;
use super::documents::DUPLICATE_COLUMNS;
use super::interface::{
    Error, Job, Planned, Result, Stage, StageContext, Table, WorkTable, boxed, not_null, null,
};
use super::search::by_method;
use crate::frames::{self, documents, sketches};
use crate::job::{DuplicateIds, Reference};
use crate::kernel::bucket_tags::tag_set;
use crate::output::write::TableRows;
use crate::pipeline::reference::chain::MOST_TAGS;
use crate::pipeline::reference::outputs::ReferenceOutputs;
use crate::pipeline::reference::{ReferenceDocuments, SecondSource};
use crate::pipeline::tables::WorkColumns::{Id, Nullable, NumberList, Numbers, Signature, Text};
use crate::pipeline::tables::signature_type;
use crate::udf::arguments::{ListRows, ValueColumn};
use crate::udf::expr_fn::{has_tag, unsigned_bits};

impl WorkTable {
    /// Documents in a second source with the same key as an earlier document.
    pub(crate) const REFERENCE_DUPLICATES: Self = Self::new("reference_duplicates", DUPLICATE_COLUMNS);
    /// The reference documents that may match new documents. `shingles` is null if the output keeps none. `group` is null without groups.
    pub(crate) const REFERENCE: Self = Self::new(
        "reference",
        &[
            Numbers(&["origin"]),
            Id,
            Text("source"),
            Numbers(&["position", "doc", "shingle_count", "set_hash_0", "set_hash_1"]),
            Signature,
            Nullable(&NumberList("shingles")),
            Nullable(&Text("group")),
        ],
    );
    /// The keys, positions, sizes and groups of all documents in a second source that can be compared.
    pub(crate) const REFERENCE_KEYS: Self = Self::new(
        "reference_keys",
        &[Id, Text("source"), Numbers(&["position", "doc", "shingle_count"]), Nullable(&Text("group"))],
    );
}

pub(super) static REFERENCE_DUPLICATES: Stage = Stage::work(
    WorkTable::REFERENCE_DUPLICATES,
    |_| "find documents of the second source that have the id of an earlier one".into(),
    |job| job.second_source().is_some_and(|source| source.duplicate_ids == DuplicateIds::Reject),
    boxed!(|cx| {
        let Some(ReferenceDocuments::Source(source)) = cx.reference else {
            return Err(Error::bug("the job has no second source"));
        };
        Ok(Planned::new(0, vec![documents::duplicates(source.documents.clone(), &cx.job.shingle)?]))
    }),
);

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
        Some(Reference::Outputs { urls, .. }) => urls.join(", "),
        Some(Reference::Source(_)) | None => String::new(),
    };
    format!("find the documents of {outputs} that new ones may be similar to")
}

pub(super) static REFERENCE: Stage = Stage::work(
    WorkTable::REFERENCE,
    describe,
    |job| job.against.is_some(),
    boxed!(|cx| {
        let frame = match cx.reference {
            Some(ReferenceDocuments::Outputs(outputs)) => match new_tags(cx, outputs).await? {
                Some(tags) => {
                    let mut wanted = has_tag(col("bucket_tags"), tags);
                    if cx.job.clusters.decisions.is_some() {
                        let judged = outputs.chain.key_set(decisions::judged(cx)?).await?;
                        wanted = wanted.or(judged.contains(unsigned_bits(col("doc"))).unwrap_or(lit(true)));
                    }
                    outputs.documents(cx, Some(wanted))?
                }
                None => {
                    let marked = (by_method(cx.job).may_match)(cx, outputs.documents(cx, None)?).await?;
                    decisions::marked_or_judged(cx, marked)?
                }
            },
            Some(ReferenceDocuments::Source(source)) => read_second_source(cx, source).await?,
            None => return Err(Error::bug("the job has no reference documents")),
        };
        Ok(Planned::new(0, vec![frame]))
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

/// Returns the [`tag_set`] of new documents. Returns `None` if candidates need no common bucket, if a reference output lacks tags, or if
/// there are too many tags. A few documents have a tag by chance, and the stage `candidates` compares whole buckets.
async fn new_tags(cx: &StageContext<'_>, outputs: &ReferenceOutputs) -> Result<Option<Vec<u32>>> {
    let (method, lsh, count) = (cx.job.candidates.method, &cx.job.lsh, outputs.chain.outputs.len() as u64);
    let tags = cx.rows(WorkTable::KEYS) * lsh.bands as u64;
    if !method.uses_buckets() || !outputs.chain.has_tags(lsh) || tags.saturating_mul(count) > MOST_TAGS as u64
    {
        return Ok(None);
    }
    let mut rows = cx.table(WorkTable::KEYS)?.select(vec![col("buckets")])?.execute_stream().await?;
    let mut buckets = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let lists = ListRows::<UInt64Type>::new("the reference stage", batch.column(0))?;
        lists.iter().flatten().for_each(|list| buckets.extend_from_slice(list));
    }
    Ok(Some(tag_set(&buckets, lsh.bands)))
}

/// Reads the texts of the second source in a single pass.
async fn read_second_source(cx: &StageContext<'_>, source: &SecondSource) -> Result<DataFrame> {
    let mut documents = source.documents.clone();
    if cx.is_taken(WorkTable::REFERENCE_DUPLICATES) {
        documents = documents::reject(documents, cx.table(WorkTable::REFERENCE_DUPLICATES)?)?;
    }
    let documents = frames::reference::with_second_source_keys(documents)?;
    let shingles = sketches::counting_shingles(documents, &cx.job.shingle, cx.frequent()?)?;
    let signatures = if cx.job.candidates.method.compares() {
        sketches::signatures(shingles, cx.job, None)?
    } else {
        shingles.with_column("signature", lit(ScalarValue::try_from(&signature_type(cx.job))?))?
    };
    let documents = (by_method(cx.job).may_match)(cx, signatures).await?;
    frames::reference::second_source_rows(documents, source.source.group.as_deref())
}
