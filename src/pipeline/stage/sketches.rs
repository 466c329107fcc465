//! sketches: the one pass over the texts of all documents, documents -> shingles -> signatures -> bands.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::{DataFrame, lit};

use super::duplicates::first_of_each_id;
use super::interface::{
    AnyTable, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, Table, WorkTable, frames,
    not_null, null,
};
use crate::job::{Input, Reuse, ShingleHash};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::tables::{StageTables, list_column, numbers, sketch_columns};

impl WorkTable {
    /// The buckets of each document, and the hash of its shingle set.
    pub(crate) const KEYS: Self = Self::new("keys", keys);
    /// The sketches of all documents.
    pub(crate) const SKETCHES: Self = Self::new("sketches", sketch_columns);
}

fn keys(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["doc", "set_hash_0", "set_hash_1"]);
    columns.push(list_column("buckets", DataType::UInt64, false));
    columns
}

fn describe(job: &Job) -> String {
    let permutations = job.minhash.permutations;
    if let Input::Reuse(Reuse { output, keeps_shingles }) = &job.input {
        let kept = if *keeps_shingles { "signatures and shingles" } else { "signatures" };
        return format!("take the {kept} of {output}, {permutations} permutations");
    }
    if let Input::Merge(outputs) = &job.input {
        return format!("take the documents of {}", outputs.join(", "));
    }
    let (source, shingle) = (&job.source, &job.shingle);
    match shingle.hash {
        ShingleHash::Dictionary => {
            format!("take the numbers of the shingles, {permutations} permutations")
        }
        _ => format!(
            "read {} from {}, cut {}-{} shingles, {permutations} permutations",
            source.text.join(" + "),
            source.urls.join(", "),
            shingle.size,
            format!("{:?}", shingle.unit).to_lowercase()
        ),
    }
}

fn tables(job: &Job) -> StageTables {
    let mut tables = vec![
        null(Table::Documents, "reason"),
        not_null(Table::Rejects, "reason"),
        null(WorkTable::KEYS, "reason"),
    ];
    if AllSketches::of(job) == AllSketches::InSketches {
        tables.push(null(WorkTable::SKETCHES, "reason"));
    }
    tables
}

fn plan<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let (job, documents) = (cx.job, cx.documents.clone());
    if !job.reads_texts() {
        return Ok(Planned::new(0, vec![documents]));
    }
    let (shingles, dictionary) = match job.shingle.hash {
        ShingleHash::Dictionary => {
            let (cuts, numbers) = (cx.table(WorkTable::CUTS)?, cx.table(WorkTable::NUMBERS)?);
            let numbered = frames::dictionary::numbered(cuts, numbers)?;
            (frames::shingles::measured(numbered, &job.shingle)?, Some(cx.rows(Table::Dictionary)))
        }
        _ => {
            let documents = first_of_each_id(cx, documents)?;
            (frames::shingles::that_count(documents, &job.shingle, cx.frequent()?)?, None)
        }
    };
    let bands = with_buckets(shingles, job, dictionary)?;
    let bytes = cx.bytes(WorkTable::CUTS) + cx.bytes(WorkTable::NUMBERS);
    Ok(Planned { parts: cx.parts_of_source(), ..Planned::new(bytes, vec![bands]) })
}

/// Cuts the texts of all documents, signs their shingle sets, and finds their buckets. Documents of a finished output
/// already have all of these.
pub(super) static SKETCHES: Stage =
    Stage::new(AnyTable::Work(WorkTable::SKETCHES), describe, |_| true, StagePlan::Now(plan))
        .with_tables(tables);

/// The same rows with signatures and buckets; `dictionary` is the number of entries of the dictionary, if there is one.
fn with_buckets(shingles: DataFrame, job: &Job, dictionary: Option<u64>) -> Result<DataFrame> {
    let signatures = frames::signatures::signatures(shingles, job, dictionary)?;
    // A run that reads texts has one source.
    let signatures = signatures.with_column("origin_number", lit(0_u64))?;
    if job.candidates.method.compares() {
        frames::bands::bands(signatures, &job.lsh)
    } else {
        frames::bands::no_bands(signatures)
    }
}
